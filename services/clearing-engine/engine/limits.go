package engine

import (
	"context"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/pix"
)

// room bounds what is in flight, in payments and in bytes. The intake waits for room and
// takes it for what it fetched; each finished record frees its part.
//
// A payment that waits for its bank costs memory only, so many may. The others are a queue for
// the ledger: if as many of them were fetched, each would wait for seconds.
type room struct {
	mu          sync.Mutex
	changed     *sync.Cond
	payments    int
	waiting     int // of payments: those that wait for their bank
	bytes       int64
	paymentsMax int
	workingMax  int // of payments that do not wait for their bank
	bytesMax    int64
	gateShut    bool
	earned      int // see earn
}

func newRoom(paymentsMax, workingMax int, bytesMax int64) *room {
	r := &room{paymentsMax: paymentsMax, workingMax: workingMax, bytesMax: bytesMax}
	r.changed = sync.NewCond(&r.mu)
	return r
}

// wait blocks until something may be fetched, and returns how many payments. It returns 0
// once ctx has ended.
func (r *room) wait(ctx context.Context) int { return r.await(ctx, r.left) }

func (r *room) await(ctx context.Context, left func() int) int {
	stop := context.AfterFunc(ctx, func() { r.mu.Lock(); r.changed.Broadcast(); r.mu.Unlock() })
	defer stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for ctx.Err() == nil && (r.gateShut || left() <= 0 || r.bytes >= r.bytesMax) {
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

// earn notes that orders came which were not overtaken, spend that some came which were.
func (r *room) earn(payments int) {
	r.mu.Lock()
	r.earned = max(0, min(r.earned+payments, overtakenShare*r.workingMax))
	r.mu.Unlock()
}

func (r *room) spend(payments int) { r.earn(-overtakenShare * payments) }

// waitOvertaken is wait for what was overtaken.
func (r *room) waitOvertaken(ctx context.Context) int {
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
func (r *room) queue() int { return min(r.workingMax, r.paymentsMax) }
func (r *room) idle() int  { return r.queue()/2 - (r.payments - r.waiting) }

// lets reports whether all of what Kafka has may be fetched now: of orders and responses, or of
// what was overtaken.
func (r *room) lets(inOrder bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.gateShut && r.left() > 0 && r.bytes < r.bytesMax && (inOrder || r.idle() > 0)
}

// left is how many payments may still be fetched. The caller holds the lock.
func (r *room) left() int {
	return min(r.paymentsMax-r.payments, r.workingMax-(r.payments-r.waiting))
}

// awaitBank counts payments that begin to wait for their bank, or with a negative number end it.
func (r *room) awaitBank(payments int) {
	r.mu.Lock()
	r.waiting += payments
	r.mu.Unlock()
	if payments > 0 {
		r.changed.Broadcast() // who waits for what was overtaken may have no use for it
	}
}

func (r *room) take(payments int, bytes int64) {
	r.mu.Lock()
	r.payments += payments
	r.bytes += bytes
	r.mu.Unlock()
}

func (r *room) free(payments int, bytes int64) {
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

// shut shuts or opens the gate. While it is shut, nothing is fetched.
func (r *room) shut(shut bool) {
	r.mu.Lock()
	r.gateShut = shut
	r.mu.Unlock()
	r.changed.Broadcast()
}

func (r *room) inFlight() (payments int, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.payments, r.bytes
}

// bytesOf returns the bytes that a record takes of the room.
func bytesOf(record *kgo.Record) int64 {
	bytes := len(record.Key) + len(record.Value)
	for _, header := range record.Headers {
		bytes += len(header.Key) + len(header.Value)
	}
	return int64(bytes)
}

// participants says which payments would be refused because of who pays or receives. It
// knows the open questions to each receiving PSP, so that a silent one cannot take the room.
type participants struct {
	questionsMax int // to one PSP
	silence      silence

	mu        sync.RWMutex
	questions map[pix.ISPB]*questions // of the PSPs that are known to have accounts, so it is bounded
}

// newParticipants returns participants with room for so many payments in flight. One PSP may
// have a share of it.
func newParticipants(inFlightMax int, share float64) *participants {
	return &participants{
		questionsMax: max(1, int(float64(inFlightMax)*share)), silence: silence{max: int64(inFlightMax / 2)},
		questions: map[pix.ISPB]*questions{},
	}
}

// refusal returns why this engine would refuse a new payment, or ReasonNone. silent says that the
// payee's PSP owes old answers.
func (p *participants) refusal(order *pix.Order) (reason pix.Reason, silent bool) {
	asked := p.of(order.Payee.ISPB)
	if asked == nil {
		return pix.ReasonNone, false
	}
	open, stuck := asked.count()
	if open >= p.questionsMax || p.silence.isFull(stuck) {
		return pix.ReasonPayeePSPBusy, stuck > 0
	}
	return pix.ReasonNone, stuck > 0
}

// know reports whether a PSP is known to have accounts.
func (p *participants) know(psp pix.ISPB) bool { return p.of(psp) != nil }

// otherPSP is the label of PSPs that have not been met here: anybody can invent names of banks.
const otherPSP = "other"

// label is a PSP as a label of metrics.
func (p *participants) label(psp pix.ISPB) string {
	if p.know(psp) {
		return string(psp)
	}
	return otherPSP
}

// meet notes that a PSP has accounts: the ledger has said so.
func (p *participants) meet(psp pix.ISPB) {
	if p.know(psp) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.questions[psp] == nil {
		p.questions[pix.ISPB(strings.Clone(string(psp)))] = &questions{silence: &p.silence} // psp lies in a record, which it would keep alive
	}
}

// of returns the open questions to a PSP that was met, or nil.
func (p *participants) of(psp pix.ISPB) *questions {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.questions[psp]
}

// age lets the open questions of all PSPs grow older.
func (p *participants) age(second int64) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, asked := range p.questions {
		asked.age(second)
	}
}
