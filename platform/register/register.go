// Package register follows the register of participants, which is in the ledger: who has joined,
// who is suspended, what is capped, which accounts are blocked, which keys and seals are in use.
// Whoever follows it needs no restart, and begins nothing new once it cannot read it.
package register

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/telemetry"
)

// Need is the name under which Run reports to Health.
const Need = "register"

const (
	// freshFor is how old a reading may be for what begins now. An act bites everywhere within it.
	freshFor = 2 * time.Second
	// interval is from one question to the next, pause the least of it if somebody waits for an act.
	interval = time.Second
	pause    = 10 * time.Millisecond
)

// errStale is what is wrong while the register cannot be read.
var errStale = fmt.Errorf("not read for more than %v: nothing new is begun", freshFor)

// Register follows the acts in the ledger.
type Register struct {
	client  tigerbeetle.Client
	pageMax uint32
	t       *telemetry.Telemetry
	acts    *prometheus.CounterVec

	current atomic.Pointer[reading]
	wake    chan struct{}

	mu    sync.Mutex
	newer chan struct{} // closed by the next reading
}

// reading is a state and when it was asked for.
type reading struct {
	state *State
	asked time.Time // before the question; zero: never read to the end
}

// New returns a register that knows nothing until it runs. pageMax is how many acts it reads at
// once, at most the server's own limit.
func New(client tigerbeetle.Client, pageMax int, t *telemetry.Telemetry) *Register {
	r := &Register{
		client: client, pageMax: uint32(pageMax), t: t,
		acts: promauto.With(t.Registry).NewCounterVec(prometheus.CounterOpts{
			Name: "pix_register_acts_total",
			Help: "Acts that this process has read from the ledger since its start, by kind; unreadable: records that are no acts, which count as nothing.",
		}, []string{"kind"}),
		wake: make(chan struct{}, 1), newer: make(chan struct{}),
	}
	r.current.Store(&reading{state: newState()})
	t.Health.Need(Need)
	promauto.With(t.Registry).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pix_register_age_seconds",
		Help: "Time since the last question whose answer brought the register up to date; above 2 nothing new is begun.",
	}, func() float64 { return time.Since(r.current.Load().asked).Seconds() })

	return r
}

// Current returns the state, and whether it is fresh: otherwise nothing new may begin. It takes no lock.
func (r *Register) Current() (*State, bool) {
	now := r.current.Load()
	return now.state, time.Since(now.asked) < freshFor
}

// Run follows the register until ctx ends, or the client fails, which is the error. While the ledger
// does not answer it asks no second question: the client's requests cannot be cancelled.
func (r *Register) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		asked, filter := time.Now(), tb.AccountFilter{
			AccountID: ledger.RegisterAccount, TimestampMin: r.current.Load().state.ReadTo + 1, Limit: r.pageMax,
			Flags: tb.AccountFilterFlags{Debits: true, Credits: true}.ToUint32(),
		}
		stale := time.After(freshFor - time.Since(r.current.Load().asked))

		records, err := ledger.AskPatiently(ctx, stale, func() { r.t.Report(Need, errStale) },
			func() ([]tb.Transfer, error) { return r.client.GetAccountTransfers(filter) })
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("the ledger refused to read the register: %w", err)
		}

		if whole := err == nil && r.take(records, asked); !whole {
			continue
		}

		select {
		case <-time.After(untilNext(asked)):
		case <-r.wake:
			time.Sleep(pause)
		case <-ctx.Done():
		}
	}

	return nil
}

// untilNext returns the time from an answer to the next question. After a slow answer it is the shortest: a whole
// interval more would make the register stale.
func untilNext(asked time.Time) time.Duration {
	return max(pause, min(host.Next(interval), interval-time.Since(asked)))
}

// take publishes the state with the acts of a page, and returns whether the page was the last one.
func (r *Register) take(records []tb.Transfer, asked time.Time) (whole bool) {
	before := r.current.Load()

	next := &reading{state: before.state, asked: before.asked}
	if len(records) > 0 {
		draft := before.state.draft()

		for _, record := range records {
			act, at, err := ledger.ActOf(record)
			if err != nil {
				// By another version, or by somebody else who may write to the ledger.
				r.t.Log.Warn("the register holds what is no act", zap.Error(err))
				r.acts.WithLabelValues("unreadable").Inc()
				draft.ReadTo = record.Timestamp

				continue
			}
			r.acts.WithLabelValues(act.Kind.String()).Inc()
			draft.apply(act, at)
		}
		next.state = draft.finish()
	}

	if whole = len(records) < int(r.pageMax); whole {
		next.asked = asked
	}
	r.current.Store(next)

	if whole {
		if _, fresh := r.Current(); fresh {
			r.t.Report(Need, nil)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.newer)
	r.newer = make(chan struct{})

	return whole
}

// Reach returns a state that holds the act of a ledger time. It asks at once, and waits until ctx ends.
func (r *Register) Reach(ctx context.Context, timestamp uint64) (*State, error) {
	return r.await(ctx, func(now *reading) bool { return now.state.ReadTo >= timestamp })
}

// Newer returns a state that was asked for after the call. It asks at once, and waits until ctx ends.
func (r *Register) Newer(ctx context.Context) (*State, error) {
	called := time.Now()
	return r.await(ctx, func(now *reading) bool { return now.asked.After(called) })
}

func (r *Register) await(ctx context.Context, met func(*reading) bool) (*State, error) {
	for {
		r.mu.Lock()
		newer := r.newer
		r.mu.Unlock()

		if now := r.current.Load(); met(now) {
			return now.state, nil
		}

		select {
		case r.wake <- struct{}{}:
		default:
		}

		select {
		case <-newer:
		case <-ctx.Done():
			return nil, errors.Join(errors.New("the register is not read so far"), ctx.Err())
		}
	}
}
