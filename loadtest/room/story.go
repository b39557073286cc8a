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

// tell adds a line and returns its number. What comes of it is the end of the watch; without one, nothing.
// Its time is the begin of the act.
func (s *story) tell(w *watch, format string, arguments ...any) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++

	at := time.Now()
	if w != nil {
		at = w.began
	}
	s.all = append(s.all, told{
		Line{Number: s.number, At: at.UTC(), Text: fmt.Sprintf(format, arguments...), Settled: w == nil}, w})
	s.all = s.all[max(0, len(s.all)-storyMax):]

	return s.number
}

// observe adds what happened since the last look to the lines that are not final.
func (s *story) observe(now time.Time, waits *waits, redelivered int64) {
	s.mu.Lock()
	defer s.mu.Unlock()

	for i := range s.all {
		line := &s.all[i]
		if line.Settled {
			continue
		}

		sum := redelivered
		if line.Redelivered != nil {
			sum += *line.Redelivered
		}
		line.Redelivered = &sum // a new one: a picture has the older

		standstill, slowest, over := waits.told(line.watch, now)
		if standstill > 0 {
			line.StandstillSeconds = secondsOf(standstill)
		}

		if slowest > 0 {
			line.SlowestSeconds = secondsOf(slowest)
		}
		line.Settled = over
	}
}

func secondsOf(d time.Duration) *float64 {
	s := d.Seconds()
	return &s
}

// lines returns a copy, oldest first.
func (s *story) lines() []Line {
	s.mu.Lock()
	defer s.mu.Unlock()

	lines := make([]Line, len(s.all))
	for i := range s.all {
		lines[i] = s.all[i].Line
	}

	return lines
}
