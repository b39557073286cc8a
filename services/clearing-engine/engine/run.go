package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/register"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/services/clearing-engine/metrics"
	"github.com/liquida/liquida/services/clearing-engine/room"
)

// Run clears payments until ctx ends, or until something happens after which the process
// must not go on: that is the error. It stops within config.ShutdownTimeout. The ledger's
// client stays open.
func Run(ctx context.Context, config *Config, on host.Host, client tigerbeetle.Client) error {
	started := time.Now()

	t, err := telemetry.Start("clearing-engine", config.Telemetry, on)
	if err != nil {
		return err
	}
	defer t.Stop()

	e, err := newEngine(config, on, client, t)
	if err != nil {
		return err
	}
	t.Log.Info("started", zap.Duration("took", time.Since(started)), zap.String("instance", config.InstanceID))

	if err := e.run(ctx); err != nil {
		t.Log.Error("cannot go on", zap.Error(err))
		return err
	}

	return nil
}

// newEngine builds an engine. It reaches neither broker nor ledger before run.
func newEngine(config *Config, on host.Host, client tigerbeetle.Client, t *telemetry.Telemetry) (*Engine, error) {
	e := &Engine{
		common: common{
			moved:                 make(chan struct{}, 1),
			config:                config,
			on:                    on,
			pendingTimeoutSeconds: uint32(config.PendingTimeout / time.Second),
			log:                   t.Log,
		},
		telemetry:      t,
		rarely:         t.Rarely(time.Second),
		ledger:         client,
		owned:          map[int32]*partition{},
		pausedPosition: make(chan struct{}, 1),
		committing:     make(chan struct{}, 1),
		probe:          make(chan struct{}, 1),
	}
	following := register.New(client, config.Batch.EventsMax, t)
	e.register, e.follow = following, following.Run
	e.room = room.New(config.limits(), e.now())
	e.failed, e.setFailed = context.WithCancelCause(context.Background())
	e.room.Shut(true) // until the first good pulse
	e.metrics = metrics.New(t.Registry, e.room, chainNames[chainReserve:])
	promauto.With(t.Registry).NewGaugeFunc(prometheus.GaugeOpts{Name: "pix_orders_overtaken",
		Help: "Orders that younger ones have overtaken and that are not read yet: they could not end in time."},
		e.overtaken)

	for _, need := range []string{needLedger, needClock, needBootstrap, stream.KafkaNeed, stream.TopicsNeed,
		needGroup, needLog} {
		t.Health.Need(need)
	}

	var err error
	if e.crash, err = parseCrash(config.CrashAt, on.Die); err != nil {
		return nil, err
	}

	if config.AnswerKeysFile != "" {
		if e.seals, err = keys.Watch(config.AnswerKeysFile, keys.ReadSeals); err != nil {
			return nil, fmt.Errorf("ANSWER_KEYS_FILE: %w", err)
		}
	}

	if e.direct, err = e.connectProducer("clearing-engine-direct"); err != nil {
		return nil, err
	}

	asking, err := e.connectProducer("clearing-engine-asking")
	if err != nil {
		return nil, err
	}
	e.asking.Store(asking)

	e.reader, err = newReader(e.failed, &e.common, t, e.fail)
	if err != nil {
		return nil, err
	}

	e.overtakenReader, err = stream.Connect(config.Stream, on.Dial, "clearing-engine-overtaken", t,
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.KeepControlRecords(), kgo.FetchMaxPartitionBytes(128<<10),
		kgo.FetchMaxBytes(1<<20))
	if err != nil {
		return nil, err
	}
	e.writer = ledger.NewWriter(client, config.Batch, t.Registry, e.admit, func(to recipient, result ledger.Result) {
		to.partition.inbox.put(event{kind: written, flight: to.flight, result: result})
	}, e.fail)
	e.transfers = ledger.NewTransferReader(client, config.Batch, t.Registry, func(to recipient, found []tb.Transfer) {
		e.witness.saw(found)
		to.partition.inbox.put(event{kind: inspected, flight: to.flight, transfers: found})
	}, e.fail)
	e.accounts = ledger.NewAccountReader(client, config.Batch, t.Registry, func(to recipient, found []tb.Account) {
		to.partition.inbox.put(event{kind: diagnosed, flight: to.flight, accounts: found})
	}, e.fail)

	return e, nil
}

// run starts, works until ctx ends or the engine fails, and stops.
func (e *Engine) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var loops sync.WaitGroup
	loops.Go(func() { e.pulse(ctx) })
	loops.Go(func() {
		if err := e.follow(ctx); err != nil {
			e.fail(err)
		}
	})
	loops.Go(func() { e.watchTopics(ctx) })
	loops.Go(func() {
		err := e.start(ctx)
		switch {
		case ctx.Err() != nil: // asked to stop before it began: that is no failure
		case err != nil:
			e.fail(err)
		default:
			for _, loop := range []func(context.Context){
				e.intake, e.readResponses, e.reader.run, e.readOvertaken,
				e.lookAtPositions, e.commitRegularly, e.checkLog, e.watchPartitions,
			} {
				loops.Go(func() { loop(ctx) })
			}
		}
	})

	select {
	case <-e.failed.Done():
	case <-ctx.Done():
	}
	cancel()
	e.stop(&loops)

	return context.Cause(e.failed) // nil if it did not fail
}

// failureBound is how long an engine that failed may take to end its goroutines.
const failureBound = time.Second

// stop ends in order: no more fetching, what is in flight may finish, what is finished
// is committed, the clients close. An engine that failed only closes.
func (e *Engine) stop(loops *sync.WaitGroup) {
	started, bound := time.Now(), e.config.ShutdownTimeout
	if e.failed.Err() != nil {
		bound = min(bound, failureBound)
	}
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		loops.Wait()

		if e.group != nil {
			e.handOver(ctx, e.partitions())
			member, _ := e.group.GroupMetadata()
			e.group.CloseAllowingRebalance()
			e.leaveGroup(ctx, member)
		}
		e.reader.client.Close()
		e.overtakenReader.Close()
		e.direct.Close()
		e.asking.Load().Close()
	}()

	select {
	case <-finished:
	case <-ctx.Done():
		e.log.Warn("stopped without finishing: the ledger or the broker does not respond",
			zap.Duration("waited", time.Since(started)))
	}
	e.closeLedger()
	e.log.Info("stopped", zap.Duration("took", time.Since(started)))
}
