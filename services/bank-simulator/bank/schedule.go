package bank

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// releaseStep is how much later than due a response may be sent. Those of one step share
// requests to Kafka: with a request for each, broker and bank would spend more on delayed
// responses than on all else.
const releaseStep = 20 * time.Millisecond

// schedule holds the responses that are not due yet, by the step in which they are sent. One
// goroutine and one timer serve all.
type schedule struct {
	now    func() time.Time
	mu     sync.Mutex
	bySend map[int64][]*response
	steps  steps // the keys of bySend
	count  int
	sooner chan struct{} // a response came that is sent before the timer ends
}

func newSchedule(now func() time.Time) *schedule {
	return &schedule{now: now, bySend: map[int64][]*response{}, sooner: make(chan struct{}, 1)}
}

func (s *schedule) add(r *response) {
	step := r.due.UnixNano()/int64(releaseStep) + 1
	s.mu.Lock()
	if s.bySend[step] == nil {
		heap.Push(&s.steps, step)
	}
	s.bySend[step] = append(s.bySend[step], r)
	s.count++
	first := s.steps[0] == step && len(s.bySend[step]) == 1
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
	return s.count
}

// release passes each response to send in its step, until ctx ends.
func (s *schedule) release(ctx context.Context, send func(*response)) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		due, rest := s.takeDue(s.now())
		for _, r := range due {
			send(r)
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

// takeDue returns the responses that are to be sent and the time until the next one.
func (s *schedule) takeDue(now time.Time) (due []*response, rest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.steps) > 0 {
		if rest := time.Unix(0, s.steps[0]*int64(releaseStep)).Sub(now); rest > 0 {
			return due, rest
		}
		step := heap.Pop(&s.steps).(int64)
		due = append(due, s.bySend[step]...)
		s.count -= len(s.bySend[step])
		delete(s.bySend, step)
	}
	return due, time.Hour
}

type steps []int64

func (s steps) Len() int           { return len(s) }
func (s steps) Less(i, j int) bool { return s[i] < s[j] }
func (s steps) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *steps) Push(step any)     { *s = append(*s, step.(int64)) }
func (s *steps) Pop() any {
	last := len(*s) - 1
	step := (*s)[last]
	*s = (*s)[:last]
	return step
}
