package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/liquida/liquida/client"
)

const (
	batchLinesMax     = 10_000   // BATCH_LINES_MAX as shipped
	batchLineBytesMax = 16 << 10 // HTTP_BODY_BYTES_MAX as shipped
	askAgain          = 200 * time.Millisecond
)

// batch pays the payments in the lines of a file.
type batch struct {
	*options
	lines   int // of one request
	wait    time.Duration
	makeIDs bool

	count, not, open int // payments; those refused or rejected; those unknown
}

func batchCommand(o *options) *cobra.Command {
	b := &batch{options: o}
	command := &cobra.Command{
		Use: "batch FILE", Short: "Pay the payments of a file, one in each line", Args: cobra.ExactArgs(1),
		Long: `Pay the payments of a file (- for standard input). Each line is a payment in the JSON of the API;
empty lines are ignored. For each payment it prints a line, in order: the line's number, the
EndToEndId and the outcome. A wrong line does not affect the others.
Exit codes: 0 all settled (with --wait 0s: accepted), 1 some were rejected or refused, 3 some are
unknown: run the same again. That is safe for lines with an end_to_end_id; --make-ids adds them.`,
		Example: `  liquida batch --make-ids payments.ndjson > ready.ndjson    # sends nothing
  liquida batch ready.ndjson                                 # as often as it takes`,
		RunE: func(command *cobra.Command, arguments []string) error {
			if b.lines < 1 || b.lines > batchLinesMax {
				return fmt.Errorf("--lines is %d: it must be 1 to %d", b.lines, batchLinesMax)
			}

			if err := within("--wait", b.wait, 0, time.Hour); err != nil {
				return err
			}
			file := os.Stdin

			if arguments[0] != "-" {
				var err error
				if file, err = os.Open(arguments[0]); err != nil {
					return fmt.Errorf("FILE: %w", err)
				}
				defer file.Close()
			}
			o.started = true

			return b.run(command.Context(), file)
		},
	}
	flags := command.Flags()
	flags.IntVar(&b.lines, "lines", 500, "payments of one request, 1 to 10000")
	flags.DurationVar(&b.wait, "wait", time.Minute, "longest wait for the outcomes of one request, 0s to 1h")
	flags.BoolVar(&b.makeIDs, "make-ids", false, "send nothing: print the lines, each with an end_to_end_id")

	return command
}

// line is a line of the file.
type line struct {
	number  int
	payment client.Payment
	err     error // it is not a payment
}

func (b *batch) run(ctx context.Context, file io.Reader) error {
	reader := bufio.NewReaderSize(file, batchLineBytesMax+2) // with the end of the line
	var lines []line

	for number := 1; ; number++ {
		text, err := reader.ReadSlice('\n')

		ended := errors.Is(err, io.EOF)
		if err != nil && !ended && !errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("line %d cannot be read: %w", number, err)
		}
		tooLong := errors.Is(err, bufio.ErrBufferFull)

		if text = bytes.TrimSpace(text); len(text) > 0 {
			l := line{number: number}
			if tooLong {
				l.err = fmt.Errorf("it has more than %d bytes", batchLineBytesMax)
			} else {
				l.payment, l.err = parsePayment(text)
			}
			lines = append(lines, l)
		}

		for tooLong {
			_, err = reader.ReadSlice('\n')
			tooLong, ended = errors.Is(err, bufio.ErrBufferFull), errors.Is(err, io.EOF)
		}

		if len(lines) == b.lines || ended {
			if err := b.take(ctx, lines); err != nil {
				return err
			}
			lines = lines[:0]
		}

		if ended || ctx.Err() != nil {
			break
		}
	}

	switch {
	case b.count == 0:
		return errors.New("there is no payment: give one JSON object a line")
	case b.open > 0:
		return &openOutcome{fmt.Errorf(
			"of %d of %d payments it is not known what became of them: send those lines again with their end_to_end_id",
			b.open, b.count)}
	case b.not > 0:
		return fmt.Errorf("%d of %d payments were rejected or refused", b.not, b.count)
	}

	return ctx.Err()
}

func parsePayment(text []byte) (p client.Payment, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()

	if err = decoder.Decode(&p); err == nil {
		if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows the JSON object")
		}
	}

	if err == nil && p.EndToEndID == "" { // created here, so that a retry is the same payment
		p.EndToEndID, err = client.NewEndToEndID(p.Payer)
	}

	return p, err
}

// take sends payments and prints the result of each.
func (b *batch) take(ctx context.Context, lines []line) error {
	var payments []client.Payment

	for _, l := range lines {
		if l.err == nil {
			payments = append(payments, l.payment)
		}
	}

	if b.makeIDs {
		return b.complete(lines)
	}

	results, err := b.api.PayBatch(ctx, payments)
	if err != nil {
		return err
	}

	said := make([]lineResult, len(lines))
	for i, l := range lines {
		said[i].Line = l.number
		if l.err != nil {
			said[i].refuse(l.err)
		} else {
			said[i].of(results[0])
			results = results[1:]
		}
	}

	if b.wait > 0 {
		b.await(ctx, lines, said)
	}

	for i := range said {
		b.count++
		switch status := said[i].Status; {
		case status == client.Rejected || status == refused:
			b.not++
		case status != client.Settled && (status != client.Accepted || b.wait > 0):
			b.open++
		}

		if err := b.show(said[i], func() { said[i].print(b.out) }); err != nil {
			return err
		}
	}

	return nil
}

// await waits for the outcomes of the lines that were accepted.
func (b *batch) await(ctx context.Context, lines []line, said []lineResult) {
	waiting, cancel := context.WithTimeout(ctx, b.wait)
	defer cancel()
	var doubtful []int

	for i, l := range lines {
		if said[i].Status != client.Accepted {
			continue
		}
		state, err := b.outcomeOf(waiting, l.payment.EndToEndID)
		said[i].end(state, err)

		if err == nil && state.Final() && !l.payment.Is(state) {
			doubtful = append(doubtful, i)
		}
	}
	b.compare(ctx, lines, said, doubtful)
}

// compare sends payments again, in one batch, whose outcome may be that of other content: a refusal shows
// none. The API compares what is sent with what the ledger knows, and takes only the same.
func (b *batch) compare(ctx context.Context, lines []line, said []lineResult, doubtful []int) {
	if len(doubtful) == 0 {
		return
	}

	var payments []client.Payment
	for _, i := range doubtful {
		payments = append(payments, lines[i].payment)
	}

	results, err := b.api.PayBatch(ctx, payments)
	for at, i := range doubtful {
		why := err
		if err == nil {
			why = results[at].Err
		}

		switch {
		case why == nil: // the outcome is its own
		case client.OtherContent(why):
			said[i].ReasonCode = ""
			said[i].refuse(why)
		default:
			said[i].Status, said[i].ReasonCode, said[i].Error = client.Accepted, "",
				"whose outcome it is was not seen: "+why.Error()
		}
	}
}

// complete prints the lines with their ids.
func (b *batch) complete(lines []line) error {
	for _, l := range lines {
		b.count++
		if l.err != nil {
			b.not++
			fmt.Fprintf(os.Stderr, "line %d: %v\n", l.number, l.err)
		} else if err := json.NewEncoder(b.out).Encode(l.payment); err != nil {
			return err
		}
	}

	return nil
}

// outcomeOf reads the state of a payment until it is final or the time is over. Then it is the last one read.
func (b *batch) outcomeOf(ctx context.Context, id string) (last client.PaymentState, err error) {
	for {
		state, err := b.api.Payment(ctx, id)
		if err == nil {
			last = state
		}

		if err == nil && state.Final() || err != nil && ctx.Err() == nil && !client.NotFound(err) &&
			!client.TryAgain(err) {
			return last, err
		}

		select {
		case <-time.After(askAgain):
		case <-ctx.Done():
			if last.Status != "" {
				err = nil
			}

			return last, err
		}
	}
}

// refused is the status of a line that made no payment.
const refused = "refused"

// lineResult is the result of a line.
type lineResult struct {
	Line       int             `json:"line"`
	EndToEndID string          `json:"end_to_end_id,omitempty"`
	Status     string          `json:"status"`
	ReasonCode string          `json:"reason_code,omitempty"`
	Error      string          `json:"error,omitempty"`
	Problem    *client.Problem `json:"problem,omitempty"`
}

func (a *lineResult) of(result client.BatchResult) {
	a.EndToEndID, a.Status = result.EndToEndID, client.Accepted
	if result.Err == nil {
		return
	}

	if client.TryAgain(result.Err) || errors.As(result.Err, new(*client.UnknownFate)) {
		a.Status, a.Error = client.Unknown, result.Err.Error()
		if cause := errors.Unwrap(result.Err); cause != nil {
			a.Error = cause.Error()
		}
		errors.As(result.Err, &a.Problem)
	} else {
		a.refuse(result.Err)
	}
}

func (a *lineResult) refuse(why error) {
	a.Status, a.Error = refused, why.Error()
	if errors.As(why, &a.Problem) {
		a.Error = fmt.Sprintf("%s (%d): %s", a.Problem.Title, a.Problem.Status, a.Problem.Detail)
	}
}

func (a *lineResult) end(state client.PaymentState, err error) {
	if err == nil {
		a.Status, a.ReasonCode = state.Status, state.ReasonCode
	} else if !client.NotFound(err) {
		a.Error = err.Error()
	}
}

// print writes one line for people.
func (a *lineResult) print(w io.Writer) {
	text := fmt.Sprintf("%d %s %s", a.Line, cmp.Or(a.EndToEndID, "-"), a.Status)
	if a.ReasonCode != "" {
		text += " " + reason(a.ReasonCode)
	}

	if a.Error != "" {
		text += "  " + strings.ReplaceAll(a.Error, "\n", "; ")
	}
	fmt.Fprintln(w, text)
}
