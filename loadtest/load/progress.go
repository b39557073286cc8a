package load

import (
	"fmt"
	"io"
	"time"
)

// ProgressOn returns a progress function for w, and how often it should be called: one
// line that is rewritten on a terminal, else a line every few seconds.
func ProgressOn(w io.Writer, terminal bool) (func(Snapshot), time.Duration) {
	before := Snapshot{}
	line := func(s Snapshot) string {
		perSecond := 0.0
		if since := s.Elapsed - before.Elapsed; since > 0 {
			perSecond = float64(s.Settled-before.Settled) / since.Seconds()
		}
		before = s
		text := fmt.Sprintf("%6.1fs  sent %d of %d  settled %d (%.0f/s)  rejected %d  dead letters %d  waiting %d",
			s.Elapsed.Seconds(), s.Sent, s.Payments, s.Settled, perSecond, s.Rejected, s.DeadLetters, s.Waiting)
		if s.Failed+s.Dropped+s.Late > 0 {
			text += fmt.Sprintf("  WRONG %d  dropped %d  late %d", s.Failed, s.Dropped, s.Late)
		}
		return text
	}
	if terminal {
		return func(s Snapshot) {
			fmt.Fprintf(w, "\r\x1b[K%s", line(s))
			if s.Sent+s.Dropped == s.Payments && s.Waiting == 0 {
				fmt.Fprintln(w)
			}
		}, 250 * time.Millisecond
	}
	return func(s Snapshot) { fmt.Fprintln(w, line(s)) }, 3 * time.Second
}
