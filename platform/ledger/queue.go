package ledger

import (
	"slices"
	"sync"
	"time"
)

// queue gathers jobs (chains, look-ups) into requests while earlier requests are under
// way. put never blocks: every job belongs to a payment in flight, and those are limited.
//
// All that waits leaves in one request if it fits. If not, each kind of job has requests of
// its own, and the request that was begun first leaves first.
type queue[T, E any] struct {
	eventsMax int

	mu       sync.Mutex
	wake     *sync.Cond
	requests []*request[T, E] // in the order in which they were begun
	spare    []*request[T, E]
	events   int
	jobs     int
	closed   bool
}

// kind separates jobs that are slow together in one request.
type kind uint8

// request is the events of many jobs. No job is divided between two requests.
type request[T, E any] struct {
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

// lastOf returns the request that is being filled with a kind, or nil.
func (q *queue[T, E]) lastOf(kind kind) *request[T, E] {
	for _, r := range slices.Backward(q.requests) {
		if r.kind == kind {
			return r
		}
	}
	return nil
}

func (q *queue[T, E]) begin(kind kind) *request[T, E] {
	var r *request[T, E]
	if n := len(q.spare); n > 0 {
		r, q.spare = q.spare[n-1], q.spare[:n-1]
	} else {
		r = &request[T, E]{events: make([]E, 0, q.eventsMax)}
	}
	r.kind = kind
	q.requests = append(q.requests, r)
	return r
}

// wait blocks until there is something to take. It returns false once the queue is closed.
func (q *queue[T, E]) wait() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.requests) == 0 && !q.closed {
		q.wake.Wait()
	}
	return !q.closed
}

// take returns the next request, or nil if another sender was faster.
func (q *queue[T, E]) take() *request[T, E] {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.requests) == 0 {
		return nil
	}
	first := q.requests[0]
	taken := 1
	if q.events <= q.eventsMax {
		for _, r := range q.requests[1:] {
			first.join(r)
			q.keep(r)
		}
		taken = len(q.requests)
	}
	q.requests = slices.Delete(q.requests, 0, taken)
	q.events -= len(first.events)
	q.jobs -= len(first.tags)
	return first
}

// join appends the jobs of another request.
func (r *request[T, E]) join(other *request[T, E]) {
	for _, end := range other.ends {
		r.ends = append(r.ends, len(r.events)+end)
	}
	r.events = append(r.events, other.events...)
	r.tags = append(r.tags, other.tags...)
}

// send makes requests until the queue is closed, with at least pause from one to the next. An error of
// ask ends it, and goes to fail unless the queue is closed: then the client may be closed, too.
func (q *queue[T, E]) send(pause time.Duration, ask func(*request[T, E]) error, fail func(error)) {
	for q.wait() {
		request := q.take()
		if request == nil {
			continue
		}
		started := time.Now()
		if err := ask(request); err != nil {
			if !q.isClosed() {
				fail(err)
			}
			return
		}
		q.giveBack(request)
		time.Sleep(pause - time.Since(started)) // for the ledger's disk a look-up is a request like a write
	}
}

// giveBack keeps a request whose results were delivered, for reuse.
func (q *queue[T, E]) giveBack(r *request[T, E]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.keep(r)
}

func (q *queue[T, E]) keep(r *request[T, E]) {
	clear(r.tags)
	r.events, r.tags, r.ends = r.events[:0], r.tags[:0], r.ends[:0]
	const spareMax = 4
	if len(q.spare) < spareMax {
		q.spare = append(q.spare, r)
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
