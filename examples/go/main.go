// The go example is a payer with a journal of its own. It pays, waits for each outcome, and
// compares the account's statement with the journal. Kill it at any moment and run it again:
// it finishes what was under way, and pays nothing twice.
//
//	LIQUIDA_KEY_FILE=.stack/keys/10000003 go run ./examples/go --journal .stack/journal-of-go.jsonl
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/liquida/liquida/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	path := flag.String("journal", "", "the journal's file; created if it does not exist")
	payer := flag.String("payer", "10000003/0001/7", "account that pays; nobody else may pay from it meanwhile")
	payee := flag.String("payee", "10000002/0001/1", "account that is paid")
	count := flag.Int("count", 5, "how many payments to make, of BRL 1.00, BRL 1.01 and so on")
	flag.Parse()

	if *path == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}

	if err := run(ctx, *path, *payer, *payee, *count); err != nil {
		fmt.Fprintln(os.Stderr, "go example:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, path, payerText, payeeText string, count int) error {
	payer, err := client.ParseAccount(payerText)
	if err != nil {
		return err
	}

	payee, err := client.ParseAccount(payeeText)
	if err != nil {
		return err
	}

	key := ""
	if file := os.Getenv("LIQUIDA_KEY_FILE"); file != "" {
		if key, err = client.ReadKey(file); err != nil {
			return err
		}
	}

	api, err := client.New(cmp.Or(os.Getenv("LIQUIDA_URL"), client.DefaultURL), key)
	if err != nil {
		return err
	}

	j, err := openJournal(ctx, path, api, payer)
	if err != nil {
		return err
	}
	defer j.file.Close()

	for _, id := range j.order { // unfinished by an earlier run
		if j.entries[id].Outcome == "" {
			if err := finish(ctx, api, j, j.entries[id], payer); err != nil {
				return err
			}
		}
	}

	for i := range count {
		e := entry{Payee: &payee, AmountCentavos: int64(100 + i)}
		if e.EndToEndID, err = client.NewEndToEndID(payer); err != nil {
			return err
		}

		if err := j.write(e); err != nil { // first the journal, then the payment
			return err
		}

		if err := finish(ctx, api, j, e, payer); err != nil {
			return err
		}
	}

	return reconcile(ctx, api, j, payer)
}

// finish brings a payment of the journal to its end. Sending it twice makes one payment.
func finish(ctx context.Context, api *client.Client, j *journal, e entry, payer client.Account) error {
	state, err := api.Payment(ctx, e.EndToEndID)
	if client.NotFound(err) || err == nil && !state.Final() {
		state, err = api.Pay(ctx,
			client.Payment{EndToEndID: e.EndToEndID, Payer: payer, Payee: *e.Payee, AmountCentavos: e.AmountCentavos},
			2*time.Minute)
	}

	if problem := new(client.Problem); errors.As(err, &problem) && problem.Status == 422 {
		// The API denied it, so it was never made: its id may be too old by now.
		state.Status, err = "refused "+problem.Code, nil
	} else if err == nil && !state.Final() {
		err = fmt.Errorf("payment %s is not decided yet: run this again", e.EndToEndID)
	}

	if err != nil {
		return err
	}
	e.Outcome = state.Status
	fmt.Println(e.EndToEndID, e.AmountCentavos, e.Outcome, state.ReasonCode)

	return j.write(e)
}

// reconcile compares what left the account since the journal began with what the journal says.
func reconcile(ctx context.Context, api *client.Client, j *journal, payer client.Account) error {
	posted, differences := map[string]int64{}, 0
	differ := func(format string, values ...any) {
		differences++
		fmt.Printf("DIFFERENCE: "+format+"\n", values...)
	}

	for line, err := range api.Statement(ctx, payer, 0) {
		if err != nil {
			return err
		}

		if line.At.Equal(j.openedAfter) {
			break
		}

		if line.Kind == "posted" && line.Direction == "debit" {
			if _, twice := posted[line.EndToEndID]; twice {
				differ("%s left the account twice", line.EndToEndID)
			}

			posted[line.EndToEndID] = line.AmountCentavos
			if _, known := j.entries[line.EndToEndID]; !known {
				differ("%s is not in the journal", line.EndToEndID)
			}
		}
	}

	for id, e := range j.entries {
		amount, left := posted[id]
		if left != (e.Outcome == client.Settled) || left && amount != e.AmountCentavos {
			differ("%s: the journal says %d %s, the statement %d", id, e.AmountCentavos, e.Outcome, amount)
		}
	}

	if differences > 0 {
		return fmt.Errorf("%d differences between journal and statement", differences)
	}
	fmt.Printf("reconciled: %d payments in the journal, %d of them left the account, to the centavo\n", len(j.entries),
		len(posted))

	return nil
}

// entry is a payment of the journal: one line before it is sent, one more with its outcome.
type entry struct {
	OpenedAfter    *time.Time      `json:"opened_after,omitempty"` // only on the first line
	EndToEndID     string          `json:"end_to_end_id,omitempty"`
	Payee          *client.Account `json:"payee,omitempty"`
	AmountCentavos int64           `json:"amount_centavos,omitempty"`
	Outcome        string          `json:"outcome,omitempty"`
}

// journal is a file of JSON lines. It only grows.
type journal struct {
	file        *os.File
	openedAfter time.Time // the newest line of the statement when the journal began
	entries     map[string]entry
	order       []string
}

func openJournal(ctx context.Context, path string, api *client.Client, payer client.Account) (*journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	j := &journal{file: file, entries: map[string]entry{}}
	lines := json.NewDecoder(bufio.NewReader(file))

	for {
		var e entry
		if err := lines.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		j.take(e)
	}

	if !j.openedAfter.IsZero() {
		return j, nil
	}

	for line, err := range api.Statement(ctx, payer, 1) {
		if err != nil {
			return nil, err
		}

		return j, j.write(entry{OpenedAfter: &line.At})
	}

	return nil, fmt.Errorf("account %s has nothing to pay with", payer)
}

func (j *journal) take(e entry) {
	if e.OpenedAfter != nil {
		j.openedAfter = *e.OpenedAfter
		return
	}

	if _, known := j.entries[e.EndToEndID]; !known {
		j.order = append(j.order, e.EndToEndID)
	}
	j.entries[e.EndToEndID] = e
}

func (j *journal) write(e entry) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}

	if _, err := j.file.Write(append(text, '\n')); err != nil {
		return err
	}
	j.take(e)

	return j.file.Sync()
}
