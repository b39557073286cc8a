// Package history records what clients of the clearing house saw while it was being
// broken, and checks that it fits one story per payment: sent, reserved, ended, in this
// order and with one end. Returns have one end each, too, and never give back more than was paid.
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
// story of the payments whose submission it saw, and of any other payment, and of returns,
// how it ended.
type Recorder struct {
	mu      sync.Mutex
	stories map[pix.EndToEndID]*story
	others  map[pix.EndToEndID]ending
	returns map[pix.ReturnID]returned
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
	return &Recorder{stories: map[pix.EndToEndID]*story{}, others: map[pix.EndToEndID]ending{}, returns: map[pix.ReturnID]returned{}}
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

// ending is what a report says of a payment besides its accounts.
type ending struct {
	Outcome
	centavos uint64
}

func (e ending) String() string { return fmt.Sprintf("%v, %d centavos", e.Outcome, e.centavos) }

// returned is what a report says of a return.
type returned struct {
	ending
	original pix.EndToEndID
}

func (r returned) String() string { return fmt.Sprintf("%v of %s", r.ending, r.original) }

// Span is the time of a request, from its sending to its answer, by the client's clock.
type Span struct{ From, To time.Time }

// Read is an answer to GET /v1/payments/{endToEndId}, or to GET /v1/returns/{returnId}.
type Read struct {
	Status           Status
	Outcome          Outcome   // if it has Ended
	DecidedAt        time.Time // by the ledger's clock; zero if the ledger has no verdict yet
	ReturnedCentavos uint64    // of a payment
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

// story is everything seen of one payment, or of one return.
type story struct {
	submissions []submission
	reads       []read
	reports     []Report
	given       []givenBack // of a payment: its returns that settled
}

type givenBack struct {
	id pix.ReturnID
	Report
}

type submission struct {
	span         Span
	acknowledged bool
}

type read struct {
	span Span
	Read
}

// Report is a settlement report. At is by the clock of the engine, which wrote it after the
// ledger had answered.
type Report struct {
	At             time.Time
	Outcome        Outcome
	AmountCentavos uint64
}

func (r Report) ending() ending { return ending{r.Outcome, r.AmountCentavos} }

// Submitting tells that a payment, or a return, is about to be submitted: its whole story is
// kept from now on.
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

// Reported notes the settlement report of a payment.
func (r *Recorder) Reported(id pix.EndToEndID, report Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports++
	if s := r.stories[id]; s != nil {
		r.events++
		s.reports = append(s.reports, report)
		return
	}
	keep(r, r.others, id, report.ending())
}

// ReturnReported notes the settlement report of a return, and which payment it gives back.
func (r *Recorder) ReturnReported(id pix.ReturnID, original pix.EndToEndID, report Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports++
	if s := r.stories[pix.EndToEndID(id)]; s != nil {
		r.events++
		s.reports = append(s.reports, report)
	}
	if s := r.stories[original]; s != nil && report.Outcome.Settled && !slices.ContainsFunc(s.given, func(g givenBack) bool { return g.id == id }) {
		s.given = append(s.given, givenBack{id, report})
	}
	keep(r, r.returns, id, returned{report.ending(), original})
}

// keep notes how something ended; a later report must say the same. The lock is held.
func keep[I interface {
	comparable
	fmt.Stringer
}, E comparable](r *Recorder, ends map[I]E, id I, end E) {
	before, known := ends[id]
	switch {
	case known && before != end:
		r.violate(OutcomeChanged, id.String(), "reported as %v and later as %v", before, end)
	case !known && len(r.stories)+len(r.others)+len(r.returns) >= paymentsMax:
		r.dropped++
	case !known:
		ends[id] = end
	}
}

// violate notes what shows at once. The lock is held.
func (r *Recorder) violate(kind, subject, format string, arguments ...any) {
	if len(r.violations) < violationsMax {
		r.violations = append(r.violations, Violation{kind, subject, fmt.Sprintf(format, arguments...)})
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
		if funds[bank] != r.bankFunds[bank] {
			r.violate(MoneyNotInPlace, fmt.Sprintf("bank %d", bank), "reserve + transit are %d centavos, at first they were %d", funds[bank], r.bankFunds[bank])
		}
	}
}
