package engine

import "sync"

// inbox is the way into a partition's goroutine. Putting never blocks: what is put
// belongs to payments in flight, which are limited; for what does not (answers that
// nobody asked for) there is offer, which waits.
type inbox struct {
	mu     sync.Mutex
	space  *sync.Cond
	events []event
	ready  chan struct{} // holds one token when events is not empty
	closed bool
}

func newInbox() *inbox {
	i := &inbox{ready: make(chan struct{}, 1)}
	i.space = sync.NewCond(&i.mu)
	return i
}

func (i *inbox) put(e event) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.append(e)
}

// offersMax bounds the events that may wait for an offer to be taken.
const offersMax = 100_000

func (i *inbox) offer(e event) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for len(i.events) >= offersMax && !i.closed {
		i.space.Wait()
	}
	i.append(e)
}

func (i *inbox) append(e event) {
	if i.closed {
		return
	}
	i.events = append(i.events, e)
	select {
	case i.ready <- struct{}{}:
	default:
	}
}

// take returns everything that waits; used takes its place.
func (i *inbox) take(used []event) []event {
	clear(used)
	i.mu.Lock()
	defer i.mu.Unlock()
	events := i.events
	i.events = used[:0]
	i.space.Broadcast()
	return events
}

// close drops what waits and everything that will be put.
func (i *inbox) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed, i.events = true, nil
	i.space.Broadcast()
}
