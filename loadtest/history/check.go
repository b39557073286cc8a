package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/liquida/liquida/platform/pix"
)

// Violation is something that clients must never see.
type Violation struct {
	Kind    string `json:"kind"`
	Subject string `json:"subject"` // an EndToEndId, or a bank
	Detail  string `json:"detail"`
}

// The kinds of violations.
const (
	OutcomeChanged  = "outcome changed"
	ReportTooEarly  = "report before the ledger's verdict"
	NeverEnded      = "acknowledged payment never ended"
	NotOneStory     = "what was seen fits no order"
	Undecided       = "history too complex to check in time"
	MoneyNotInPlace = "three-leg invariant broken at an instant"
	ReturnedTooMuch = "more given back than was paid"
	ReturnedDiffers = "amount given back differs between read and report"
	NotChecked      = "payments above the recorder's limit"
)

// Verdict is the result of the check.
type Verdict struct {
	Clean          bool        `json:"clean"`
	Payments       int         `json:"payments"`         // with their whole story
	ReportedOnly   int         `json:"payments_by_name"` // with their end only
	Returns        int         `json:"returns"`
	Operations     int         `json:"operations"`
	Reports        int         `json:"reports"`
	BalanceReads   int         `json:"balance_reads"`
	ViolationCount int         `json:"violation_count"`
	Violations     []Violation `json:"violations"` // at most 50
	ToleranceMs    float64     `json:"clock_tolerance_ms"`
	Seconds        float64     `json:"seconds"`
}

const (
	violationsMax = 50
	// A story has about ten operations. Checking it takes microseconds.
	storyTimeout = 10 * time.Second
)

// Check judges everything recorded, after the last payment ended. tolerance is how much the
// clocks of engines, ledger and this client may differ: 0 if they share a machine.
func (r *Recorder) Check(tolerance time.Duration) Verdict {
	began := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	v := Verdict{
		ReportedOnly: len(r.others), Returns: len(r.returns), Operations: r.events, Reports: r.reports,
		BalanceReads: r.balanceReads, ToleranceMs: float64(tolerance.Microseconds()) / 1000,
	}
	violations := slices.Clone(r.violations)
	if r.dropped > 0 {
		violations = append(violations, Violation{NotChecked, "", fmt.Sprintf("%d payments: run for a shorter time or at a lower rate", r.dropped)})
	}
	for id, s := range r.stories {
		if id[0] != 'D' { // returns are counted by themselves
			v.Payments++
		}
		violations = append(violations, s.check(id, tolerance)...)
	}
	violations = append(violations, r.checkReturns()...)
	slices.SortFunc(violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Subject, b.Subject))
	})
	v.ViolationCount = len(violations)
	v.Violations = violations[:min(len(violations), violationsMax)]
	v.Clean = len(violations) == 0
	v.Seconds = time.Since(began).Seconds()
	return v
}

func (v Verdict) String() string {
	seen := fmt.Sprintf("%d payments in %d operations, %d reports of %d others and %d returns, %d balance reads", v.Payments, v.Operations, v.Reports, v.ReportedOnly, v.Returns, v.BalanceReads)
	if v.Clean {
		return "HISTORY CLEAN: " + seen
	}
	return fmt.Sprintf("HISTORY FAILED: %d violations in %s", v.ViolationCount, seen)
}

// checkReturns compares the returns of each payment with its amount. The caller holds the lock.
func (r *Recorder) checkReturns() (found []Violation) {
	given := map[pix.EndToEndID]uint64{}
	for _, back := range r.returns {
		if back.Settled {
			given[back.original] += back.centavos
		}
	}
	for original, centavos := range given {
		paid, known := r.others[original]
		if s := r.stories[original]; s != nil && len(s.reports) > 0 {
			paid, known = s.reports[0].end(), true
		}
		switch {
		case !known && r.dropped == 0, known && !paid.Settled:
			found = append(found, Violation{ReturnedTooMuch, original.String(), fmt.Sprintf("%d centavos of a payment that was not reported as settled", centavos)})
		case known && centavos > paid.centavos:
			found = append(found, Violation{ReturnedTooMuch, original.String(), fmt.Sprintf("%d centavos, and %d were paid", centavos, paid.centavos)})
		}
	}
	return found
}

// check returns what is wrong with a story. Simple checks come first, because they say more.
// Then it looks for one order of everything that was seen.
func (s *story) check(id pix.EndToEndID, tolerance time.Duration) []Violation {
	if len(s.submissions) == 0 {
		return nil
	}
	origin := s.submissions[0].span.From
	var found []Violation
	violate := func(kind, format string, arguments ...any) {
		found = append(found, Violation{kind, id.String(), fmt.Sprintf(format, arguments...) + ": " + s.text(origin)})
	}
	acknowledged := slices.ContainsFunc(s.submissions, func(x submission) bool { return x.acknowledged })
	if acknowledged && len(s.reports) == 0 {
		violate(NeverEnded, "no report")
	}
	var ends []Outcome
	for _, x := range s.reports {
		ends = append(ends, x.Outcome)
		if first := s.reports[0].AmountCentavos; x.AmountCentavos != first {
			violate(OutcomeChanged, "reported with %d centavos and later with %d", first, x.AmountCentavos)
			return found
		}
	}
	for _, x := range s.reads {
		if x.Status == Ended {
			ends = append(ends, x.Outcome)
		}
	}
	for _, end := range ends {
		if end != ends[0] {
			violate(OutcomeChanged, "%v and %v", ends[0], end)
			return found // then there is no one order either
		}
	}
	for _, x := range s.reads {
		for _, report := range s.reports {
			if !x.DecidedAt.IsZero() && x.DecidedAt.After(report.At.Add(time.Millisecond+tolerance)) {
				violate(ReportTooEarly, "the ledger decided %v after the report", x.DecidedAt.Sub(report.At))
				return found
			}
		}
	}
	if differs := s.checkReturned(tolerance); differs != "" {
		violate(ReturnedDiffers, "%s", differs)
	}
	switch porcupine.CheckOperationsTimeout(model, s.operations(origin, tolerance), storyTimeout) {
	case porcupine.Illegal:
		violate(NotOneStory, "in every order the payment goes back to an earlier status")
	case porcupine.Unknown:
		violate(Undecided, "no result after %v", storyTimeout)
	}
	return found
}

// checkReturned checks the amounts given back that clients read: never less than reported
// before the read was sent, never less than an earlier read said, never more than ever given.
func (s *story) checkReturned(tolerance time.Duration) string {
	for _, x := range s.reads {
		var least, most uint64
		for _, g := range s.given {
			most += g.AmountCentavos
			if g.At.Add(time.Millisecond + tolerance).Before(x.span.From) {
				least += g.AmountCentavos
			}
		}
		for _, y := range s.reads {
			if y.span.To.Before(x.span.From) {
				least = max(least, y.ReturnedCentavos)
			}
		}
		if x.ReturnedCentavos < least || x.ReturnedCentavos > most {
			return fmt.Sprintf("it says %d centavos given back, it must be %d to %d", x.ReturnedCentavos, least, most)
		}
	}
	return ""
}
