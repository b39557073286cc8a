package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/platform/pix"
)

const (
	// bookParts bounds the memory: entries go to this many temporary files by a hash of their ids,
	// and the book's half of one file is held at a time. Of a book of 10 million lines that is some
	// 80,000 lines, about 20 MB.
	bookParts = 128
	// asksMax bounds the questions about single payments that the statement does not have.
	asksMax = 1000
)

func reconcileCommand(o *options) *cobra.Command {
	r := &reconciliation{options: o}
	command := &cobra.Command{
		Use: "reconcile --book FILE --participant ISPB --day DAY", Short: "Compare a bank's own book with the ledger",
		Args: cobra.NoArgs,
		Long: `Compare a bank's own book of a day, or of the days from --day to --last-day, with the ledger,
and print each difference once: missing-here (the ledger has it, the book does not),
missing-there, other-amount, other-state, twice-here (the book says more than once that it
settled). The book is a CSV with the columns id (EndToEndId, return's id, or the id in the
statement), direction (credit or debit), amount_centavos and state (settled or rejected), in any
order, and others that are ignored. Payments within the bank move no reserve and are not in it.
Exit codes: 0 no difference, 1 differences, 2 bad usage or a book that cannot be read, 3 the day
is not over, no response, or a statement that broke off, 4 it failed: refused, or a full disk.`,
		Example: "  liquida reconcile --book book.csv --participant 10000001 --day 2026-11-22",
		RunE: func(command *cobra.Command, _ []string) error {
			if err := r.of.check(); err != nil {
				return err
			}
			first, _ := pix.ParseDay(r.of.day) // checked

			last, err := pix.ParseDay(cmp.Or(r.last, r.of.day))
			if err != nil || last.Begins().Before(first.Begins()) {
				return fmt.Errorf("--last-day %q: it must be a day, not before --day %s", r.last, r.of.day)
			}

			return failed(command.Context(), r.run(command.Context(), first, last))
		},
	}
	r.of.add(command)
	command.Flags().StringVar(&r.book, "book", "", "file of the book, CSV")
	command.Flags().StringVar(&r.last, "last-day", "", "last day of the book; empty: --day")

	return command
}

// reconciliation compares a book with statements of days.
type reconciliation struct {
	*options
	of         dayFlags
	last, book string

	parts       []*part
	here, there int // entries
	differences int
	asked       int
}

// differences is the error of a book that differs from the ledger.
type differences struct{ error }

// notCompared is the error of a comparison that failed: it says nothing about the book.
type notCompared struct{ error }

func (e *notCompared) Unwrap() error { return e.error }

// failed returns an error of a comparison as the kind that decides the exit code.
func failed(ctx context.Context, err error) error {
	if err == nil || errors.As(err, new(*differences)) || errors.As(err, new(*badBook)) || unknown(ctx, err) {
		return err
	}

	return &notCompared{err}
}

// badBook is the error of a book that cannot be read.
type badBook struct{ error }

// difference is something that only one side says.
type difference struct {
	Kind  string `json:"kind"`
	ID    string `json:"id"`
	Here  string `json:"here,omitempty"`  // what the book says
	There string `json:"there,omitempty"` // what the ledger says
}

// entry is a line of the book or of a statement.
type entry struct {
	id       string
	centavos int64 // negative: a debit
	state    string
	place    string // the lines of the book, or when the ledger moved it
	twice    bool   // in the book
}

func (e entry) String() string {
	direction, centavos := "credit", e.centavos
	if centavos < 0 {
		direction, centavos = "debit", -centavos
	}

	return fmt.Sprintf("%s %s %s, %s", e.state, direction, reais(centavos), e.place)
}

// part is a temporary file with the entries whose ids have one hash.
type part struct {
	file *os.File
	to   *bufio.Writer
}

func (r *reconciliation) run(ctx context.Context, first, last pix.Day) (err error) {
	folder, err := os.MkdirTemp("", "liquida-reconcile-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)

	for n := range bookParts {
		file, err := os.Create(fmt.Sprintf("%s/%d", folder, n))
		if err != nil {
			return err
		}
		defer file.Close()
		r.parts = append(r.parts, &part{file, bufio.NewWriterSize(file, 16<<10)})
	}

	book, err := os.Open(r.book)
	if err != nil {
		return &badBook{fmt.Errorf("--book: %w", err)}
	}
	defer book.Close()

	if err := r.readBook(book); err != nil {
		return fmt.Errorf("--book %s: %w", r.book, err)
	}
	o := r.options
	o.started = true

	for day := first; !last.Begins().Before(day.Begins()); day = day.Next() {
		until := ""
		if day == last {
			until = r.of.until
		}

		if err := r.readDay(ctx,
			client.Day{Participant: r.of.participant, Day: day.String(), Until: until, Format: "csv"}); err != nil {
			if client.Unfinished(err) {
				err = &openOutcome{err}
			}

			return err
		}
	}

	for _, part := range r.parts {
		if err := r.compare(ctx, part); err != nil {
			return err
		}
	}

	said := fmt.Sprintf("%d entries in the book, %d in the ledger", r.here, r.there)
	if r.differences > 0 {
		return &differences{fmt.Errorf("differences: %d; %s", r.differences, said)}
	}
	fmt.Fprintf(os.Stderr, "no difference; %s\n", said)

	return nil
}

var bookColumns = []string{"id", "direction", "amount_centavos", "state"}

var transferID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// readBook puts the entries of the book into their parts.
func (r *reconciliation) readBook(from io.Reader) error {
	rows := csv.NewReader(bufio.NewReaderSize(from, 1<<16))
	rows.ReuseRecord = true

	header, err := rows.Read()
	if err != nil {
		return &badBook{fmt.Errorf("it has no header: %w", err)}
	}

	var places [4]int
	for i, name := range bookColumns {
		if places[i] = slices.Index(header, name); places[i] >= 0 && slices.Contains(header[places[i]+1:], name) {
			return &badBook{fmt.Errorf("the header is %q: it names %s twice, and only one can be right",
				strings.Join(header, ","), name)}
		}

		if places[i] < 0 {
			return &badBook{fmt.Errorf("the header is %q: it must name %s", strings.Join(header, ","),
				strings.Join(bookColumns, ", "))}
		}
	}

	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}

		if err != nil {
			return &badBook{err}
		}
		line, _ := rows.FieldPos(0)
		wrong := func(column int, rule string) error {
			return &badBook{fmt.Errorf("line %d: %s is %q: it must be %s", line, bookColumns[column],
				row[places[column]], rule)}
		}

		e := entry{id: strings.Clone(row[places[0]]), state: strings.Clone(row[places[3]]),
			place: "line " + strconv.Itoa(line)}
		if _, err := pix.ParsePaymentOrReturnID(e.id); err != nil && !transferID.MatchString(e.id) {
			return wrong(0, "an EndToEndId, the id of a return, or 32 hexadecimal digits")
		}

		if e.state != client.Settled && e.state != client.Rejected {
			return wrong(3, "settled or rejected")
		}

		if e.centavos, err = strconv.ParseInt(row[places[2]], 10, 64); err != nil || e.centavos < 1 {
			return wrong(2, "an integer of at least 1")
		}

		if e.centavos, err = signed(row[places[1]], e.centavos); err != nil {
			return wrong(1, "credit or debit")
		}

		r.here++
		if err := r.put("here", e); err != nil {
			return err
		}
	}
}

func signed(direction string, centavos int64) (int64, error) {
	switch direction {
	case "credit":
		return centavos, nil
	case "debit":
		return -centavos, nil
	}

	return 0, fmt.Errorf("%q is no direction", direction)
}

func (r *reconciliation) put(side string, e entry) error {
	hash := fnv.New32a()
	_, _ = io.WriteString(hash, e.id) // a hash has no errors
	_, err := fmt.Fprintf(r.parts[hash.Sum32()%bookParts].to, "%s,%s,%d,%s,%s\n", side, e.id, e.centavos,
		e.state, e.place)

	return err
}

// readDay puts the lines of a statement into their parts.
func (r *reconciliation) readDay(ctx context.Context, day client.Day) error {
	reader, writer := io.Pipe()
	defer reader.Close() // ends the copy
	copied := make(chan error, 1)
	go func() {
		err := r.api.CopyDay(ctx, day, newProgress(writer, "statement of "+day.Day))
		writer.CloseWithError(err)
		copied <- err
	}()
	rows := csv.NewReader(reader)
	rows.ReuseRecord = true
	rows.FieldsPerRecord = -1 // the API may add columns
	last := ""

	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}

		if err != nil {
			return err
		}

		if last = row[0]; last != "line" {
			continue
		}

		if len(row) < 7 {
			return fmt.Errorf("the statement has a line of %d columns: is %s Liquida's address?", len(row), r.url)
		}

		e := entry{id: strings.Clone(row[3]), state: client.Settled, place: "at " + row[1] + " with " + row[4]}
		if e.centavos, err = strconv.ParseInt(row[6], 10, 64); err == nil {
			e.centavos, err = signed(row[5], e.centavos)
		}

		if err != nil {
			return fmt.Errorf("the statement has the line %q: %w", strings.Join(row, ","), err)
		}

		r.there++
		if err := r.put("there", e); err != nil {
			return err
		}
	}

	if last != "closing" {
		return fmt.Errorf("the statement of %s does not end with its closing balance: is %s Liquida's address?",
			day.Day, r.url)
	}

	return <-copied
}

// compare tells the differences of one part. The book's entries stand first in it.
func (r *reconciliation) compare(ctx context.Context, p *part) error {
	if err := p.to.Flush(); err != nil {
		return err
	}

	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	book := map[string]entry{}

	lines := bufio.NewScanner(p.file)
	for lines.Scan() {
		fields := strings.SplitN(lines.Text(), ",", 5)
		e := entry{id: fields[1], state: fields[3], place: fields[4]}
		e.centavos, _ = strconv.ParseInt(fields[2], 10, 64) // it was written as a number

		other, found := book[e.id]
		switch {
		case fields[0] == "here" && found && e.state == client.Rejected: // it moved nothing
		case fields[0] == "here" && found && other.state == client.Settled:
			other.place += " and " + e.String()
			other.twice = true
			book[e.id] = other
		case fields[0] == "here":
			book[e.id] = e
		default:
			delete(book, e.id)

			if err := r.tell(compared(other, e)); err != nil {
				return err
			}
		}
	}

	if err := lines.Err(); err != nil {
		return err
	}
	var rest []entry

	for _, e := range book {
		if e.state == client.Settled { // what was rejected moved nothing, and the ledger says the same
			rest = append(rest, e)
		}
	}
	slices.SortFunc(rest, func(a, b entry) int { return cmp.Compare(a.id, b.id) })

	for _, e := range rest {
		d, err := r.missingThere(ctx, e)
		if err != nil {
			return err
		}

		if err := r.tell(d); err != nil {
			return err
		}
	}

	return nil
}

// compared returns how the book's entry differs from the statement's. The first is empty if the
// book has none.
func compared(here, there entry) difference {
	d := difference{ID: there.id, Here: here.String(), There: there.String()}
	switch {
	case here.id == "":
		d.Kind, d.Here = "missing-here", ""
	case here.twice:
		d.Kind = "twice-here"
	case here.state != there.state:
		d.Kind = "other-state"
	case here.centavos != there.centavos:
		d.Kind = "other-amount"
	}

	return d
}

// missingThere returns the difference of an entry that is settled in the book and not in the
// statement, with what became of the payment or return.
func (r *reconciliation) missingThere(ctx context.Context, e entry) (difference, error) {
	d := difference{Kind: "missing-there", ID: e.id, Here: e.String()}
	if e.twice {
		d.Kind = "twice-here"
	}

	if r.asked++; r.asked > asksMax || transferID.MatchString(e.id) {
		return d, nil
	}

	what := "payment"
	if _, notReturn := pix.ParseReturnID(e.id); notReturn == nil {
		what = "return"
	}
	s, err := r.stateOf(ctx, e.id)

	problem, isProblem := errors.AsType[*client.Problem](err)
	switch {
	case isProblem && problem.Status/100 == 4 && !client.TryAgain(err):
		return d, nil // the ledger does not know it, or it is another bank's
	case err != nil:
		return d, err
	case s.Payer != nil && s.Payee != nil && s.Payer.ISPB != r.of.participant && s.Payee.ISPB != r.of.participant:
		d.There = fmt.Sprintf("a %s between %s and %s", what, s.Payer.ISPB, s.Payee.ISPB)
	case s.Status != client.Settled && !e.twice:
		d.Kind, d.There = "other-state", strings.TrimSpace(s.Status+" "+s.ReasonCode)
	case s.Status != client.Settled:
		d.There = strings.TrimSpace(s.Status + " " + s.ReasonCode)
	case s.Payer != nil && s.Payee != nil && s.Payer.ISPB == s.Payee.ISPB:
		d.There = "settled within the bank: it moved no reserve"
	case s.DecidedAt != nil:
		d.There = "settled at " + s.DecidedAt.UTC().Format("2006-01-02T15:04:05.000Z")
	}

	return d, nil
}

// tell prints a difference, if it is one.
func (r *reconciliation) tell(d difference) (err error) {
	if d.Kind == "" {
		return nil
	}
	r.differences++
	shown := r.show(d, func() {
		text := fmt.Sprintf("%-13s  %s", d.Kind, d.ID)
		if d.Here != "" {
			text += "\n  here:  " + d.Here
		}

		if d.There != "" {
			text += "\n  there: " + d.There
		}
		_, err = fmt.Fprintln(r.out, text)
	})

	return cmp.Or(shown, err)
}
