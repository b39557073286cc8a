package engine

import (
	"context"
	"fmt"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/origin"
)

// probesAlive is how many probes of an engine are held at a time, so that there is one although the
// next comes late. The earliest expires within a PulseInterval: before any hold of a payment.
const probesAlive = 4

// pulse probes the ledger every PulseInterval. A good probe proves that the ledger works, that it has what this engine
// has seen in it, and that this machine's clock may judge deadlines. Without one the engine is not ready and fetches
// nothing. Before the ledger is known to be the topics' own the engine only asks it: after a transfer of now a lost
// ledger could not be rebuilt there.
func (e *Engine) pulse(ctx context.Context) {
	timeoutSeconds := uint32(probesAlive * e.config.PulseInterval / time.Second)
	for {
		started, seen := time.Now(), e.witness.seen(e.writer.Latest())
		patience, late := e.config.PulseInterval/2, false

		probe, err := ledger.AskPatiently(ctx, time.After(patience), func() {
			late = true
			e.telemetry.Report(needLedger, fmt.Errorf("no answer for %s", patience))
		}, func() (ledger.ClockProbe, error) {
			if e.compared.Load() {
				return ledger.ProbeClock(e.ledger, e.now, timeoutSeconds, seen...)
			}
			_, err := e.ledger.LookupTransfers([]tb.Uint128{ledger.MarkerID})

			return ledger.ClockProbe{Unfunded: true}, err
		})
		if ctx.Err() != nil {
			return
		}

		if err != nil {
			e.fail(err)
			return
		}

		if late {
			e.log.Info("ledger healthy again", zap.Duration("after", time.Since(started)))
		}
		e.telemetry.Report(needLedger, nil)

		if len(probe.Lacks) > 0 { // before the checkpoints name something younger in its place
			e.fail(origin.Older(e.identity, probe.Lacks[0], time.Now(), "this engine"))
			return
		}

		if !probe.Unfunded {
			e.witness.pulsed(probe.ID)
			e.pulsed.Store(true)
		}

		pause := e.config.PulseInterval
		switch skew := probe.Skew; {
		case probe.Unfunded:
			pause = time.Second / 2
		case skew.Abs() > e.config.ClockSkewMax:
			e.metrics.ClockSkew.Set(skew.Seconds())
			e.telemetry.Report(needClock,
				fmt.Errorf("this machine's clock differs from the ledger's by %s, more than ENGINE_CLOCK_SKEW_MAX %s: nothing is fetched; set the clock right",
					skew.Round(time.Millisecond), e.config.ClockSkewMax))
			e.room.Shut(true)
		default:
			e.metrics.ClockSkew.Set(skew.Seconds())
			e.aheadOfLedger.Store(int64(skew))
			e.telemetry.Report(needClock, nil)
			e.room.Shut(false)
		}

		select {
		case <-e.probe:
		case <-time.After(host.Next(pause)):
		case <-ctx.Done():
			return
		}
	}
}
