package live

import (
	"context"
	"sync"
	"time"
)

// pace keeps the audit to its share of the ledger's time. What a request takes of it is how long it is on
// its way, less how long the last small one was: that one did nothing but wait behind others. That differs from
// request to request, so it is bounded by ten times what requests were measured to take.
type pace struct {
	share float64

	mu    sync.Mutex
	free  time.Time     // from then on the next request may be sent
	small time.Duration // how long the last small request was on its way
}

// The least that a request takes of the ledger's time. On two cores an empty query takes it 0.25 ms, and a
// page of transfers 0.5 µs for each.
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

// took takes note of a request for so many transfers that was this long on its way.
func (p *pace) took(onItsWay time.Duration, transfers int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	least := requestCost + time.Duration(transfers)*transferCost
	p.spend(min(max(least, onItsWay-p.small), 10*least))
}

// tookSmall takes note of a request of few objects.
func (p *pace) tookSmall(onItsWay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.small = onItsWay
	p.spend(requestCost)
}

func (p *pace) spend(cost time.Duration) {
	now := time.Now()
	if p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(float64(cost) / p.share))
}
