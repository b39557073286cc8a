package engine

import (
	"sync"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/services/clearing-engine/room"
)

// inbox is the way into a partition's goroutine. put never blocks: its events belong to
// payments in flight, which are limited. offer waits for space: its events (responses) may
// belong to nothing.
type inbox struct {
	mu     sync.Mutex
	space  *sync.Cond
	events []event
	ready  chan struct{} // holds a token while events is not empty
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

// offersMax is the number of waiting events from which offer waits.
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

// take returns the waiting events. used, the slice of the last call, takes their place.
func (i *inbox) take(used []event) []event {
	clear(used)
	i.mu.Lock()
	defer i.mu.Unlock()
	events := i.events
	i.events = used[:0]
	i.space.Broadcast()

	return events
}

// close drops the waiting events and all later ones.
func (i *inbox) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed, i.events = true, nil
	i.space.Broadcast()
}

type eventKind uint8

const (
	arrived      eventKind = iota // record; unreadable: why, or nil
	fetchedAgain                  // record: a waiter's
	written                       // flight, result: of its chain
	inspected                     // flight, transfers
	diagnosed                     // flight, accounts
	responded                     // response
	reported                      // flight: its report, or its dead letter, is acknowledged
	deadLettered                  // record: its dead letter is acknowledged; share: a place that it took
	examined                      // offset: answer gets what its order waits for
	begun                         // the ledger names the log of this partition
	drain                         // drained is to be closed when nothing is in flight
	askAgain                      // what banks were asked, or their responses, may be gone
)

type event struct {
	kind       eventKind
	result     ledger.Result
	flight     *flight
	record     *kgo.Record
	unreadable *unreadable
	share      room.Share
	transfers  []tb.Transfer
	accounts   []tb.Account
	response   response
	drained    chan struct{}
	offset     int64
	answer     chan<- string
}

// response is a PSP's response, decoded.
type response struct {
	id       pix.EndToEndID
	psp      pix.ISPB
	accepted bool
	reason   pix.Reason // to be stored
	code     pix.Reason // as the PSP gave it
}

// unreadable says of a record that it stands for all from offset first, which no client
// can read. Its value is their batch.
type unreadable struct {
	first   int64
	invalid *pix.Invalid // nil: there are no records, of an aborted transaction
}
