package load

import (
	"testing"
	"time"

	"github.com/liquida/liquida/loadtest/mix"
)

// A person who waits for the end of a load reads how many payments wait for a bank that never
// responds, and for how long still.
func TestProgressSaysWhatWaitsOnPurpose(t *testing.T) {
	const deadline = 40 * time.Second
	s := newScene(t, mix.Silent)
	begin := s.open.intended
	late := s.tracker.add(mix.Payment{Case: mix.Late, Name: "late"}, begin.Add(10*time.Second))
	ordinary := s.tracker.add(mix.Payment{Case: mix.Accepted, Name: "ordinary"}, begin.Add(20*time.Second))
	at := func(after time.Duration) Snapshot {
		snapshot := s.tracker.snapshot(begin.Add(after), deadline)
		snapshot.Elapsed, snapshot.Payments = after, 3
		return snapshot
	}
	line := func(now Snapshot, want string) {
		t.Helper()

		if text := now.Line(Snapshot{}); text != want {
			t.Errorf("the line is\n%s, but it must be\n%s", text, want)
		}
	}
	line(at(20*time.Second),
		"  20.0s  sent 3 of 3  settled 0 (0/s)  waiting 3 (2 on purpose)  rejected 0  dead letters 0")
	s.tracker.finish(ordinary)
	line(at(31500*time.Millisecond), "  31.5s  1 of 3 ended  2 wait on purpose, 19 s to their deadline")
	s.ack(0)
	s.report(0, "AB03")
	line(at(42*time.Second), "  42.0s  2 of 3 ended  1 wait on purpose, 8 s to their deadline")
	line(at(51*time.Second), "  51.0s  2 of 3 ended  1 wait on purpose, their deadline has passed")
	s.tracker.finish(late)
	line(at(52*time.Second), "  52.0s  sent 3 of 3  settled 0 (0/s)  waiting 0  rejected 1  dead letters 0")
}
