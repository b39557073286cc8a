// Package overload knows how far the engines are behind, and refuses orders meanwhile: each
// participant gets its fair share of what the engines take.
package overload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liquida/liquida/platform/web"
)

// Config says when orders are refused. Orders that engines took after their last commit look
// untaken: several times the greatest ENGINE_COMMIT_INTERVAL must fit into SHED_AGE.
type Config struct {
	Age        time.Duration `env:"SHED_AGE" envDefault:"1s" range:"1s to 10m" help:"age of the oldest order that no engine has taken from which orders get 429; at 5 times this age all do"`
	RetryAfter time.Duration `env:"SHED_RETRY_AFTER" envDefault:"1s" range:"1s to 1m" help:"after which a refused order may be sent again, whole seconds"`
}

// Validate names the variable and the value that is wrong.
func (c Config) Validate() error {
	if c.RetryAfter%time.Second != 0 {
		return fmt.Errorf("SHED_RETRY_AFTER is %v: it must be whole seconds", c.RetryAfter)
	}

	return nil
}

// memory is how long the gate looks back: what was accepted or taken before counts less and less.
const memory = 2 * time.Second

// activeFor is how long a participant that asked counts as one that wants a share.
const activeFor = 5 * time.Second

// Gate refuses orders under overload.
type Gate struct {
	config  Config
	refused prometheus.Counter

	mu      sync.Mutex
	reading Reading
	taken   float64            // within memory, of late
	since   int64              // accepted here since the reading
	callers map[string]*caller // that asked within activeFor
	open    time.Time          // when an order was last known to be on its way
}

// Reading is what a look at the backlog found.
type Reading struct {
	At    time.Time
	Age   time.Duration // of the oldest order that no engine has taken
	Taken int64         // orders, ever
	Ends  int64         // orders, ever, of the same partitions
	Open  int64         // orders of all partitions that are not finished
	All   int64         // orders of all partitions, ever
}

// caller is a participant, or an address where nobody needs a key or certificate.
type caller struct {
	accepted float64 // within memory, of late
	at       time.Time
}

// NewGate registers the metrics.
func NewGate(config Config, registry prometheus.Registerer) *Gate {
	g := &Gate{config: config, callers: map[string]*caller{}, refused: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "pix_producer_shed_total",
		Help: "Orders, and whole batches, refused with 429 because the engines are behind."})}
	registry.MustRegister(g.refused, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pix_untaken_seconds",
		Help: "Age of the oldest order that no engine has taken, as this process sees it. From SHED_AGE on orders are refused.",
	}, func() float64 {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.reading.Age.Seconds()
	}), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pix_payments_wait",
		Help: "1 while payments wait for the ledger, as this process sees it: then reads have their share of it, and otherwise all.",
	}, func() float64 {
		if g.PaymentsWait() {
			return 1
		}

		return 0
	}))

	return g
}

// PaymentsWait reports whether payments wait for the ledger, or may: an order came or was not finished within the last
// second, or nobody has looked for some.
func (g *Gate) PaymentsWait() bool {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()

	return now.Sub(g.open) < waitFor || now.Sub(g.reading.At) > lookMax
}

// waitFor is how long payments count as waiting after the last was seen. lookMax is longer than looks are apart.
const waitFor, lookMax = time.Second, 3 * time.Second

// Observe takes a reading.
func (g *Gate) Observe(r Reading) {
	g.mu.Lock()
	defer g.mu.Unlock()

	if !g.reading.At.IsZero() {
		g.taken = g.taken*faded(r.At.Sub(g.reading.At)) + float64(max(0, r.Taken-g.reading.Taken))
	}

	if r.Open > 0 || r.All != g.reading.All {
		g.open = r.At
	}

	g.reading, g.since = r, 0
	for holder, c := range g.callers {
		if r.At.Sub(c.at) > activeFor {
			delete(g.callers, holder)
		}
	}
}

// faded is what is left of a sum over memory after a while.
func faded(after time.Duration) float64 { return math.Exp(-after.Seconds() / memory.Seconds()) }

// wait is how long a new order waits for an engine, in units of SHED_AGE: as long as the oldest
// one has waited. Once the engines are behind, the newest will wait longer than that, by what
// they take of late.
func (g *Gate) wait() float64 {
	wait := g.reading.Age.Seconds()
	if g.reading.Age > g.config.Age/2 && g.taken > 0 {
		wait = max(wait, float64(g.reading.Ends-g.reading.Taken+g.since)/(g.taken/memory.Seconds()))
	}

	return wait / g.config.Age.Seconds()
}

// Admit returns nil if the order or batch of a participant may be taken. Who had less than its
// share of what the engines take gets in. What is left goes to the others, as if by lot.
func (g *Gate) Admit(holder string) *web.Problem {
	now := time.Now()
	g.mu.Lock()
	c, wait, age := g.of(holder, now), g.wait(), g.reading.Age
	share := g.taken / float64(len(g.callers)) * falling(wait, 2, 5)
	in := wait < 1 || c.accepted < share || rand.Float64() < falling(wait, 1, 2)
	g.mu.Unlock()

	if in {
		return nil
	}
	g.refused.Inc()

	return &web.Problem{Type: web.Kind("overload"), Title: "Overload", Status: http.StatusTooManyRequests,
		RetryAfter: g.config.RetryAfter,
		Detail: fmt.Sprintf("the oldest order that waits for a clearing engine is %.1f s old: nothing was done, send the same again after a pause",
			age.Seconds())}
}

// falling falls from 1 at from to 0 at to. Shares become smaller at last, so that what waits is
// bounded, however many producers each give all shares.
func falling(x, from, to float64) float64 { return min(1, max(0, (to-x)/(to-from))) }

// Accepted counts an order that was accepted.
func (g *Gate) Accepted(holder string) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.of(holder, now).accepted++
	g.since++
	g.open = now
}

// of returns a caller, as of now. The gate is locked.
func (g *Gate) of(holder string, now time.Time) *caller {
	c := g.callers[holder]
	if c == nil {
		c = &caller{at: now}
		g.callers[holder] = c
	}
	c.accepted *= faded(now.Sub(c.at))
	c.at = now

	return c
}
