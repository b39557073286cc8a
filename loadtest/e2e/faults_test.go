package e2e

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/liquida/liquida/deploy/stack"
)

// duringFaults excuses AB03 and LQ10: an outage may last longer than the deadline, or leave too little of it.
var duringFaults = []string{"--mix", "demo", "--allow", "AB03,LQ10"}

// The engine is killed again and again in the middle of a load. Its successor finishes what it
// began, from the ledger and redelivery alone.
func TestEngineKilledTenTimes(t *testing.T) {
	s := start(t, 1)
	load := s.load(2000, 60_000, duringFaults...)
	for range 10 {
		time.Sleep(time.Second + rand.N(time.Second)) // at a random point of its work
		s.must(s.Kill(stack.EngineName(0)))
		s.must(s.StartProcess(stack.EngineName(0)))
		s.ready(stack.EngineName(0))
	}
	s.settledAtLeast(load.wait(), 0.6)
	s.audit()
}

// One of two engines is killed and stays down. The other takes over its partitions.
func TestEngineTakenOver(t *testing.T) {
	s := start(t, 2)
	load := s.load(1000, 15_000, duringFaults...)
	time.Sleep(5 * time.Second)
	s.must(s.Kill(stack.EngineName(0)))
	s.settledAtLeast(load.wait(), 0.6)
	s.audit()
}

// Engines restart in order, one after another, and one more joins. No payment may be affected:
// nothing is excused.
func TestEnginesRestartedInOrder(t *testing.T) {
	s := start(t, 2)
	load := s.load(500, 10_000, "--mix", "demo")
	for instance := range 2 {
		time.Sleep(3 * time.Second)
		s.must(s.Restart(t.Context(), stack.EngineName(instance)))
	}
	time.Sleep(2 * time.Second)
	if _, err := s.AddEngine(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.settledAtLeast(load.wait(), 0.9)
	s.audit()
}

// The ledger stops responding for some seconds, and later is killed.
func TestLedgerAway(t *testing.T) {
	s := start(t, 1)
	load := s.load(500, 12_000, duringFaults...)
	time.Sleep(3 * time.Second)
	s.must(s.Pause(stack.TigerBeetle))
	time.Sleep(5 * time.Second)
	s.must(s.Resume(stack.TigerBeetle))
	time.Sleep(5 * time.Second)
	s.must(s.Kill(stack.TigerBeetle))
	time.Sleep(2 * time.Second)
	s.must(s.StartProcess(stack.TigerBeetle))
	s.ready(stack.TigerBeetle, stack.EngineName(0))
	s.settledAtLeast(load.wait(), 0.4)
	s.audit()
}

// The ledger is away for longer than deadline and timeout. Payments are rejected, their holds
// end, and nothing is half done.
func TestLedgerAwayPastTheDeadline(t *testing.T) {
	s := start(t, 1)
	load := s.load(300, 7500, duringFaults...)
	time.Sleep(3 * time.Second)
	s.must(s.Pause(stack.TigerBeetle))
	time.Sleep(pendingTimeout + 2*time.Second)
	s.must(s.Resume(stack.TigerBeetle))
	result := load.wait()
	s.settledAtLeast(result, 0.2)
	excused := 0
	for _, outcome := range result.Outcomes {
		excused += outcome.Excused
	}
	if excused == 0 {
		t.Error("no payment ended by its deadline: the outage was not what this test is for")
	}
	s.audit()
}

// The broker is killed and restarted.
func TestBrokerKilled(t *testing.T) {
	s := start(t, 1)
	load := s.load(500, 10_000, duringFaults...)
	time.Sleep(4 * time.Second)
	s.must(s.Kill(stack.Broker))
	time.Sleep(3 * time.Second)
	s.must(s.StartProcess(stack.Broker))
	s.ready(stack.Broker, stack.EngineName(0))
	s.settledAtLeast(load.wait(), 0.4)
	s.audit()
}

// The banks are killed and restarted. They must give the same response to the same request.
func TestBanksKilled(t *testing.T) {
	s := start(t, 1)
	load := s.load(500, 7500, duringFaults...)
	for range 2 {
		time.Sleep(4 * time.Second)
		s.must(s.Kill(stack.Simulator))
		s.must(s.StartProcess(stack.Simulator))
		s.ready(stack.Simulator)
	}
	s.settledAtLeast(load.wait(), 0.6)
	s.audit()
}
