package simulation

import (
	"testing"
	"time"
)

// A fault excuses only what it explains: an engine's wrong clock, a shorter deadline and requests that are late on
// their way to the ledger say so to the audit. No other fault and no other setting does.
func TestAFaultExcusesOnlyWhatItExplains(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(1)
		door := s.open()
		s.fault(serviceFaults, clockFarBehind, door, 5*time.Second)
		if len(s.wrongClocks) > 0 {
			s.t.Errorf("the clock of a front door excuses the engines' deadlines: %v", s.wrongClocks)
		}
		s.fault(serviceFaults, clockFarBehind, s.engine(0), 5*time.Second)
		if len(s.wrongClocks) != 1 {
			s.t.Errorf("the clock of an engine was wrong once: %v", s.wrongClocks)
		}
		for _, f := range ledgerFaults {
			s.lateRequests = nil
			s.fault(ledgerFaults, f.kind, s.engine(0), time.Second)
			if isLate := f.kind != "ledger is slow"; isLate != (len(s.lateRequests) == 1) {
				s.t.Errorf("%s: requests were late in %v", f.kind, s.lateRequests)
			}
		}
		for _, to := range changes {
			s.deadlineMin, s.shortDeadlines = 0, nil
			from := time.Now()
			s.change([]*service{s.engine(0)}, to, time.Second)
			isShort := to.name == "a deadline of 5 s, a hold of 10 s"
			if isShort != (s.deadlineMin == 5*time.Second) || isShort != (len(s.shortDeadlines) == 1) {
				s.t.Errorf("%s: shortest deadline %v in %v", to.name, s.deadlineMin, s.shortDeadlines)
			}
			if isShort && (s.shortDeadlines[0].From.After(from) || s.shortDeadlines[0].To.Before(from.Add(time.Second))) {
				s.t.Errorf("%s: it was so in %v", to.name, s.shortDeadlines)
			}
		}
	})
}
