// Package answers judges what the HTTP API tells its clients while the clearing house is being
// broken. Its clients pay and ask over HTTP, an observer reads the reports from Kafka, and the
// judge compares all that was said: acknowledgements, states of payments, settlements streams,
// statements and balances. Chaos and simulation use it, so it knows no stack.
package answers

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"

	"github.com/liquida/liquida/platform/pix"
)

// Judge compares all that the HTTP API says.
//
// A payment never goes back to an earlier status, and its end, amount and times never change: all that
// clients saw of it fits one order in time. The last answer agrees with the settlement report, which the
// audit compares with the ledger. What was accepted has an outcome. A participant's stream tells each of
// its settlements once. Statements and balances are those of the ledger.
type Judge struct {
	payments  atomic.Int64  // seen
	every     int64         // one in this many payments is asked about
	tolerance time.Duration // between the clocks of clients and ledger
	since     time.Time

	mu      sync.Mutex
	of      map[pix.EndToEndID]*answerRecord
	kept    []pix.EndToEndID // of which answers are compared
	all     []pix.EndToEndID // chosen: they are asked about
	orders  map[order]*fate
	claims  []claim
	verdict Verdict

	journals map[pix.ISPB]*journal // complete before anything is told
}

const (
	// askedMax bounds the payments that are asked about. They are spread over the run.
	askedMax = 2000
	// keptMax bounds the memory, of which each takes about a kilobyte.
	keptMax           = 200_000
	contradictionsMax = 50
)

// NewJudge compares answers about a sample of the payments. tolerance is how much the clocks of
// clients and ledger may differ: 0 if they share one.
func NewJudge(payments int, tolerance time.Duration) *Judge {
	return &Judge{
		every: int64(1 + max(0, payments-1)/askedMax), tolerance: tolerance, since: time.Now(),
		verdict: Verdict{Told: map[string]int{}},
		of:      map[pix.EndToEndID]*answerRecord{}, orders: map[order]*fate{}, journals: map[pix.ISPB]*journal{},
	}
}

// Verdict is the result of comparing the answers.
type Verdict struct {
	Clean              bool            `json:"clean"`
	Told               map[string]int  `json:"told"` // how many answers of each kind were compared
	ContradictionCount int             `json:"contradiction_count"`
	Contradictions     []Contradiction `json:"contradictions"` // the first 50
}

// What Told counts.
const (
	toldPayments    = "payments and returns"
	toldAnswers     = "answers about them"
	toldEvents      = "events among those"
	toldAccepted    = "accepted orders"
	toldSettlements = "settlements"
	toldStatements  = "statements"
	toldLines       = "lines of statements"
	toldBalances    = "balances"
	toldDays        = "statements of days"
	toldBeyond      = "payments NOT compared, for want of memory"
)

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
	var told []string
	for _, kind := range slices.Sorted(maps.Keys(v.Told)) {
		told = append(told, fmt.Sprintf("%d %s", v.Told[kind], kind))
	}

	if v.Clean {
		return "ANSWERS CLEAN: " + strings.Join(told, ", ")
	}

	return fmt.Sprintf("ANSWERS FAILED: %d contradictions; %s", v.ContradictionCount, strings.Join(told, ", "))
}

// Conclude compares what was said last with the settlement reports, and everything about accounts
// with the ledger. Call it when both are final.
func (j *Judge) Conclude(client tigerbeetle.Client) (Verdict, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.concludeStates()
	j.concludeOrders()

	if err := j.concludeClaims(client); err != nil {
		return Verdict{}, err
	}
	j.verdict.Told[toldPayments] = len(j.kept)
	j.verdict.Clean = j.verdict.ContradictionCount == 0
	slices.SortStableFunc(j.verdict.Contradictions, func(x, y Contradiction) int {
		return cmp.Compare(x.Subject, y.Subject)
	})

	return j.verdict, nil
}

// count adds to what was told.
func (j *Judge) count(kind string, n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.verdict.Told[kind] += n
}

// contradict adds a contradiction. The caller holds the lock.
func (j *Judge) contradict(subject, what, earlier, later string) {
	j.verdict.ContradictionCount++
	if len(j.verdict.Contradictions) < contradictionsMax {
		j.verdict.Contradictions = append(j.verdict.Contradictions, Contradiction{subject, what, earlier, later})
	}
}
