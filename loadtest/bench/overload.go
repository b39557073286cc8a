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

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/platform/pix"
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
	maximum, err := m.maximum(ctx, 2, m.payments/4)
	if err != nil {
		return err
	}

	o, err := m.newOffer()
	if err != nil {
		return err
	}
	defer o.producer.Close()

	lasts := m.RateDuration
	if m.does == overKafka {
		o.callers, lasts = nil, max(lasts, kafkaLasts)
	}
	used := cpuUsed()
	o.begin(lasts)

	if err := o.send(ctx, m.times*maximum); err != nil {
		return err
	}
	sending := time.Since(o.began) // longer than planned if the way in was slow
	generator := (cpuUsed() - used).Seconds() / sending.Seconds()

	normal, probes, err := o.normalAfter(ctx, m.callers)
	if err == nil {
		err = m.awaitReports(ctx, m.payments/4+int(o.accepted.Load())+probes)
	}

	if err == nil {
		err = stream.ReadTopic(ctx, m.Kafka(), stream.Settlements, o.take)
	}

	if err = errors.Join(err, o.wrong); err != nil {
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

// offer sends orders at a fixed rate, whatever becomes of them. It keeps nothing about an order: the EndToEndId says
// when it was due, and the audit proves that each has one outcome. So millions of open orders cost no memory, and the
// system that shares the processors keeps most of them. Reports are read after the load.
type offer struct {
	callers     *load.Callers // nil: orders go straight to Kafka
	producer    *kgo.Client
	orders      map[string][]*pixv1.PaymentOrder // by bank; sent in turn, each time with another id
	banks       []string
	random      *rand.Rand
	began, ends time.Time

	offered, accepted atomic.Int64
	refusals, latency *load.Recorder

	settled            []int // in each second of the load
	late               int   // settled after it
	rejected           int
	firstRefusal, last time.Time
	wrong              error
}

// newOffer prepares orders that must settle.
func (m *session) newOffer() (*offer, error) {
	o := &offer{callers: m.callers, random: rand.New(rand.NewPCG(3, 0)), latency: load.NewRecorder(),
		refusals: load.NewRecorder(), orders: map[string][]*pixv1.PaymentOrder{}}

	made, err := orders(m.population, offerTemplates)
	if err != nil {
		return nil, err
	}

	for _, order := range made {
		bank := order.Payer.Ispb
		if o.orders[bank] == nil {
			o.banks = append(o.banks, bank)
		}
		o.orders[bank] = append(o.orders[bank], order)
	}
	o.producer, err = kgo.NewClient(
		append(slices.Clip(m.options), kgo.ClientID("bench-writer"),
			kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
			kgo.ProducerLinger(offerTick), kgo.ProducerBatchMaxBytes(stream.BatchBytesMax),
			kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(offerBufferedMax))...)

	return o, err
}

func (o *offer) begin(lasts time.Duration) {
	o.began = time.Now()
	o.ends = o.began.Add(lasts)
	o.settled = make([]int, int(lasts/time.Second))
}

// next returns the n-th order, which is due at an instant. Those of one batch are of one bank.
func (o *offer) next(n int, at time.Time) *pixv1.PaymentOrder {
	of := o.orders[o.banks[n/batchLines%len(o.banks)]]
	order := of[n%len(of)]
	order.EndToEndId, order.AcceptedAtUnixMs = pix.NewEndToEndID(pix.ISPB(order.Payer.Ispb), at, o.random).String(),
		at.UnixMilli()

	return order
}

// send offers rate orders a second until the load ends. Each is due at an instant of its own.
func (o *offer) send(ctx context.Context, rate float64) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	ticker := time.NewTicker(offerTick)
	defer ticker.Stop()
	connections, sending := make(chan struct{}, offerConnections), sync.WaitGroup{}
	defer sending.Wait()
	var batch bytes.Buffer

	for sent := 0; ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
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

						if err := o.post(ctx, bank, body); err != nil {
							fail(err)
						}
					})
				}
			}

			if !now.Before(o.ends) {
				sending.Wait()
				return errors.Join(o.producer.Flush(ctx), context.Cause(ctx))
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
func (o *offer) post(ctx context.Context, bank string, body []byte) error {
	o.offered.Add(batchLines)
	sent := time.Now()

	answer, err := o.callers.Send(ctx, http.MethodPost, "/v1/payments:batch", bank, body)
	switch {
	case err != nil:
		return err
	case answer.Status == http.StatusTooManyRequests:
		o.refusals.Record(time.Since(sent))
	case answer.Status != http.StatusOK:
		return fmt.Errorf("the HTTP API responds %d: %.500s", answer.Status, answer.Body)
	default:
		o.accepted.Add(int64(bytes.Count(answer.Body, []byte(`"status":"accepted"`))))
	}

	return nil
}

// take counts a report, by the time of its record.
func (o *offer) take(r *kgo.Record) {
	id, err := pix.ParseEndToEndID(string(r.Key))

	due := id.Time().Add(time.Duration(id.OrderedSuffix()) * time.Microsecond)
	if err != nil || due.Before(o.began.Truncate(time.Microsecond)) || !due.Before(o.ends) {
		return // another's
	}

	var report pixv1.SettlementReport
	if err := report.UnmarshalVTUnsafe(r.Value); err != nil {
		o.wrong = fmt.Errorf("the report of %s: %w", id, err)
		return
	}

	switch {
	case report.Status == pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC:
		o.latency.Record(r.Timestamp.Sub(due))

		if second := int(r.Timestamp.Sub(o.began) / time.Second); second < len(o.settled) {
			o.settled[max(0, second)]++
		} else {
			o.late++
		}
	case report.ReasonCode == pix.ReasonTooLate.String() || report.ReasonCode == pix.ReasonPayeePSPSilent.String():
		if o.rejected++; o.rejected == 1 || r.Timestamp.Before(o.firstRefusal) {
			o.firstRefusal = r.Timestamp
		}

		if r.Timestamp.After(o.last) {
			o.last = r.Timestamp
		}
	default:
		o.wrong = fmt.Errorf("%s is rejected with %s", report.EndToEndId, report.ReasonCode)
	}
}

// normalAfter returns after how many seconds payments settle fast again, from the first of a
// series that does, and how many payments it took to find out.
func (o *offer) normalAfter(ctx context.Context, callers *load.Callers) (seconds float64, accepted int, err error) {
	began, first, fast := time.Now(), time.Time{}, 0
	for i := range probesMax {
		sent := time.Now()
		if fast == 0 {
			first = sent
		}
		order := o.next(i*batchLines, sent)

		body, err := json.Marshal(load.Payment(order))
		if err != nil {
			return 0, 0, err
		}

		answer, err := callers.Send(ctx, http.MethodPost, "/v1/payments", order.Payer.Ispb, body, "Prefer", "wait=2")
		if err != nil {
			return 0, 0, err
		}

		if answer.Status == http.StatusOK || answer.Status == http.StatusAccepted {
			accepted++
		}

		if fast++; answer.Status != http.StatusOK || time.Since(sent) > normalWithin {
			fast = 0
			time.Sleep(100 * time.Millisecond)
		}

		if fast == normalTimes {
			return first.Sub(began).Seconds(), accepted, nil
		}
	}

	return 0, 0, fmt.Errorf("the run is not valid: after %v payments still take more than %v", time.Since(began),
		normalWithin)
}

// sumUp takes what came of the load.
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
		"offered": float64(o.offered.Load()) / lasted, "accepted": float64(o.accepted.Load()),
		"settled": float64(inTime + o.late), "refused": refused,
		"refusal_us":              1000 * o.refusals.Latency("refusal").P50,
		"settled_beside_refusals": float64(beside) / float64(max(1, seconds)),
	} {
		run.set(overloadFigures, name, value)
	}
}
