package load

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// ProgressLines returns a progress function for programs, and its interval: each Snapshot is a
// line of JSON.
func ProgressLines(to io.Writer) (func(Snapshot), time.Duration) {
	encoder := json.NewEncoder(to)
	return func(s Snapshot) { _ = encoder.Encode(s) }, 100 * time.Millisecond // whoever reads it may be gone
}

// ProgressOn returns a progress function for a file and its interval: on a terminal it
// rewrites one line, else it adds a line every few seconds.
func ProgressOn(file *os.File) (func(Snapshot), time.Duration) {
	var before Snapshot
	line := func(s Snapshot) string {
		perSecond := 0.0
		if since := s.Elapsed - before.Elapsed; since > 0 {
			perSecond = float64(s.Settled-before.Settled) / since.Seconds()
		}
		before = s
		text := fmt.Sprintf("%6.1fs  sent %d of %d  settled %d (%.0f/s)  rejected %d  dead letters %d  waiting %d",
			s.Elapsed.Seconds(), s.Sent, s.Payments, s.Settled, perSecond, s.Rejected, s.DeadLetters, s.Waiting)
		for _, trouble := range []struct {
			name  string
			count int
		}{{"WRONG", s.Failed}, {"dropped", s.Dropped}, {"late", s.Late}} {
			if trouble.count > 0 {
				text += fmt.Sprintf("  %s %d", trouble.name, trouble.count)
			}
		}
		return text
	}
	terminal := int(file.Fd())
	if !term.IsTerminal(terminal) {
		return func(s Snapshot) { fmt.Fprintln(file, line(s)) }, 3 * time.Second
	}
	return func(s Snapshot) {
		text := line(s)
		if width, _, err := term.GetSize(terminal); err == nil && width > 0 {
			text = text[:min(len(text), width-1)] // a line that wraps cannot be rewritten
		}
		fmt.Fprintf(file, "\r\x1b[K%s", text)
		if s.Final {
			fmt.Fprintln(file)
		}
	}, 250 * time.Millisecond
}
