// The go example is a payer with a book of its own: it pays, waits for each outcome, and
// reconciles the account's statement with the book. Kill it at any moment and run it again:
// what was under way is finished, once.
//
//	LIQUIDA_KEY_FILE=.stack/keys/10000003 go run ./examples/go --book /tmp/book-of-go.jsonl
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
	path := flag.String("book", "", "the file of the book; made when it is not there")
	payer := flag.String("payer", "10000003/0001/7", "who pays; nobody else may pay from this account meanwhile")
	payee := flag.String("payee", "10000002/0001/1", "who is paid")
	count := flag.Int("count", 5, "how many payments of BRL 1.00, BRL 1.01 and so on are made")
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
	b, err := openBook(ctx, path, api, payer)
	if err != nil {
		return err
	}
	defer b.file.Close()
	for _, id := range b.order { // what an earlier run left behind
		if b.entries[id].Outcome == "" {
			if err := finish(ctx, api, b, b.entries[id], payer); err != nil {
				return err
			}
		}
	}
	for i := range count {
		e := entry{Payee: &payee, AmountCentavos: int64(100 + i)}
		if e.EndToEndID, err = client.NewEndToEndID(payer); err != nil {
			return err
		}
		if err := b.write(e); err != nil { // first the book, then the payment
			return err
		}
		if err := finish(ctx, api, b, e, payer); err != nil {
			return err
		}
	}
	return reconcile(ctx, api, b, payer)
}

// finish brings a payment of the book to its end. Sending it twice is one payment.
func finish(ctx context.Context, api *client.Client, b *book, e entry, payer client.Account) error {
	state, err := api.Payment(ctx, e.EndToEndID)
	if client.NotFound(err) || err == nil && !state.Final() {
		state, err = api.Pay(ctx, client.Payment{EndToEndID: e.EndToEndID, Payer: payer, Payee: *e.Payee, AmountCentavos: e.AmountCentavos}, 2*time.Minute)
	}
	if problem := new(client.Problem); errors.As(err, &problem) && problem.Status == 422 {
		// Refused at the door, so never made: such as an id that is too old by now.
		state.Status, err = "refused "+problem.Code, nil
	} else if err == nil && !state.Final() {
		err = fmt.Errorf("payment %s is not decided yet: run this again", e.EndToEndID)
	}
	if err != nil {
		return err
	}
	e.Outcome = state.Status
	fmt.Println(e.EndToEndID, e.AmountCentavos, e.Outcome, state.ReasonCode)
	return b.write(e)
}

// reconcile compares what left the account since the book was opened with what the book says.
func reconcile(ctx context.Context, api *client.Client, b *book, payer client.Account) error {
	posted, differences := map[string]int64{}, 0
	differ := func(format string, values ...any) {
		differences++
		fmt.Printf("DIFFERENCE: "+format+"\n", values...)
	}
	for line, err := range api.Statement(ctx, payer, 0) {
		if err != nil {
			return err
		}
		if line.At.Equal(b.openedAfter) {
			break
		}
		if line.Kind == "posted" && line.Direction == "debit" {
			if _, twice := posted[line.EndToEndID]; twice {
				differ("%s left the account twice", line.EndToEndID)
			}
			posted[line.EndToEndID] = line.AmountCentavos
			if _, known := b.entries[line.EndToEndID]; !known {
				differ("%s is not in the book", line.EndToEndID)
			}
		}
	}
	for id, e := range b.entries {
		amount, left := posted[id]
		if left != (e.Outcome == client.Settled) || left && amount != e.AmountCentavos {
			differ("%s: the book says %d %s, the statement %d", id, e.AmountCentavos, e.Outcome, amount)
		}
	}
	if differences > 0 {
		return fmt.Errorf("%d differences between book and statement", differences)
	}
	fmt.Printf("reconciled: %d payments in the book, %d of them left the account, to the centavo\n", len(b.entries), len(posted))
	return nil
}

// entry is a payment of the book; the line with the outcome follows the one without.
type entry struct {
	OpenedAfter    *time.Time      `json:"opened_after,omitempty"` // on the first line alone
	EndToEndID     string          `json:"end_to_end_id,omitempty"`
	Payee          *client.Account `json:"payee,omitempty"`
	AmountCentavos int64           `json:"amount_centavos,omitempty"`
	Outcome        string          `json:"outcome,omitempty"`
}

// book is a file of JSON lines, only ever appended to.
type book struct {
	file        *os.File
	openedAfter time.Time // the newest line of the statement when the book was opened
	entries     map[string]entry
	order       []string
}

func openBook(ctx context.Context, path string, api *client.Client, payer client.Account) (*book, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	b := &book{file: file, entries: map[string]entry{}}
	lines := json.NewDecoder(bufio.NewReader(file))
	for {
		var e entry
		if err := lines.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		b.take(e)
	}
	if !b.openedAfter.IsZero() {
		return b, nil
	}
	for line, err := range api.Statement(ctx, payer, 1) {
		if err != nil {
			return nil, err
		}
		return b, b.write(entry{OpenedAfter: &line.At})
	}
	return nil, fmt.Errorf("account %s has nothing to pay with", payer)
}

func (b *book) take(e entry) {
	if e.OpenedAfter != nil {
		b.openedAfter = *e.OpenedAfter
		return
	}
	if _, known := b.entries[e.EndToEndID]; !known {
		b.order = append(b.order, e.EndToEndID)
	}
	b.entries[e.EndToEndID] = e
}

func (b *book) write(e entry) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err := b.file.Write(append(text, '\n')); err != nil {
		return err
	}
	b.take(e)
	return b.file.Sync()
}
