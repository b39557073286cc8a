// Package frontdoor is the producer as a service: it puts the HTTP API together, describes
// it, and runs it. Payments come in over HTTP and go to Kafka; answers about them come from
// the ledger.
package frontdoor

import (
	"context"
	"errors"
	"sync"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/register"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/act"
	"github.com/liquida/liquida/services/producer/deadletter"
	"github.com/liquida/liquida/services/producer/feed"
	"github.com/liquida/liquida/services/producer/monitor"
	"github.com/liquida/liquida/services/producer/overload"
	"github.com/liquida/liquida/services/producer/query"
	"github.com/liquida/liquida/services/producer/question"
	"github.com/liquida/liquida/services/producer/submission"
)

// firstLookMax is how long the start waits for the first look at the log and at the register: broker or ledger may
// be away.
const firstLookMax = 3 * time.Second

// runningNeed is met from the end of the start until the stop begins.
const runningNeed = "running"

// Run serves until ctx ends or the ledger's client fails, which is the error. It stops within
// config.ShutdownTimeout. The owner of the client closes it: a look-up that an absent ledger
// does not answer ends only then.
func Run(ctx context.Context, config *Config, on host.Host, client tigerbeetle.Client) error {
	started := time.Now()
	wall := on.Now
	on.Now = func() time.Time { return wall().Add(config.ClockOffset) }

	t, err := telemetry.Start("producer", config.Telemetry, on)
	if err != nil {
		return err
	}
	defer t.Stop()

	for _, need := range []string{runningNeed, stream.KafkaNeed, stream.TopicsNeed, query.Need, query.ClockNeed,
		submission.LogNeed} {
		t.Health.Need(need)
	}
	follows := register.New(client, config.Query.IDsMax, t)

	control, err := access.New(config.Access, on.Now, follows)
	if err != nil {
		return err
	}
	pools := web.NewPools(config.Pools, t.Registry)
	gate := overload.NewGate(config.Overload, t.Registry)

	publisher, err := submission.NewPublisher(config.Submission, config.Stream, on, pools, gate, t)
	if err != nil {
		return err
	}
	defer publisher.Close()
	kafka := publisher.Client()
	watching, stopWatching := context.WithCancel(context.Background())
	letters := deadletter.New(follows)
	ledger := query.New(watching, config.Query, client, follows, letters, on.Now, gate.PaymentsWait, pools, t)
	defer ledger.Close()

	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer stopWatching()
	monitor.PublishLimit(config.LedgerLimitGiB, t.Registry)
	watcher := feed.NewWatcher(kafka, config.Stream, on.Dial, t)
	balances, caps, backlog := monitor.NewBalances(client, config.Query.IDsMax, follows, on.Now, t),
		monitor.NewCaps(client, config.Query.IDsMax, follows, ledger.Writable, t),
		monitor.NewBacklog(kafka, t, gate.Observe, publisher.Own)
	following := feed.New(watching, config.Feed, ledger, watcher, gate.PaymentsWait, pools, t.Registry)
	board := question.New(watching, config.Question, config.Feed, config.Submission.PublishTimeout,
		config.Submission.FlightTimeMax, config.Stream, on, ledger, following.Streams(), following.Waits(), t)
	watchers.Go(func() {
		stream.Watch(watching, kafka, t,
			stream.Watched{Topics: stream.TopicNames(), Partial: true, Closed: publisher.Shut, Renewed: board.Renew,
				Partitions: watcher.Grow})
	})
	compared, looked := make(chan struct{}), make(chan struct{})
	watchers.Go(func() { ledger.Watch(watching, t, compared) })
	watchers.Go(func() { ledger.Fail(follows.Run(watching)) })
	watchers.Go(func() { control.Run(watching, t.Log) })
	watchers.Go(func() { watcher.Run(watching) })
	watchers.Go(func() { letters.Follow(watching, config.Stream, on.Dial, t, watcher.Wake) })
	watchers.Go(func() { publisher.WatchLog(watching, client, t, ledger.Compared, looked) })
	watchers.Go(func() { balances.Publish(watching, config.BooksInterval) })
	watchers.Go(func() { caps.Follow(watching) })
	watchers.Go(func() { board.Run(watching) })
	watchers.Go(func() { backlog.Publish(watching, min(config.BooksInterval, config.Overload.Age/5)) })

	submissions := submission.New(publisher, config.Batch, int(config.HTTP.BodyBytesMax), ledger, following,
		pools, t.Registry)
	http := config.HTTP
	http.LargerBodies = map[string]int64{batchPath: config.Batch.BytesMax}
	http.TLS, http.Pools = control.TLS, pools
	first, done := context.WithTimeout(ctx, firstLookMax)
	defer done()

	select { // take nothing with another ledger than the topics'
	case <-looked:
	case <-first.Done():
	}

	select { // nor with a clock that the first comparison would call wrong
	case <-compared:
	case <-first.Done():
	}

	select { // nor where no engine would read it
	case <-publisher.Placed():
	case <-first.Done():
	}
	// before the register was read no payment is taken; an error means that the time is over
	_, _ = follows.Newer(first)

	server, err := web.Serve(http, on.Listen,
		handler(api(submissions, ledger, following, act.New(config.Act, ledger, pools), board), control, ledger.Closed,
			turns{ledger.Turn, ledger.Wrong}, t.Registry), t.Log)
	if err != nil {
		return err
	}
	defer server.Close()
	t.Health.Report(runningNeed, nil)
	t.Log.Info("started", zap.Duration("took", time.Since(started)), zap.String("http_address", server.Address()))

	var failure error
	select {
	case failure = <-ledger.Failures():
	case <-ctx.Done():
	}
	stopping := time.Now()
	t.Health.Report(runningNeed, errors.New("stopping"))
	stopWatching()
	watchers.Wait()

	for _, step := range []struct {
		stop   func(context.Context) error
		within time.Duration // since stopping: callers that do not read leave time for what Kafka has not acknowledged
	}{{server.Stop, config.ShutdownTimeout * 3 / 4}, {publisher.Stop, config.ShutdownTimeout}} {
		bound, cancel := context.WithDeadline(context.Background(), stopping.Add(step.within))
		if err := step.stop(bound); err != nil {
			t.Log.Warn("stopped with work left", zap.Error(err))
		}
		cancel()
	}
	t.Log.Info("stopped", zap.NamedError("because_of", errors.Join(failure, context.Cause(ctx))),
		zap.Duration("took", time.Since(stopping)))

	return failure
}
