package engine

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/deploy/ledgermodel"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/telemetry"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// BenchmarkWhatWasReported finds out what is finished in a partition with b.N orders, all of which are reported, as an
// engine does that finds neither commit nor checkpoint: go test -run - -bench WhatWasReported -benchtime 10000000x
func BenchmarkWhatWasReported(b *testing.B) {
	broker := kit.StartBroker(b, kfake.SeedTopics(1, stream.TopicNames()...))
	b.Setenv("KAFKA_BROKERS", broker.Address)
	b.Setenv("TELEMETRY_ADDRESS", "127.0.0.1:0")

	config := &Config{}
	if err := settings.Parse(config); err != nil {
		b.Fatal(err)
	}

	t, err := telemetry.Start("clearing-engine", config.Telemetry, host.System())
	if err != nil {
		b.Fatal(err)
	}
	defer t.Stop()

	e, err := newEngine(config, host.System(), ledgermodel.New().Connect(nil), t)
	if err != nil {
		b.Fatal(err)
	}
	defer e.direct.Close()

	client, random, now := broker.Client(kgo.ProducerLinger(5*time.Millisecond)),
		rand.New(rand.NewPCG(1, 2)), time.Now()
	produce := func(topic, key string, value []byte, err error) {
		if err != nil {
			b.Fatal(err)
		}
		client.Produce(b.Context(), &kgo.Record{Topic: topic, Key: []byte(key), Value: value},
			func(_ *kgo.Record, err error) {
				if err != nil {
					b.Error(err)
				}
			})
	}

	for range b.N {
		id := pix.NewEndToEndID("10000001", now, random).String()
		payer, payee := account("10000001", "1"), account("10000002", "2")
		value, err := (&pixv1.PaymentOrder{EndToEndId: id, AcceptedAtUnixMs: now.UnixMilli(), Payer: payer,
			Payee: payee, AmountCentavos: 100}).MarshalVT()
		produce(stream.Payments, id, value, err)
		value, err = (&pixv1.SettlementReport{EndToEndId: id, Status: settled, Payer: payer, Payee: payee,
			AmountCentavos: 100}).MarshalVT()
		produce(stream.Settlements, id, value, err)
	}

	if err := client.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}

	bounds, err := stream.BoundsOf(b.Context(), e.direct, stream.Payments)
	if err != nil {
		b.Fatal(err)
	}

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b.ResetTimer()
	next, hint, err := e.readReported(b.Context(), 0, bounds[0])
	b.StopTimer()
	runtime.ReadMemStats(&after)

	if err != nil || next != int64(b.N) || len(hint.Spans) > 0 {
		b.Fatalf("it goes on at %d of %d, with %d spans above: %v", next, b.N, len(hint.Spans), err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(after.HeapSys)/(1<<20), "MiB")
}

// What differs from a reported order in anything but the reason of a return was not reported: it gets its dead letter.
func TestOnlyTheSameContentIsReported(t *testing.T) {
	random, now := rand.New(rand.NewPCG(3, 4)), time.Now()
	id := pix.NewEndToEndID("10000001", now, random).String()
	returnID := pix.NewReturnID("10000002", now, random).String()
	payment := func() *pixv1.PaymentOrder {
		return &pixv1.PaymentOrder{EndToEndId: id, AcceptedAtUnixMs: now.UnixMilli(), AmountCentavos: 100,
			Payer: account("10000001", "1"), Payee: account("10000002", "2")}
	}
	back := func() *pixv1.PaymentOrder {
		return &pixv1.PaymentOrder{ReturnOrder: &pixv1.ReturnOrder{
			ReturnId: returnID, OriginalEndToEndId: id, AmountCentavos: 100, ReasonCode: "MD06",
			AcceptedAtUnixMs: now.UnixMilli()}}
	}
	holds := func(order *pixv1.PaymentOrder) bool {
		t.Helper()

		key, value, err := order.EndToEndId, []byte(nil), error(nil)
		if order.ReturnOrder != nil {
			key = order.ReturnOrder.OriginalEndToEndId
		}

		if value, err = order.MarshalVT(); err != nil {
			t.Fatal(err)
		}

		record := &kgo.Record{Topic: stream.Payments, Key: []byte(key), Value: value, Timestamp: now}
		if _, invalid := new(orderMessage).decode(record); invalid != nil {
			t.Fatalf("the order is invalid: %v", invalid)
		}
		what := told{reports: [][16]byte{digestOf(id, "", payment().Payer, payment().Payee, 100),
			digestOf(returnID, id, nil, nil, 100)}}
		slices.SortFunc(what.reports, func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })

		return what.includes(record, &orderMessage{})
	}

	anotherReason := back()

	anotherReason.ReturnOrder.ReasonCode = "FR01"
	for name, order := range map[string]*pixv1.PaymentOrder{
		"the payment": payment(), "the return": back(), "the return for another reason": anotherReason,
	} {
		if !holds(order) {
			t.Errorf("%s is not found among the reports", name)
		}
	}

	for name, change := range map[string]func(payment, back *pixv1.PaymentOrder){
		"amount":  func(p, r *pixv1.PaymentOrder) { p.AmountCentavos, r.ReturnOrder.AmountCentavos = 101, 101 },
		"account": func(p, _ *pixv1.PaymentOrder) { p.Payer.Number = "3" },
		"branch":  func(p, _ *pixv1.PaymentOrder) { p.Payee.Branch = "0002" },
		"bank":    func(p, _ *pixv1.PaymentOrder) { p.Payee.Ispb = "10000003" },
	} {
		p, r := payment(), back()
		change(p, r)

		if holds(p) || name == "amount" && holds(r) {
			t.Errorf("an order with another %s is found among the reports", name)
		}
	}
}
