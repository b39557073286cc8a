package web

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/liquida/liquida/platform/settings"
)

// PoolsConfig is how callers share what there is.
type PoolsConfig struct {
	ShareMax            float64       `env:"CALLER_SHARE_MAX" envDefault:"0.25" help:"share that one caller may have of what others leave of a pool: batches, streams, statements of days, waits, histories, questions, payments in flight; above it 429; above 0, up to 1 for no limit"`
	ConnectionsShareMax float64       `env:"HTTP_CONNECTIONS_SHARE_MAX" envDefault:"0.25" help:"share of the connections that others leave, for one caller, and for one address of unknown callers; above 0, up to 1 for no limit"`
	StrangerIdleTimeout time.Duration `env:"HTTP_STRANGER_IDLE_TIMEOUT" envDefault:"3s" range:"100ms to 1m" help:"how long a connection of an unknown caller may be unused"`
}

// Validate names the variable and the value that is wrong.
func (c PoolsConfig) Validate() error {
	return errors.Join(
		settings.Share("CALLER_SHARE_MAX", c.ShareMax),
		settings.Share("HTTP_CONNECTIONS_SHARE_MAX", c.ConnectionsShareMax))
}

// Pools are what callers may have at the same time: batches, streams, questions, connections.
// The pools share their metrics.
type Pools struct {
	config      PoolsConfig
	taken, size *prometheus.GaugeVec
	refused     *prometheus.CounterVec
}

// NewPools registers the metrics.
func NewPools(config PoolsConfig, registry prometheus.Registerer) *Pools {
	register := promauto.With(registry)

	return &Pools{
		config: config,
		taken: register.NewGaugeVec(
			prometheus.GaugeOpts{Name: "pix_http_pool_taken",
				Help: "What callers of the HTTP API have of each pool at this moment."}, []string{"pool"}),
		size: register.NewGaugeVec(
			prometheus.GaugeOpts{Name: "pix_http_pool_size", Help: "The size of each pool of the HTTP API."},
			[]string{"pool"}),
		refused: register.NewCounterVec(
			prometheus.CounterOpts{Name: "pix_http_pool_refused_total",
				Help: "Refusals by each pool of the HTTP API: share (the caller has its share), full (everything is taken)."},
			[]string{"pool", "why"}),
	}
}

// Pool returns a pool. setting is the variable that sets its size.
func (p *Pools) Pool(name, setting string, size int) *Pool {
	p.size.WithLabelValues(name).Set(float64(size))

	return &Pool{name: name, setting: setting, size: size, share: p.config.ShareMax, by: map[string]int{},
		shown:    p.taken.WithLabelValues(name),
		whyShare: p.refused.WithLabelValues(name, "share"), whyFull: p.refused.WithLabelValues(name, "full")}
}

// Pool gives permits to holders, so that no holder can take all. Each may have a share of what
// the others leave: with a share of 0.25 and 16 permits, 4 if it is alone, and 3 beside one
// that has 4. A first permit needs no share, so that a small pool serves many holders.
type Pool struct {
	name, setting string
	size          int
	share         float64
	shown         prometheus.Gauge
	whyShare      prometheus.Counter
	whyFull       prometheus.Counter

	mu    sync.Mutex
	taken int
	by    map[string]int
	freed chan struct{} // closes when a permit is freed; nil unless somebody waits
}

// Take takes a permit, or says why the holder gets none.
func (p *Pool) Take(holder string) *Problem { return p.Move("", holder) }

// Move gives the permit of one holder to another, or says why the other gets none. Nobody is
// the holder "".
func (p *Pool) Move(from, to string) *Problem {
	p.mu.Lock()
	defer p.mu.Unlock()

	if from != "" {
		p.free(from)
	}
	has := p.by[to]

	left := p.size - p.taken + has // by the others
	if p.taken < p.size && (has == 0 || float64(has+1) <= p.share*float64(left)) {
		p.take(to)
		return nil
	}

	if from != "" {
		p.take(from)
	}

	problem := &Problem{Type: Kind("busy"), Title: "Your share is taken", Status: http.StatusTooManyRequests,
		RetryAfter: time.Second,
		Rule: fmt.Sprintf("at most %g of the %s that others leave, of %d (%s)", p.share, p.name,
			p.size, p.setting),
		Detail: fmt.Sprintf("%s has %d %s: nothing was done, try again when one has ended", to, has, p.name)}
	if p.taken < p.size {
		p.whyShare.Inc()
		return problem
	}
	p.whyFull.Inc()
	problem.Title = "Everything is taken"
	problem.Detail = fmt.Sprintf(
		"all %d %s (%s) are taken, %d of them by %s: nothing was done, try again after a pause", p.size, p.name,
		p.setting, has, to)

	return problem
}

// Taken returns how many permits all holders have.
func (p *Pool) Taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

// Free gives a permit of the holder back.
func (p *Pool) Free(holder string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free(holder)

	if p.freed != nil {
		close(p.freed)
		p.freed = nil
	}
}

// Freed returns a channel that closes when a permit is freed. Who waits for one asks for the
// channel before Take, so that none is missed.
func (p *Pool) Freed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.freed == nil {
		p.freed = make(chan struct{})
	}

	return p.freed
}

// take and free count a permit. The caller holds the lock.
func (p *Pool) take(holder string) {
	p.by[holder]++
	p.taken++
	p.shown.Set(float64(p.taken))
}

func (p *Pool) free(holder string) {
	if p.by[holder]--; p.by[holder] == 0 {
		delete(p.by, holder)
	}
	p.taken--
	p.shown.Set(float64(p.taken))
}
