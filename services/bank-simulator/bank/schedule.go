package bank

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// schedule holds the responses that are not due yet. One goroutine and one timer serve all.
type schedule struct {
	now       func() time.Time
	mu        sync.Mutex
	responses byDue
	sooner    chan struct{} // a response came that is due before the timer ends
}

func newSchedule(now func() time.Time) *schedule {
	return &schedule{now: now, sooner: make(chan struct{}, 1)}
}

func (s *schedule) add(r *response) {
	s.mu.Lock()
	heap.Push(&s.responses, r)
	first := s.responses[0] == r
	s.mu.Unlock()
	if first {
		select {
		case s.sooner <- struct{}{}:
		default:
		}
	}
}

func (s *schedule) length() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.responses)
}

// release passes each response to send when it is due, until ctx ends.
func (s *schedule) release(ctx context.Context, send func(*response)) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var due []*response
	var rest time.Duration
	for {
		due, rest = s.takeDue(due[:0], s.now())
		for i, r := range due {
			send(r)
			due[i] = nil
		}
		timer.Reset(rest)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-s.sooner:
		}
	}
}

// takeDue returns the responses that are due and the time until the next one.
func (s *schedule) takeDue(due []*response, now time.Time) ([]*response, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.responses) > 0 {
		if rest := s.responses[0].due.Sub(now); rest > 0 {
			return due, rest
		}
		due = append(due, heap.Pop(&s.responses).(*response))
	}
	return due, time.Hour
}

type byDue []*response

func (b byDue) Len() int           { return len(b) }
func (b byDue) Less(i, j int) bool { return b[i].due.Before(b[j].due) }
func (b byDue) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }
func (b *byDue) Push(r any)        { *b = append(*b, r.(*response)) }
func (b *byDue) Pop() any {
	last := len(*b) - 1
	r := (*b)[last]
	(*b)[last] = nil
	*b = (*b)[:last]
	return r
}
