package load

import (
	"fmt"
	"io"
	"time"
)

// Line is the progress for people, what matters most first. before is the snapshot of the line before.
func (s Snapshot) Line(before Snapshot) string {
	perSecond := 0.0
	if since := s.Elapsed - before.Elapsed; since > 0 {
		perSecond = float64(s.Settled-before.Settled) / since.Seconds()
	}

	text := fmt.Sprintf("%6.1fs  sent %d of %d  settled %d (%.0f/s)  waiting %d", s.Elapsed.Seconds(), s.Sent,
		s.Payments, s.Settled, perSecond, s.Waiting)
	if s.OnPurpose > 0 {
		text += fmt.Sprintf(" (%d on purpose)", s.OnPurpose)
	}

	for _, trouble := range []struct {
		name  string
		count int
	}{{"WRONG", s.Failed}, {"dropped", s.Dropped}, {"late", s.Late}} {
		if trouble.count > 0 {
			text += fmt.Sprintf("  %s %d", trouble.name, trouble.count)
		}
	}

	return text + fmt.Sprintf("  rejected %d  dead letters %d", s.Rejected, s.DeadLetters)
}

// ProgressOn returns a progress function that adds a line to a file, and its interval.
func ProgressOn(file io.Writer) (func(Snapshot), time.Duration) {
	var before Snapshot

	return func(s Snapshot) {
		fmt.Fprintln(file, s.Line(before))
		before = s
	}, 3 * time.Second
}
