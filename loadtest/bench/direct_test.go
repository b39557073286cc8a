package bench

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// Each order has a report of its own: as many as were written are counted, those of others are
// not, and the latency counts from the instant at which the id says that the order was due.
func TestOrdersStraightToKafkaAreCountedByTheirReports(t *testing.T) {
	t.Parallel()
	b := kit.StartBroker(t, kfake.SeedTopics(4, stream.Payments, stream.Settlements))
	weights, err := mix.Parse("settling")
	if err != nil {
		t.Fatal(err)
	}
	kafka := []kgo.Opt{kgo.SeedBrokers(b.Address)}
	d, err := newDirect(t.Context(), kafka, everything.Population, weights)
	if err != nil {
		t.Fatal(err)
	}
	d.start(t.Context(), time.Second)
	if err := d.send(t.Context(), 2000); err != nil {
		t.Fatal(err)
	}
	if n := d.sent.Load(); n != 2000 {
		t.Errorf("%d orders were sent in a second, not 2000", n)
	}
	engine := b.Client(kgo.ConsumeTopics(stream.Payments), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	report := func(id string, status pixv1.SettlementStatus, reason pix.Reason) {
		value, err := (&pixv1.SettlementReport{EndToEndId: id, Status: status, ReasonCode: reason.String(), Payer: &pixv1.Account{Ispb: "10000001"}}).MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		engine.Produce(context.Background(), &kgo.Record{Topic: stream.Settlements, Key: []byte(id), Value: value}, nil)
	}
	report(pix.NewEndToEndID("10000001", d.began.Add(-time.Second), d.random).String(), pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC, pix.ReasonNone) // another's
	seen := map[string]bool{}
	for len(seen) < 2000 {
		fetches := engine.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			var order pixv1.PaymentOrder
			if err := order.UnmarshalVT(r.Value); err != nil || order.EndToEndId != string(r.Key) || seen[order.EndToEndId] {
				t.Fatalf("%v, key %q, order %v", err, r.Key, &order)
			}
			if _, err := (pix.Draft{EndToEndID: order.EndToEndId, Payer: account(order.Payer), Payee: account(order.Payee), AmountCentavos: order.AmountCentavos, AcceptedAtUnixMs: order.AcceptedAtUnixMs}).Validate(r.Timestamp); err != nil {
				t.Fatal(err)
			}
			seen[order.EndToEndId] = true
			if len(seen)%4 == 0 {
				report(order.EndToEndId, pixv1.SettlementStatus_SETTLEMENT_STATUS_RJCT, pix.ReasonTooLate)
			} else {
				report(order.EndToEndId, pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC, pix.ReasonNone)
			}
		})
	}
	if err := d.drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.close()
	settled := d.late
	for _, second := range d.settled {
		settled += second.Settled
	}
	latency := d.latency.Latency("settled")
	if settled != 1500 || d.refused[pix.ReasonTooLate.String()] != 500 || d.wrong != nil || latency.Count != 1500 {
		t.Errorf("%d settled, refused %v, %v, %d latencies", settled, d.refused, d.wrong, latency.Count)
	}
	if took := time.Since(d.began); latency.Max > 1.001*float64(took.Milliseconds()) || latency.P50 <= 0 {
		t.Errorf("latencies to %v ms within %v", latency.Max, took)
	}
	if d.take(&pixv1.SettlementReport{EndToEndId: "E1", Status: pixv1.SettlementStatus_SETTLEMENT_STATUS_RJCT, ReasonCode: "AM04"}, time.Now(), 0); d.wrong == nil || !strings.Contains(d.wrong.Error(), "AM04") {
		t.Errorf("an order of the bench is rejected with AM04: %v", d.wrong)
	}
}

// The second in which the refusals begin does not count, nor what settles after the load.
func TestWhatSettlesBesideRefusalsIsCountedFromTheNextSecond(t *testing.T) {
	began := time.Now()
	d := &direct{began: began, settled: []load.Second{{Settled: 100}, {Settled: 50}, {Settled: 10}, {Settled: 20}}, late: 7}
	for at, want := range map[time.Duration]float64{0: 80.0 / 3, 1500 * time.Millisecond: 15, 3 * time.Second: 0, time.Hour: 0} {
		if got := d.settledPerSecond(began.Add(at)); got != want {
			t.Errorf("refusals from %v on: %v settle beside them, want %v", at, got, want)
		}
	}
	if got := d.settledPerSecond(time.Time{}); got != 0 {
		t.Errorf("without a refusal: %v", got)
	}
}

func account(a *pixv1.Account) pix.Account {
	return pix.Account{ISPB: pix.ISPB(a.Ispb), Branch: a.Branch, Number: a.Number}
}
