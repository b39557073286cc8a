package e2e

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// An order that is too old leaves a receipt and holds no money. Other content under the same
// EndToEndId, accepted now, can hold money, because phase 1 does not see a receipt. It must be a
// dead letter all the same, and the first content must be reported again.
func TestConflictWithARefusedPayment(t *testing.T) {
	s := start(t, 1)
	client, err := kgo.NewClient(kgo.SeedBrokers(s.KafkaAddress()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	generator := mix.NewGenerator(population, rand.New(rand.NewPCG(1, 1)))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	send := func(value []byte, key string) {
		t.Helper()
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: stream.Payments, Key: []byte(key), Value: value}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // for the engine to finish it
	}
	const payments = 10
	for range payments {
		old := generator.Payment(mix.TooOld, time.Now())
		var other pixv1.PaymentOrder
		if err := other.UnmarshalVT(old.First.Value); err != nil {
			t.Fatal(err)
		}
		other.AmountCentavos++
		other.AcceptedAtUnixMs = time.Now().UnixMilli()
		conflict, err := other.MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		send(old.First.Value, old.Name)
		send(conflict, old.Name)
		send(old.First.Value, old.Name)
	}
	summary := s.audit().Summary
	if summary.Rejected["AB03"] != payments || summary.DeadLetters["DUPL"] != payments || summary.RepeatedReports != payments {
		t.Errorf("%d payments rejected with AB03, %d dead letters DUPL, %d reports repeated: each must be %d",
			summary.Rejected["AB03"], summary.DeadLetters["DUPL"], summary.RepeatedReports, payments)
	}
}
