package query

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/platform/web"
)

// The names under which Watch reports.
const (
	Need      = "ledger"
	ClockNeed = "clock"
)

// An absent ledger or a wrong clock goes unnoticed for at most watchInterval + watchTimeout.
const (
	watchInterval = time.Second
	watchTimeout  = 2 * time.Second
)

// Watch reports to Health, until ctx ends, whether the ledger answers and whether this clock
// is the ledger's, by a probe every second. The client itself never says, and its requests
// cannot be cancelled: while one waits, no other is sent. Before the ledger is known to be the topics' own it writes
// nothing and only asks. It closes compared when it has compared the clock.
func (l *Ledger) Watch(ctx context.Context, t *telemetry.Telemetry, compared chan<- struct{}) {
	type result struct {
		probe comparison
		err   error
	}
	skew := prometheus.NewGauge(
		prometheus.GaugeOpts{Name: "pix_ledger_clock_skew_seconds", Help: "This machine's clock minus the ledger's."})
	t.Registry.MustRegister(skew)
	watched := sync.OnceFunc(func() { close(compared) })
	results := make(chan result, 1)

	for {
		go func() {
			began := time.Now()

			if !l.Writable() {
				_, err := l.client.LookupTransfers([]tb.Uint128{ledger.MarkerID})
				results <- result{comparison{ledger.ClockProbe{Unfunded: true}, began}, err}
				return
			}
			probe, err := ledger.ProbeClock(l.client, l.now, 0)
			l.reads.Small(time.Since(began) / 2) // it is two requests
			results <- result{comparison{probe, began}, err}
		}()

		var r result
		select {
		case r = <-results:
		case <-ctx.Done():
			return
		case <-time.After(watchTimeout):
			t.Report(Need, fmt.Errorf(
				"no answer within %v; is TIGERBEETLE_ADDRESSES right, and TIGERBEETLE_CLUSTER_ID?", watchTimeout))

			select {
			case r = <-results:
			case <-ctx.Done():
				return
			}
		}
		t.Report(Need, r.err)

		switch {
		case r.err != nil:
			l.Fail(fmt.Errorf("the ledger's client has failed: %w", r.err))
		case !r.probe.Unfunded:
			skew.Set(r.probe.Skew.Seconds())
			l.clock.Store(&r.probe)
			t.Report(ClockNeed, l.clockWrong())
			watched()
		}

		select {
		case <-ctx.Done():
			return
		case <-l.probes:
		case <-time.After(host.Next(watchInterval)):
		}
	}
}

// comparison is a probe of the ledger's clock.
type comparison struct {
	ledger.ClockProbe
	began time.Time // monotonic
}

// clockWrong returns why this clock may not date payments, by the latest probe. Before the
// first probe nothing is known against it.
func (l *Ledger) clockWrong() error {
	if probe := l.clock.Load(); probe != nil && probe.Skew.Abs() > l.config.ClockTolerance {
		return fmt.Errorf("this machine's clock differs from the ledger's by %s, more than LEDGER_CLOCK_TOLERANCE %s: no payment is taken; set the clock right",
			probe.Skew.Round(time.Millisecond), l.config.ClockTolerance)
	}

	return nil
}

// ClockWrong returns the response to a payment or return while this clock is wrong: dated by
// it, the order could be past its deadline before an engine sees it.
func (l *Ledger) ClockWrong() *web.Problem {
	if err := l.clockWrong(); err != nil {
		return &web.Problem{Type: web.Kind("clock-wrong"), Title: "The clock is wrong",
			Status: http.StatusServiceUnavailable, RetryAfter: time.Second,
			Detail: "nothing was sent: " + err.Error() + ", or use another producer"}
	}

	return nil
}

// Clock returns the ledger's time now, as far as the latest probe tells.
func (l *Ledger) Clock() time.Time {
	if probe := l.clock.Load(); probe != nil {
		return l.now().Add(-probe.Skew)
	}

	return l.now()
}

// askedAt returns a time of the ledger's clock that is not later than a question that begins
// now: that of the latest probe. This machine's clock may be wrong, so it calls nothing expired.
func (l *Ledger) askedAt() time.Time {
	if probe := l.clock.Load(); probe != nil {
		return probe.At
	}

	return time.Time{} // before every hold
}

// isOpen reports whether a hold cannot have expired yet, by the latest probe and the time since.
func (l *Ledger) isOpen(expires time.Time) bool {
	probe := l.clock.Load()
	return probe != nil && probe.At.Add(time.Since(probe.began)+l.config.ClockTolerance).Before(expires)
}

// asOf calls read with a time of the ledger's clock that is not later than what read asks. read also
// returns when the first hold expires that it calls open; zero, if there is none. If that may have
// happened, asOf reads again with a time that the ledger tells now: another producer may have
// probed it later and called the hold expired, and no answer after that may call it open.
func asOf[S any](ctx context.Context, l *Ledger,
	read func(now time.Time) (state S, expires time.Time, problem *web.Problem)) (S, *web.Problem) {
	state, expires, problem := read(l.askedAt())
	if problem != nil || expires.IsZero() || l.isOpen(expires) {
		return state, problem
	}

	at, problem := l.probe(ctx)
	if problem != nil {
		return state, problem
	}
	state, _, problem = read(at)

	return state, problem
}

// probe returns the ledger's clock now. Who asks for it reads, and may ask for what is long over.
func (l *Ledger) probe(ctx context.Context) (time.Time, *web.Problem) {
	if closed := l.Closed(); closed != nil {
		return time.Time{}, closed
	}

	probes, problem := query(reading(ctx), l,
		inquiry[ledger.ClockProbe]{limit: 1, wants: func(*ledger.ClockProbe) bool {
			return true
		},
			ask: func(c tigerbeetle.Client) ([]ledger.ClockProbe, error) {
				probe, err := ledger.ProbeClock(c, l.now, 0)
				return []ledger.ClockProbe{probe}, err
			}})
	if problem != nil {
		return time.Time{}, problem
	}

	return probes[0].At, nil
}
