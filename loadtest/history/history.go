// Package history records what clients saw while the clearing house was being broken. It
// checks that all they saw of a payment fits one order: sent, reserved, ended, with one end.
// A return has one end, too, and returns never exceed their payment.
//
// History is about what clients see, and when. The audit proves what is true in the end.
package history

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/liquida/liquida/platform/pix"
)

// Recorder collects what clients see, from any goroutine. It keeps the whole story of
// payments and returns that were announced by Submitting, and only the end of others.
type Recorder struct {
	mu      sync.Mutex
	stories map[pix.EndToEndID]*story
	others  map[pix.EndToEndID]end
	returns map[pix.ReturnID]returnEnd
	reports int
	events  int
	dropped int
	// violations are those found while recording.
	violations   []Violation
	balanceReads int
	bankFunds    []int64 // at the first balance read
}

// paymentsMax bounds the memory, of which a payment takes about 100 bytes. Payments above
// it are counted and not checked.
const paymentsMax = 20_000_000

// NewRecorder returns an empty recorder.
func NewRecorder() *Recorder {
	return &Recorder{stories: map[pix.EndToEndID]*story{}, others: map[pix.EndToEndID]end{}, returns: map[pix.ReturnID]returnEnd{}}
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
type end struct {
	Outcome
	centavos uint64
}

func (e end) String() string { return fmt.Sprintf("%v, %d centavos", e.Outcome, e.centavos) }

// returned is what a report says of a return.
type returnEnd struct {
	end
	original pix.EndToEndID
}

func (r returnEnd) String() string { return fmt.Sprintf("%v of %s", r.end, r.original) }

// Span is the time of a request, from its sending to its response, by the client's clock.
type Span struct{ From, To time.Time }

// Read is a response to GET /v1/payments/{endToEndId} or GET /v1/returns/{returnId}.
type Read struct {
	Status           Status
	Outcome          Outcome   // if Status is Ended
	DecidedAt        time.Time // by the ledger's clock; zero if the ledger has no verdict yet
	ReturnedCentavos uint64    // of a payment
}

// Status is the progress of a payment.
type Status uint8

// The statuses, in the order of a payment's life. Unsent is before the first submission.
const (
	Unsent Status = iota
	Unknown
	Reserved
	Ended
)

func (s Status) String() string { return [...]string{"unsent", "unknown", "reserved", "ended"}[s] }

// story is everything seen of one payment or return.
type story struct {
	submissions []submission
	reads       []read
	reports     []Report
	given       []settledReturn // of a payment: its returns that settled
}

type settledReturn struct {
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

// Report is a settlement report. At is the time when the engine wrote it, which is after the
// ledger's verdict.
type Report struct {
	At             time.Time
	Outcome        Outcome
	AmountCentavos uint64
}

func (r Report) end() end { return end{r.Outcome, r.AmountCentavos} }

// Submitting announces that a payment or return is about to be submitted. From now on its
// whole story is kept.
func (r *Recorder) Submitting(id pix.EndToEndID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.stories)+len(r.others) >= paymentsMax {
		r.dropped++
		return
	}
	r.stories[id] = &story{}
}

// Submitted records a try to submit an announced payment. Without an acknowledgement its fate
// is open.
func (r *Recorder) Submitted(id pix.EndToEndID, span Span, acknowledged bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.stories[id]; s != nil {
		r.events++
		s.submissions = append(s.submissions, submission{span, acknowledged})
	}
}

// Read records a response about a payment. A failed request says nothing: leave it out.
func (r *Recorder) Read(id pix.EndToEndID, span Span, seen Read) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.stories[id]; s != nil {
		r.events++
		s.reads = append(s.reads, read{span, seen})
	}
}

// Reported records the settlement report of a payment.
func (r *Recorder) Reported(id pix.EndToEndID, report Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports++
	if s := r.stories[id]; s != nil {
		r.events++
		s.reports = append(s.reports, report)
		return
	}
	keep(r, r.others, id, report.end())
}

// ReturnReported records the settlement report of a return of the original payment.
func (r *Recorder) ReturnReported(id pix.ReturnID, original pix.EndToEndID, report Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports++
	if s := r.stories[pix.EndToEndID(id)]; s != nil {
		r.events++
		s.reports = append(s.reports, report)
	}
	if s := r.stories[original]; s != nil && report.Outcome.Settled && !slices.ContainsFunc(s.given, func(g settledReturn) bool { return g.id == id }) {
		s.given = append(s.given, settledReturn{id, report})
	}
	keep(r, r.returns, id, returnEnd{report.end(), original})
}

// keep stores an end. A later report must say the same. The caller holds the lock.
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

// violate records a violation. The caller holds the lock.
func (r *Recorder) violate(kind, subject, format string, arguments ...any) {
	if len(r.violations) < violationsMax {
		r.violations = append(r.violations, Violation{kind, subject, fmt.Sprintf(format, arguments...)})
	}
}

// Balances records reserve + transit − books of every bank, read in one request. By the law of the
// books neither a payment nor an act changes it, at any instant.
func (r *Recorder) Balances(funds []int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.balanceReads++
	if r.bankFunds == nil {
		r.bankFunds = slices.Clone(funds)
	}
	for bank := range funds {
		if funds[bank] != r.bankFunds[bank] {
			r.violate(MoneyNotInPlace, fmt.Sprintf("bank %d", bank), "reserve + transit − books is %d centavos, at first it was %d", funds[bank], r.bankFunds[bank])
		}
	}
}
