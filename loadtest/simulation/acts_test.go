package simulation

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/liquida/liquida/loadtest/audit"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/platform/ledger"
)

// actFaults are acts on the register while all runs.
func actFaults() (faults []fault) {
	for _, kind := range load.Interventions {
		faults = append(faults, fault{kind.Name, func(w *world, _ *service, random *rand.Rand, hold time.Duration) {
			if err := kind.Play(w.ends, w.operator(random, hold)); err != nil {
				w.t.Errorf("%s: %v", kind.Name, err)
			}
		}})
	}

	return faults
}

func (w *world) operator(random *rand.Rand, hold time.Duration) *load.Operator {
	return &load.Operator{Client: acting{w: w}, Population: population, Random: random, Hold: hold, Did: w.note}
}

// act acts as the central bank, and returns when everybody knows.
func (s *scenario) act(act ledger.Act) {
	s.t.Helper()

	act.ByCentralBank = true
	if err := s.operator(s.random, 0).Do(act); err != nil {
		s.t.Error(err)
	}
	s.pass(3*time.Second, 4*time.Second)
}

// play plays an intervention of a kind while all runs, for some time.
func (s *scenario) play(kind string, hold time.Duration) {
	s.t.Helper()

	at := slices.IndexFunc(load.Interventions, func(k load.Intervention) bool { return k.Name == kind })
	if at < 0 {
		s.t.Fatalf("there is no intervention %q", kind)
	}

	if err := load.Interventions[at].Play(context.WithoutCancel(s.ends), s.operator(s.random, hold)); err != nil {
		s.t.Errorf("%s: %v", kind, err)
	}
}

// late notes that from now until its result is called, what engines have sent to the ledger may be late.
func (w *world) late() (over func()) {
	began := time.Now()

	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.lateRequests = append(w.lateRequests, audit.Interval{From: began, To: time.Now()})
	}
}
