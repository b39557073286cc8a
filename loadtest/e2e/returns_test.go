package e2e

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// Many returns of the same payments, together far more than was paid, are sent twice to random
// partitions. So two engines clear them at the same time without knowing of each other, and die
// at every step meanwhile. No more is given back than was paid, and every return has its one
// outcome.
func TestReturnsRace(t *testing.T) {
	s := start(t, 2)
	client, err := kgo.NewClient(kgo.SeedBrokers(s.KafkaAddress()), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumeTopics(stream.Settlements), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	topics, err := kadm.NewClient(client).ListTopics(ctx, stream.Payments)
	if err != nil {
		t.Fatal(err)
	}
	partitions := len(topics[stream.Payments].Partitions)
	random := rand.New(rand.NewPCG(4, 4))
	send := func(values ...[]byte) {
		t.Helper()
		var records []*kgo.Record
		for _, value := range values {
			records = append(records, &kgo.Record{Topic: stream.Payments, Partition: int32(random.IntN(partitions)), Value: value})
		}
		if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	// reported waits for a report of each id.
	reported := func(ids map[string]bool) {
		t.Helper()
		for len(ids) > 0 {
			fetches := client.PollFetches(ctx)
			if ctx.Err() != nil {
				t.Fatalf("%d of the messages have no report after 5 minutes", len(ids))
			}
			fetches.EachRecord(func(r *kgo.Record) {
				var report pixv1.SettlementReport
				if err := report.UnmarshalVT(r.Value); err != nil {
					t.Fatal(err)
				}
				delete(ids, report.EndToEndId)
			})
		}
	}

	generator := mix.NewGenerator(population, rand.New(rand.NewPCG(2, 2)))
	var settled []mix.Payment
	var rejected mix.Payment
	ids := map[string]bool{}
	pay := func(c mix.Case) mix.Payment {
		payment := generator.Payment(c, time.Now())
		ids[payment.Name] = true
		send(payment.First.Value)
		return payment
	}
	for i := range 40 {
		settled = append(settled, pay([]mix.Case{mix.Accepted, mix.SameBank}[i%2]))
	}
	rejected = pay(mix.Blocked)
	reported(ids)

	back := func(of mix.Payment, centavos uint64) *pixv1.ReturnOrder {
		now := time.Now()
		return &pixv1.ReturnOrder{
			ReturnId: pix.NewReturnID(of.Payee.ISPB, now, random).String(), OriginalEndToEndId: of.Name,
			AmountCentavos: centavos, ReasonCode: pix.ReturnReasons[random.IntN(len(pix.ReturnReasons))].String(), AcceptedAtUnixMs: now.UnixMilli(),
		}
	}
	encode := func(back *pixv1.ReturnOrder) []byte {
		value, err := (&pixv1.PaymentOrder{ReturnOrder: back}).MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}

	// Every step of the first engine is where it dies, while returns are in flight.
	var killing sync.WaitGroup
	killing.Go(func() {
		for _, point := range crashPoints {
			if err := s.Kill(stack.EngineName(0)); err != nil {
				t.Error(err)
				return
			}
			died, err := s.StartToDie(stack.EngineName(0), "ENGINE_CRASH_AT="+point+":3")
			if err != nil {
				t.Error(err)
				return
			}
			select {
			case <-died:
			case <-time.After(10 * time.Second): // its partitions may have no more records
			}
			if err := s.StartProcess(stack.EngineName(0)); err != nil {
				t.Logf("%s: %v", point, err) // it did not die, and runs
			}
		}
	})
	returns := 0
	want := func(back *pixv1.ReturnOrder) []byte {
		ids[back.ReturnId] = true
		returns++
		return encode(back)
	}
	for range 12 {
		for _, payment := range settled {
			value := want(back(payment, 1+random.Uint64N(max(2, payment.First.AmountCentavos/2))))
			send(value, value)
		}
		time.Sleep(500 * time.Millisecond) // spreads the returns over the deaths; the test does not depend on it
	}
	killing.Wait()
	s.ready(stack.EngineName(0), stack.EngineName(1))

	// One of each kind that must be rejected.
	of := settled[0]
	unknown := back(of, 1)
	unknown.OriginalEndToEndId = pix.NewEndToEndID(of.Payer.ISPB, time.Now(), random).String()
	stranger := back(of, 1)
	stranger.ReturnId = pix.NewReturnID("99999999", time.Now(), random).String()
	send(want(unknown), want(stranger), want(back(rejected, 1)), want(back(of, 0)), want(back(of, of.First.AmountCentavos+1)))
	// And two dead letters: a return of a return, and another amount under an earlier id.
	ofReturn := back(of, 1)
	ofReturn.OriginalEndToEndId = ofReturn.ReturnId
	conflict := back(of, 1)
	send(want(conflict))
	reported(ids)
	conflict.AmountCentavos++
	send(encode(ofReturn), encode(conflict))

	summary := s.audit().Summary
	if summary.Returns != returns || summary.Returned < len(settled) {
		t.Errorf("%d returns, %d settled; %d were sent, and at least one of each payment must have settled", summary.Returns, summary.Returned, returns)
	}
	for _, reason := range []string{"AM09", "LQ04", "LQ05", "AM01"} {
		if summary.ReturnsRejected[reason] == 0 {
			t.Errorf("no return was refused with %s: %v", reason, summary.ReturnsRejected)
		}
	}
	if summary.ReturnsRejected["LQ04"] != 2 || summary.DeadLetters["FF08"] != 1 || summary.DeadLetters["DUPL"] != 1 {
		t.Errorf("%v rejected, %v dead letters", summary.ReturnsRejected, summary.DeadLetters)
	}
}
