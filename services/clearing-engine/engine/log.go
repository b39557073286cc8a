package engine

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/origin"
	"github.com/liquida/liquida/platform/stream"
)

// awaitLog compares the log of pix.payments with the ledger, before anything is fetched, and
// names the partitions that have records and no name: those of a log from before there were
// names.
func (e *Engine) awaitLog(ctx context.Context) error {
	return e.await(ctx, needLog, func() (final bool, err error) {
		names, bounds, err := origin.Check(ctx, e.direct, e.ledger)
		if err == nil {
			for partition := range names.Origins {
				e.named.Store(partition, true)
			}
			for partition, b := range bounds {
				if _, named := names.Origins[partition]; !named && b.Start < b.End && err == nil {
					err = e.name(ctx, partition)
				}
			}
		}
		_, mismatch := errors.AsType[*origin.Mismatch](err)
		return err == nil || mismatch, err
	})
}

// name names a partition's log in the ledger, by the first batch that it has.
func (e *Engine) name(ctx context.Context, partition int32) error {
	names, err := origin.Read(ctx, e.ledger, 0)
	if err != nil {
		return err
	}
	bounds, err := stream.BoundsOf(ctx, e.direct, stream.Payments)
	if err != nil {
		return err
	}
	o, err := origin.Name(ctx, e.direct, e.ledger, names.Log, partition, bounds[partition].Start)
	if err != nil {
		return err
	}
	e.named.Store(partition, true)
	e.log.Info("named the log of a partition in the ledger", zap.Uint32("log", o.Log), zap.Int32("partition", partition), zap.Int64("offset", o.Offset))
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

// checkLog compares log and ledger regularly: a topic may be made anew under a running engine.
func (e *Engine) checkLog(ctx context.Context) {
	var watch origin.Watch
	for host.Sleep(ctx, e.config.PulseInterval) {
		err := watch.Look(ctx, e.direct, e.ledger)
		if _, final := errors.AsType[*origin.Mismatch](err); final {
			e.fail(err)
			return
		}
	}
}

// outside returns a Mismatch if a commit is not between the bounds of its partition.
func outside(numbers []int32, commits kadm.OffsetResponses, bounds map[int32]stream.Bounds) error {
	for _, number := range numbers {
		committed, ok := commits.Lookup(stream.Payments, number)
		if b := bounds[number]; ok && committed.At >= 0 && (committed.At < b.Start || committed.At > b.End) {
			return origin.Mismatched("the group %s has committed offset %d of %s, partition %d, and the partition has the offsets %d to %d", stream.EngineGroup, committed.At, stream.Payments, number, b.Start, b.End)
		}
	}
	return nil
}
