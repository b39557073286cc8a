package simulation

import (
	"fmt"
	"testing"
	"time"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// The engine kills itself at every step of a payment, at the first payment and in the middle of
// a load. Each time its successor continues from what it left. In the end every payment has its
// one outcome.
func TestEngineKilledAtEveryStep(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(1)
		load := s.send("demo", 20, 1000, duringFaults...)
		for _, point := range engineSteps {
			for _, passage := range []int{1, 2 + s.random.IntN(30)} {
				if point == "after-commit" {
					passage = min(passage, 5) // commits are rare
				}
				s.dieAt(s.engine(0), fmt.Sprintf("%s:%d", point, passage))
				s.ready(s.engine(0))
			}
		}
		load.wait(0.6)
		s.verdict()
	})
}

// engineSteps are the steps of a payment at which an engine dies, in order. They are listed here
// again on purpose: a step that the engine no longer has must fail the test.
var engineSteps = []string{
	"after-fetch", "after-phase-1-sent", "after-phase-1-answered", "after-request-produced", "after-response-read",
	"after-phase-2-sent", "after-phase-2-answered", "after-report-produced", "after-report-acknowledged",
	"after-offset-marked", "after-commit",
}

// Engines restart in order, one after another, and one more joins. No payment may be affected:
// nothing is excused.
func TestEnginesRestartedInOrder(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(2)
		load := s.send("demo", 20, 1000)
		for number := range 2 {
			s.pass(2*time.Second, 6*time.Second)
			s.stop(s.engine(number), restartTime)
			s.ready(s.engine(number))
		}
		s.pass(time.Second, 3*time.Second)
		s.startEngine(2)
		s.ready(s.engine(2))
		load.wait(0.88)
		s.verdict()
	})
}

// Engines join and leave, in order and by force. A dead one stays down for longer than its
// session, so the others take over.
func TestEnginesComeAndGo(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(2)
		load := s.send("demo", 20, 1000, duringFaults...)
		s.pass(time.Second, 5*time.Second)
		s.startEngine(2)
		s.ready(s.engine(2))
		s.pass(time.Second, 3*time.Second)
		s.stop(s.anyEngine(), 8*time.Second)
		s.pass(9*time.Second, 12*time.Second)
		killed := s.anyEngine()
		killed.kill(8*time.Second, "")
		s.note("%s is killed for 8s", killed.name)
		s.pass(2*time.Second, 6*time.Second)
		s.startEngine(3)
		s.pass(3*time.Second, 8*time.Second)
		for number := range 4 {
			s.ready(s.engine(number))
			s.stop(s.engine(number), restartTime)
		}
		load.wait(0.6)
		s.verdict()
	})
}

// An engine is cut from everything for longer than its session, so that the other takes over.
// Then it continues as a zombie, with partitions and decisions that are no longer its own.
func TestEngineCutFromEverything(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(2)
		load := s.send("demo", 20, 1000, duringFaults...)
		for range 3 {
			s.pass(2*time.Second, 8*time.Second)
			zombie := s.anyEngine()
			if s.metric(zombie, "pix_partitions_owned") == 0 {
				s.t.Errorf("%s owns nothing when it is cut", zombie.name)
			}
			s.fault(engineFaults, "cut from all", zombie, between(s.random, 4*time.Second, 9*time.Second))
			s.ready(zombie)
		}
		load.wait(0.6)
		s.verdict()
	})
}

// The network between an engine and Kafka is cut, held in one and in both directions, and
// slowed.
func TestNetworkToKafka(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.breakNetwork(serviceFaults, "cut from Kafka", "Kafka stalls", "Kafka's responses stall", "slow Kafka", "cut from Kafka")
	})
}

// The network between an engine and the ledger breaks in the same ways.
func TestNetworkToLedger(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.breakNetwork(engineFaults, "requests to the ledger stall", "replies of the ledger stall", "slow ledger", "requests to the ledger stall")
	})
}

func (s *scenario) breakNetwork(among []fault, kinds ...string) {
	s.start(2)
	load := s.send("demo", 20, 1000, duringFaults...)
	for _, kind := range kinds {
		s.pass(time.Second, 3*time.Second)
		s.fault(among, kind, s.anyEngine(), between(s.random, 2*time.Second, 6*time.Second))
		s.ready(s.engine(0), s.engine(1))
	}
	load.wait(0.6)
	s.verdict()
}

// The ledger stops responding for some seconds, three times.
func TestLedgerAway(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(1)
		load := s.send("demo", 20, 1000, duringFaults...)
		for _, kind := range []string{"ledger is absent", "ledger's replies stall", "ledger is absent"} {
			s.pass(2*time.Second, 5*time.Second)
			s.fault(ledgerFaults, kind, nil, between(s.random, 5*time.Second, 10*time.Second))
			s.ready(s.engine(0))
		}
		load.wait(0.4)
		s.verdict()
	})
}

// The ledger is away for longer than deadline and timeout. Payments are rejected, their holds
// end, and nothing is half done.
func TestLedgerAwayPastTheDeadline(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(1)
		load := s.send("demo", 10, 1000, duringFaults...)
		s.pass(2*time.Second, 5*time.Second)
		s.fault(ledgerFaults, "ledger is absent", nil, s.engineConfig.PendingTimeout+2*time.Second)
		if excused(load.wait(0.1)) == 0 {
			s.t.Error("no payment ended by its deadline: the outage was not what this test is for")
		}
		s.verdict()
	})
}

// The banks are killed and restarted. They must give the same response to the same request.
func TestBanksKilled(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(1)
		load := s.send("demo", 20, 1000, duringFaults...)
		for range 3 {
			s.pass(2*time.Second, 6*time.Second)
			s.banks().kill(restartTime, "")
			s.ready(s.banks())
		}
		for _, step := range s.banks().steps {
			s.dieAt(s.banks(), fmt.Sprintf("%s:%d", step, 1+s.random.IntN(5)))
			s.ready(s.banks())
		}
		load.wait(0.6)
		s.verdict()
	})
}

// The engine is killed in the middle of a load and restarts with other settings, again and
// again: another deadline, another timeout of holds, and meanwhile a bank is suspended. What was
// decided or begun before must not change: the load compares repeated reports byte by
// byte, and the audit compares every report with the ledger.
func TestSettingsChangedAcrossRestarts(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(1)
		shipped := *s.engineConfig
		load := s.send("demo", 20, 1000, pix.ReasonPayeePSPSilent, pix.ReasonInactivePSP)
		var suspended pix.ISPB
		for _, change := range []struct {
			deadline, pending time.Duration
			suspended         pix.ISPB // "": none
		}{
			{40 * time.Second, 80 * time.Second, ""},
			{40 * time.Second, 60 * time.Second, "10000003"},
			{5 * time.Second, 10 * time.Second, ""},
			{40 * time.Second, 70 * time.Second, "10000001"},
			{shipped.Deadline, shipped.PendingTimeout, ""},
		} {
			s.pass(3*time.Second, 7*time.Second)
			s.deadlineMin, s.holdMax = 5*time.Second, 80*time.Second // for the audit
			before := s.engine(0).now()
			s.note("another life with %+v", change)
			if suspended != "" {
				s.suspend(suspended, ledger.Resumed)
			}
			if suspended = change.suspended; suspended != "" {
				s.suspend(suspended, ledger.Suspended)
			}
			s.engineConfig.Deadline, s.engineConfig.PendingTimeout = change.deadline, change.pending
			s.engine(0).kill(restartTime, "")
			s.eventually("another life", func() bool { return s.engine(0).now() != before })
			s.ready(s.engine(0))
		}
		load.wait(0.4)
		if s.verdict().Rejected["DS27"] == 0 {
			s.t.Error("no payment was rejected with DS27: the suspensions had no effect")
		}
	})
}
