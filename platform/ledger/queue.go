package ledger

import (
	"slices"
	"sync"
	"time"
)

// queue gathers jobs (chains, look-ups) into requests while earlier requests are under
// way. put never blocks: every job belongs to a payment in flight, and those are limited.
// Jobs leave in their order, as many in a request as fit.
type queue[T, E any] struct {
	eventsMax int

	mu       sync.Mutex
	wake     *sync.Cond
	requests []*request[T, E] // all but the last are full
	spare    []*request[T, E]
	jobs     int
	underWay int           // requests that were taken and are not done
	took     time.Duration // of the request that was done last, its wait in the client included
	closed   bool
}

// request is the events of many jobs. No job is divided between two requests.
type request[T, E any] struct {
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

	if n := len(q.requests); n == 0 || len(q.requests[n-1].events)+len(events) > q.eventsMax {
		q.begin()
	}
	last := q.requests[len(q.requests)-1]
	last.events = append(last.events, events...)
	last.tags = append(last.tags, tag)
	last.ends = append(last.ends, len(last.events))

	q.jobs++
	if q.isDue() {
		q.wake.Signal()
	}
}

// begin appends an empty request.
func (q *queue[T, E]) begin() {
	var r *request[T, E]
	if n := len(q.spare); n > 0 {
		r, q.spare = q.spare[n-1], q.spare[:n-1]
	} else {
		r = &request[T, E]{events: make([]E, 0, q.eventsMax)}
	}
	q.requests = append(q.requests, r)
}

// next blocks until a request is due, and returns it. It returns nil once the queue is closed. For each
// request call done.
func (q *queue[T, E]) next() *request[T, E] {
	q.mu.Lock()
	defer q.mu.Unlock()

	for !q.isDue() && !q.closed {
		q.wake.Wait()
	}

	if q.closed {
		return nil
	}
	first := q.requests[0]
	q.requests = slices.Delete(q.requests, 0, 1)
	q.jobs -= len(first.tags)
	q.underWay++

	return first
}

// What else this process asks, such as the register, waits in the ledger's client behind its requests under way. Where
// those take longer than tookMax, no more than besideSlow are.
const (
	tookMax    = 500 * time.Millisecond
	besideSlow = 2
)

// isDue reports whether a request should be sent. While one is under way only a full one is: small ones
// cost the ledger more. The caller holds the lock.
func (q *queue[T, E]) isDue() bool {
	if q.underWay >= besideSlow && q.took > tookMax {
		return false
	}

	return len(q.requests) > 1 || len(q.requests) == 1 && q.underWay == 0
}

// done notes that a request is no longer under way, and how long it took.
func (q *queue[T, E]) done(took time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.took = took

	if q.underWay--; q.isDue() {
		q.wake.Signal()
	}
}

// send makes requests until the queue is closed. After one that is not full there is at least pause until the next
// one that is not full. An error of ask ends it, and goes to fail unless the queue is closed: then the
// client may be closed, too.
func (q *queue[T, E]) send(pause time.Duration, ask func(*request[T, E]) error, fail func(error)) {
	for request := q.next(); request != nil; request = q.next() {
		started := time.Now()

		if err := ask(request); err != nil {
			if !q.isClosed() {
				fail(err)
			}

			return
		}
		took := time.Since(started)
		q.giveBack(request)
		time.Sleep(pause - time.Since(started)) // for the ledger's disk a look-up is a request like a write
		q.done(took)
	}
}

// giveBack keeps a request whose results were delivered, for reuse.
func (q *queue[T, E]) giveBack(r *request[T, E]) {
	q.mu.Lock()
	defer q.mu.Unlock()
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
