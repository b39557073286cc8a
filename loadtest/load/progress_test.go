package load

import (
	"testing"
	"time"

	"github.com/liquida/liquida/loadtest/mix"
)

// A person who waits for the end of a load reads how many payments wait for a bank that never responds.
func TestProgressSaysWhatWaitsOnPurpose(t *testing.T) {
	s := newScene(t, mix.Silent)
	s.tracker.add(mix.Payment{Case: mix.Accepted, Name: "ordinary"}, time.Now())
	now := s.tracker.snapshot()
	now.Elapsed, now.Payments = 20*time.Second, 3
	const want = "  20.0s  sent 2 of 3  settled 0 (0/s)  waiting 2 (1 on purpose)  rejected 0  dead letters 0"

	if text := now.Line(Snapshot{}); text != want {
		t.Errorf("the line is\n%s, but it must be\n%s", text, want)
	}
}
