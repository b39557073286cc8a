package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/platform/pix"
)

// topCommand shows all banks at work, again and again.
func topCommand(o *options) *cobra.Command {
	var interval time.Duration
	var count int
	command := &cobra.Command{
		Use: "top", Short: "Show what each bank pays and receives a second, its reserve, and what is held",
		Args: cobra.NoArgs,
		Long: `Show all banks at work, with the central bank's key: payments and returns that each pays and
receives a second, what is rejected, its reserve, and what payments under way hold of it. On a
terminal the table is redrawn; elsewhere one follows the other. It ends with a signal or --count,
with exit code 0.`,
		Example: "  liquida top --key-file .stack/keys/central-bank\n  liquida top --count 1",
		RunE: func(command *cobra.Command, _ []string) error {
			if err := within("--interval", interval, 500*time.Millisecond, time.Hour); err != nil {
				return err
			}

			if count < 0 {
				return fmt.Errorf("--count is %d: it must be 0 (no end) or more", count)
			}
			o.started = true

			return o.top(command.Context(), interval, count)
		},
	}
	command.Flags().DurationVar(&interval, "interval", 2*time.Second, "time between two tables, 500ms to 1h")
	command.Flags().IntVar(&count, "count", 0, "end after this many tables; 0: no end")

	return command
}

// bankRow is what one bank did in an interval.
type bankRow struct {
	ISPB                 string `json:"ispb"`
	State                string `json:"state"`
	Paid                 int    `json:"paid"`
	Received             int    `json:"received"`
	Rejected             int    `json:"rejected"` // of those that it pays
	PaidCentavos         int64  `json:"paid_centavos"`
	ReserveCentavos      int64  `json:"reserve_centavos"`
	HeldCentavos         int64  `json:"held_centavos"`
	IntervalMilliseconds int64  `json:"interval_ms"`
}

const (
	// banksMax bounds the table: a refused order may name any bank.
	banksMax = 10_000
	// countedMax bounds the memory of a tally, some 40 MB: of so many outcomes, and of as many before.
	countedMax = 200_000
)

// tally counts what banks did in an interval. A redelivered order is reported again: it counts once.
type tally struct {
	banks           map[string]*bankRow // by ISPB
	counted, before map[string]struct{} // ids of payments and returns
}

func newTally() *tally {
	return &tally{banks: map[string]*bankRow{}, counted: map[string]struct{}{}}
}

// next begins the next interval.
func (t *tally) next() { t.banks = map[string]*bankRow{} }

func (t *tally) of(ispb string) *bankRow {
	if t.banks[ispb] == nil && len(t.banks) < banksMax {
		t.banks[ispb] = &bankRow{ISPB: ispb}
	}

	return cmp.Or(t.banks[ispb], &bankRow{})
}

func (t *tally) take(s client.Settlement) {
	if s.Payer == nil || s.Payee == nil { // a refused return names no accounts
		return
	}
	_, now := t.counted[s.EndToEndID]

	_, earlier := t.before[s.EndToEndID]
	if now || earlier {
		return
	}

	if len(t.counted) >= countedMax {
		t.counted, t.before = map[string]struct{}{}, t.counted
	}
	t.counted[s.EndToEndID] = struct{}{}

	payer := t.of(s.Payer.ISPB)
	if s.Status != client.Settled {
		payer.Rejected++
		return
	}
	payer.Paid, payer.PaidCentavos = payer.Paid+1, payer.PaidCentavos+s.AmountCentavos
	t.of(s.Payee.ISPB).Received++
}

func (o *options) top(ctx context.Context, interval time.Duration, count int) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var mu sync.Mutex
	passed := newTally()
	go func() {
		err := o.api.Settlements(ctx, client.Everybody, "end", func(s client.Settlement, _ string) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			passed.take(s)

			return false, nil
		})
		stop(err)
	}()
	redraw := !o.json && onTerminal(os.Stdout)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	since := time.Now()

	for shown := 0; count == 0 || shown < count; shown++ {
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
				return cause
			}

			return nil
		case <-tick.C:
		}
		var rows []bankRow

		for p, err := range o.api.Participants(ctx) {
			if err != nil {
				return err
			}
			rows = append(rows, bankRow{ISPB: p.ISPB, State: p.State, ReserveCentavos: p.Reserve.PostedCentavos,
				HeldCentavos: p.Reserve.PendingOutCentavos})
		}
		mu.Lock()
		took := time.Since(since)

		for i := range rows {
			did := passed.of(rows[i].ISPB)
			rows[i].Paid, rows[i].Received, rows[i].Rejected, rows[i].PaidCentavos = did.Paid, did.Received,
				did.Rejected, did.PaidCentavos
			rows[i].IntervalMilliseconds = took.Milliseconds()
		}
		passed.next()
		since = time.Now()
		mu.Unlock()
		slices.SortFunc(rows, func(a, b bankRow) int { return cmp.Compare(a.ISPB, b.ISPB) })

		if redraw {
			fmt.Fprint(o.out, "\x1b[H\x1b[J")
		}

		if err := o.showRows(rows, took); err != nil {
			return err
		}
	}

	return nil
}

func (o *options) showRows(rows []bankRow, took time.Duration) error {
	if o.json {
		for _, row := range rows {
			if err := o.show(row, nil); err != nil {
				return err
			}
		}

		return nil
	}
	printTop(o.out, rows, took)

	return nil
}

// printTop prints a table of at most settings.Columns columns.
func printTop(w io.Writer, rows []bankRow, took time.Duration) {
	second := max(took.Seconds(), 0.001)
	rate := func(n int) string { return pix.Thousands(int64(float64(n)/second + 0.5)) }

	var all bankRow
	for _, row := range rows {
		all.Paid, all.Rejected, all.PaidCentavos, all.HeldCentavos = all.Paid+row.Paid, all.Rejected+row.Rejected,
			all.PaidCentavos+row.PaidCentavos, all.HeldCentavos+row.HeldCentavos
	}
	fmt.Fprintf(w, "%sZ  %d banks  %s settled/s  %s rejected/s  BRL %s/s, held %s\n",
		time.Now().UTC().Format("15:04:05"), len(rows), rate(all.Paid), rate(all.Rejected),
		fitted(int64(float64(all.PaidCentavos)/second), headAmount), fitted(all.HeldCentavos, headAmount))
	const columns = "%-8s %-9s %8s %8s %8s %*s %*s %*s"
	fmt.Fprintf(w, columns+"\n", "BANK", "STATE", "PAID/s", "RECVD/s", "REJ/s", paidAmount, "PAID BRL/s", reserveAmount,
		"RESERVE BRL", heldAmount, "HELD BRL")

	for _, row := range rows {
		line := fmt.Sprintf(columns, row.ISPB, row.State, rate(row.Paid), rate(row.Received), rate(row.Rejected),
			paidAmount, fitted(int64(float64(row.PaidCentavos)/second), paidAmount), reserveAmount,
			fitted(row.ReserveCentavos, reserveAmount), heldAmount, fitted(row.HeldCentavos, heldAmount))
		if row.State != "active" {
			line = paint(red, line)
		}
		fmt.Fprintln(w, line)
	}
}

// How many characters an amount has in printTop.
const (
	headAmount    = 14
	paidAmount    = 16
	reserveAmount = 20
	heldAmount    = 16
)

// fitted writes an amount in reais: without centavos if it has more than so many characters, or even
// in millions.
func fitted(centavos int64, width int) string {
	text := strings.Replace(reais(centavos), "BRL ", "", 1)
	if len(text) > width {
		text = text[:len(text)-len(".00")]
	}

	if len(text) > width {
		text = text[:len(text)-len(",000,000")] + " M"
	}

	return text
}

// The colours of a terminal.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
)

// colours reports whether the output is a terminal that people want coloured: https://no-color.org.
var colours = sync.OnceValue(func() bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && onTerminal(os.Stdout)
})

func paint(colour, text string) string {
	if !colours() {
		return text
	}

	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// colourOf are the colours of states.
var colourOf = map[string]string{client.Settled: green, client.Rejected: red}

func coloured(status string) string { return paint(cmp.Or(colourOf[status], yellow), status) }
