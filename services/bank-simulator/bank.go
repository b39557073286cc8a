package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/crash"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/telemetry"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
	"github.com/liquida/liquida/services/bank-simulator/decision"
)

// bank is every receiving PSP. It answers each authorization request at least once: an
// offset is committed when every request below it is answered and the answer is
// acknowledged, or was decided to get none.
type bank struct {
	config  BankConfig
	book    *decision.Book
	client  *kgo.Client
	delayed *waitingRoom
	metrics *metrics
	seals   keys.Seals   // nil: answers have no seal
	crash   *crash.Crash // nil but in tests
	t       *telemetry.Telemetry
	rarely  *zap.Logger // for what could come with every record

	background     context.Context // watching, releasing and committing, until Stop is done
	stopBackground context.CancelFunc
	fetching       context.Context
	stopFetching   context.CancelFunc
	workers        sync.WaitGroup
	fetcher        sync.WaitGroup

	mu         sync.Mutex
	lines      map[int32]*line // of the partitions that are ours
	unanswered int
	room       *sync.Cond // unanswered fell below the limit, or the end has come
}

// answer is one answer on its way, from the decision until Kafka has acknowledged it.
type answer struct {
	record kgo.Record
	label  label
	due    time.Time // for an answer that waits
	tries  int       // refused by Kafka so far

	line          *line
	offset        int64
	before, after *answer
}

// assignmentNeed tells whether the group has given this process its partitions.
const assignmentNeed = "assignment"

// startBank joins the group and answers from then on. It does not wait for a broker.
func startBank(config BankConfig, kafka stream.Config, book *decision.Book, t *telemetry.Telemetry) (*bank, error) {
	crash, err := parseCrash(config.CrashAt)
	if err != nil {
		return nil, err
	}
	b := &bank{crash: crash, config: config, book: book, delayed: newWaitingRoom(), t: t, lines: map[int32]*line{}, rarely: rarely(t.Log)}
	if config.AnswerKeysFile != "" {
		if b.seals, err = keys.ReadSeals(config.AnswerKeysFile); err != nil {
			return nil, fmt.Errorf("ANSWER_KEYS_FILE: %w", err)
		}
	}
	b.room = sync.NewCond(&b.mu)
	b.metrics = newMetrics(t.Registry, config.MetricSeriesMax, b)
	client, err := stream.Connect(kafka, host.System().Dial, "bank-simulator", t,
		kgo.ConsumerGroup(stream.BankGroup),
		kgo.ConsumeTopics(stream.AuthorizationRequests),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(config.SessionTimeout),
		kgo.HeartbeatInterval(config.SessionTimeout/3),
		kgo.DisableAutoCommit(),
		// From a poll to the end of take a partition stays ours, or requests of two
		// assignments would mix in its line. take never blocks.
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(b.assigned),
		kgo.OnPartitionsRevoked(b.revoked),
		kgo.OnPartitionsLost(b.lost),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		// More than can be unanswered, so that producing never blocks.
		kgo.MaxBufferedRecords(config.UnansweredMax+2*config.PollRecordsMax),
		// A topic that bootstrap has yet to create is found soon after.
		kgo.MetadataMaxAge(10*time.Second), kgo.MetadataMinAge(time.Second),
	)
	if err != nil {
		return nil, err
	}
	b.client = client
	b.background, b.stopBackground = context.WithCancel(context.Background())
	b.fetching, b.stopFetching = context.WithCancel(context.Background())
	context.AfterFunc(b.fetching, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.room.Broadcast()
	})
	b.workers.Go(func() {
		stream.Watch(b.background, client, t, stream.AuthorizationRequests, stream.AuthorizationResponses)
	})
	b.workers.Go(func() { b.delayed.release(b.fetching, b.send) })
	b.workers.Go(b.commitNowAndThen)
	b.fetcher.Go(b.fetch)
	return b, nil
}

// stop takes no more requests, waits for the answers under way to be acknowledged,
// commits and leaves the group, all within the context's time. Answers whose time has
// not come are not sent: their requests are not committed and come again.
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
	for {
		room := b.awaitRoom()
		if b.fetching.Err() != nil {
			return
		}
		fetches := b.client.PollRecords(b.fetching, min(room, b.config.PollRecordsMax))
		if b.fetching.Err() == nil {
			fetches.EachError(func(topic string, partition int32, err error) {
				b.rarely.Warn("cannot fetch", zap.String("topic", topic), zap.Int32("partition", partition), zap.Error(err))
			})
		}
		b.take(fetches)
		b.client.AllowRebalance()
	}
}

// awaitRoom blocks while too many requests are unanswered and returns how many may come.
func (b *bank) awaitRoom() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.unanswered >= b.config.UnansweredMax && b.fetching.Err() == nil {
		b.room.Wait()
	}
	return b.config.UnansweredMax - b.unanswered
}

func (b *bank) take(fetches kgo.Fetches) {
	now, profiles := time.Now(), b.book.Profiles()
	fetches.EachPartition(func(partition kgo.FetchTopicPartition) {
		b.mu.Lock()
		line := b.lines[partition.Partition]
		b.mu.Unlock()
		if line == nil {
			return // lost before it was polled; the next owner gets these
		}
		partition.EachRecord(func(record *kgo.Record) { b.answer(line, record, profiles, now) })
	})
}

// answer decides a request and sends the answer, or has it wait.
func (b *bank) answer(line *line, record *kgo.Record, profiles decision.Profiles, now time.Time) {
	b.crash.Pass(afterFetch)
	request, err := readRequest(record.Value)
	if err != nil {
		b.metrics.invalid.Inc()
		b.rarely.Warn("skipping an authorization request that cannot be read; more like it are only counted",
			zap.Int32("partition", record.Partition), zap.Int64("offset", record.Offset), zap.Error(err))
		b.note(line, record.Offset, nil)
		return
	}
	payee := request.Payee
	decided := profiles.Of(payee.Ispb, payee.Branch).Decide(b.config.Seed, request.EndToEndId)
	if decided.Silent {
		b.metrics.silent.Inc()
		b.note(line, record.Offset, nil)
		return
	}
	a := newAnswer(request, decided)
	if seal := b.seals.Seal(pix.ISPB(payee.Ispb), a.record.Value); seal != nil { // here, where only the fetching goroutine comes
		a.record.Headers = []kgo.RecordHeader{{Key: keys.SealHeader, Value: seal}}
	}
	// From when it was asked, so that a backlog after a restart does not wait again.
	asked := record.Timestamp
	if asked.After(now) {
		asked = now
	}
	a.due = asked.Add(decided.Delay)
	b.answerWith(line, record.Offset, a, now)
	if decided.Twice {
		again := &answer{record: a.record, label: a.label, due: a.due}
		b.answerWith(line, record.Offset, again, now)
	}
}

func (b *bank) answerWith(line *line, offset int64, a *answer, now time.Time) {
	wait := a.due.After(now)
	b.note(line, offset, a)
	if wait {
		b.delayed.put(a)
	} else {
		b.send(a)
	}
}

func (b *bank) note(line *line, offset int64, a *answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	line.pass(offset, a)
	if a != nil {
		b.unanswered++
	}
}

// readRequest refuses what cannot be answered. The request's texts lie in value.
func readRequest(value []byte) (*pixv1.AuthorizationRequest, error) {
	request := &pixv1.AuthorizationRequest{}
	if err := request.UnmarshalVTUnsafe(value); err != nil {
		return nil, err
	}
	if _, err := pix.ParsePaymentOrReturnID(request.EndToEndId); err != nil {
		return nil, fmt.Errorf("end_to_end_id: %w", err)
	}
	if _, err := pix.ParseISPB(request.GetPayee().GetIspb()); err != nil {
		return nil, fmt.Errorf("payee.ispb: %w", err)
	}
	if request.ReplyPartition < 0 {
		return nil, fmt.Errorf("reply_partition is %d: it must not be negative", request.ReplyPartition)
	}
	return request, nil
}

func newAnswer(request *pixv1.AuthorizationRequest, decided decision.Decision) *answer {
	response := pixv1.AuthorizationResponse{
		EndToEndId: request.EndToEndId, Ispb: request.Payee.Ispb,
		Status: pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_ACSP, ReasonCode: decided.RejectCode,
	}
	if decided.RejectCode != "" {
		response.Status = pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_RJCT
	}
	// Everything is copied: what lies in the request would keep its whole fetch in memory.
	keyed := make([]byte, len(request.EndToEndId)+response.SizeVT())
	key, value := keyed[:len(request.EndToEndId):len(request.EndToEndId)], keyed[len(request.EndToEndId):]
	copy(key, request.EndToEndId)
	if _, err := response.MarshalToSizedBufferVT(value); err != nil {
		panic(fmt.Sprintf("cannot encode an answer to %s: %v", request.EndToEndId, err)) // the sizes are ours
	}
	return &answer{
		label: label{ispb: strings.Clone(request.Payee.Ispb), reason: decided.RejectCode},
		record: kgo.Record{
			Topic: stream.AuthorizationResponses, Partition: request.ReplyPartition,
			Key: key, Value: value,
		},
	}
}

func (b *bank) send(a *answer) {
	b.client.Produce(context.Background(), &a.record, func(_ *kgo.Record, err error) { b.sent(a, err) })
	b.crash.PassSent(afterAnswerProduced)
}

// An answer that Kafka refused is tried again, but not for ever: by then the engine has
// long decided without it, and it would hold the commits of its partition back.
const (
	resendAfter = time.Second
	resendsMax  = 60
)

func (b *bank) sent(a *answer, err error) {
	switch {
	case errors.Is(err, kgo.ErrClientClosed):
		return // unanswered: it stays in the line, and its request comes again
	case err != nil:
		// Not an absent broker, for which the client itself waits: a topic that is still to
		// be created, or a reply partition that does not exist.
		b.metrics.refused.Inc()
		b.rarely.Warn("kafka refused an answer", zap.ByteString("end_to_end_id", a.record.Key),
			zap.Int32("partition", a.record.Partition), zap.Int("tries_left", resendsMax-a.tries), zap.Error(err))
		if a.tries++; a.tries <= resendsMax {
			a.due = time.Now().Add(resendAfter)
			b.delayed.put(a)
			return
		}
		b.metrics.abandoned.Inc()
	default:
		b.metrics.answered(a.label)
		b.crash.Pass(afterAnswerAcknowledged)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	a.line.done(a)
	b.unanswered--
	if b.unanswered == b.config.UnansweredMax-1 {
		b.room.Signal()
	}
}

func (b *bank) assigned(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	b.mu.Lock()
	for _, partition := range partitions[stream.AuthorizationRequests] {
		b.lines[partition] = newLine()
	}
	owned := len(b.lines)
	b.mu.Unlock()
	b.t.Health.Report(assignmentNeed, nil)
	b.t.Log.Info("partitions assigned", zap.Int("owned", owned))
}

// revoked commits what is answered; answers under way still go out, and the next owner
// of the partition gives the same ones again.
func (b *bank) revoked(ctx context.Context, _ *kgo.Client, partitions map[string][]int32) {
	ctx, cancel := context.WithTimeout(ctx, b.config.SessionTimeout)
	defer cancel()
	if err := b.commit(ctx, partitions[stream.AuthorizationRequests]); err != nil {
		b.t.Log.Warn("cannot commit revoked partitions; their requests come again", zap.Error(err))
	}
	b.forget(partitions)
}

func (b *bank) lost(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	b.forget(partitions)
	b.t.Health.Report(assignmentNeed, errors.New("lost the partitions; joining the group again"))
	b.t.Log.Warn("partitions lost")
}

func (b *bank) forget(partitions map[string][]int32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, partition := range partitions[stream.AuthorizationRequests] {
		delete(b.lines, partition)
	}
}

func (b *bank) commitNowAndThen() {
	tick := time.NewTicker(b.config.CommitInterval)
	defer tick.Stop()
	for {
		select {
		case <-b.background.Done():
			return
		case <-tick.C:
			if err := b.commit(b.background, nil); err != nil && b.background.Err() == nil {
				b.rarely.Warn("cannot commit; trying again", zap.Error(err))
			}
		}
	}
}

// commit commits these partitions, or all of ours, as far as every request is finished.
func (b *bank) commit(ctx context.Context, partitions []int32) error {
	ctx, cancel := context.WithTimeout(ctx, b.config.CommitTimeout)
	defer cancel()
	moved := map[int32]kgo.EpochOffset{}
	b.mu.Lock()
	if partitions == nil {
		for partition := range b.lines {
			partitions = append(partitions, partition)
		}
	}
	for _, partition := range partitions {
		if line := b.lines[partition]; line != nil && line.committable() > line.committed {
			moved[partition] = kgo.EpochOffset{Epoch: -1, Offset: line.committable()}
		}
	}
	b.mu.Unlock()
	if len(moved) == 0 {
		return nil
	}
	var failed error
	offsets := map[string]map[int32]kgo.EpochOffset{stream.AuthorizationRequests: moved}
	b.client.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
		if failed = err; err != nil {
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, topic := range response.Topics {
			for _, p := range topic.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					failed = fmt.Errorf("partition %d: %w", p.Partition, err)
				} else if line := b.lines[p.Partition]; line != nil {
					line.committed = moved[p.Partition].Offset
				}
			}
		}
	})
	if failed == nil {
		b.crash.Pass(afterCommit)
	}
	return failed
}
