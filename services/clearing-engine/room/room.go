// Package room bounds what is in flight in an engine, and shares it between banks, so that nobody's
// payments keep those of others waiting. It knows neither Kafka nor the ledger. What something takes it
// frees when it ends: records, places of a bank's share, questions to a bank.
package room

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Limits bound a room.
type Limits struct {
	Payments   int     // in flight
	Working    int     // of these: that do not wait for their bank
	Bytes      int64   // of their messages
	PSPShare   float64 // of Payments: that wait for one receiving PSP; 1 is no limit
	PayerShare float64 // of Payments: that one sending PSP may have of each kind of share
}

// Room bounds what is in flight, in payments and in bytes. The intake waits for room and
// takes it for what it fetched; each finished record frees its part.
//
// A payment that waits for its bank costs memory only, so many may. The others are a queue for
// the ledger: if as many of them were fetched, each would wait for seconds.
type Room struct {
	started time.Time
	shares  *shares
	psps    *psps

	mu          sync.Mutex
	changed     *sync.Cond
	payments    int
	waiting     int // of payments: those that wait for their bank
	bytes       int64
	paymentsMax int
	workingMax  int // of payments that do not wait for their bank
	bytesMax    int64
	gateShut    bool
	closed      bool
	stopPolling context.CancelFunc // ends the poll under way
	earned      int                // see Earn
}

// New returns an empty room, of a process that started then.
func New(l Limits, started time.Time) *Room {
	r := &Room{
		started: started, paymentsMax: l.Payments, workingMax: l.Working, bytesMax: l.Bytes,
		psps:   newPSPs(l.Payments, l.PSPShare),
		shares: newShares(max(1, int(float64(l.Payments)*l.PayerShare)), l.Payments),
	}
	r.changed = sync.NewCond(&r.mu)

	return r
}

// Wait blocks until something may be fetched, and returns how many payments. It returns 0
// once ctx has ended.
func (r *Room) Wait(ctx context.Context) int { return r.await(ctx, r.left) }

func (r *Room) await(ctx context.Context, left func() int) int {
	stop := context.AfterFunc(ctx, func() { r.mu.Lock(); r.changed.Broadcast(); r.mu.Unlock() })
	defer stop()
	r.mu.Lock()
	defer r.mu.Unlock()

	for ctx.Err() == nil && (r.gateShut || r.closed || left() <= 0 || r.bytes >= r.bytesMax) {
		r.changed.Wait()
	}

	if ctx.Err() != nil {
		return 0
	}

	return left()
}

// Of what was overtaken, the room lets in one for overtakenShare others, and more only if less
// than half of the ledger's queue is used. It lets in many at once, because small requests cost the
// ledger much: a sixteenth of the queue.
const overtakenShare, overtakenParts = 8, 16

// Earn notes that orders came which were not overtaken, Spend that some came which were.
func (r *Room) Earn(payments int) {
	r.mu.Lock()
	r.earned = max(0, min(r.earned+payments, overtakenShare*r.workingMax))
	r.mu.Unlock()
}

// Spend is the other half of Earn.
func (r *Room) Spend(payments int) { r.Earn(-overtakenShare * payments) }

// WaitOvertaken is Wait for what was overtaken.
func (r *Room) WaitOvertaken(ctx context.Context) int {
	return r.await(ctx, func() int {
		most := r.idle()
		if earned := r.earned / overtakenShare; earned >= r.queue()/overtakenParts {
			most = max(most, earned)
		}

		return min(r.left(), most)
	})
}

// queue is how many payments the ledger's queue takes, idle how many it lacks until half of it is
// used. The caller of idle holds the lock.
func (r *Room) queue() int { return min(r.workingMax, r.paymentsMax) }
func (r *Room) idle() int  { return r.queue()/2 - (r.payments - r.waiting) }

// Lets reports whether all of what Kafka has may be fetched now: of orders and responses, or of
// what was overtaken.
func (r *Room) Lets(inOrder bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.gateShut && !r.closed && r.left() > 0 && r.bytes < r.bytesMax && (inOrder || r.idle() > 0)
}

// left is how many payments may still be fetched. The caller holds the lock.
func (r *Room) left() int {
	return min(r.paymentsMax-r.payments, r.workingMax-(r.payments-r.waiting))
}

// awaitBank counts payments that begin to wait for their bank, or with a negative number end it.
func (r *Room) awaitBank(payments int) {
	r.mu.Lock()
	r.waiting += payments
	r.mu.Unlock()

	if payments > 0 {
		r.changed.Broadcast() // who waits for what was overtaken may have no use for it
	}
}

func (r *Room) take(payments int, bytes int64) {
	r.mu.Lock()
	r.payments += payments
	r.bytes += bytes
	r.mu.Unlock()
}

func (r *Room) free(payments int, bytes int64) {
	r.mu.Lock()
	r.payments -= payments

	r.bytes -= bytes
	if r.payments < 0 || r.bytes < 0 {
		broken("room is freed once: %d payments and %d bytes are taken", r.payments, r.bytes)
	}

	if r.waiting > r.payments {
		broken("what waits for a bank has room: %d payments wait and %d have room", r.waiting, r.payments)
	}
	r.mu.Unlock()
	r.changed.Broadcast() // the intake and the reader wait
}

// Shut shuts or opens the gate. While it is shut, nothing is fetched.
func (r *Room) Shut(shut bool) {
	r.mu.Lock()
	r.gateShut = shut
	r.mu.Unlock()
	r.changed.Broadcast()
}

// Close closes the gate or ends that, whoever has shut or opened it.
func (r *Room) Close(closed bool) {
	r.mu.Lock()

	r.closed = closed
	if closed && r.stopPolling != nil {
		r.stopPolling()
	}
	r.mu.Unlock()
	r.changed.Broadcast()
}

// Polling returns a context for one poll. It ends when the gate is closed: nothing that comes later is taken.
func (r *Room) Polling(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.stopPolling = cancel; r.closed {
		cancel()
	}

	return ctx, cancel
}

// InFlight returns what is taken.
func (r *Room) InFlight() (payments int, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.payments, r.bytes
}

// second is the age of the process in seconds, by the monotonic clock.
func (r *Room) second(now time.Time) int64 { return int64(now.Sub(r.started) / time.Second) }

// Taken says what is taken. It is empty if all has been given back.
func (r *Room) Taken() string {
	r.mu.Lock()
	defer r.mu.Unlock()

	open := 0
	for _, q := range r.psps.questions {
		open += q.open + q.apart + len(q.senders) + len(q.payees)
	}

	if r.payments == 0 && r.bytes == 0 && r.waiting == 0 && r.shares.all == 0 && len(r.shares.taken) == 0 && open == 0 {
		return ""
	}

	return fmt.Sprintf("%d payments, %d bytes, %d wait for their bank, shares %v, %d questions", r.payments, r.bytes,
		r.waiting, r.shares.taken, open)
}

// broken ends the process because a law of the engine's own state does not hold: see engine/laws.go.
func broken(law string, args ...any) {
	panic("broken law: " + fmt.Sprintf(law, args...))
}
