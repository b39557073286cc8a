// Package load sends payments at a fixed rate, whatever the clearing house does (an open
// loop). It compares the outcome of each payment with the one that it must have.
//
// Latencies count from the instant when a message should have been sent: if sender or
// broker stall, a payer waits for that, too.
package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// Config says what to send and how long to wait for outcomes.
type Config struct {
	Stream     stream.Config
	Kafka      []kgo.Opt // besides what Stream says, such as a dialer
	Population sandbox.Population
	Mix        mix.Mix
	MixName    string
	Rate       float64 // payments per second
	Payments   int
	Seed       uint64
	// DrainTimeout bounds the wait for outcomes after the last send.
	DrainTimeout time.Duration
	// OutstandingMax bounds the open payments, and so the memory. Above it payments are
	// dropped and counted, never delayed.
	OutstandingMax int
	// WaitForRoom makes the sender wait at OutstandingMax: a closed loop, which finds the
	// maximum of the system. Latencies then count from the actual send.
	WaitForRoom bool
	// Allowed are reasons with which any payment may be rejected, in runs with faults.
	Allowed []pix.Reason
	// Faults says that engines may die during the run; Allowed implies it. A repeated message
	// may then join the first and have no report of its own.
	Faults bool
	// Sending is called with each EndToEndId before it is sent.
	Sending func(pix.EndToEndID)
	// Told is called when the report of a payment that settled has come, with the time of its record.
	Told func(id string, reported, now time.Time)
	// Stop, once closed, ends the sending before all payments are sent.
	Stop <-chan struct{}
	// GoOn is asked when all payments are sent, and says whether to send one more. The cases then come again, in the
	// same order.
	GoOn func(Snapshot) bool
	// AtEnd is called after the last outcome, before connections close.
	AtEnd func()
	// Progress is called every ProgressEvery.
	Progress      func(Snapshot)
	ProgressEvery time.Duration
}

// Snapshot is the progress of a run.
type Snapshot struct {
	Elapsed     time.Duration
	Payments    int // to be sent
	Sent        int
	Settled     int
	Rejected    int
	DeadLetters int
	Waiting     int // for their outcome, OnPurpose included
	OnPurpose   int // their bank is silent or late
	Failed      int
	Dropped     int
	Late        int
}

// LateAfter is the delay above which a send counts as late.
const LateAfter = 50 * time.Millisecond

// againAfter is the time from a report to the repeated message after it. The engine must
// have finished the payment by then, or the message joins the first and has no report of
// its own.
const againAfter = time.Second

// loader is one run.
type loader struct {
	config   Config
	tracker  *tracker
	producer *kgo.Client
	dropped  int
	late     int
	lateMax  time.Duration
}

// Run sends the load and waits for every outcome. The Result says whether the outcomes are
// right; an error means that there is no result.
func Run(ctx context.Context, config Config) (*Result, error) {
	connection, err := config.Stream.Options()
	if err != nil {
		return nil, err
	}
	connection = slices.Clip(append(connection, config.Kafka...))

	producer, err := kgo.NewClient(append(connection,
		kgo.ClientID("loadtest"),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.ProducerLinger(config.Stream.Linger),
		kgo.ProducerBatchMaxBytes(stream.BatchBytesMax),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		// Above what OutstandingMax allows, so that the client never blocks.
		kgo.MaxBufferedRecords(messagesMax*config.OutstandingMax+1),
	)...)
	if err != nil {
		return nil, fmt.Errorf("cannot create the Kafka producer: %w", err)
	}
	defer producer.Close()

	ends, err := endsOf(ctx, producer)
	if err != nil {
		return nil, err
	}

	consumer, err := kgo.NewClient(append(connection, kgo.ClientID("loadtest"), kgo.ConsumePartitions(ends))...)
	if err != nil {
		return nil, fmt.Errorf("cannot create the Kafka consumer: %w", err)
	}
	defer consumer.Close()
	stream.Together(consumer, stream.Settlements, stream.DeadLetters)

	if _, _, err := producer.ProducerID(ctx); err != nil { // now, so that the first payments do not wait for it
		return nil, fmt.Errorf("the broker gives no producer id: %w", err)
	}

	random := rand.New(rand.NewPCG(config.Seed, 0))

	schedule := config.Mix.Schedule(config.Payments, random)
	generator := mix.NewGenerator(config.Population, random)

	l := &loader{config: config, tracker: newTracker(config.Allowed, config.Faults), producer: producer}
	l.tracker.start = time.Now().Add(100 * time.Millisecond)
	reading, stopReading := context.WithCancel(ctx)
	read := make(chan struct{})
	go func() { defer close(read); l.read(reading, consumer) }()
	go stream.FollowAdded(reading, consumer, ends)
	defer func() { stopReading(); <-read }()

	l.send(ctx, schedule, generator)
	sentAll := time.Now()
	l.drain(ctx)

	if config.AtEnd != nil {
		config.AtEnd()
	}
	interrupted := ctx.Err() != nil
	stopReading()
	<-read

	if !interrupted {
		l.tracker.giveUp()
	}

	return l.result(sentAll, interrupted), nil
}

// endsOf lists the offsets where the outcomes of this run will begin. Call it before the
// first send: a later end would skip reports.
func endsOf(ctx context.Context, client *kgo.Client) (map[string]map[int32]kgo.Offset, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()

	listed, err := stream.Ends(ctx, kadm.NewClient(client), stream.Payments, stream.Settlements, stream.DeadLetters)
	if err != nil {
		return nil, fmt.Errorf("is the broker at KAFKA_BROKERS up, has bootstrap created the topics? %w", err)
	}
	delete(listed, stream.Payments) // listed only to check that it exists

	return listed.KOffsets(), nil
}

// send sends each payment at its time. It waits for nothing but the clock, or for room.
func (l *loader) send(ctx context.Context, schedule []mix.Case, generator *mix.Generator) {
	interval := float64(time.Second) / l.config.Rate

	progressAt := l.tracker.start.Add(l.config.ProgressEvery)
	for i := 0; i < l.config.Payments || l.config.GoOn != nil && l.config.GoOn(l.tracker.snapshot()); i++ {
		l.config.Payments = max(l.config.Payments, i+1)
		intended := l.tracker.start.Add(time.Duration(float64(i) * interval))

		for {
			now := time.Now()
			if now.After(progressAt) {
				l.progress()
				progressAt = now.Add(l.config.ProgressEvery)
			}

			if ctx.Err() != nil || l.stopped(i) {
				return
			}

			early := intended.Sub(now)
			if early <= 0 {
				if !l.config.WaitForRoom {
					if -early > LateAfter {
						l.late++
					}
					l.lateMax = max(l.lateMax, -early)
				}

				break
			}
			time.Sleep(min(early, 50*time.Millisecond)) // short, to notice an interrupt
		}

		for l.config.WaitForRoom && l.tracker.waiting() >= l.config.OutstandingMax && ctx.Err() == nil {
			time.Sleep(2 * time.Millisecond) // shorter sleeps cost more CPU than the sends
		}

		if l.config.WaitForRoom {
			intended = time.Now()
		}

		if l.tracker.waiting() >= l.config.OutstandingMax {
			l.dropped++
			continue
		}
		payment := generator.Payment(schedule[i%len(schedule)], intended)

		a := l.tracker.add(payment, intended)
		if l.config.Sending != nil && a.id[0] == 'E' {
			l.config.Sending(a.id)
		}
		l.produce(a, 0, payment.First)

		if payment.Second.Value != nil && !payment.AfterReport {
			l.produce(a, 1, payment.Second)
		}
	}
}

// stopped reports whether no more payments are wanted than the first i.
func (l *loader) stopped(i int) bool {
	select {
	case <-l.config.Stop:
		l.config.Payments = i
		return true
	default:
		return false
	}
}

// sendAfterReport sends what follows the first report of a payment: the repeated message
// after a while, or the returns at once. By then the payment has settled in the ledger.
func (l *loader) sendAfterReport(a *openPayment) {
	if a.payment.Second.Value != nil {
		time.AfterFunc(againAfter, func() { l.produce(a, 1, a.payment.Second) })
	}

	now := time.Now()
	for k, back := range a.payment.Returns {
		l.produce(a, firstReturn+k, back.Message(now))
	}
}

// produce sends message i of a payment.
func (l *loader) produce(a *openPayment, i int, message mix.Message) {
	l.producer.Produce(context.Background(),
		&kgo.Record{Topic: stream.Payments, Key: []byte(message.Key), Value: message.Value},
		func(r *kgo.Record, err error) {
			l.tracker.acknowledged(a, i, record{r.Partition, r.Offset}, err)
		})
}

// read takes reports and dead letters until the context ends.
func (l *loader) read(ctx context.Context, consumer *kgo.Client) {
	var report pixv1.SettlementReport
	var letter pixv1.DeadLetter

	for {
		fetches := consumer.PollFetches(ctx)
		if ctx.Err() != nil || fetches.IsClientClosed() {
			return
		}
		now := time.Now()
		fetches.EachRecord(func(r *kgo.Record) {
			switch r.Topic {
			case stream.Settlements:
				report.Reset()

				if report.UnmarshalVT(r.Value) != nil {
					return // its payment will count as missing, and the audit names the record
				}

				if l.config.Told != nil && report.Status == pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC {
					l.config.Told(report.EndToEndId, r.Timestamp, now)
				}

				if a := l.tracker.report(&report, r.Value, now); a != nil {
					l.sendAfterReport(a)
				}
			case stream.DeadLetters:
				letter.Reset()

				if letter.UnmarshalVT(r.Value) != nil || letter.Topic != stream.Payments {
					return
				}

				reason, err := pix.ParseReason(letter.ReasonCode)
				if err != nil {
					return
				}
				l.tracker.letter(record{letter.Partition, letter.Offset}, reason, now)
			}
		})
	}
}

// drain waits until no payment is open, at most DrainTimeout.
func (l *loader) drain(ctx context.Context) {
	defer l.progress()
	ctx, cancel := context.WithTimeoutCause(ctx, l.config.DrainTimeout, errors.New("drain timeout"))
	defer cancel()
	progressAt := time.Now()

	for l.tracker.waiting() > 0 {
		if !host.Sleep(ctx, 5*time.Millisecond) {
			return
		}

		if time.Now().After(progressAt) {
			l.progress()
			progressAt = time.Now().Add(l.config.ProgressEvery)
		}
	}
}

func (l *loader) progress() {
	if l.config.Progress == nil {
		return
	}
	s := l.tracker.snapshot()
	s.Elapsed, s.Payments, s.Dropped, s.Late = time.Since(l.tracker.start), l.config.Payments, l.dropped, l.late
	l.config.Progress(s)
}
