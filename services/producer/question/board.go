// Package question tells banks over HTTP what engines ask them, and takes their answers. It reads the questions once
// for all banks, while at least one bank asks for them. A question to a bank that does not ask is not kept. An answer
// is sealed by its bank: the front door cannot speak for it.
package question

import (
	"bytes"
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/platform/web"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
	"github.com/liquida/liquida/services/producer/feed"
	"github.com/liquida/liquida/services/producer/field"
	"github.com/liquida/liquida/services/producer/query"
)

// Config bounds what the front door keeps of questions.
type Config struct {
	Again   time.Duration `env:"QUESTION_AGAIN_INTERVAL" envDefault:"10s" range:"1s to 1m" help:"after which a question that nobody has answered is told again, perhaps to another of several programs"`
	OpenMax int           `env:"QUESTIONS_OPEN_MAX" envDefault:"100000" range:"100 to 10000000" help:"open questions of a bank that a front door keeps, half a kilobyte each; more are not told here"`
}

const (
	// idleMax is how long a desk stays although its bank asks nothing. Filling a new one costs reading, so a bank
	// that comes and goes costs that once in this time.
	idleMax   = 5 * time.Minute
	tickEvery = time.Second
	// oldDeadline is the deadline after a question of an engine that does not say it.
	oldDeadline = 40 * time.Second
)

// Board has a desk for each bank that asks.
type Board struct {
	config         Config
	feed           feed.Config
	publishTimeout time.Duration
	openTime       time.Duration // for which a question may be open
	kafka          stream.Config
	on             host.Host
	t              *telemetry.Telemetry
	ledger         *query.Ledger
	stopping       context.Context
	streams, waits *web.Pool

	wanted  chan struct{} // holds a token once there is a desk to fill
	renewed chan struct{} // holds a token once a topic was made anew
	reading atomic.Pointer[reading]
	// partitions is how many the client knows that topics have in which it stores answers.
	partitions atomic.Int32

	mu    sync.Mutex
	desks map[pix.ISPB]*desk

	full    prometheus.Counter
	answers *prometheus.CounterVec
}

// reading is the connection to Kafka while there are desks.
type reading struct {
	client *kgo.Client
	mu     sync.Mutex
	next   map[string]map[int32]int64 // by topic: the offset of each partition that is read next
}

// New registers the metrics. Streams and polls end with stopping. A question is open for openTime at most.
func New(stopping context.Context, config Config, following feed.Config, publishTimeout, openTime time.Duration,
	kafka stream.Config, on host.Host, ledger *query.Ledger, streams, waits *web.Pool, t *telemetry.Telemetry) *Board {
	b := &Board{config: config, feed: following, publishTimeout: publishTimeout, openTime: openTime, kafka: kafka,
		on: on, t: t, ledger: ledger, stopping: stopping, streams: streams, waits: waits,
		wanted: make(chan struct{}, 1), renewed: make(chan struct{}, 1), desks: map[pix.ISPB]*desk{},
		full: prometheus.NewCounter(
			prometheus.CounterOpts{Name: "pix_producer_questions_untold_total",
				Help: "Questions that were not told, because their bank has QUESTIONS_OPEN_MAX open ones."}),
		answers: prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: "pix_producer_answers_total",
				Help: "Answers of banks over HTTP, by HTTP status."}, []string{"status"}),
	}
	t.Registry.MustRegister(b.full, b.answers,
		prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: "pix_producer_questions_open",
				Help: "Open questions that this front door keeps for the banks that ask for theirs over HTTP."},
			b.openNow))

	return b
}

func (b *Board) openNow() (sum float64) {
	for _, d := range b.all() {
		d.mu.Lock()
		sum += float64(len(d.open))
		d.mu.Unlock()
	}

	return sum
}

func (b *Board) all() map[pix.ISPB]*desk {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.desks)
}

// deskOf returns the desk of a participant that asks. It stays until it is left, and for a while after.
func (b *Board) deskOf(psp pix.ISPB) (*desk, *web.Problem) {
	state, problem := b.ledger.Register()
	if problem != nil {
		return nil, problem
	}

	if state.Participant(psp) == nil {
		return nil, query.UnknownParticipant(string(psp))
	}
	b.mu.Lock()
	defer b.mu.Unlock()

	d := b.desks[psp]
	if d == nil {
		d = newDesk(b.config.Again, b.config.OpenMax)
		b.desks[psp] = d
		b.want()
	}
	d.users++

	return d, nil
}

func (b *Board) leave(d *desk) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d.users--
	d.used = time.Now()
}

// dropIdle drops the desks of banks that have not asked for a while, and reports whether some are left.
func (b *Board) dropIdle(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.desks, func(_ pix.ISPB, d *desk) bool { return d.users == 0 && now.Sub(d.used) > idleMax })

	return len(b.desks) > 0
}

func (b *Board) want() {
	select {
	case b.wanted <- struct{}{}:
	default:
	}
}

// Renew has the topics read anew: one was made anew, and a client would never use the new one.
func (b *Board) Renew(topic string) {
	if topic == stream.AuthorizationRequests || topic == stream.AuthorizationResponses {
		select {
		case b.renewed <- struct{}{}:
		default:
		}
	}
}

// Run reads the questions whenever there are desks, until ctx ends.
func (b *Board) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.wanted:
		}

		if err := b.read(ctx); err != nil { // a wrong option: Connect asks no broker
			b.t.Log.Error("cannot read the questions to banks: they are told none over HTTP", zap.Error(err))
			return
		}

		if len(b.all()) > 0 { // a topic was made anew, or a bank came just now
			b.want()
		}
	}
}

// read reads until no desk is left, a topic was made anew, or ctx ends.
func (b *Board) read(ctx context.Context) error {
	client, err := stream.Connect(b.kafka, b.on.Dial, "producer-questions", b.t,
		kgo.RecordPartitioner(kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
			return func(record *kgo.Record, partitions int) int {
				b.partitions.Store(int32(partitions)) //nolint:gosec // some thousands at most
				return int(record.Partition)
			}
		})),
		kgo.RecordDeliveryTimeout(b.publishTimeout), kgo.ProduceRequestTimeout(b.publishTimeout),
		kgo.RequestTimeoutOverhead(b.publishTimeout),
		kgo.FetchMaxBytes(8<<20), kgo.FetchMaxPartitionBytes(1<<20))
	if err != nil {
		return err
	}
	r := &reading{client: client}
	b.reading.Store(r)
	b.t.Log.Info("reading the questions to banks: one asks for them over HTTP")
	ctx, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer func() {
		b.reading.Store(nil)
		stop()
		beside.Wait()
		client.Close()

		for _, d := range b.all() { // they are filled anew by the next reading
			d.read = false
			d.filled.Store(false)
		}
	}()
	beside.Go(func() { b.tick(ctx, stop) })

	from, err := r.ends(ctx)
	for err != nil && host.Sleep(ctx, time.Second) {
		b.t.Log.Warn("cannot read the questions to banks, trying again", zap.Error(err))
		from, err = r.ends(ctx)
	}

	if err != nil {
		return nil // ctx has ended
	}
	stream.Together(client, stream.AuthorizationRequests)
	client.AddConsumePartitions(from)
	beside.Go(func() { stream.FollowAdded(ctx, client, from) })
	beside.Go(func() { b.fill(ctx, r) })

	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			b.t.Log.Warn("cannot read a partition, trying again", zap.String("topic", topic),
				zap.Int32("partition", partition), zap.Error(err))
		})
		changed := map[*desk]struct{}{}
		r.mu.Lock()
		fetches.EachRecord(func(record *kgo.Record) {
			r.next[record.Topic][record.Partition] = record.Offset + 1
			b.take(record, changed)
		})
		r.mu.Unlock()

		for d := range changed {
			d.wakeAll()
		}
	}
}

// ends returns from where on everything is new.
func (r *reading) ends(ctx context.Context) (map[string]map[int32]kgo.Offset, error) {
	offsets := map[string]map[int32]kgo.Offset{}

	r.next = map[string]map[int32]int64{}
	for _, topic := range []string{stream.AuthorizationRequests, stream.Settlements, stream.DeadLetters} {
		bounds, err := stream.BoundsOf(ctx, r.client, topic)
		if err != nil {
			return nil, err
		}

		offsets[topic], r.next[topic] = map[int32]kgo.Offset{}, map[int32]int64{}
		for partition, bound := range bounds {
			offsets[topic][partition], r.next[topic][partition] = kgo.NewOffset().At(bound.Stable), bound.Stable
		}
	}

	return offsets, nil
}

// tick has the desks look at what is due. It stops the reading when none is left.
func (b *Board) tick(ctx context.Context, stop context.CancelFunc) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()

	for {
		select {
		case <-ctx.Done():
			return
		case <-b.renewed:
			stop()
		case <-tick.C:
		}

		if !b.dropIdle(time.Now()) {
			stop()
		}

		for _, d := range b.all() {
			d.tick(b.on.Now(), b.ledger.Clock())
		}
	}
}

// take reads a record, and notes whose desk it changes.
func (b *Board) take(record *kgo.Record, changed map[*desk]struct{}) {
	var d *desk

	switch record.Topic {
	case stream.AuthorizationRequests:
		q, psp := questionOf(record)
		if d = b.deskRead(psp); d == nil {
			return
		}
		b.ask(d, q)
	case stream.Settlements:
		id, psp, how := verdictOf(record)
		if d = b.deskRead(psp); d == nil {
			return
		}
		d.end(id, how)
	case stream.DeadLetters:
		id, psp, at := forgeryOf(record)
		if d = b.deskRead(psp); d == nil {
			return
		}
		d.forged(id, at)
	}
	changed[d] = struct{}{}
}

// deskRead returns the desk of a bank if the reading is to fill it, else nil: who asks nothing takes no room. The
// caller holds the reading's lock.
func (b *Board) deskRead(psp pix.ISPB) *desk {
	b.mu.Lock()
	defer b.mu.Unlock()

	if d := b.desks[psp]; d != nil && d.read {
		return d
	}

	return nil
}

func (b *Board) ask(d *desk, q *asked) {
	if !d.ask(b.on.Now(), q) {
		b.full.Inc()
	}
}

// questionOf reads a question, or returns nil: who may write to the topic may write nonsense.
func questionOf(record *kgo.Record) (*asked, pix.ISPB) {
	var m pixv1.AuthorizationRequest

	text := bytes.Clone(record.Value) // all fields lie in it: one allocation, and no batch is kept
	if m.UnmarshalVTUnsafe(text) != nil || m.Payer == nil || m.Payee == nil || m.ReplyPartition < 0 {
		return nil, ""
	}
	id, err := pix.ParsePaymentOrReturnID(m.EndToEndId)

	psp, wrong := pix.ParseISPB(m.Payee.Ispb)
	if err != nil || wrong != nil {
		return nil, ""
	}
	q := &asked{id: id, partition: m.ReplyPartition, told: told{Question: Question{
		EndToEndID: m.EndToEndId, OriginalEndToEndID: m.OriginalEndToEndId, Payer: accountOf(m.Payer),
		Payee: accountOf(m.Payee), AmountCentavos: m.AmountCentavos,
		RemittanceInformation: m.RemittanceInformation,
	}}}

	deadline := record.Timestamp.Add(oldDeadline)
	if m.DeadlineUnixMs != 0 {
		deadline = time.UnixMilli(m.DeadlineUnixMs)
	}
	q.date(record.Timestamp, deadline)

	return q, psp
}

func accountOf(a *pixv1.Account) field.Account {
	return field.Account{ISPB: a.Ispb, Branch: a.Branch, Number: a.Number}
}

// verdictOf reads a report: how the question to a bank ended. It returns no bank if none was asked.
func verdictOf(record *kgo.Record) (id pix.EndToEndID, psp pix.ISPB, how ending) {
	var m pixv1.SettlementReport
	if m.UnmarshalVTUnsafe(record.Value) != nil {
		return id, "", how
	}

	id, err := pix.ParsePaymentOrReturnID(m.EndToEndId)
	if err != nil {
		return id, "", how
	}

	psp = pix.ISPB(m.Payee.GetIspb())
	if m.OriginalEndToEndId != "" { // a rejected return names no account
		if original, err := pix.ParseEndToEndID(m.OriginalEndToEndId); err == nil {
			psp = original.Payer()
		}
	}

	if m.Status == pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC {
		return id, psp, ending{status: questionSettled}
	}
	reason, _ := pix.ParseReason(m.ReasonCode)

	return id, psp, ending{questionRejected, reason}
}

// forgeryOf reads a dead letter about a response without its bank's seal.
func forgeryOf(record *kgo.Record) (id pix.EndToEndID, psp pix.ISPB, at recordAt) {
	var letter pixv1.DeadLetter

	var m pixv1.AuthorizationResponse
	if letter.UnmarshalVT(record.Value) != nil || letter.Topic != stream.AuthorizationResponses ||
		m.UnmarshalVT(letter.Payload) != nil {
		return id, "", at
	}

	id, err := pix.ParsePaymentOrReturnID(m.EndToEndId)
	if err != nil {
		return id, "", at
	}

	return id, pix.ISPB(m.Ispb), recordAt{letter.Partition, letter.Offset}
}
