package e2e

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/liquida/liquida/deploy/stack"
)

// crashPoints are the steps of a payment at which the engine dies, in order. They are listed
// here again on purpose: a step that the engine no longer has must fail the test.
var crashPoints = []string{
	"after-fetch", "after-phase-1-sent", "after-phase-1-answered", "after-request-produced", "after-response-read",
	"after-phase-2-sent", "after-phase-2-answered", "after-report-produced", "after-report-acknowledged",
	"after-offset-marked", "after-commit",
}

// The engine kills itself at every step of a payment, at the first payment and in the middle of
// a load. Each time its successor continues from what it left. In the end every payment has its
// one outcome.
func TestEngineKilledAtEveryStep(t *testing.T) {
	// Each of the deaths costs two starts of the engine. With the deadline of the other tests the
	// speed of the machine would decide how many payments settle.
	s := start(t, 1, func(c *stack.Config) {
		c.Env[stack.Engine] = append(c.Env[stack.Engine], "ENGINE_DEADLINE=20s", "ENGINE_PENDING_TIMEOUT=28s")
		c.Env[stack.Simulator] = []string{"SIMULATOR_LATE_DELAY=24s"}
	})
	engine := stack.EngineName(0)
	load := s.load(500, 40_000, duringFaults...)
	for _, point := range crashPoints {
		for _, passage := range []int{1, 20 + rand.IntN(200)} {
			if point == "after-commit" {
				passage = min(passage, 5) // commits are rare
			}
			s.must(s.Kill(engine))
			died, err := s.StartToDie(engine, fmt.Sprintf("ENGINE_CRASH_AT=%s:%d", point, passage))
			s.must(err)
			select {
			case <-died:
			case <-time.After(time.Minute):
				t.Fatalf("the engine did not die at %s:%d", point, passage)
			}
			s.must(s.StartProcess(engine))
			s.ready(engine)
		}
	}
	s.settledAtLeast(load.wait(), 0.6)
	s.audit()
}
