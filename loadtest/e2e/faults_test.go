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
	load := s.load(500, 10_000, duringFaults...)
	for range 10 {
		load.progress(50)
		time.Sleep(rand.N(500 * time.Millisecond)) // at a random point of its work
		s.must(s.Kill(stack.EngineName(0)))
		s.bring(stack.EngineName(0))
	}
	load.proven()
}

// One of two engines is killed and stays down. The other takes over its partitions.
func TestEngineTakenOver(t *testing.T) {
	s := start(t, 2)
	load := s.load(500, 4000, duringFaults...)
	load.progress(500)
	s.must(s.Kill(stack.EngineName(0)))
	load.proven()
	s.bring(stack.EngineName(0))
}

// The ledger is killed and replays its log.
func TestLedgerKilled(t *testing.T) {
	s := start(t, 1)
	load := s.load(300, 3600, duringFaults...)
	load.progress(300)
	s.must(s.Kill(stack.TigerBeetle))
	s.bring(stack.TigerBeetle, stack.EngineName(0))
	load.proven()
}

// The broker is killed and restarted.
func TestBrokerKilled(t *testing.T) {
	s := start(t, 1)
	load := s.load(400, 4800, duringFaults...)
	load.progress(400)
	s.must(s.Kill(stack.Broker))
	time.Sleep(2 * time.Second) // everybody finds it away
	s.bring(stack.Broker, stack.EngineName(0))
	load.proven()
}
