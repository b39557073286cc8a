package bank

import (
	"cmp"
	"context"
	"slices"
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
	steps  []step // ascending
	count  int
	sooner chan struct{} // a response came that is sent before the timer ends
}

type step struct {
	number    int64 // of all steps since 1970
	responses []*response
}

func (s step) compare(number int64) int { return cmp.Compare(s.number, number) }

func newSchedule(now func() time.Time) *schedule {
	return &schedule{now: now, sooner: make(chan struct{}, 1)}
}

func (s *schedule) add(r *response) {
	number := r.due.UnixNano()/int64(releaseStep) + 1
	s.mu.Lock()

	at, known := slices.BinarySearchFunc(s.steps, number, step.compare)
	if !known {
		s.steps = slices.Insert(s.steps, at, step{number: number})
	}
	s.steps[at].responses = append(s.steps[at].responses, r)
	s.count++
	s.mu.Unlock()

	if first := at == 0 && !known; first {
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
		first := s.steps[0]
		if rest := time.Unix(0, first.number*int64(releaseStep)).Sub(now); rest > 0 {
			return due, rest
		}
		due = append(due, first.responses...)
		s.count -= len(first.responses)
		s.steps = slices.Delete(s.steps, 0, 1)
	}

	return due, time.Hour
}
