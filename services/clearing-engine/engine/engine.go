// Package engine drives payments through Kafka and TigerBeetle: it fetches orders,
// carries out what package payment decides, and commits the offsets of what is finished.
package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/crash"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/telemetry"
)

// Engine is one clearing engine. Several share the partitions of pix.payments; none
// keeps a state that the ledger and the topics could not give back.
type Engine struct {
	config                Config
	pendingTimeoutSeconds uint32
	telemetry             *telemetry.Telemetry
	log                   *zap.Logger

	ledger    tigerbeetle.Client
	writer    *ledger.Writer[*flight]
	transfers *ledger.Reader[*flight, tb.Transfer]
	accounts  *ledger.Reader[*flight, tb.Account]

	group  *kgo.Client // member of the group: pix.payments
	direct *kgo.Client // everything produced, and the answers of our partitions

	room         *room
	participants *participants
	metrics      *metrics

	ownedMu  sync.RWMutex
	owned    map[int32]*partition
	commitMu sync.Mutex // held from reading what is finished to its commit: commits never go back

	seals keys.Seals   // nil: answers are taken as they come
	crash *crash.Crash // nil but in tests
	fatal chan error
}

// New builds an engine. It touches neither broker nor ledger before Run.
func New(config Config, t *telemetry.Telemetry) (*Engine, error) {
	e := &Engine{
		config:                config,
		pendingTimeoutSeconds: uint32(config.PendingTimeout / time.Second),
		telemetry:             t,
		log:                   t.Log,
		room:                  newRoom(config.InFlightMax, config.InFlightBytesMax),
		participants:          newParticipants(max(1, int(float64(config.InFlightMax)*config.InFlightPSPShare)), config.InactiveParticipants),
		owned:                 map[int32]*partition{},
		fatal:                 make(chan error, 1),
	}
	e.room.shut(true) // until the first pulse is well
	e.metrics = newMetrics(t.Registry, e.room, e.participants)

	var err error
	if e.crash, err = parseCrash(config.CrashAt); err != nil {
		return nil, err
	}
	if config.AnswerKeysFile != "" {
		if e.seals, err = keys.ReadSeals(config.AnswerKeysFile); err != nil {
			return nil, fmt.Errorf("ANSWER_KEYS_FILE: %w", err)
		}
	}
	for _, need := range []string{needLedger, needClock, needBootstrap, needKafka, needGroup} {
		t.Health.Need(need)
	}
	if e.ledger, err = ledger.Connect(config.Ledger); err != nil {
		return nil, err
	}
	e.writer = ledger.NewWriter(e.ledger, config.Batch, t.Registry, func(f *flight, result ledger.Answer) {
		f.partition.inbox.put(event{kind: written, flight: f, result: result})
	}, e.fail)
	e.transfers = ledger.NewTransferReader(e.ledger, config.Batch, t.Registry, func(f *flight, found []tb.Transfer) {
		f.partition.inbox.put(event{kind: inspected, flight: f, transfers: found})
	}, e.fail)
	e.accounts = ledger.NewAccountReader(e.ledger, config.Batch, t.Registry, func(f *flight, found []tb.Account) {
		f.partition.inbox.put(event{kind: diagnosed, flight: f, accounts: found})
	}, e.fail)
	e.direct, err = stream.Connect(config.Stream, host.System().Dial, "clearing-engine-direct", t,
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		// A payment has at most a request, a report or a dead letter on the way at a
		// time; with twice that, producing never blocks a partition.
		kgo.MaxBufferedRecords(2*config.InFlightMax+forgedInFlightMax),
	)
	return e, err
}

// What the engine needs to be ready.
const (
	needLedger    = "tigerbeetle"
	needClock     = "clock"
	needBootstrap = "bootstrap"
	needKafka     = "kafka"
	needGroup     = "group"
)

// Run clears payments until the context ends or something happens after which the
// process must not go on; that is the error. It stops within config.ShutdownTimeout.
func (e *Engine) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go e.pulse(ctx)
	go e.pingKafka(ctx)
	started := make(chan error, 1)
	go func() { started <- e.start(ctx) }()
	select {
	case err := <-started:
		switch {
		case ctx.Err() != nil: // asked to stop before it began: that is no failure
			return nil
		case err != nil:
			return err
		}
	case err := <-e.fatal:
		return err
	case <-ctx.Done():
		return nil
	}

	var loops sync.WaitGroup
	loops.Go(func() { e.intake(ctx) })
	loops.Go(func() { e.readResponses(ctx) })
	loops.Go(func() { e.commitRegularly(ctx) })

	var err error
	select {
	case err = <-e.fatal:
	case <-ctx.Done():
	}
	cancel()
	e.stop(&loops, err)
	return err
}

// start waits for what must be there before the first payment is fetched, and joins the group.
func (e *Engine) start(ctx context.Context) error {
	if err := e.awaitMarker(ctx); err != nil {
		return err
	}
	if err := e.awaitTopics(ctx); err != nil {
		return err
	}
	if e.room.wait(ctx) == 0 { // one that is not well takes no partitions from those that are
		return ctx.Err()
	}
	options := []kgo.Opt{
		kgo.ConsumerGroup(stream.EngineGroup),
		kgo.ConsumeTopics(stream.Payments),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.SessionTimeout(e.config.SessionTimeout),
		kgo.HeartbeatInterval(e.config.SessionTimeout / 6),
		// Everybody waits for the slowest to join again, and so for one that died in between.
		kgo.RebalanceTimeout(e.config.RevokeDrain + e.config.SessionTimeout),
		kgo.DisableAutoCommit(),
		// The markers that end a producer's transaction are finished at once: without them
		// the committed offset would stay below the end for ever, and look like lag.
		kgo.KeepControlRecords(),
		// Records are handed out between poll and AllowRebalance, so none can reach a
		// partition after it was revoked. Nothing blocks in between.
		kgo.BlockRebalanceOnPoll(),
		// Little of each partition in one fetch: behind a backlog, a fetch full of a few
		// partitions would keep the others waiting past their deadlines.
		kgo.FetchMaxPartitionBytes(128 << 10),
		kgo.FetchMaxBytes(4 << 20),
		kgo.OnPartitionsAssigned(e.assigned),
		kgo.OnPartitionsRevoked(e.revoked),
		kgo.OnPartitionsLost(e.lost),
	}
	if e.config.InstanceID != "" {
		options = append(options, kgo.InstanceID(e.config.InstanceID))
	}
	var err error
	e.group, err = stream.Connect(e.config.Stream, host.System().Dial, "clearing-engine-group", e.telemetry, options...)
	return err
}

// awaitMarker waits for bootstrap's last act: an account that is missing would burn the
// ids of every payment that touches it.
func (e *Engine) awaitMarker(ctx context.Context) error {
	for {
		found, err := e.ledger.LookupTransfers([]tb.Uint128{ledger.MarkerID})
		if err != nil {
			return fmt.Errorf("cannot look up bootstrap's marker in the ledger: %w", err)
		}
		if len(found) == 1 {
			e.telemetry.Health.Report(needBootstrap, nil)
			return nil
		}
		e.telemetry.Health.Report(needBootstrap, errors.New("its marker is not in the ledger: run bootstrap"))
		if !sleep(ctx, time.Second/2) {
			return ctx.Err()
		}
	}
}

// awaitTopics waits until the topics exist and refuses to start on a partition count
// that the replies could not follow.
func (e *Engine) awaitTopics(ctx context.Context) error {
	names := make([]string, len(stream.Topics))
	for i, topic := range stream.Topics {
		names[i] = topic.Name
	}
	for {
		details, err := kadm.NewClient(e.direct).ListTopics(ctx, names...)
		if err == nil {
			err = details.Error()
		}
		if err != nil {
			e.telemetry.Health.Report(needBootstrap, fmt.Errorf("topics cannot be listed (run bootstrap): %w", err))
			if !sleep(ctx, time.Second/2) {
				return ctx.Err()
			}
			continue
		}
		want := len(details[stream.Payments].Partitions)
		for _, name := range names {
			if have := len(details[name].Partitions); have != want {
				return fmt.Errorf("topic %s has %d partitions and %s has %d: they must have the same number, since a reply finds its engine by the partition; make the topics anew with bootstrap", name, have, stream.Payments, want)
			}
		}
		e.telemetry.Health.Report(needBootstrap, nil)
		return nil
	}
}

// stop ends in order: no more fetching, what is in flight may finish, what is finished
// is committed, the clients close. After a fatal error nothing more is done.
func (e *Engine) stop(loops *sync.WaitGroup, fatal error) {
	if fatal != nil {
		return
	}
	started := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), e.config.ShutdownTimeout)
	defer cancel()
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		loops.Wait()
		e.handOver(ctx, e.partitions())
		member, _ := e.group.GroupMetadata()
		e.group.CloseAllowingRebalance()
		e.leaveGroup(ctx, member)
		e.direct.Close()
	}()
	select {
	case <-finished:
	case <-ctx.Done():
		e.log.Warn("stopped without finishing: the ledger or the broker does not answer", zap.Duration("waited", time.Since(started)))
	}
	e.writer.Close()
	e.transfers.Close()
	e.accounts.Close()
	e.log.Info("stopped", zap.Duration("took", time.Since(started)))
}

// fail ends the process with an error. The first one counts.
func (e *Engine) fail(err error) {
	select {
	case e.fatal <- err:
	default:
	}
}

// produce sends a record and calls acknowledged when all replicas have it. It is tried
// until it succeeds; an error that no try can mend ends the process.
func (e *Engine) produce(record *kgo.Record, acknowledged func()) {
	e.direct.Produce(context.Background(), record, func(r *kgo.Record, err error) {
		switch {
		case err == nil:
			acknowledged()
		case errors.Is(err, kgo.ErrClientClosed):
		default:
			e.fail(fmt.Errorf("cannot produce to %s, partition %d, key %q: %w", r.Topic, r.Partition, r.Key, err))
		}
	})
}

func (e *Engine) partition(number int32) *partition {
	e.ownedMu.RLock()
	defer e.ownedMu.RUnlock()
	return e.owned[number]
}

func (e *Engine) partitions() []*partition {
	e.ownedMu.RLock()
	defer e.ownedMu.RUnlock()
	all := make([]*partition, 0, len(e.owned))
	for _, p := range e.owned {
		all = append(all, p)
	}
	return all
}

// sleep returns false when the context ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
