package engine

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/ledger"
)

// probesAlive is how many probes of an engine are held at a time, so that there is one although the
// next comes late. The earliest expires within a PulseInterval: before any hold of a payment.
const probesAlive = 4

// pulse probes the ledger every PulseInterval. A good probe proves that the ledger works
// and that this machine's clock may judge deadlines. Without one the engine is not ready
// and fetches nothing.
func (e *Engine) pulse(ctx context.Context) {
	timeoutSeconds := uint32(probesAlive * e.config.PulseInterval / time.Second)
	for {
		started := time.Now()
		patience, late := e.config.PulseInterval/2, false
		probe, err := ledger.AskPatiently(ctx, time.After(patience), func() {
			late = true
			e.telemetry.Report(needLedger, fmt.Errorf("no answer for %s", patience))
		}, func() (ledger.ClockProbe, error) { return ledger.ProbeClock(e.ledger, e.now, timeoutSeconds) })
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
		pause := e.config.PulseInterval
		switch skew := probe.Skew; {
		case probe.Unfunded:
			pause = time.Second / 2
		case skew.Abs() > e.config.ClockSkewMax:
			e.metrics.clockSkew.Set(skew.Seconds())
			e.telemetry.Report(needClock, fmt.Errorf("this machine's clock differs from the ledger's by %s, more than ENGINE_CLOCK_SKEW_MAX %s: nothing is fetched; set the clock right", skew, e.config.ClockSkewMax))
			e.room.shut(true)
		default:
			e.metrics.clockSkew.Set(skew.Seconds())
			e.telemetry.Report(needClock, nil)
			e.room.shut(false)
		}
		if !host.Sleep(ctx, pause) {
			return
		}
	}
}
