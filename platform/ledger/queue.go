package ledger

import (
	"slices"
	"sync"
)

// queue collects events into batches while earlier batches are being answered. It never
// blocks who puts: every job belongs to a payment in flight, and those are limited.
//
// What waits leaves in one batch if it fits. If not, each kind of job has batches of its
// own, and the batch leaves first that was begun first.
type queue[T, E any] struct {
	eventsMax int

	mu      sync.Mutex
	wake    *sync.Cond
	batches []*batch[T, E] // in the order in which they were begun
	spare   []*batch[T, E]
	events  int
	jobs    int
	closed  bool
}

// kind keeps jobs apart that had better not share a request.
type kind uint8

// batch is what one request carries: the events of many jobs, none of them cut.
type batch[T, E any] struct {
	kind   kind
	events []E
	tags   []T
	ends   []int // ends[i] is where the events of tags[i] end
}

func newQueue[T, E any](eventsMax int) *queue[T, E] {
	q := &queue[T, E]{eventsMax: eventsMax}
	q.wake = sync.NewCond(&q.mu)
	return q
}

func (q *queue[T, E]) put(kind kind, tag T, events []E) {
	q.mu.Lock()
	defer q.mu.Unlock()
	last := q.lastOf(kind)
	if last == nil || len(last.events)+len(events) > q.eventsMax {
		last = q.begin(kind)
	}
	last.events = append(last.events, events...)
	last.tags = append(last.tags, tag)
	last.ends = append(last.ends, len(last.events))
	q.events += len(events)
	q.jobs++
	q.wake.Signal()
}

// lastOf returns the batch of a kind that is being filled, if there is one.
func (q *queue[T, E]) lastOf(kind kind) *batch[T, E] {
	for _, b := range slices.Backward(q.batches) {
		if b.kind == kind {
			return b
		}
	}
	return nil
}

func (q *queue[T, E]) begin(kind kind) *batch[T, E] {
	var b *batch[T, E]
	if n := len(q.spare); n > 0 {
		b, q.spare = q.spare[n-1], q.spare[:n-1]
	} else {
		b = &batch[T, E]{events: make([]E, 0, q.eventsMax)}
	}
	b.kind = kind
	q.batches = append(q.batches, b)
	return b
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

// take returns the next batch, or nil when another sender was faster.
func (q *queue[T, E]) take() *batch[T, E] {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.batches) == 0 {
		return nil
	}
	first := q.batches[0]
	taken := 1
	if q.events <= q.eventsMax {
		for _, b := range q.batches[1:] {
			first.join(b)
			q.keep(b)
		}
		taken = len(q.batches)
	}
	q.batches = slices.Delete(q.batches, 0, taken)
	q.events -= len(first.events)
	q.jobs -= len(first.tags)
	return first
}

// join appends the jobs of another batch.
func (b *batch[T, E]) join(other *batch[T, E]) {
	for _, end := range other.ends {
		b.ends = append(b.ends, len(b.events)+end)
	}
	b.events = append(b.events, other.events...)
	b.tags = append(b.tags, other.tags...)
}

// giveBack keeps an answered batch for reuse.
func (q *queue[T, E]) giveBack(b *batch[T, E]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.keep(b)
}

func (q *queue[T, E]) keep(b *batch[T, E]) {
	clear(b.tags)
	b.events, b.tags, b.ends = b.events[:0], b.tags[:0], b.ends[:0]
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

func (q *queue[T, E]) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

func (q *queue[T, E]) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wake.Broadcast()
}
