package engine

import (
	"context"
	"fmt"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/ledger"
)

// pulse probes the ledger every PulseInterval. A good probe proves that the ledger works
// and that this machine's clock may judge deadlines. Without one the engine is not ready
// and fetches nothing.
func (e *Engine) pulse(ctx context.Context) {
	for {
		started := time.Now()
		probing := ask(e.probe)
		var p result[probe]
		select {
		case p = <-probing:
		case <-ctx.Done():
			return
		case <-time.After(e.config.PulseInterval / 2):
			e.report(needLedger, fmt.Errorf("no answer for %s", e.config.PulseInterval/2))
			select {
			case p = <-probing:
			case <-ctx.Done():
				return
			}
			if p.err == nil {
				e.log.Info("ledger healthy again", zap.Duration("after", time.Since(started)))
			}
		}
		if p.err != nil {
			e.fail(p.err)
			return
		}
		e.report(needLedger, nil)
		pause := e.config.PulseInterval
		switch skew := p.value.skew; {
		case p.value.unfunded:
			pause = time.Second / 2
		case skew.Abs() > e.config.ClockSkewMax:
			e.metrics.clockSkew.Set(skew.Seconds())
			e.report(needClock, fmt.Errorf("this machine's clock differs from the ledger's by %s, more than ENGINE_CLOCK_SKEW_MAX %s: nothing is fetched; set the clock right", skew, e.config.ClockSkewMax))
			e.room.shut(true)
		default:
			e.metrics.clockSkew.Set(skew.Seconds())
			e.report(needClock, nil)
			e.room.shut(false)
		}
		if !sleep(ctx, pause) {
			return
		}
	}
}

// probe is what a pulse found.
type probe struct {
	skew time.Duration // this clock minus the ledger's, beyond the time that the probe took
	// unfunded: bootstrap has not begun, so the accounts of the probe do not exist yet.
	unfunded bool
}

func (e *Engine) probe() (probe, error) {
	id := tb.ID()
	before := e.now()
	_, err := e.ledger.CreateTransfers([]tb.Transfer{{
		ID: id, DebitAccountID: ledger.IssuanceAccount, CreditAccountID: ledger.RefusalsAccount,
		Ledger: ledger.Ledger, Code: ledger.CodeClockProbe,
	}})
	after := e.now()
	if err != nil {
		return probe{}, fmt.Errorf("cannot write a probe to the ledger: %w", err)
	}
	found, err := e.ledger.LookupTransfers([]tb.Uint128{id})
	if err != nil {
		return probe{}, fmt.Errorf("cannot look up a probe in the ledger: %w", err)
	}
	if len(found) == 0 {
		return probe{unfunded: true}, nil
	}
	switch at := time.Unix(0, int64(found[0].Timestamp)); {
	case at.Before(before):
		return probe{skew: before.Sub(at)}, nil
	case at.After(after):
		return probe{skew: after.Sub(at)}, nil
	}
	return probe{}, nil
}

// report updates Health, and logs a need that changed between met and not met.
func (e *Engine) report(need string, err error) {
	if e.telemetry.Health.Report(need, err) {
		if err != nil {
			e.log.Warn("not ready", zap.String("need", need), zap.Error(err))
		} else {
			e.log.Info("need met", zap.String("need", need))
		}
	}
}
