package e2e

import (
	"testing"
	"time"

	"github.com/liquida/liquida/deploy/stack"
)

// The engine is killed in the middle of a load and restarts with other settings, again and
// again: another deadline, another timeout of holds, an inactive participant. What was decided
// or begun with the old settings must not change: the load compares repeated reports byte by
// byte, and the audit compares every report with the ledger.
func TestSettingsChangedAcrossRestarts(t *testing.T) {
	s := start(t, 1)
	engine := stack.EngineName(0)
	load := s.load(500, 20_000, "--mix", "demo", "--allow", "AB03,DS27")
	for _, settings := range [][]string{
		{"ENGINE_PENDING_TIMEOUT=30s"},
		{"ENGINE_INACTIVE_PARTICIPANTS=10000003"},
		{"ENGINE_DEADLINE=5s", "ENGINE_PENDING_TIMEOUT=10s"},
		{"ENGINE_INACTIVE_PARTICIPANTS=10000001,10000002", "ENGINE_PENDING_TIMEOUT=60s"},
		{},
	} {
		time.Sleep(4 * time.Second)
		s.must(s.Kill(engine))
		_, err := s.StartToDie(engine, settings...) // it has no crash point: this only sets its environment
		s.must(err)
		s.ready(engine)
	}
	s.settledAtLeast(load.wait(), 0.4)
	verdict := s.audit()
	if verdict.Summary.Rejected["DS27"] == 0 {
		t.Error("no payment was rejected with DS27: the settings had no effect")
	}
}
