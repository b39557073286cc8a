package room

import (
	"slices"
	"sync"
	"time"
)

// story says what was done, and what came back.
type story struct {
	mu     sync.Mutex
	number int
	all    []Line
}

// What a line tells of, if the plots mark it.
const (
	kindBroken = "broken"
	kindMended = "mended"
)

// tell adds a line.
func (s *story) tell(kind, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++
	s.all = append(s.all, Line{Number: s.number, Kind: kind, At: time.Now().UTC(), Text: text})
	s.all = s.all[max(0, len(s.all)-storyMax):]
}

// lines returns a copy, oldest first.
func (s *story) lines() []Line {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}
