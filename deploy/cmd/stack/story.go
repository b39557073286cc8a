package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// snapshot is a line of `loadtest run --progress json`.
type snapshot struct {
	Elapsed    time.Duration `json:"elapsed_ns"`
	Payments   int           `json:"payments"`
	Sent       int           `json:"sent"`
	Settled    int           `json:"settled"`
	Waiting    int           `json:"waiting"`
	OnPurpose  int           `json:"on_purpose"`
	ToDeadline time.Duration `json:"to_deadline_ns"`
	Wrong      int           `json:"wrong"`
	Final      bool          `json:"final"`
}

// behind is how many payments wait for the clearing house, and not for a bank that is silent.
func (s snapshot) behind() int { return s.Waiting - s.OnPurpose }

// story follows a load through the death of an engine, and shows what happens. Its figures come
// from the load's own progress: what was sent, and what ended.
type story struct {
	screen *screen
	half   chan struct{} // closed when half of the payments are sent

	mu        sync.Mutex
	rest      []byte // a line whose end is not read
	last      snapshot
	settledAt time.Time // when Settled last grew
	rate      float64   // settled per second, in about the last second
	rateFrom  snapshot
	calm      [20]int // how many were behind, in the last snapshots before the kill
	snapshots int
	halfway   bool

	killedAt, startedAt, settlesAt, caughtUpAt time.Time     // zero: not yet
	gap                                        time.Duration // the longest without a settlement, since the kill
	most                                       int           // that were behind, since the kill
}

func newStory(screen *screen) *story { return &story{screen: screen, half: make(chan struct{})} }

// Write takes the standard error of the load: its progress, and what else it says.
func (s *story) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = append(s.rest, text...)
	for {
		line, rest, whole := bytes.Cut(s.rest, []byte("\n"))
		if !whole {
			return len(text), nil
		}
		var now snapshot
		if json.Unmarshal(line, &now) == nil {
			s.take(now, time.Now())
		} else {
			s.screen.line("", "%s", line)
		}
		s.rest = slices.Clone(rest)
	}
}

// take takes the next snapshot. The caller holds the lock.
func (s *story) take(now snapshot, at time.Time) {
	if s.settledAt.IsZero() {
		s.settledAt = at
	}
	grew := now.Settled > s.last.Settled
	s.last = now
	if since := now.Elapsed - s.rateFrom.Elapsed; since >= time.Second {
		s.rate = float64(now.Settled-s.rateFrom.Settled) / since.Seconds()
		s.rateFrom = now
	}
	if s.killedAt.IsZero() {
		s.calm[s.snapshots%len(s.calm)] = now.behind()
		s.snapshots++
	} else {
		s.most = max(s.most, now.behind())
	}
	if grew {
		if !s.killedAt.IsZero() && s.caughtUpAt.IsZero() {
			s.gap = max(s.gap, at.Sub(s.settledAt))
		}
		s.settledAt = at
	}
	if grew && !s.startedAt.IsZero() && s.settlesAt.IsZero() {
		s.settlesAt = at
		s.mark(green, "payments settle again. Nothing settled for %.1f s; %s payments waited.", s.gap.Seconds(), thousands(s.most))
	}
	if !s.settlesAt.IsZero() && s.caughtUpAt.IsZero() && now.behind() <= slices.Max(s.calm[:]) {
		s.caughtUpAt = at
		s.mark(green, "caught up, %.1f s after the kill", at.Sub(s.killedAt).Seconds())
	}
	s.screen.progress(float64(now.Sent-now.Waiting)/float64(max(1, now.Payments)), now.Final, s.figures())
	if !s.halfway && 2*now.Sent >= now.Payments && !now.Final {
		s.halfway = true
		close(s.half)
	}
}

// figures is what stands beside the bar.
func (s *story) figures() string {
	n := s.last
	text := fmt.Sprintf("%5.1f s  sent %s of %s  ", n.Elapsed.Seconds(), thousands(n.Sent), thousands(n.Payments))
	if n.OnPurpose > 0 && n.behind() == 0 {
		text += thousands(n.OnPurpose) + " wait on purpose" // for a bank that is silent
		if n.ToDeadline > 0 {
			text += fmt.Sprintf(", %.0f s to their deadline", math.Ceil(n.ToDeadline.Seconds()))
		}
	} else {
		text += fmt.Sprintf("settled %.0f/s  under way %s", s.rate, thousands(n.Waiting))
	}
	if n.Wrong > 0 {
		text += fmt.Sprintf("  WRONG %d", n.Wrong)
	}
	return text
}

// mark shows what happens now. The caller holds the lock.
func (s *story) mark(c colour, format string, arguments ...any) {
	s.screen.line(c, "%7.1f s  %s", s.last.Elapsed.Seconds(), fmt.Sprintf(format, arguments...))
}

// killed notes that an engine was killed.
func (s *story) killed(name string, pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killedAt = time.Now()
	s.mark(red, "kill -9 %d: %s is dead, in the middle of its work", pid, name)
}

// started notes that the engine was started again.
func (s *story) started(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.startedAt = time.Now()
	s.mark(yellow, "%s is started again. It finds in the ledger how far each payment came.", name)
}

// summary says in one line what the kill did.
func (s *story) summary() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.killedAt.IsZero():
		return "no engine was killed: the load was too short"
	case s.caughtUpAt.IsZero():
		return "an engine was killed; the load ended before it caught up"
	}
	return fmt.Sprintf("nothing settled for %.1f s; caught up %.1f s after the kill", s.gap.Seconds(), s.caughtUpAt.Sub(s.killedAt).Seconds())
}

// latest returns the last snapshot.
func (s *story) latest() snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}
