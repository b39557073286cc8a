package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/ledger"
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
	if e.room.wait(ctx) == 0 { // an unhealthy engine must not take partitions from the others
		return ctx.Err()
	}
	for _, fresh := e.register.Current(); !fresh; _, fresh = e.register.Current() {
		if !host.Sleep(ctx, tickInterval) {
			return ctx.Err()
		}
	}
	if err := e.awaitLog(ctx); err != nil {
		return err
	}
	options := []kgo.Opt{
		kgo.ConsumerGroup(stream.EngineGroup),
		kgo.ConsumeTopics(stream.Payments),
		// Without a commit, begin at the start. Never go on elsewhere than at the commit: that would
		// skip payments. assigned and fetchError say so instead.
		kgo.ConsumeResetOffset(kgo.NoResetOffset().AtStart()),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
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
// every payment that touches it.
func (e *Engine) awaitMarker(ctx context.Context) error {
	return e.await(ctx, needBootstrap, func() (final bool, err error) {
		found, err := ledger.Ask(ctx, func() ([]tb.Transfer, error) {
			return e.ledger.LookupTransfers([]tb.Uint128{ledger.MarkerID})
		})
		switch {
		case err != nil:
			return true, fmt.Errorf("cannot look up bootstrap's marker in the ledger: %w", err)
		case len(found) == 0:
			return false, errors.New("its marker is not in the ledger: run bootstrap")
		}
		return true, nil
	})
}

// awaitTopics waits until the topics exist. It fails if their numbers of partitions differ.
func (e *Engine) awaitTopics(ctx context.Context) error {
	names := topicNames()
	return e.await(ctx, needBootstrap, func() (final bool, err error) {
		details, err := kadm.NewClient(e.direct).ListTopics(ctx, names...)
		if err == nil {
			err = details.Error()
		}
		if err != nil {
			return false, fmt.Errorf("cannot list the topics (run bootstrap): %w", err)
		}
		want := len(details[stream.Payments].Partitions)
		for _, name := range names {
			if have := len(details[name].Partitions); have != want {
				return true, fmt.Errorf("topic %s has %d partitions and %s has %d: they must have the same number, because a response finds its engine by the partition; create the topics anew with bootstrap", name, have, stream.Payments, want)
			}
		}
		return true, nil
	})
}

func topicNames() []string {
	names := make([]string, len(stream.Topics))
	for i, topic := range stream.Topics {
		names[i] = topic.Name
	}
	return names
}
