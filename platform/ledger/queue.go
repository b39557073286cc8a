package ledger

import "sync"

// queue collects events into batches while earlier batches are being answered. It never
// blocks who puts: every job belongs to a payment in flight, and those are limited.
type queue[T, E any] struct {
	eventsMax int

	mu      sync.Mutex
	wake    *sync.Cond
	batches []*batch[T, E] // the first leaves next, the last is being filled
	spare   []*batch[T, E]
	jobs    int
	closed  bool
}

// batch is what one request carries: the events of many jobs, none of them cut.
type batch[T, E any] struct {
	events []E
	tags   []T
	ends   []int // ends[i] is where the events of tags[i] end
}

func newQueue[T, E any](eventsMax int) *queue[T, E] {
	q := &queue[T, E]{eventsMax: eventsMax}
	q.wake = sync.NewCond(&q.mu)
	return q
}

func (q *queue[T, E]) put(tag T, events []E) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var last *batch[T, E]
	if n := len(q.batches); n > 0 {
		last = q.batches[n-1]
	}
	if last == nil || len(last.events)+len(events) > q.eventsMax {
		if n := len(q.spare); n > 0 {
			last, q.spare = q.spare[n-1], q.spare[:n-1]
		} else {
			last = &batch[T, E]{events: make([]E, 0, q.eventsMax)}
		}
		q.batches = append(q.batches, last)
	}
	last.events = append(last.events, events...)
	last.tags = append(last.tags, tag)
	last.ends = append(last.ends, len(last.events))
	q.jobs++
	q.wake.Signal()
}

// wait blocks until there is something to take; false means closed.
func (q *queue[T, E]) wait() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.batches) == 0 && !q.closed {
		q.wake.Wait()
	}
	return !q.closed
}

// take returns the oldest batch, or nil when another sender was faster.
func (q *queue[T, E]) take() *batch[T, E] {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.batches) == 0 {
		return nil
	}
	first := q.batches[0]
	copy(q.batches, q.batches[1:])
	q.batches[len(q.batches)-1] = nil
	q.batches = q.batches[:len(q.batches)-1]
	q.jobs -= len(first.tags)
	return first
}

// giveBack keeps an answered batch for reuse.
func (q *queue[T, E]) giveBack(b *batch[T, E]) {
	clear(b.tags)
	b.events, b.tags, b.ends = b.events[:0], b.tags[:0], b.ends[:0]
	q.mu.Lock()
	defer q.mu.Unlock()
	const spareMax = 4
	if len(q.spare) < spareMax {
		q.spare = append(q.spare, b)
	}
}

func (q *queue[T, E]) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.jobs
}

func (q *queue[T, E]) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wake.Broadcast()
}
