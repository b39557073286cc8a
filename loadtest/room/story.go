package room

import (
	"fmt"
	"sync"
	"time"
)

// story says what was done, and what came of it.
type story struct {
	mu     sync.Mutex
	number int
	all    []told
}

// told is a line, and the wait for what comes of it.
type told struct {
	Line
	watch *watch
}

// What a line tells of, if the plots mark it.
const (
	kindBroken = "broken"
	kindMended = "mended"
)

// tell adds a line. What comes of it is the end of the watch; without one, nothing. Its time is the begin of the act.
func (s *story) tell(kind string, w *watch, format string, arguments ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++

	at := time.Now()
	if w != nil {
		at = w.began
	}
	s.all = append(s.all, told{Line{Number: s.number, Kind: kind, At: at.UTC(),
		Text: fmt.Sprintf(format, arguments...), Settled: w == nil}, w})
	s.all = s.all[max(0, len(s.all)-storyMax):]
}

// lines returns a copy as it is now, oldest first.
func (s *story) lines(now time.Time, waits *waits) []Line {
	s.mu.Lock()
	defer s.mu.Unlock()

	lines := make([]Line, len(s.all))
	for i := range s.all {
		line := &s.all[i]
		if !line.Settled {
			var standstill time.Duration
			if standstill, line.Settled = waits.told(line.watch, now); standstill > 0 {
				seconds := standstill.Seconds()
				line.StandstillSeconds = &seconds
			}
		}
		lines[i] = line.Line
	}

	return lines
}
