package live

import (
	"context"
	"sync"
	"time"
)

// pace keeps the audit to its share of the ledger's time. What a request takes of it is twice what one of its size was
// measured to take: how long it is on its way says mostly how long it waits behind others.
type pace struct {
	share float64

	mu   sync.Mutex
	free time.Time // from then on the next request may be sent
}

// What a request takes of the ledger's time, twice. On two cores an empty query takes it 0.25 ms, and a page of
// transfers 0.5 µs for each.
const (
	requestCost  = 500 * time.Microsecond
	transferCost = time.Microsecond
)

// await returns when the next request may be sent.
func (p *pace) await(ctx context.Context) error {
	p.mu.Lock()
	wait := time.Until(p.free)
	p.mu.Unlock()

	if wait <= 0 {
		return ctx.Err()
	}

	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(wait):
		return nil
	}
}

func (p *pace) ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !time.Now().Before(p.free)
}

// took takes note of a request for so many objects.
func (p *pace) took(objects int) {
	p.mu.Lock()
	defer p.mu.Unlock()

	cost := requestCost + time.Duration(objects)*transferCost

	if now := time.Now(); p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(float64(cost) / p.share))
}
