package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
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

// direct writes orders straight to Kafka at a fixed rate, whatever becomes of them, and reads the
// reports. It keeps nothing about an order: the EndToEndId says when it was due, and the audit
// proves that each has one outcome. So millions of open orders cost no memory, and the system
// that shares the processors keeps most of them.
type direct struct {
	producer, consumer *kgo.Client
	orders             []*pixv1.PaymentOrder // sent in turn, each time with another id
	random             *rand.Rand
	began, ends        time.Time

	sent, reported     atomic.Int64
	refused            map[string]int // by reason
	settled            []load.Second  // of the time of the load
	late               int            // settled after it
	latency            *load.Recorder
	firstRefusal, last time.Time
	wrong              error
	done               chan struct{}
}

const (
	// directOrders are made before: to make an order costs more than to send it.
	directOrders = 20_000
	// directTick is the time between two bursts, and how long Kafka's client gathers a batch.
	directTick = 10 * time.Millisecond
	// directBufferedMax bounds what waits for Kafka, and so the memory.
	directBufferedMax = 500_000
)

// newDirect prepares to write orders of a mix, and begins at the end of the settlements.
func newDirect(ctx context.Context, kafka []kgo.Opt, population sandbox.Population, weights mix.Mix) (*direct, error) {
	d := &direct{random: rand.New(rand.NewPCG(3, 0)), latency: load.NewRecorder(), refused: map[string]int{}, done: make(chan struct{})}
	generator := mix.NewGenerator(population, d.random)
	for _, c := range weights.Schedule(directOrders, d.random) {
		order := &pixv1.PaymentOrder{}
		if err := order.UnmarshalVT(generator.Payment(c, time.Now()).First.Value); err != nil {
			return nil, err
		}
		d.orders = append(d.orders, order)
	}
	var err error
	if d.producer, err = kgo.NewClient(append(slices.Clip(kafka), kgo.ClientID("bench-writer"), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.ProducerLinger(directTick), kgo.ProducerBatchMaxBytes(stream.BatchBytesMax),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(directBufferedMax))...); err != nil {
		return nil, err
	}
	ends, err := stream.Ends(ctx, kadm.NewClient(d.producer), stream.Settlements)
	if err != nil {
		d.producer.Close()
		return nil, err
	}
	if d.consumer, err = kgo.NewClient(append(slices.Clip(kafka), kgo.ClientID("bench-reader"), kgo.ConsumePartitions(ends.KOffsets()),
		kgo.FetchMinBytes(64<<10), kgo.FetchMaxWait(10*directTick))...); err != nil {
		d.producer.Close()
		return nil, err
	}
	return d, nil
}

// close ends the clients and the reading.
func (d *direct) close() {
	d.consumer.Close()
	<-d.done
	d.producer.Close()
}

// start begins to read reports. It comes before send.
func (d *direct) start(ctx context.Context, lasts time.Duration) {
	d.began = time.Now()
	d.ends = d.began.Add(lasts)
	d.settled = make([]load.Second, int(lasts/time.Second))
	go d.read(ctx)
}

// send writes rate orders a second until the load ends. Each is due at an instant of its own.
func (d *direct) send(ctx context.Context, rate float64) error {
	ticker := time.NewTicker(directTick)
	defer ticker.Stop()
	for sent := 0; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case now := <-ticker.C:
			due := int(min(now.Sub(d.began), d.ends.Sub(d.began)).Seconds() * rate)
			records := make([]kgo.Record, max(0, due-sent))
			for i := range records {
				at := d.began.Add(time.Duration(float64(sent) / rate * float64(time.Second)))
				order := d.orders[sent%len(d.orders)]
				id := pix.NewEndToEndID(pix.ISPB(order.Payer.Ispb), at, d.random)
				order.EndToEndId, order.AcceptedAtUnixMs = id.String(), at.UnixMilli()
				value, err := order.MarshalVT()
				if err != nil {
					return err
				}
				records[i] = kgo.Record{Topic: stream.Payments, Key: []byte(order.EndToEndId), Value: value}
				d.sent.Add(1) // before its report can come
				d.producer.Produce(ctx, &records[i], nil)
				sent++
			}
			if !now.Before(d.ends) {
				return d.producer.Flush(ctx)
			}
		}
	}
}

// read takes reports until close.
func (d *direct) read(ctx context.Context) {
	defer close(d.done)
	report, payer, payee := pixv1.SettlementReport{}, pixv1.Account{}, pixv1.Account{}
	for ctx.Err() == nil {
		fetches := d.consumer.PollFetches(ctx)
		if fetches.IsClientClosed() {
			return
		}
		now := time.Now()
		fetches.EachRecord(func(r *kgo.Record) {
			id, err := pix.ParseEndToEndID(string(r.Key))
			due := id.Time().Add(time.Duration(id.OrderedSuffix()) * time.Microsecond)
			if err != nil || due.Before(d.began.Truncate(time.Microsecond)) || !due.Before(d.ends) {
				return // another's
			}
			report = pixv1.SettlementReport{Payer: &payer, Payee: &payee}
			if err := report.UnmarshalVTUnsafe(r.Value); err != nil {
				d.wrong = fmt.Errorf("the report of %s: %w", id, err)
			}
			d.take(&report, now, now.Sub(due))
		})
	}
}

// take counts a report.
func (d *direct) take(report *pixv1.SettlementReport, now time.Time, after time.Duration) {
	switch {
	case report.Status == pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC:
		d.latency.Record(after)
		if second := int(now.Sub(d.began) / time.Second); second < len(d.settled) {
			d.settled[second].Settled++
		} else {
			d.late++
		}
	case report.ReasonCode == pix.ReasonTooLate.String() || report.ReasonCode == pix.ReasonPayeePSPSilent.String():
		if len(d.refused) == 0 {
			d.firstRefusal = now
		}
		d.refused[strings.Clone(report.ReasonCode)]++ // it lies in the record
		d.last = now
	default:
		d.wrong = fmt.Errorf("%s is rejected with %s", report.EndToEndId, report.ReasonCode)
	}
	d.reported.Add(1)
}

// drain returns when every order has a report. What was counted may be read once the reading ends.
func (d *direct) drain(ctx context.Context) error {
	for until := time.Now().Add(reportsMax); d.reported.Load() < d.sent.Load(); time.Sleep(20 * time.Millisecond) {
		if ctx.Err() != nil || time.Now().After(until) {
			return errors.Join(ctx.Err(), fmt.Errorf("the run is not valid: %d of %d orders have no report after %v", d.sent.Load()-d.reported.Load(), d.sent.Load(), reportsMax))
		}
	}
	return nil
}

// settledPerSecond is how many orders settled in each second from an instant to the end of the
// load, or 0 if that is less than a second. The instant's own second does not count.
func (d *direct) settledPerSecond(from time.Time) float64 {
	first := int(from.Sub(d.began)/time.Second) + 1
	if from.IsZero() || first >= len(d.settled) {
		return 0
	}
	settled := 0
	for _, second := range d.settled[first:] {
		settled += second.Settled
	}
	return float64(settled) / float64(len(d.settled)-first)
}
