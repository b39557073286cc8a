package engine

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

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
}

func newRoom(paymentsMax, workingMax int, bytesMax int64) *room {
	r := &room{paymentsMax: paymentsMax, workingMax: workingMax, bytesMax: bytesMax}
	r.changed = sync.NewCond(&r.mu)
	return r
}

// wait blocks until something may be fetched, and returns how many payments. It returns 0
// once ctx has ended.
func (r *room) wait(ctx context.Context) int {
	stop := context.AfterFunc(ctx, func() { r.mu.Lock(); r.changed.Broadcast(); r.mu.Unlock() })
	defer stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for ctx.Err() == nil && (r.gateShut || r.left() <= 0 || r.bytes >= r.bytesMax) {
		r.changed.Wait()
	}
	if ctx.Err() != nil {
		return 0
	}
	return r.left()
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
		r.changed.Signal()
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

// participants counts the payments that wait for each receiving PSP, so that a silent one
// cannot take all the room.
type participants struct {
	waitingMax int64
	inactive   map[pix.ISPB]bool

	mu      sync.RWMutex
	waiting map[pix.ISPB]*atomic.Int64 // only of PSPs with accounts, so it is bounded
}

func newParticipants(waitingMax int, inactive []string) *participants {
	p := &participants{waitingMax: int64(waitingMax), inactive: map[pix.ISPB]bool{}, waiting: map[pix.ISPB]*atomic.Int64{}}
	for _, ispb := range inactive {
		p.inactive[pix.ISPB(ispb)] = true
	}
	return p
}

// refusal returns why this engine would refuse a new payment, or ReasonNone.
func (p *participants) refusal(order *pix.Order) pix.Reason {
	if len(p.inactive) > 0 && (p.inactive[order.Payer.ISPB] || p.inactive[order.Payee.ISPB]) {
		return pix.ReasonInactivePSP
	}
	p.mu.RLock()
	waiting := p.waiting[order.Payee.ISPB]
	p.mu.RUnlock()
	if waiting != nil && waiting.Load() >= p.waitingMax {
		return pix.ReasonPayeePSPBusy
	}
	return pix.ReasonNone
}

// counter returns the count of payments that wait for a PSP.
func (p *participants) counter(psp pix.ISPB) *atomic.Int64 {
	p.mu.RLock()
	waiting := p.waiting[psp]
	p.mu.RUnlock()
	if waiting != nil {
		return waiting
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting[psp] == nil {
		p.waiting[pix.ISPB(strings.Clone(string(psp)))] = new(atomic.Int64) // psp lies in a record, which it would keep alive
	}
	return p.waiting[psp]
}
