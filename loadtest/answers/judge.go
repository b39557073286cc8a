// Package answers judges what the HTTP API tells its clients while the clearing house is being
// broken. Its clients pay and ask over HTTP, an observer reads the reports from Kafka, and the
// judge compares all that was said: acknowledgements, states of payments, settlements streams,
// statements and balances. Chaos and simulation use it, so it knows no stack.
package answers

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"

	"github.com/liquida/liquida/platform/pix"
)

// Judge compares all that the HTTP API says.
//
// A payment never goes back to an earlier status, and its end, amount and times never change: all that
// clients saw of it fits one order in time. The three-leg law holds at each reading. The last answer
// agrees with the settlement report, which the audit compares with the ledger. What
// was accepted has an outcome. A participant's stream tells each of its settlements once, and
// statements and balances are those of the ledger. The statements of all banks' days agree with
// each other and lead to the reserves.
type Judge struct {
	every     int           // one in this many payments is asked about
	tolerance time.Duration // between the clocks of clients and ledger
	since     time.Time

	mu       sync.Mutex
	payments int // seen
	of       map[pix.EndToEndID]*answerRecord
	kept     []pix.EndToEndID // of which answers are compared
	all      []pix.EndToEndID // chosen: they are asked about
	underWay []openPayment
	orders   map[order]*fate
	journals map[pix.ISPB]*journal
	readings []reading
	balances []balance
	funds    []int64 // of the banks, at the first reading
	days     []dayReading
	verdict  Verdict
}

const (
	// askedMax bounds the payments that are asked about. They are spread over the run.
	askedMax = 2000
	// keptMax bounds the memory, of which each takes about a kilobyte.
	keptMax = 200_000
	// underWayFor is how long an open payment is asked about more often than others. Some
	// never become payments.
	underWayFor       = 2 * time.Minute
	contradictionsMax = 50
)

// NewJudge compares answers about a sample of the payments. tolerance is how much the clocks of
// clients and ledger may differ: 0 if they share one.
func NewJudge(payments int, tolerance time.Duration) *Judge {
	return &Judge{
		every: 1 + max(0, payments-1)/askedMax, tolerance: tolerance, since: time.Now(),
		of: map[pix.EndToEndID]*answerRecord{}, orders: map[order]*fate{}, journals: map[pix.ISPB]*journal{},
	}
}

// Verdict is the result of comparing the answers.
type Verdict struct {
	Clean              bool            `json:"clean"`
	Payments           int             `json:"payments"`               // and returns, of which all answers were compared
	NotCompared        int             `json:"not_compared,omitempty"` // beyond the bound of memory
	Answers            int             `json:"answers"`
	Events             int             `json:"events"`   // of the answers, from streams
	Accepted           int             `json:"accepted"` // orders of clients
	Settlements        int             `json:"settlements"`
	Raced              int             `json:"raced"` // rejections that payees' banks need not be told, because two engines raced
	Statements         int             `json:"statements"`
	StatementLines     int             `json:"statement_lines"`
	Balances           int             `json:"balances"`
	Funds              int             `json:"readings_of_funds"` // of all banks at an instant
	Days               int             `json:"days"`              // statements of a bank's day
	DayLines           int             `json:"day_lines"`
	ContradictionCount int             `json:"contradiction_count"`
	Contradictions     []Contradiction `json:"contradictions"` // the first 50
}

// Contradiction is a pair of answers that cannot both be true, or an answer that is not so.
type Contradiction struct {
	Subject string `json:"subject"` // a payment, a participant's stream or an account
	What    string `json:"what"`
	Earlier string `json:"earlier,omitempty"`
	Later   string `json:"later,omitempty"`
}

func (c Contradiction) String() string {
	text := fmt.Sprintf("%s: %s", c.Subject, c.What)
	for _, words := range []string{c.Earlier, c.Later} {
		if words != "" {
			text += "\n  " + words
		}
	}
	return text
}

func (v Verdict) String() string {
	if v.NotCompared > 0 {
		return fmt.Sprintf("ANSWERS FAILED: those about %d payments were not compared: run for a shorter time", v.NotCompared)
	}
	asked := fmt.Sprintf("%d answers (%d of them events) about %d payments and returns, %d accepted orders, %d settlements told (%d more are left open by a race of two engines), %d statements of %d lines, %d balances, %d readings of all funds, %d statements of days of %d lines",
		v.Answers, v.Events, v.Payments, v.Accepted, v.Settlements, v.Raced, v.Statements, v.StatementLines, v.Balances, v.Funds, v.Days, v.DayLines)
	if v.Clean {
		return "ANSWERS CLEAN: " + asked
	}
	return fmt.Sprintf("ANSWERS FAILED: %d contradictions; %s", v.ContradictionCount, asked)
}

// Conclude compares what was said last with the settlement reports, and everything about accounts
// with the ledger. Call it when both are final.
func (j *Judge) Conclude(client tigerbeetle.Client) (Verdict, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.concludeStates()
	j.concludeOrders()
	if err := j.concludeAccounts(client); err != nil {
		return Verdict{}, err
	}
	if err := j.concludeDays(client); err != nil {
		return Verdict{}, err
	}
	j.verdict.Payments = len(j.kept)
	j.verdict.Clean = j.verdict.ContradictionCount == 0 && j.verdict.NotCompared == 0
	slices.SortStableFunc(j.verdict.Contradictions, func(x, y Contradiction) int { return cmp.Compare(x.Subject, y.Subject) })
	return j.verdict, nil
}

// TakeFunds takes reserve + transit − books of every bank, read in one request. By the law of the books neither a
// payment nor an act changes it, at any instant.
func (j *Judge) TakeFunds(funds []int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.verdict.Funds++
	if j.funds == nil {
		j.funds = funds
	}
	for bank := range funds {
		if funds[bank] != j.funds[bank] {
			j.contradict(fmt.Sprintf("bank %d", bank), fmt.Sprintf("reserve + transit − books is %d centavos, at first it was %d", funds[bank], j.funds[bank]), "", "")
		}
	}
}

// contradict adds a contradiction. The caller holds the lock.
func (j *Judge) contradict(subject, what, earlier, later string) {
	j.verdict.ContradictionCount++
	if len(j.verdict.Contradictions) < contradictionsMax {
		j.verdict.Contradictions = append(j.verdict.Contradictions, Contradiction{subject, what, earlier, later})
	}
}
