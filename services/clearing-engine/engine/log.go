package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/origin"
	"github.com/liquida/liquida/platform/stream"
)

// name names a partition's log in the ledger, by the first batch that it has. It reads that with a client that has no
// fetch under way: behind one that waits for records, the first payments would wait, too.
func (e *Engine) name(ctx context.Context, partition int32) error {
	bounds, err := stream.BoundsOf(ctx, e.direct, stream.Payments)
	if err != nil {
		return err
	}

	o, err := origin.Name(ctx, e.overtakenReader, e.ledger, e.logNumber, partition, bounds[partition].Start)
	if err != nil {
		return err
	}
	e.named.Store(partition, true)
	e.log.Info("named the log of a partition in the ledger", zap.Uint32("log", o.Log),
		zap.Int32("partition", partition), zap.Int64("offset", o.Offset))

	return nil
}

// nameFirst names a partition that has got its first records, and then lets them in.
func (e *Engine) nameFirst(p *partition) {
	ctx, cancel := context.WithCancel(e.failed)
	defer cancel()
	defer context.AfterFunc(p.owned, cancel)()

	for {
		err := e.name(ctx, p.number)
		if err == nil {
			p.inbox.put(event{kind: begun})
			return
		}

		if _, final := errors.AsType[*origin.Mismatch](err); final {
			e.fail(err)
			return
		}
		e.log.Warn("cannot name the log of a partition; trying again", zap.Int32("partition", p.number), zap.Error(err))

		if !host.Sleep(ctx, time.Second/2) {
			return
		}
	}
}

// checkLog compares topics and ledger regularly: both may be replaced under a running engine.
func (e *Engine) checkLog(ctx context.Context) {
	var watch origin.Watch
	for host.Sleep(ctx, host.Next(e.config.PulseInterval)) {
		err := watch.Look(ctx, e.direct, e.ledger)
		if _, final := errors.AsType[*origin.Mismatch](err); final {
			e.fail(err)
			return
		}

		if now := watch.Found; err == nil && (now.Ledger != e.identity || now.Log != e.logNumber) {
			e.fail(fmt.Errorf("the topics take another ledger or log than at the start of this engine: ledger %s and log %d, before %s and %d; bootstrap gave one up while it ran",
				now.Ledger, now.Log, e.identity, e.logNumber))
			return
		}
		e.restoreCommits(ctx)
	}
}
