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

const (
	// watchFor is how long what came of an act is counted.
	watchFor = 15 * time.Second
	// watchMax ends the wait for a settlement that does not come.
	watchMax = 5 * time.Minute
)

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
	s.all = append(s.all, told{Line{Number: s.number, At: at.UTC(), Text: fmt.Sprintf(format, arguments...), Settled: w == nil}, w})
	s.all = s.all[max(0, len(s.all)-storyMax):]
	return s.number
}

// observe adds what happened since the last look to the lines that are not final.
func (s *story) observe(now time.Time, gap func(*watch) *float64, redelivered int64, slowestSeconds float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.all {
		line := &s.all[i]
		if line.Settled {
			continue
		}
		if line.GapSeconds == nil {
			line.GapSeconds = gap(line.watch)
		}
		if line.Redelivered == nil {
			line.Redelivered, line.SlowestSeconds = new(int64), new(float64)
		}
		*line.Redelivered += redelivered
		*line.SlowestSeconds = max(*line.SlowestSeconds, slowestSeconds)
		age := now.Sub(line.At)
		line.Settled = age > watchFor && line.GapSeconds != nil || age > watchMax
	}
}

// lines returns a copy, oldest first.
func (s *story) lines() []Line {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := make([]Line, len(s.all))
	for i := range s.all {
		lines[i] = s.all[i].Line
		lines[i].GapSeconds, lines[i].Redelivered, lines[i].SlowestSeconds = copied(lines[i].GapSeconds), copied(lines[i].Redelivered), copied(lines[i].SlowestSeconds)
	}
	return lines
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
