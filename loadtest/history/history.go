// Package history records what clients of the clearing house saw while it was being
// broken, and checks that it fits one story per payment: sent, reserved, ended, in this
// order and with one end.
//
// It is about what is seen from outside and when. The audit proves what is true in the end.
package history

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/liquida/liquida/platform/pix"
)

// Recorder takes what clients see. It may be used from any goroutine. It keeps the whole
// story of the payments whose submission it saw, and of any other payment how it ended.
type Recorder struct {
	mu      sync.Mutex
	stories map[pix.EndToEndID]*story
	others  map[pix.EndToEndID]Outcome
	reports int
	events  int
	dropped int
	// violations are those that show at once.
	violations   []Violation
	balanceReads int
	bankFunds    []int64 // of the first balance read
}

// paymentsMax bounds the memory: about 100 bytes for each payment. Beyond it payments
// are counted and not checked.
const paymentsMax = 20_000_000

// NewRecorder returns an empty recorder.
func NewRecorder() *Recorder {
	return &Recorder{stories: map[pix.EndToEndID]*story{}, others: map[pix.EndToEndID]Outcome{}}
}

// Outcome is how a payment ended.
type Outcome struct {
	Settled bool
	Reason  string // of a rejection
}

func (o Outcome) String() string {
	if o.Settled {
		return "settled"
	}
	return "rejected " + o.Reason
}

// Span is the time of a request, from its sending to its answer, by the client's clock.
type Span struct{ From, To time.Time }

// Read is an answer to GET /v1/payments/{endToEndId}.
type Read struct {
	Status    Status
	Outcome   Outcome   // if it has Ended
	DecidedAt time.Time // by the ledger's clock; zero if the ledger has no verdict yet
}

// Status is how far a payment is.
type Status uint8

// The statuses, in the order in which a payment has them. Unsent is before anyone sent it.
const (
	Unsent Status = iota
	Unknown
	Reserved
	Ended
)

func (s Status) String() string { return [...]string{"unsent", "unknown", "reserved", "ended"}[s] }

// story is everything seen of one payment.
type story struct {
	submissions []submission
	reads       []read
	reports     []report
}

type submission struct {
	span         Span
	acknowledged bool
}

type read struct {
	span Span
	Read
}

// report is a settlement report. at is by the clock of the engine, which wrote it after
// the ledger had answered.
type report struct {
	at      time.Time
	outcome Outcome
}

// Submitting tells that a payment is about to be submitted: its whole story is kept from now on.
func (r *Recorder) Submitting(id pix.EndToEndID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.stories)+len(r.others) >= paymentsMax {
		r.dropped++
		return
	}
	r.stories[id] = &story{}
}

// Submitted notes a try to submit a payment that Submitting has announced. Without an
// acknowledgement its fate is open.
func (r *Recorder) Submitted(id pix.EndToEndID, span Span, acknowledged bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.stories[id]; s != nil {
		r.events++
		s.submissions = append(s.submissions, submission{span, acknowledged})
	}
}

// Read notes an answer about a payment. One that failed tells nothing and is not noted.
func (r *Recorder) Read(id pix.EndToEndID, span Span, answer Read) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.stories[id]; s != nil {
		r.events++
		s.reads = append(s.reads, read{span, answer})
	}
}

// Reported notes a settlement report with its record's timestamp.
func (r *Recorder) Reported(id pix.EndToEndID, at time.Time, outcome Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports++
	if s := r.stories[id]; s != nil {
		r.events++
		s.reports = append(s.reports, report{at, outcome})
		return
	}
	before, known := r.others[id]
	switch {
	case known && before != outcome:
		r.violations = append(r.violations, Violation{OutcomeChanged, id.String(), fmt.Sprintf("reported as %v and later as %v", before, outcome)})
	case !known && len(r.stories)+len(r.others) >= paymentsMax:
		r.dropped++
	case !known:
		r.others[id] = outcome
	}
}

// Balances notes the sum of reserve and transit of every bank, read in one request. The
// three-leg law holds at every instant: no payment changes the sum.
func (r *Recorder) Balances(funds []int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.balanceReads++
	if r.bankFunds == nil {
		r.bankFunds = slices.Clone(funds)
	}
	for bank := range funds {
		if funds[bank] != r.bankFunds[bank] && len(r.violations) < violationsMax {
			r.violations = append(r.violations, Violation{MoneyNotInPlace, fmt.Sprintf("bank %d", bank),
				fmt.Sprintf("reserve + transit are %d centavos, at first they were %d", funds[bank], r.bankFunds[bank])})
		}
	}
}
