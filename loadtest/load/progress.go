package load

import (
	"fmt"
	"math"
	"os"
	"time"

	"golang.org/x/term"
)

// Line is the progress for people, what matters most first: a narrow terminal cuts the end. before is
// the snapshot of the line before.
func (s Snapshot) Line(before Snapshot) string {
	perSecond := 0.0
	if since := s.Elapsed - before.Elapsed; since > 0 {
		perSecond = float64(s.Settled-before.Settled) / since.Seconds()
	}

	text, end := fmt.Sprintf("%6.1fs  ", s.Elapsed.Seconds()),
		fmt.Sprintf("  rejected %d  dead letters %d", s.Rejected, s.DeadLetters)
	if s.Sent == s.Payments && s.OnPurpose > 0 && s.OnPurpose == s.Waiting { // they wait, and nothing else
		text += fmt.Sprintf("%d of %d ended", s.Sent-s.Waiting, s.Sent)

		end = fmt.Sprintf("  %d wait on purpose", s.OnPurpose)
		if s.ToDeadline > 0 {
			end += fmt.Sprintf(", %.0f s to their deadline", math.Ceil(s.ToDeadline.Seconds()))
		} else if s.ToDeadline < 0 {
			end += ", their deadline has passed"
		}
	} else {
		text += fmt.Sprintf("sent %d of %d  settled %d (%.0f/s)  waiting %d", s.Sent, s.Payments, s.Settled,
			perSecond, s.Waiting)
		if s.OnPurpose > 0 {
			text += fmt.Sprintf(" (%d on purpose)", s.OnPurpose)
		}
	}

	for _, trouble := range []struct {
		name  string
		count int
	}{{"WRONG", s.Failed}, {"dropped", s.Dropped}, {"late", s.Late}} {
		if trouble.count > 0 {
			text += fmt.Sprintf("  %s %d", trouble.name, trouble.count)
		}
	}

	return text + end
}

// ProgressOn returns a progress function for a file and its interval: on a terminal it
// rewrites one line, else it adds a line every few seconds.
func ProgressOn(file *os.File) (func(Snapshot), time.Duration) {
	var before Snapshot

	terminal := int(file.Fd())
	if !term.IsTerminal(terminal) {
		return func(s Snapshot) {
			fmt.Fprintln(file, s.Line(before))
			before = s
		}, 3 * time.Second
	}

	return func(s Snapshot) {
		text := s.Line(before)
		before = s

		if width, _, err := term.GetSize(terminal); err == nil && width > 0 {
			text = text[:min(len(text), width-1)] // a line that wraps cannot be rewritten
		}
		fmt.Fprintf(file, "\r\x1b[K%s", text)

		if s.Final {
			fmt.Fprintln(file)
		}
	}, 250 * time.Millisecond
}
