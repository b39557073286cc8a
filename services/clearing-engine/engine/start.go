package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/origin"
	"github.com/liquida/liquida/platform/stream"
)

// start waits for what must be there before the first payment is fetched, and joins the group.
func (e *Engine) start(ctx context.Context) error {
	if err := e.awaitMarker(ctx); err != nil {
		return err
	}

	if err := e.awaitTopics(ctx); err != nil {
		return err
	}

	if err := e.awaitLog(ctx); err != nil {
		return err
	}

	if e.room.Wait(ctx) == 0 { // an unhealthy engine must not take partitions from the others
		return ctx.Err()
	}

	for _, fresh := e.register.Current(); !fresh; _, fresh = e.register.Current() {
		if !host.Sleep(ctx, tickInterval) {
			return ctx.Err()
		}
	}

	options := []kgo.Opt{
		kgo.ConsumerGroup(stream.EngineGroup),
		kgo.ConsumeTopics(stream.Payments),
		// Without a commit, begin at the start. Never go on elsewhere than at the commit: that would
		// skip payments. assigned and fetchError say so instead.
		kgo.ConsumeResetOffset(kgo.NoResetOffset().AtStart()),
		kgo.Balancers(wholeBalancer{kgo.CooperativeStickyBalancer(), &e.whole}),
		kgo.SessionTimeout(e.config.SessionTimeout),
		kgo.HeartbeatInterval(e.config.SessionTimeout / 6),
		// All members wait until the slowest one has joined again. A dead one never does, so this
		// is also how long they wait for it.
		kgo.RebalanceTimeout(e.config.RevokeDrain + e.config.SessionTimeout),
		kgo.DisableAutoCommit(),
		// Transaction markers take offsets too. They are finished at once: otherwise the
		// committed offset would stay below the end forever, and look like lag.
		kgo.KeepControlRecords(),
		// Records are handed out between poll and AllowRebalance, so none can reach a
		// partition after it was revoked. Nothing blocks in between.
		kgo.BlockRebalanceOnPoll(),
		// A fetch takes little of each partition: if a few partitions with a backlog filled
		// it, payments of the others would wait past their deadlines.
		kgo.FetchMaxPartitionBytes(stream.BatchBytesMax),
		kgo.FetchMaxBytes(4 << 20),
		kgo.OnPartitionsAssigned(e.assigned),
		kgo.AdjustFetchOffsetsFn(e.beginAtPositions),
		kgo.OnPartitionsRevoked(e.revoked),
		kgo.OnPartitionsLost(e.lost),
	}
	if e.config.InstanceID != "" {
		options = append(options, kgo.InstanceID(e.config.InstanceID))
	}
	var err error
	e.group, err = stream.Connect(e.config.Stream, e.on.Dial, "clearing-engine-group", e.telemetry, options...)

	return err
}

// await tries every half second until the result is final, and says meanwhile why a need is not met.
func (e *Engine) await(ctx context.Context, need string, try func() (final bool, err error)) error {
	for {
		final, err := try()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case final && err != nil:
			return err
		}
		e.telemetry.Report(need, err)

		if final {
			return nil
		}
		host.Sleep(ctx, time.Second/2)
	}
}

// awaitMarker waits for bootstrap's last transfer: a missing account would burn the ids of
// every payment that touches it. If the topics name another ledger, bootstrap would refuse this one.
func (e *Engine) awaitMarker(ctx context.Context) error {
	return e.await(ctx, needBootstrap, func() (final bool, err error) {
		found, err := ledger.Ask(ctx, func() ([]tb.Transfer, error) {
			return e.ledger.LookupTransfers([]tb.Uint128{ledger.MarkerID})
		})
		switch {
		case err != nil:
			return true, fmt.Errorf("cannot look up bootstrap's marker in the ledger: %w", err)
		case len(found) == 0:
			_, err := origin.CompareLedger(ctx, e.direct, e.ledger)
			if _, mismatch := errors.AsType[*origin.Mismatch](err); mismatch {
				return true, err
			}

			return false, errors.New("its marker is not in the ledger: run bootstrap")
		}

		return true, nil
	})
}

// awaitTopics waits until the topics exist.
func (e *Engine) awaitTopics(ctx context.Context) error {
	return e.await(ctx, needBootstrap, func() (final bool, err error) {
		if e.whole.Load() == 0 { // watchTopics says which topic is missing
			return false, errors.New("not all topics are there: run bootstrap")
		}

		return true, nil
	})
}

// awaitLog compares topics and ledger, before anything is fetched, and names the partitions that have records and
// no name. It may do that because the topics name this ledger.
func (e *Engine) awaitLog(ctx context.Context) error {
	return e.await(ctx, needLog, func() (final bool, err error) {
		found, err := origin.Check(ctx, e.direct, e.ledger)
		if err == nil && found.Unconfirmed {
			return false, origin.ErrUnconfirmed
		}

		if err == nil {
			if !e.compared.Swap(true) {
				e.probe <- struct{}{}
			}

			e.identity, e.logNumber = found.Ledger, found.Log
			for partition := range found.Origins {
				e.named.Store(partition, true)
			}

			for partition, b := range found.Bounds {
				if _, named := found.Origins[partition]; !named && b.Start < b.End && err == nil {
					err = e.name(ctx, partition)
				}
			}
		}
		_, mismatch := errors.AsType[*origin.Mismatch](err)

		return err == nil || mismatch, err
	})
}
