package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

const (
	// kafkaLasts is how long Kafka is written to at least: the queue must become as old as the
	// engine's deadline.
	kafkaLasts = 90 * time.Second
	// offerConnections send batches. Each has one at a time, which takes up to a second.
	offerConnections = 128
	// offerTick is the time between two bursts, and how long Kafka's client gathers a batch.
	offerTick = 10 * time.Millisecond
	// offerTemplates are made before: to make an order costs more than to send it.
	offerTemplates = 20_000
	// offerBufferedMax bounds what waits for Kafka, and so the memory.
	offerBufferedMax = 500_000
	// normalWithin is how fast a payment settles in a normal system, and so often in a row.
	normalWithin, normalTimes = time.Second, 5
	// probesMax bounds the payments that find out when the system is normal again.
	probesMax = 2000
)

// overloaded offers a multiple of the maximum for RateDuration, or kafkaLasts, whatever becomes of it.
func (m *session) overloaded(ctx context.Context) error {
	callers, err := m.callers(m.ProducerURL())
	if err != nil {
		return err
	}
	defer callers.Close()
	maximum, err := m.maximum(ctx, 2, m.payments/4)
	if err != nil {
		return err
	}
	kafka, err := m.Kafka().Options()
	if err != nil {
		return err
	}
	o, err := newOffer(ctx, kafka, m.population)
	if err != nil {
		return err
	}
	defer o.close()
	lasts := m.RateDuration
	if m.does == overBatches {
		o.callers = callers
	} else {
		lasts = max(lasts, kafkaLasts)
	}
	used := cpuUsed()
	o.start(ctx, lasts)
	if err := o.send(ctx, m.times*maximum); err != nil {
		return err
	}
	sending := time.Since(o.began) // longer than planned if the way in was slow
	generator := (cpuUsed() - used).Seconds() / sending.Seconds()
	normal, err := o.normalAfter(ctx, callers)
	if err == nil {
		err = o.drain(ctx)
	}
	if err != nil {
		return err
	}
	verdict, err := m.audit(ctx)
	if err != nil {
		return err
	}
	m.run.verdict = "every order was settled or refused. " + verdict.String()
	m.run.set(overloadFigures, "maximum", maximum)
	m.run.set(overloadFigures, "normal_after", normal+(sending-lasts).Seconds())
	m.run.set(overloadFigures, "generator_processors", generator)
	o.sumUp(m.run)
	return nil
}

// cpuUsed is the CPU time of this process.
func cpuUsed() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// offer sends orders at a fixed rate, whatever becomes of them, and reads the reports. It keeps nothing about
// an order: the EndToEndId says when it was due, and the audit proves that each has one outcome. So millions
// of open orders cost no memory, and the system that shares the processors keeps most of them.
type offer struct {
	callers            *load.Callers // nil: orders go straight to Kafka
	producer, consumer *kgo.Client
	orders             map[string][]*pixv1.PaymentOrder // by bank; sent in turn, each time with another id
	banks              []string
	random             *rand.Rand
	began, ends        time.Time

	offered, accepted, reported atomic.Int64
	refusals, latency           *load.Recorder

	mu                 sync.Mutex
	settled            []int // in each second of the load
	late               int   // settled after it
	rejected           int
	firstRefusal, last time.Time
	wrong              error
	done               chan struct{}
}

// newOffer prepares orders that must settle, and begins at the end of the settlements.
func newOffer(ctx context.Context, kafka []kgo.Opt, population sandbox.Population) (*offer, error) {
	o := &offer{random: rand.New(rand.NewPCG(3, 0)), latency: load.NewRecorder(), refusals: load.NewRecorder(), orders: map[string][]*pixv1.PaymentOrder{}, done: make(chan struct{})}
	weights, err := mix.Parse(settling)
	if err != nil {
		return nil, err
	}
	generator := mix.NewGenerator(population, o.random)
	for _, c := range weights.Schedule(offerTemplates, o.random) {
		order := &pixv1.PaymentOrder{}
		if err := order.UnmarshalVT(generator.Payment(c, time.Now()).First.Value); err != nil {
			return nil, err
		}
		if o.orders[order.Payer.Ispb] == nil {
			o.banks = append(o.banks, order.Payer.Ispb)
		}
		o.orders[order.Payer.Ispb] = append(o.orders[order.Payer.Ispb], order)
	}
	if o.producer, err = kgo.NewClient(append(slices.Clip(kafka), kgo.ClientID("bench-writer"), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.ProducerLinger(offerTick), kgo.ProducerBatchMaxBytes(stream.BatchBytesMax),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(offerBufferedMax))...); err != nil {
		return nil, err
	}
	ends, err := stream.Ends(ctx, kadm.NewClient(o.producer), stream.Settlements)
	if err == nil {
		o.consumer, err = kgo.NewClient(append(slices.Clip(kafka), kgo.ClientID("bench-reader"), kgo.ConsumePartitions(ends.KOffsets()),
			kgo.FetchMinBytes(64<<10), kgo.FetchMaxWait(10*offerTick))...)
	}
	if err != nil {
		o.producer.Close()
	}
	return o, err
}

func (o *offer) close() {
	o.consumer.Close()
	if !o.began.IsZero() {
		<-o.done
	}
	o.producer.Close()
}

// start begins to read reports. It comes before send.
func (o *offer) start(ctx context.Context, lasts time.Duration) {
	o.began = time.Now()
	o.ends = o.began.Add(lasts)
	o.settled = make([]int, int(lasts/time.Second))
	go o.read(ctx)
}

// next returns the n-th order, which is due at an instant. Those of one batch are of one bank.
func (o *offer) next(n int, at time.Time) *pixv1.PaymentOrder {
	of := o.orders[o.banks[n/batchLines%len(o.banks)]]
	order := of[n%len(of)]
	order.EndToEndId, order.AcceptedAtUnixMs = pix.NewEndToEndID(pix.ISPB(order.Payer.Ispb), at, o.random).String(), at.UnixMilli()
	return order
}

// send offers rate orders a second until the load ends. Each is due at an instant of its own.
func (o *offer) send(ctx context.Context, rate float64) error {
	ticker := time.NewTicker(offerTick)
	defer ticker.Stop()
	connections, sending := make(chan struct{}, offerConnections), sync.WaitGroup{}
	defer sending.Wait()
	var batch bytes.Buffer
	for sent := 0; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case now := <-ticker.C:
			for due := int(min(now.Sub(o.began), o.ends.Sub(o.began)).Seconds() * rate); sent < due; sent++ {
				order := o.next(sent, o.began.Add(time.Duration(float64(sent)/rate*float64(time.Second))))
				if o.callers == nil {
					if err := o.produce(ctx, order); err != nil {
						return err
					}
					continue
				}
				if err := json.NewEncoder(&batch).Encode(load.Payment(order)); err != nil {
					return err
				}
				if (sent+1)%batchLines == 0 {
					bank, body := order.Payer.Ispb, bytes.Clone(batch.Bytes())
					batch.Reset()
					connections <- struct{}{}
					sending.Go(func() {
						defer func() { <-connections }()
						o.post(ctx, bank, body)
					})
				}
			}
			if !now.Before(o.ends) {
				return o.producer.Flush(ctx)
			}
		}
	}
}

// produce writes an order straight to Kafka.
func (o *offer) produce(ctx context.Context, order *pixv1.PaymentOrder) error {
	value, err := order.MarshalVT()
	if err != nil {
		return err
	}
	o.offered.Add(1)
	o.accepted.Add(1) // before its report can come
	o.producer.Produce(ctx, &kgo.Record{Topic: stream.Payments, Key: []byte(order.EndToEndId), Value: value}, nil)
	return nil
}

// post sends a batch. What is refused did nothing.
func (o *offer) post(ctx context.Context, bank string, body []byte) {
	o.offered.Add(batchLines)
	sent := time.Now()
	answer, err := o.callers.Send(ctx, http.MethodPost, "/v1/payments:batch", bank, body)
	switch {
	case err != nil:
		o.fail(err)
	case answer.Status == http.StatusTooManyRequests:
		o.refusals.Record(time.Since(sent))
	case answer.Status != http.StatusOK:
		o.fail(fmt.Errorf("the HTTP API responds %d: %.500s", answer.Status, answer.Body))
	default:
		o.accepted.Add(int64(bytes.Count(answer.Body, []byte(`"status":"accepted"`))))
	}
}

func (o *offer) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.wrong == nil { // the others are of the same cause
		o.wrong = err
	}
}

// read takes reports until close.
func (o *offer) read(ctx context.Context) {
	defer close(o.done)
	for ctx.Err() == nil {
		fetches := o.consumer.PollFetches(ctx)
		if fetches.IsClientClosed() {
			return
		}
		now := time.Now()
		fetches.EachRecord(func(r *kgo.Record) {
			id, err := pix.ParseEndToEndID(string(r.Key))
			due := id.Time().Add(time.Duration(id.OrderedSuffix()) * time.Microsecond)
			if err != nil || due.Before(o.began.Truncate(time.Microsecond)) || !due.Before(o.ends) {
				return // another's
			}
			var report pixv1.SettlementReport
			if err := report.UnmarshalVTUnsafe(r.Value); err != nil {
				o.fail(fmt.Errorf("the report of %s: %w", id, err))
			}
			o.take(&report, now, now.Sub(due))
		})
	}
}

// take counts a report.
func (o *offer) take(report *pixv1.SettlementReport, now time.Time, after time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case report.Status == pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC:
		o.latency.Record(after)
		if second := int(now.Sub(o.began) / time.Second); second < len(o.settled) {
			o.settled[second]++
		} else {
			o.late++
		}
	case report.ReasonCode == pix.ReasonTooLate.String() || report.ReasonCode == pix.ReasonPayeePSPSilent.String():
		if o.rejected++; o.rejected == 1 {
			o.firstRefusal = now
		}
		o.last = now
	default:
		o.wrong = fmt.Errorf("%s is rejected with %s", report.EndToEndId, report.ReasonCode)
	}
	o.reported.Add(1)
}

// drain returns when every accepted order has a report.
func (o *offer) drain(ctx context.Context) error {
	for until := time.Now().Add(reportsMax); o.reported.Load() < o.accepted.Load(); time.Sleep(20 * time.Millisecond) {
		if ctx.Err() != nil || time.Now().After(until) {
			return errors.Join(ctx.Err(), fmt.Errorf("the run is not valid: %d of %d orders have no report after %v", o.accepted.Load()-o.reported.Load(), o.accepted.Load(), reportsMax))
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.wrong
}

// normalAfter returns after how many seconds payments settle fast again, from the first of a
// series that does.
func (o *offer) normalAfter(ctx context.Context, callers *load.Callers) (float64, error) {
	began := time.Now()
	var first time.Time
	fast := 0
	for i := range probesMax {
		sent := time.Now()
		order := o.next(i*batchLines, sent)
		body, err := json.Marshal(load.Payment(order))
		if err != nil {
			return 0, err
		}
		answer, err := callers.Send(ctx, http.MethodPost, "/v1/payments", order.Payer.Ispb, body, "Prefer", "wait=2")
		if err != nil {
			return 0, err
		}
		if answer.Status != http.StatusOK || time.Since(sent) > normalWithin {
			fast = 0
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if fast++; fast == 1 {
			first = sent
		}
		if fast == normalTimes {
			return first.Sub(began).Seconds(), nil
		}
	}
	return 0, fmt.Errorf("the run is not valid: after %v payments still take more than %v", time.Since(began), normalWithin)
}

// sumUp takes what came of the load. Nothing is read any more.
func (o *offer) sumUp(run *Run) {
	lasted, inTime, beside, seconds := o.ends.Sub(o.began).Seconds(), 0, 0, 0
	for i, settled := range o.settled {
		inTime += settled
		if !o.firstRefusal.IsZero() && i > int(o.firstRefusal.Sub(o.began)/time.Second) {
			beside, seconds = beside+settled, seconds+1
		}
	}
	refused := float64(o.offered.Load()-o.accepted.Load()) / lasted
	if o.callers == nil && o.rejected > 0 {
		refused = float64(o.rejected) / max(1, o.last.Sub(o.firstRefusal).Seconds())
	}
	latency := o.latency.Latency("settled")
	run.setLatency(&latency)
	run.set(perSecond.group, perSecond.name, float64(inTime)/lasted)
	for name, value := range map[string]float64{
		"offered": float64(o.offered.Load()) / lasted, "accepted": float64(o.accepted.Load()), "settled": float64(inTime + o.late), "refused": refused,
		"refusal_us": 1000 * o.refusals.Latency("refusal").P50, "settled_beside_refusals": float64(beside) / float64(max(1, seconds)),
	} {
		run.set(overloadFigures, name, value)
	}
}
