package engine

import (
	"math/rand/v2"
	"runtime"
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

	client, random, now := broker.Client(kgo.ProducerLinger(5*time.Millisecond)), rand.New(rand.NewPCG(1, 2)), time.Now()
	produce := func(topic, key string, value []byte, err error) {
		if err != nil {
			b.Fatal(err)
		}
		client.Produce(b.Context(), &kgo.Record{Topic: topic, Key: []byte(key), Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				b.Error(err)
			}
		})
	}
	for range b.N {
		id := pix.NewEndToEndID("10000001", now, random).String()
		payer, payee := account("10000001", "1"), account("10000002", "2")
		value, err := (&pixv1.PaymentOrder{EndToEndId: id, AcceptedAtUnixMs: now.UnixMilli(), Payer: payer, Payee: payee, AmountCentavos: 100}).MarshalVT()
		produce(stream.Payments, id, value, err)
		value, err = (&pixv1.SettlementReport{EndToEndId: id, Status: settled, Payer: payer, Payee: payee, AmountCentavos: 100}).MarshalVT()
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
