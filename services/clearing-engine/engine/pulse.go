package engine

import (
	"context"
	"fmt"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/stream"
)

// pulse keeps asking the ledger what time it is: one transfer of zero, looked up again.
// It tells that the ledger answers and that this machine's clock can be trusted with a
// deadline. Without that the engine is not ready and fetches nothing.
func (e *Engine) pulse(ctx context.Context) {
	for {
		answer := make(chan pulse, 1)
		started := time.Now()
		go func() { answer <- e.probe() }()
		var p pulse
		select {
		case p = <-answer:
		case <-ctx.Done():
			return
		case <-time.After(e.config.PulseInterval / 2):
			// The client has no time limit: go on waiting for the same answer.
			e.report(needLedger, fmt.Errorf("no answer for %s", e.config.PulseInterval/2))
			select {
			case p = <-answer:
			case <-ctx.Done():
				return
			}
			if p.err == nil {
				e.log.Info("the ledger answers again", zap.Duration("after", time.Since(started)))
			}
		}
		if p.err != nil {
			e.fail(p.err)
			return
		}
		e.report(needLedger, nil)
		if p.unfunded { // no account to probe with: bootstrap has not begun
			if !sleep(ctx, time.Second/2) {
				return
			}
			continue
		}
		e.metrics.clockSkew.Set(p.skew.Seconds())
		if p.skew.Abs() > e.config.ClockSkewMax {
			e.report(needClock, fmt.Errorf("this machine's clock differs from the ledger's by %s, more than ENGINE_CLOCK_SKEW_MAX %s: nothing is fetched; set the clock right", p.skew, e.config.ClockSkewMax))
			e.room.shut(true)
		} else {
			e.report(needClock, nil)
			e.room.shut(false)
		}
		if !sleep(ctx, e.config.PulseInterval) {
			return
		}
	}
}

// now is this machine's clock, which a test can make wrong. Whatever is compared with
// another clock is read here; durations are not.
func (e *Engine) now() time.Time { return time.Now().Add(e.config.ClockOffset) }

type pulse struct {
	skew time.Duration // this clock minus the ledger's, as far as it exceeds the probe's own time
	// unfunded tells that the accounts of the probe do not exist yet.
	unfunded bool
	err      error
}

func (e *Engine) probe() pulse {
	id := tb.ID()
	before := e.now()
	_, err := e.ledger.CreateTransfers([]tb.Transfer{{
		ID: id, DebitAccountID: ledger.IssuanceAccount, CreditAccountID: ledger.RefusalsAccount,
		Ledger: ledger.Ledger, Code: ledger.CodeClockProbe,
	}})
	after := e.now()
	if err != nil {
		return pulse{err: fmt.Errorf("the ledger refused a probe: %w", err)}
	}
	found, err := e.ledger.LookupTransfers([]tb.Uint128{id})
	if err != nil {
		return pulse{err: fmt.Errorf("the ledger refused to look up a probe: %w", err)}
	}
	if len(found) == 0 {
		return pulse{unfunded: true}
	}
	at := time.Unix(0, int64(found[0].Timestamp))
	switch {
	case at.Before(before):
		return pulse{skew: before.Sub(at)}
	case at.After(after):
		return pulse{skew: after.Sub(at)}
	}
	return pulse{}
}

// pingKafka keeps asking the broker whether it is there.
func (e *Engine) pingKafka(ctx context.Context) {
	for {
		ping, cancel := context.WithTimeout(ctx, e.config.PulseInterval/2)
		err := stream.Reach(ping, e.direct)
		cancel()
		if ctx.Err() != nil {
			return
		}
		e.report(needKafka, err)
		if !sleep(ctx, e.config.PulseInterval/2) {
			return
		}
	}
}

// report tells Health, and the log when it is news.
func (e *Engine) report(need string, err error) {
	if e.telemetry.Health.Report(need, err) {
		if err != nil {
			e.log.Warn("not ready", zap.String("need", need), zap.Error(err))
		} else {
			e.log.Info("well", zap.String("need", need))
		}
	}
}
