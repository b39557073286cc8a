// Package question tells banks over HTTP what engines ask them, and takes their answers. It reads the
// questions once for all banks, and only while a bank asks for them. An answer is sealed by its bank: the front
// door cannot speak for it.
package question

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
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
	Again   time.Duration `env:"QUESTION_AGAIN_INTERVAL" envDefault:"10s" range:"1s to 1m" help:"after which a question that nobody has answered is told again; of several programs that share the questions it may be another one"`
	OpenMax int           `env:"QUESTIONS_OPEN_MAX" envDefault:"100000" range:"100 to 10000000" help:"open questions of a bank that a front door keeps, half a kilobyte each; above it a question is not told here"`
}

const (
	// readBack is how long questions may be open: a reading begins so far in the past.
	readBack = 2 * time.Minute
	// idleMax is how long the questions are read although nobody asks.
	idleMax = 5 * time.Minute
	// catchUpMax is how long a reading may take to come to what is new.
	catchUpMax = 10 * time.Second
	tickEvery  = time.Second
	// oldDeadline is the deadline after a question of an engine that does not say it.
	oldDeadline = 40 * time.Second
)

// Board has a desk for each bank that asks.
type Board struct {
	config         Config
	feed           feed.Config
	publishTimeout time.Duration
	kafka          stream.Config
	on             host.Host
	t              *telemetry.Telemetry
	ledger         *query.Ledger
	stopping       context.Context
	streams, waits *web.Pool

	wanted  chan struct{} // holds a token once somebody asks
	renewed chan struct{} // holds a token once a topic was made anew
	used    atomic.Int64  // when somebody asked last, Unix seconds
	open    atomic.Int64  // streams
	reading atomic.Pointer[reading]

	mu    sync.Mutex
	desks map[pix.ISPB]*desk

	full    prometheus.Counter
	answers *prometheus.CounterVec
}

// reading is the connection to Kafka while somebody asks.
type reading struct {
	client *kgo.Client
	now    atomic.Bool // it has come to what is new

	mu   sync.Mutex
	next map[int32]int64 // offsets of questions
}

// New registers the metrics. Streams and polls end with stopping.
func New(stopping context.Context, config Config, following feed.Config, publishTimeout time.Duration, kafka stream.Config, on host.Host, ledger *query.Ledger, streams, waits *web.Pool, t *telemetry.Telemetry) *Board {
	b := &Board{config: config, feed: following, publishTimeout: publishTimeout, kafka: kafka, on: on, t: t, ledger: ledger, stopping: stopping, streams: streams, waits: waits,
		wanted: make(chan struct{}, 1), renewed: make(chan struct{}, 1), desks: map[pix.ISPB]*desk{},
		full:    prometheus.NewCounter(prometheus.CounterOpts{Name: "pix_producer_questions_untold_total", Help: "Questions that were not told, because their bank has QUESTIONS_OPEN_MAX open ones."}),
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pix_producer_answers_total", Help: "Answers of banks over HTTP, by HTTP status."}, []string{"status"}),
	}
	t.Registry.MustRegister(b.full, b.answers,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "pix_producer_questions_open", Help: "Open questions that this front door keeps, while banks ask for theirs over HTTP."}, b.openNow))
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
	desks := make(map[pix.ISPB]*desk, len(b.desks))
	for psp, d := range b.desks {
		desks[psp] = d
	}
	return desks
}

// deskOf returns the desk of a participant, and has the questions read.
func (b *Board) deskOf(psp pix.ISPB) (*desk, *web.Problem) {
	state, problem := b.ledger.Register()
	if problem != nil {
		return nil, problem
	}
	if state.Participant(psp) == nil {
		return nil, query.UnknownParticipant(string(psp))
	}
	b.used.Store(b.on.Now().Unix())
	select {
	case b.wanted <- struct{}{}:
	default:
	}
	return b.desk(psp), nil
}

func (b *Board) desk(psp pix.ISPB) *desk {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := b.desks[psp]
	if d == nil {
		d = newDesk(b.config.Again, b.config.OpenMax)
		b.desks[psp] = d
	}
	return d
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

// Run reads the questions whenever somebody asks, until ctx ends.
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
	}
}

// read reads until nobody has asked for a while, a topic was made anew, or ctx ends.
func (b *Board) read(ctx context.Context) error {
	since := b.on.Now().Add(-readBack)
	client, err := stream.Connect(b.kafka, b.on.Dial, "producer-questions", b.t,
		kgo.ConsumeTopics(stream.AuthorizationRequests, stream.Settlements, stream.DeadLetters),
		kgo.ConsumeResetOffset(kgo.NewOffset().AfterMilli(since.UnixMilli())),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RecordDeliveryTimeout(b.publishTimeout), kgo.ProduceRequestTimeout(b.publishTimeout), kgo.RequestTimeoutOverhead(b.publishTimeout),
		kgo.FetchMaxBytes(8<<20), kgo.FetchMaxPartitionBytes(1<<20))
	if err != nil {
		return err
	}
	r := &reading{client: client, next: map[int32]int64{}}
	b.reading.Store(r)
	b.t.Log.Info("reading the questions to banks: one asks for them over HTTP")
	ctx, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer func() {
		b.reading.Store(nil)
		stop()
		beside.Wait()
		client.Close()
		if b.open.Load() == 0 { // what is read next is read from its beginning
			b.mu.Lock()
			clear(b.desks)
			b.mu.Unlock()
		}
	}()
	beside.Go(func() { b.tick(ctx, stop) })
	beside.Go(func() { r.catchUp(ctx, since) })
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			b.t.Log.Warn("cannot read a partition, trying again", zap.String("topic", topic), zap.Int32("partition", partition), zap.Error(err))
		})
		changed := map[*desk]struct{}{}
		fetches.EachRecord(func(record *kgo.Record) { b.take(record, changed) })
		for d := range changed {
			d.wakeAll()
		}
		r.passed(&fetches)
	}
}

// tick has the desks look at what is due. It stops the reading when nobody asks any more.
func (b *Board) tick(ctx context.Context, stop context.CancelFunc) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.renewed:
			stop()
			select {
			case b.wanted <- struct{}{}: // at once again
			default:
			}
		case <-tick.C:
		}
		if b.open.Load() > 0 {
			b.used.Store(b.on.Now().Unix())
		}
		if b.on.Now().Sub(time.Unix(b.used.Load(), 0)) > idleMax {
			stop()
		}
		for _, d := range b.all() {
			d.tick(b.on.Now(), b.ledger.Clock())
		}
	}
}

// catchUp notes when the client has read what was there at the start.
func (r *reading) catchUp(ctx context.Context, since time.Time) {
	defer r.now.Store(true)
	ctx, cancel := context.WithTimeout(ctx, catchUpMax)
	defer cancel()
	admin := kadm.NewClient(r.client)
	starts, err := admin.ListOffsetsAfterMilli(ctx, since.UnixMilli(), stream.AuthorizationRequests)
	if err != nil {
		return
	}
	ends, err := admin.ListEndOffsets(ctx, stream.AuthorizationRequests)
	if err != nil {
		return
	}
	for host.Sleep(ctx, 10*time.Millisecond) {
		behind := false
		r.mu.Lock()
		ends.Each(func(end kadm.ListedOffset) {
			start, _ := starts.Lookup(end.Topic, end.Partition)
			behind = behind || start.Offset < end.Offset && r.next[end.Partition] < end.Offset
		})
		r.mu.Unlock()
		if !behind {
			return
		}
	}
}

// passed notes how far the questions were read.
func (r *reading) passed(fetches *kgo.Fetches) {
	if r.now.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	fetches.EachRecord(func(record *kgo.Record) {
		if record.Topic == stream.AuthorizationRequests {
			r.next[record.Partition] = record.Offset + 1
		}
	})
}

// take reads a record, and notes whose desk it changes.
func (b *Board) take(record *kgo.Record, changed map[*desk]struct{}) {
	var d *desk
	switch record.Topic {
	case stream.AuthorizationRequests:
		q, psp := questionOf(record)
		if q == nil {
			return
		}
		if d = b.desk(psp); !d.ask(b.on.Now(), q) {
			b.full.Inc()
			return
		}
	case stream.Settlements:
		id, psp, how := verdictOf(record)
		if psp == "" {
			return
		}
		d = b.desk(psp)
		d.end(id, how)
	case stream.DeadLetters:
		id, psp, at := forgeryOf(record)
		if psp == "" {
			return
		}
		d = b.desk(psp)
		d.forged(id, at)
	}
	changed[d] = struct{}{}
}

// questionOf reads a question, or returns nil: who may write to the topic may write nonsense.
func questionOf(record *kgo.Record) (*asked, pix.ISPB) {
	var m pixv1.AuthorizationRequest
	if m.UnmarshalVT(record.Value) != nil || m.Payer == nil || m.Payee == nil || m.ReplyPartition < 0 {
		return nil, ""
	}
	id, err := pix.ParsePaymentOrReturnID(m.EndToEndId)
	psp, wrong := pix.ParseISPB(m.Payee.Ispb)
	if err != nil || wrong != nil {
		return nil, ""
	}
	q := &asked{id: id, partition: m.ReplyPartition, Question: Question{
		EndToEndID: m.EndToEndId, OriginalEndToEndID: m.OriginalEndToEndId, Payer: accountOf(m.Payer), Payee: accountOf(m.Payee), AmountCentavos: m.AmountCentavos,
		RemittanceInformation: m.RemittanceInformation, AskedAt: record.Timestamp.UTC(), Deadline: time.UnixMilli(m.DeadlineUnixMs).UTC(),
	}}
	if m.DeadlineUnixMs == 0 {
		q.Deadline = q.AskedAt.Add(oldDeadline)
	}
	return q, psp
}

func accountOf(a *pixv1.Account) field.Account {
	return field.Account{ISPB: a.Ispb, Branch: a.Branch, Number: a.Number}
}

// verdictOf reads a report: how the question to a bank ended. It returns no bank if none was asked.
func verdictOf(record *kgo.Record) (id pix.EndToEndID, psp pix.ISPB, how News) {
	var m pixv1.SettlementReport
	if m.UnmarshalVT(record.Value) != nil {
		return id, "", how
	}
	id, err := pix.ParsePaymentOrReturnID(m.EndToEndId)
	if err != nil {
		return id, "", how
	}
	psp = pix.ISPB(m.Payee.GetIspb())
	if original, err := pix.ParseEndToEndID(m.OriginalEndToEndId); err == nil { // a rejected return names no account
		psp = original.Payer()
	}
	how = News{EndToEndID: m.EndToEndId, Status: query.Rejected, ReasonCode: m.ReasonCode}
	if m.Status == pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC {
		how.Status = query.Settled
	}
	return id, psp, how
}

// forgeryOf reads a dead letter about a response without its bank's seal.
func forgeryOf(record *kgo.Record) (id pix.EndToEndID, psp pix.ISPB, at recordAt) {
	var letter pixv1.DeadLetter
	var m pixv1.AuthorizationResponse
	if letter.UnmarshalVT(record.Value) != nil || letter.Topic != stream.AuthorizationResponses || m.UnmarshalVT(letter.Payload) != nil {
		return id, "", at
	}
	id, err := pix.ParsePaymentOrReturnID(m.EndToEndId)
	if err != nil {
		return id, "", at
	}
	return id, pix.ISPB(m.Ispb), recordAt{letter.Partition, letter.Offset}
}
