package engine

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/services/clearing-engine/room"
)

// partition clears one partition of pix.payments. One goroutine owns all of its state;
// everything reaches it through the inbox, so no payment needs a lock.
type partition struct {
	number  int32
	engine  *common
	effects effects
	inbox   *inbox
	offsets *offsets
	flights map[pix.EndToEndID]*flight

	orders, responses *position
	waited            waited // of watchPartitions
	overtaken         overtaken
	need              atomic.Int64 // what pace.need was at the last tick
	// unnamed holds the first records until the ledger names the log.
	unnamed []event
	named   bool

	// Guarded by the engine's committing:
	committedLast bool       // the last commit is done
	commitment    commitment // what was committed last

	room *room.Part

	// nextDue is a lower bound of the deadlines of all payments that wait for their PSP:
	// before it, tick has nothing to do. Zero: no payment waits.
	nextDue time.Time

	// again are the waiters whose records are being fetched again, by offset.
	again map[int64]returning

	// stale are the orders that wait until the register is fresh again.
	stale []*flight

	returns room.Rate
	pace    room.Pace

	deadLetters int           // produced and not acknowledged yet
	drained     chan struct{} // to be closed when nothing is in flight; nil unless somebody waits

	owned   context.Context // ends when the partition is handed over or lost
	release context.CancelFunc
	done    chan struct{} // closed by the end of its goroutine

	encoder encoder
	message orderMessage  // reused
	chain   []tb.Transfer // reused
	ids     []tb.Uint128  // reused
}

// effects are what a partition does outside of its own state. Each result comes back through the
// inbox. The engine has them, except in a test that tries every order of the results.
type effects interface {
	// write writes a chain, unless the register's rules are no longer these. 0: whatever they are.
	write(p *partition, f *flight, chain []tb.Transfer, rules uint64)
	lookUp(p *partition, f *flight, ids []tb.Uint128)
	lookUpAccounts(p *partition, f *flight, ids []tb.Uint128)
	produce(record *kgo.Record, acknowledged func())
	fetchAgain(p *partition, offset int64)
	nameFirst(p *partition)
	fail(err error)
}

// returnsAtOnce may begin at once: who fills all slots of a payment is not refused.
const returnsAtOnce = 2 * ledger.ReturnSlots

// newPartition returns a partition. named: the ledger names its log already.
func newPartition(c *common, effects effects, number int32, h stream.Hint, named bool) *partition {
	owned, release := context.WithCancel(context.Background())

	return &partition{
		number: number, encoder: encoder{number: number}, engine: c, effects: effects, inbox: newInbox(),
		offsets: newOffsets(h), named: named,
		flights: map[pix.EndToEndID]*flight{}, again: map[int64]returning{}, room: c.room.Part(),
		returns: room.NewRate(c.config.ReturnsPerSecond, returnsAtOnce),
		owned:   owned, release: release, done: make(chan struct{}),
	}
}

// rests reports whether nothing is in flight.
func (p *partition) rests() bool {
	if len(p.flights)+len(p.again)+p.deadLetters > 0 {
		return false
	}
	p.room.Rest()

	return true
}

// forget drops everything in flight: the next owner of the partition gets it again.
func (p *partition) forget() {
	p.inbox.close()

	for _, f := range p.flights {
		f.question.Free(p.engine.now(), false)
	}
	p.room.FreeAll()
}

// describe says what the order of an unfinished record waits for.
func (p *partition) describe(offset int64) string {
	for id, f := range p.flights {
		of := ""

		if f.record.Offset != offset {
			if !slices.ContainsFunc(f.waiting, func(w waiter) bool { return w.offset == offset }) {
				continue
			}
			of = fmt.Sprintf(", and this one waits for the record at offset %d", f.record.Offset)
		}

		switch {
		case slices.Contains(p.stale, f):
			return fmt.Sprintf(": %s waits for the register of participants, which cannot be read%s", id, of)
		case f.writing != chainNone:
			return fmt.Sprintf(": %s waits for the ledger to write its %s%s", id, chainNames[f.writing], of)
		case f.payment.WaitsForBank():
			return fmt.Sprintf(": %s waits for bank %s%s", id, f.payment.Order.Payee.ISPB, of)
		}

		return fmt.Sprintf(": %s waits for the ledger's look-up, or for Kafka to store its outcome%s", id, of)
	}

	if !p.named {
		return ": the ledger does not name the log yet"
	}

	return ": Kafka has not stored its dead letter"
}
