package answers

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// claim is what the API said of an account. The ledger decides at the end: transfers only come, so what it says
// then also says how the account was at any time before.
type claim struct {
	account ledger.AccountID
	compare func(*Judge, *past)
}

// takeClaim keeps a claim until the end.
func (j *Judge) takeClaim(kind string, of ledger.AccountID, compare func(*Judge, *past)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.verdict.Told[kind]++
	j.claims = append(j.claims, claim{of, compare})
}

// concludeClaims compares all claims about accounts with the ledger.
func (j *Judge) concludeClaims(client tigerbeetle.Client) error {
	truth := map[ledger.AccountID]*past{}
	for _, c := range j.claims {
		if truth[c.account] == nil {
			transfers, err := transfersOf(client, c.account)
			if err != nil {
				return fmt.Errorf("the ledger does not tell the history of %s: %w", ledger.AccountName(c.account), err)
			}
			truth[c.account] = pastOf(transfers, c.account)
		}
		c.compare(j, truth[c.account])
	}

	return nil
}

// eventsMax is the most that one request to the ledger may hold or return.
const eventsMax = 8189

// transfersOf returns all transfers of an account, oldest first.
func transfersOf(client tigerbeetle.Client, account ledger.AccountID) (all []tb.Transfer, err error) {
	filter := tb.AccountFilter{AccountID: account, Limit: eventsMax,
		Flags: tb.AccountFilterFlags{Debits: true, Credits: true}.ToUint32()}
	for {
		found, err := client.GetAccountTransfers(filter)
		if all = append(all, found...); err != nil || len(found) < eventsMax {
			return all, err
		}
		filter.TimestampMin = found[len(found)-1].Timestamp + 1
	}
}

// past is what the ledger knows of an account.
type past struct {
	own       ledger.AccountID
	transfers []tb.Transfer // oldest first
	lines     []string      // of its statement, newest first
	times     []time.Time   // of the lines
}

// pastOf computes the past of an account from its transfers, oldest first.
func pastOf(transfers []tb.Transfer, own ledger.AccountID) *past {
	p := &past{own: own, transfers: transfers}
	for _, t := range slices.Backward(transfers) {
		p.lines, p.times = append(p.lines, lineOf(t, own).String()), append(p.times, ledgerTime(t.Timestamp))
	}

	return p
}

// movedBy returns by how much a transfer changes what is posted to an account.
func movedBy(t tb.Transfer, own ledger.AccountID) int64 {
	flags := t.TransferFlags()
	if flags.Pending || flags.VoidPendingTransfer {
		return 0
	}

	if t.DebitAccountID == own {
		return -ledger.Centavos(t.Amount)
	}

	return ledger.Centavos(t.Amount)
}

func ledgerTime(nanoseconds uint64) time.Time {
	return time.Unix(0, int64(nanoseconds)).UTC() //nolint:gosec // Unix time
}

// statementLine is a line of a customer's statement.
type statementLine struct {
	At             time.Time `json:"at"`
	Kind           string    `json:"kind"`
	Direction      string    `json:"direction"`
	AmountCentavos int64     `json:"amount_centavos"`
	Code           uint16    `json:"code"`
	EndToEndID     string    `json:"end_to_end_id"`
	ReturnID       string    `json:"return_id"`
	ReasonCode     string    `json:"reason_code"`
}

func (l statementLine) String() string {
	return fmt.Sprintf("%s %s %s %d code %d %s%s %s", l.At.UTC().Format(time.RFC3339Nano), l.Kind, l.Direction,
		l.AmountCentavos, l.Code, l.EndToEndID, l.ReturnID, l.ReasonCode)
}

func lineOf(t tb.Transfer, own ledger.AccountID) statementLine {
	line := statementLine{At: ledgerTime(t.Timestamp), Kind: "posted", Direction: "credit",
		AmountCentavos: ledger.Centavos(t.Amount), Code: t.Code, ReasonCode: pix.Reason(t.UserData32).String()}
	if t.DebitAccountID == own {
		line.Direction = "debit"
	}

	if flags := t.TransferFlags(); flags.Pending {
		line.Kind = "held"
	} else if flags.VoidPendingTransfer {
		line.Kind = "released"
	}

	if id, err := ledger.EndToEndIDOf(t); err == nil && ledger.CodeLeg1 <= t.Code && t.Code <= ledger.CodeLeg3 {
		line.EndToEndID = id.String()
	}

	if id, err := ledger.ReturnIDOf(t); err == nil && ledger.CodeReturnLeg1 <= t.Code &&
		t.Code <= ledger.CodeReturnLeg3 {
		line.ReturnID = id.String()
	}

	return line
}

// reading is what a client read of an account's statement, page by page from the newest line on.
type reading struct {
	account  pix.Account
	asked    time.Time // the first page
	lines    []statementLine
	complete bool // to the oldest line
}

// conclude requires the lines of the ledger from the newest line that was told, in the same
// order and without a gap. Only lines that came after the question may be newer.
func (r reading) conclude(j *Judge, p *past) {
	subject := "statement of " + r.account.String() + ", asked " + r.asked.UTC().Format(timeOfDay)

	newer := len(p.lines)
	if len(r.lines) > 0 {
		newer = max(0, slices.IndexFunc(p.times, func(at time.Time) bool { return !at.After(r.lines[0].At) }))
	}

	if newer > 0 && p.times[newer-1].Before(r.asked.Add(-j.tolerance)) {
		j.contradict(subject, "a line is missing that was there before the question", p.lines[newer-1], "")
		return
	}

	truth := p.lines[newer:]
	for i, line := range r.lines {
		if i == len(truth) {
			j.contradict(subject, "the ledger has no such line", "", line.String())
			return
		}

		if line.String() != truth[i] {
			j.contradict(subject, "a line is missing, repeated or wrong", "the ledger has "+truth[i],
				"it says "+line.String())
			return
		}
	}

	if r.complete && len(r.lines) < len(truth) {
		j.contradict(subject, fmt.Sprintf("it ends %d lines too early", len(truth)-len(r.lines)),
			"the next line is "+truth[len(r.lines)], "")
	}
}

// balance is what a client was told of an account.
type balance struct {
	account pix.Account
	Span
	Posted     int64 `json:"posted_centavos"`
	PendingOut int64 `json:"pending_out_centavos"`
	Available  int64 `json:"available_centavos"`
}

// conclude requires a balance that was posted to the account at an instant of the request. Tests of the front door
// compare what is pending: the ledger gives the money of an expired hold back when it likes.
func (b balance) conclude(j *Judge, p *past) {
	from, to := b.From.Add(-j.tolerance), b.To.Add(j.tolerance)
	var could []int64
	posted := int64(0)

	for _, t := range p.transfers {
		at := ledgerTime(t.Timestamp)
		if at.After(to) {
			break
		}

		if at.After(from) {
			could = append(could, posted)
		}
		posted += movedBy(t, p.own)
	}
	could = append(could, posted)
	subject := "balance of " + b.account.String() + ", asked " + b.From.UTC().Format(timeOfDay)
	said := fmt.Sprintf("it says %d posted, %d pending out, %d available", b.Posted, b.PendingOut, b.Available)

	switch {
	case !slices.Contains(could, b.Posted):
		j.contradict(subject, "the account never held that during the request", fmt.Sprintf("it held %d", could), said)
	case b.PendingOut < 0 || b.Available != b.Posted-b.PendingOut || b.Available < 0:
		j.contradict(subject, "what is available is not what is posted less what is held", "", said)
	}
}

// dayReading is a bank's statement of a day, or of its part before an instant, in CSV.
type dayReading struct {
	bank  pix.ISPB
	day   pix.Day
	until time.Time
	text  []byte
}

// conclude requires what the reserve held at both ends, and as many lines as transfers that moved it. Tests of the
// front door compare each line.
func (d dayReading) conclude(j *Judge, p *past) {
	instant := func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
	opening, closing, lines := int64(0), int64(0), 0

	for _, t := range p.transfers {
		moved, at := movedBy(t, p.own), ledgerTime(t.Timestamp)
		if moved == 0 || !at.Before(d.until) {
			continue
		}
		closing += moved

		if at.Before(d.day.Begins()) {
			opening = closing
		} else {
			lines++
		}
	}
	subject, rows := fmt.Sprintf("statement of %s for %v", d.bank, d.day), strings.Split(string(d.text), "\r\n")

	for _, row := range []string{fmt.Sprintf("opening,%s,,,,,,%d,", instant(d.day.Begins()), opening),
		fmt.Sprintf("closing,%s,,,,,,%d,%d", instant(d.until), closing, lines)} {
		if !slices.Contains(rows, row) {
			j.contradict(subject, "a row is not what the ledger has", row, fmt.Sprintf("%.2000s", d.text))
		}
	}

	if told := strings.Count(string(d.text), "\r\nline,"); told != lines {
		j.contradict(subject, fmt.Sprintf("it has %d lines and must have %d", told, lines), "", "")
	}
}
