// Package bank is every receiving PSP of the sandbox as one service: it reads authorization
// requests, decides each by the profile of its bank, and sends the responses.
package bank

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/crash"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/bank-simulator/decision"
)

// What the service needs to be ready.
const (
	runningNeed    = "running"    // met from the end of the start until the stop begins
	assignmentNeed = "assignment" // met once the group has assigned partitions
	accountsNeed   = "accounts"   // met once the states of the banks' accounts were read: before that nobody answers
)

// Run responds to requests until ctx ends. It stops within config.ShutdownTimeout.
func Run(ctx context.Context, config *Config, on host.Host) error {
	started := time.Now()

	t, err := telemetry.Start("bank-simulator", config.Telemetry, on)
	if err != nil {
		return err
	}
	defer t.Stop()

	for _, need := range []string{runningNeed, stream.KafkaNeed, stream.TopicsNeed, assignmentNeed, accountsNeed} {
		t.Health.Need(need)
	}

	catalog, err := config.Profiles.catalog()
	if err != nil {
		return err
	}

	handler, err := config.Access.restrict(profilesAPI(catalog, t.Log))
	if err != nil {
		return err
	}

	api, err := web.Serve(config.HTTP, on.Listen, handler, t.Log)
	if err != nil {
		return err
	}
	defer api.Close()
	var running atomic.Pointer[bank]
	metrics := newMetrics(t.Registry, metricSeriesMax, &running)
	begin := func() (*bank, error) {
		b, err := start(config.Bank, config.Stream, on, catalog, newAccounts(config.Accounts, t), metrics, t)
		running.Store(b)
		return b, err
	}

	b, err := begin()
	if err != nil {
		return err
	}
	t.Health.Report(runningNeed, nil)
	t.Log.Info("started", zap.Duration("took", time.Since(started)), zap.String("http_address", api.Address()))

	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-b.renewed: // a client would never use the new topic
			again, cancel := context.WithTimeout(ctx, config.ShutdownTimeout)
			_ = b.stop(again) // what is not finished comes again
			cancel()

			if b, err = begin(); err != nil {
				return err
			}
		}
	}
	t.Health.Report(runningNeed, errors.New("stopping"))
	stopping := time.Now()
	bound, cancel := context.WithTimeout(context.Background(), config.ShutdownTimeout)
	defer cancel()

	if err := b.stop(bound); err != nil {
		t.Log.Warn("stopped with work left; it comes again after the next start", zap.Error(err))
	}

	if err := api.Stop(bound); err != nil {
		t.Log.Warn("HTTP requests were cut off", zap.Error(err))
	}
	t.Log.Info("stopped", zap.NamedError("because_of", context.Cause(ctx)), zap.Duration("took", time.Since(stopping)))

	return nil
}

// bank responds to each authorization request at least once. It commits an offset when
// every request below it is finished: its response is acknowledged, or it gets none.
type bank struct {
	config   ResponseConfig
	catalog  *decision.Catalog
	accounts *accounts
	client   *kgo.Client
	delayed  *schedule
	metrics  *metrics
	seals    *keys.Watched[keys.Seals] // nil: responses have no seal. Only the fetching goroutine uses it
	message  requestMessage            // of the fetching goroutine, too
	crash    *crash.Crash              // nil but in tests
	renewed  chan struct{}             // holds a token once a topic was made anew
	now      func() time.Time
	t        *telemetry.Telemetry
	rarely   *zap.Logger // for what could come with every record

	background     context.Context // of watching and committing, until the stop has committed
	stopBackground context.CancelFunc
	fetching       context.Context
	stopFetching   context.CancelFunc
	workers        sync.WaitGroup
	fetcher        sync.WaitGroup

	mu         sync.Mutex
	partitions map[int32]*partition // assigned to this process
	unanswered int
	room       *sync.Cond // unanswered fell below the limit, or fetching has ended
}

// start joins the group and responds from then on. It does not wait for a broker.
func start(config ResponseConfig, kafka stream.Config, on host.Host, catalog *decision.Catalog, accounts *accounts,
	metrics *metrics, t *telemetry.Telemetry) (*bank, error) {
	b := &bank{config: config, catalog: catalog, accounts: accounts, delayed: newSchedule(on.Now), now: on.Now, t: t,
		metrics: metrics, renewed: make(chan struct{}, 1), partitions: map[int32]*partition{},
		rarely: t.Rarely(10 * time.Second)}

	var err error
	if b.crash, err = parseCrash(config.CrashAt, on.Die); err != nil {
		return nil, err
	}

	if config.AnswerKeysFile != "" {
		if b.seals, err = keys.Watch(config.AnswerKeysFile, keys.ReadSeals); err != nil {
			return nil, fmt.Errorf("ANSWER_KEYS_FILE: %w", err)
		}
	}
	b.room = sync.NewCond(&b.mu)

	b.client, err = stream.Connect(kafka, on.Dial, "bank-simulator", t,
		kgo.ConsumerGroup(stream.BankGroup),
		kgo.ConsumeTopics(stream.AuthorizationRequests),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(config.SessionTimeout),
		kgo.HeartbeatInterval(config.SessionTimeout/3),
		kgo.DisableAutoCommit(),
		// A partition stays ours from a poll until take has ended. Otherwise requests of two
		// assignments would mix in it. take never blocks.
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(b.assigned),
		kgo.OnPartitionsRevoked(b.revoked),
		kgo.OnPartitionsLost(b.lost),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		// More than can be unanswered, so that producing never blocks.
		kgo.MaxBufferedRecords(config.UnansweredMax+2*pollRecordsMax),
	)
	if err != nil {
		return nil, err
	}
	b.background, b.stopBackground = context.WithCancel(context.Background())
	b.fetching, b.stopFetching = context.WithCancel(context.Background())
	context.AfterFunc(b.fetching, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.room.Broadcast()
	})
	b.workers.Go(func() {
		stream.Watch(b.background, b.client, t, stream.Watched{
			Topics: []string{stream.AuthorizationRequests, stream.AuthorizationResponses},
			Renewed: func(string) {
				select {
				case b.renewed <- struct{}{}:
				default:
				}
			},
		})
	})
	b.workers.Go(func() { b.delayed.release(b.fetching, b.send) })
	b.workers.Go(b.commitRegularly)
	b.workers.Go(func() { b.accounts.follow(b.background) })
	b.fetcher.Go(b.fetch)

	return b, nil
}

// stop takes no more requests, waits until the responses under way are acknowledged, commits
// and leaves the group, all before ctx ends. It does not send delayed responses: their
// requests are not committed and come again.
func (b *bank) stop(ctx context.Context) error {
	b.stopFetching()
	b.fetcher.Wait()
	flushed := b.client.Flush(ctx)
	committed := b.commit(ctx, nil)
	b.stopBackground()
	b.workers.Wait()
	left := b.client.LeaveGroupContext(ctx)
	b.client.Close()

	return errors.Join(flushed, committed, left)
}

func (b *bank) fetch() {
	select { // a bank that does not know its accounts answers nothing
	case <-b.accounts.read:
	case <-b.fetching.Done():
	}

	for {
		room := b.awaitRoom()
		if b.fetching.Err() != nil {
			return
		}

		fetches := b.client.PollRecords(b.fetching, min(room, pollRecordsMax))
		if b.fetching.Err() == nil {
			fetches.EachError(func(topic string, partition int32, err error) {
				b.rarely.Warn("cannot fetch", zap.String("topic", topic), zap.Int32("partition", partition),
					zap.Error(err))
			})
		}
		b.take(fetches)
		b.client.AllowRebalance()
	}
}

// awaitRoom blocks while too many requests have no response yet. It returns how many may come.
func (b *bank) awaitRoom() int {
	b.mu.Lock()
	defer b.mu.Unlock()

	for b.unanswered >= b.config.UnansweredMax && b.fetching.Err() == nil {
		b.room.Wait()
	}

	return b.config.UnansweredMax - b.unanswered
}

func (b *bank) take(fetches kgo.Fetches) {
	now, profiles, seals := b.now(), b.catalog.Profiles(), b.secrets()
	fetches.EachPartition(func(fetched kgo.FetchTopicPartition) {
		b.mu.Lock()
		p := b.partitions[fetched.Partition]
		b.mu.Unlock()

		if p == nil {
			return // lost before it was polled: the next owner gets these
		}
		fetched.EachRecord(func(record *kgo.Record) { b.respond(p, record, profiles, seals, now) })
	})
}

// secrets returns the banks' secrets as the file has them now, or nil if responses have no seal.
func (b *bank) secrets() keys.Seals {
	if b.seals == nil {
		return nil
	}

	seals, err := b.seals.Now()
	if err != nil {
		b.t.Log.Error("the file of secrets has changed and cannot be read: the banks go on with those of before",
			zap.Error(err))
	}

	return seals
}

// respond decides a request and sends the response, now or when it is due.
func (b *bank) respond(p *partition, record *kgo.Record, profiles decision.Profiles, seals keys.Seals, now time.Time) {
	b.crash.Pass(afterFetch)

	request, err := b.message.read(record.Value)
	if err != nil {
		b.metrics.invalid.Inc()
		b.rarely.Warn("skipping an authorization request that cannot be read; more like it are only counted",
			zap.Int32("partition", record.Partition), zap.Int64("offset", record.Offset), zap.Error(err))
		b.note(p, record.Offset, nil)

		return
	}

	payee := request.Payee
	if seals != nil && len(seals[pix.ISPB(payee.Ispb)]) == 0 { // another program answers for this bank
		b.metrics.foreign.Inc()
		b.note(p, record.Offset, nil)
		return
	}

	decided := profiles.Of(payee.Ispb, payee.Branch).Decide(seed, request.EndToEndId)
	if decided.Silent {
		b.metrics.silent.Inc()
		b.note(p, record.Offset, nil)
		return
	}

	if decided.RejectCode == "" {
		decided.RejectCode = b.accounts.refusal(payee.Ispb, payee.Branch, payee.Number)
	}
	r := newResponse(request, decided, seals)
	// From the time of the request, so that a backlog after a restart is not delayed again.
	requested := record.Timestamp
	if requested.After(now) {
		requested = now
	}
	r.due = requested.Add(decided.Delay)
	b.dispatch(p, record.Offset, r, now)

	if decided.Twice {
		b.dispatch(p, record.Offset, &response{record: r.record, label: r.label, due: r.due}, now)
	}
}

func (b *bank) dispatch(p *partition, offset int64, r *response, now time.Time) {
	delayed := r.due.After(now)
	b.note(p, offset, r)

	if delayed {
		b.delayed.add(r)
	} else {
		b.send(r)
	}
}

func (b *bank) note(p *partition, offset int64, r *response) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.add(offset, r)

	if r != nil {
		b.unanswered++
	}
}

func (b *bank) send(r *response) {
	b.client.Produce(context.Background(), &r.record, func(_ *kgo.Record, err error) { b.sent(r, err) })
	b.crash.PassSent(afterResponseProduced)
}

// A response that Kafka refused is tried again for about a minute. By then the engine has
// decided without it, and it would hold back the commits of its partition.
const (
	resendAfter = time.Second
	resendsMax  = 60
)

func (b *bank) sent(r *response, err error) {
	switch {
	case errors.Is(err, kgo.ErrClientClosed):
		return // unanswered: it stays in its partition, and its request comes again
	case err != nil:
		// Not an absent broker, for which the client itself waits: a topic that is still to
		// be created, or a reply partition that does not exist.
		b.metrics.refused.Inc()
		b.rarely.Warn("kafka refused a response", zap.ByteString("end_to_end_id", r.record.Key),
			zap.Int32("partition", r.record.Partition), zap.Int("tries_left", resendsMax-r.tries), zap.Error(err))

		if r.tries++; r.tries <= resendsMax {
			r.due = b.now().Add(resendAfter)
			b.delayed.add(r)
			return
		}
		b.metrics.abandoned.Inc()
	default:
		b.metrics.answered(r.label)
		b.crash.Pass(afterResponseAcknowledged)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	r.partition.remove(r)

	b.unanswered--
	if b.unanswered == b.config.UnansweredMax-1 {
		b.room.Signal()
	}
}
