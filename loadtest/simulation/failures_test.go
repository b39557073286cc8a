package simulation

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/platform/stream"
)

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

// An engine whose clock is minutes wrong, either way, is not ready, fetches nothing and decides
// nothing. With the right clock it goes on: payments that waited past their deadline are
// rejected, and later ones settle.
func TestClockWrong(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(1)
		engine := s.engine(0)

		load := s.send("demo", 10, 1000, duringFaults...)
		for _, offset := range []time.Duration{5 * time.Minute, -5 * time.Minute} {
			s.engineConfig.ClockOffset = offset
			engine.kill(restartTime, "")
			s.eventually("not ready because of its clock", func() bool {
				code, said := s.get(engine, "/readyz")
				return code == http.StatusServiceUnavailable &&
					strings.Contains(said, `"clock":"this machine's clock differs`)
			})

			if owned := s.metric(engine, "pix_partitions_owned"); owned != 0 {
				s.t.Errorf("the engine owns %v partitions, which others could clear", owned)
			}
			decided := -s.written(stream.Settlements, stream.DeadLetters, stream.AuthorizationRequests)
			time.Sleep(s.engineConfig.Deadline) // until the backlog is past its deadline

			if decided += s.written(stream.Settlements, stream.DeadLetters, stream.AuthorizationRequests); decided > 0 {
				s.t.Errorf("with a clock that is %v wrong it has decided about %d payments", offset, decided)
			}
		}
		s.engineConfig.ClockOffset = 0
		engine.kill(restartTime, "")
		s.ready(engine)

		if load.wait(0.2) == 0 {
			s.t.Error("no payment ended by its deadline: there was no backlog older than that")
		}
		s.verdict()
	})
}
