// Package question tells banks over HTTP what engines ask them, and takes their answers. It reads the
// questions once for all banks, and only while a bank asks for them. An answer is sealed by its bank: the front
// door cannot speak for it.
package question

import (
	"context"
	"errors"
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
	Again   time.Duration `env:"QUESTION_AGAIN_INTERVAL" envDefault:"10s" range:"1s to 1m" help:"after which a question that nobody has answered is told again; of several programs that share the questions it may be another one"`
	OpenMax int           `env:"QUESTIONS_OPEN_MAX" envDefault:"100000" range:"100 to 10000000" help:"open questions of a bank that a front door keeps, half a kilobyte each; above it a question is not told here"`
}

const (
	// readBack is how long questions may be open: for a new desk so much of the past is read.
	readBack = 2 * time.Minute
	// idleMax is how long a desk stays although its bank asks no more. So a bank has the past read once in that time.
	idleMax   = 5 * time.Minute
	tickEvery = time.Second
	// oldDeadline is the deadline after a question of an engine that does not say it.
	oldDeadline = 40 * time.Second
)

// Board has a desk for each bank that asks, and keeps nothing for others.
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

	wanted   chan struct{} // holds a token once somebody asks
	unfilled chan struct{} // holds a token once a desk lacks the past
	renewed  chan struct{} // holds a token once a topic was made anew
	reading  atomic.Pointer[kgo.Client]

	mu    sync.Mutex
	desks map[pix.ISPB]*desk

	full    prometheus.Counter
	answers *prometheus.CounterVec
}

// New registers the metrics. Streams and polls end with stopping.
func New(stopping context.Context, config Config, following feed.Config, publishTimeout time.Duration, kafka stream.Config, on host.Host, ledger *query.Ledger, streams, waits *web.Pool, t *telemetry.Telemetry) *Board {
	b := &Board{config: config, feed: following, publishTimeout: publishTimeout, kafka: kafka, on: on, t: t, ledger: ledger, stopping: stopping, streams: streams, waits: waits,
		wanted: make(chan struct{}, 1), unfilled: make(chan struct{}, 1), renewed: make(chan struct{}, 1), desks: map[pix.ISPB]*desk{},
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

// deskOf returns the desk of a participant, and has its questions read.
func (b *Board) deskOf(psp pix.ISPB) (*desk, *web.Problem) {
	state, problem := b.ledger.Register()
	if problem != nil {
		return nil, problem
	}
	if state.Participant(psp) == nil {
		return nil, query.UnknownParticipant(string(psp))
	}
	b.mu.Lock()
	d := b.desks[psp]
	if d == nil {
		d = newDesk(b.config.Again, b.config.OpenMax)
		b.desks[psp] = d
		signal(b.unfilled)
	}
	d.used.Store(b.on.Now().Unix())
	b.mu.Unlock()
	signal(b.wanted)
	return d, nil
}

// desk returns the desk of a bank that asks, or nil.
func (b *Board) desk(psp pix.ISPB) *desk {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.desks[psp]
}

// sweep removes the desks of banks that ask no more, and reports whether one is left.
func (b *Board) sweep(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for psp, d := range b.desks {
		if d.tellers() {
			d.used.Store(now.Unix())
		}
		if now.Sub(time.Unix(d.used.Load(), 0)) > idleMax {
			delete(b.desks, psp)
		}
	}
	return len(b.desks) > 0
}

// signal leaves a token, unless there is one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Renew has the topics read anew: one was made anew, and a client would never use the new one.
func (b *Board) Renew(topic string) {
	if topic == stream.AuthorizationRequests || topic == stream.AuthorizationResponses {
		signal(b.renewed)
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

// read reads what is new until nobody has asked for a while, a topic was made anew, or ctx ends.
func (b *Board) read(ctx context.Context) error {
	client, err := b.connect("producer-questions", b.on.Now().Add(-apart),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RecordDeliveryTimeout(b.publishTimeout), kgo.ProduceRequestTimeout(b.publishTimeout), kgo.RequestTimeoutOverhead(b.publishTimeout))
	if err != nil {
		return err
	}
	for _, d := range b.all() {
		d.filled.Store(false)
	}
	signal(b.unfilled)
	b.reading.Store(client)
	b.t.Log.Info("reading the questions to banks: one asks for them over HTTP")
	ctx, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer func() {
		b.reading.Store(nil)
		stop()
		beside.Wait()
		client.Close()
	}()
	beside.Go(func() { b.tick(ctx, stop) })
	beside.Go(func() { b.fill(ctx) })
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		b.takeAll(&fetches, b.desk)
	}
}

// connect makes a client that reads what concerns questions.
func (b *Board) connect(name string, since time.Time, options ...kgo.Opt) (*kgo.Client, error) {
	return stream.Connect(b.kafka, b.on.Dial, name, b.t, append(options,
		kgo.ConsumeTopics(stream.AuthorizationRequests, stream.Settlements, stream.DeadLetters),
		kgo.ConsumeResetOffset(kgo.NewOffset().AfterMilli(since.UnixMilli())),
		kgo.FetchMaxBytes(8<<20), kgo.FetchMaxPartitionBytes(1<<20))...)
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
			signal(b.wanted) // at once again
		case <-tick.C:
		}
		if !b.sweep(b.on.Now()) {
			stop()
		}
		for _, d := range b.all() {
			d.tick(b.on.Now(), b.ledger.Clock())
		}
	}
}

// takeAll takes what was fetched to the desks, and wakes who waits there.
func (b *Board) takeAll(fetches *kgo.Fetches, deskOf func(pix.ISPB) *desk) {
	fetches.EachError(func(topic string, partition int32, err error) {
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return
		}
		b.t.Log.Warn("cannot read a partition, trying again", zap.String("topic", topic), zap.Int32("partition", partition), zap.Error(err))
	})
	changed := map[*desk]struct{}{}
	fetches.EachRecord(func(record *kgo.Record) {
		if d := b.take(record, deskOf); d != nil {
			changed[d] = struct{}{}
		}
	})
	for d := range changed {
		d.wakeAll()
	}
}

// take reads a record, and returns the desk that it changes.
func (b *Board) take(record *kgo.Record, deskOf func(pix.ISPB) *desk) *desk {
	switch record.Topic {
	case stream.AuthorizationRequests:
		q, psp := questionOf(record)
		if q == nil {
			return nil
		}
		d := deskOf(psp)
		if d != nil && !d.ask(b.on.Now(), q) {
			b.full.Inc()
			return nil
		}
		return d
	case stream.Settlements:
		id, psp, how := verdictOf(record)
		d := deskOf(psp)
		if d != nil {
			d.end(id, how)
		}
		return d
	case stream.DeadLetters:
		id, psp, at := forgeryOf(record)
		d := deskOf(psp)
		if d != nil {
			d.forged(id, at)
		}
		return d
	}
	return nil
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
	q := &asked{id: id, partition: m.ReplyPartition, at: recordAt{record.Partition, record.Offset}, Question: Question{
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
