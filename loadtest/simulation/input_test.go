package simulation

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/kit/hostile"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// A sender dates records and orders as it likes: in the year 2100, in 2020, in 1970. What settles settles, and
// no metric goes backwards or tells of years.
func TestForeignTimestampsDoNotBendMetrics(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(1)
		reported := s.reports()
		generator := mix.NewGenerator(population, s.random)
		now, future, past := time.Now(), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2020, 2, 1, 0, 0, 0, 0, time.UTC)
		ids := map[string]bool{}
		for _, c := range []struct{ accepted, written time.Time }{
			{now, now}, {now, now}, {now, future}, {future, future}, {past, past}, {now, time.UnixMilli(0)},
		} {
			payment := generator.Payment(mix.Accepted, c.accepted)
			if !c.written.Before(past) { // else its acceptance came after it: a dead letter
				ids[payment.Name] = true
			}
			s.produce(&kgo.Record{Topic: stream.Payments, Partition: int32(s.random.IntN(partitions)), Value: payment.First.Value, Timestamp: c.written})
		}
		reported(ids)
		s.eventually("the dead letter", func() bool { return s.written(stream.DeadLetters) == 1 })
		summary := s.verdict()
		if summary.Settled != 4 || summary.Rejected["AB03"] != 1 || len(summary.DeadLetters) != 1 {
			s.t.Errorf("the audit saw %+v", summary)
		}
		for metric, want := range map[string][2]float64{ // from and to
			`pix_hop_seconds_count{hop="queue"}`: {2, 2}, `pix_hop_seconds_sum{hop="queue"}`: {0, 60},
			`pix_payment_seconds_count`: {3, 3}, `pix_payment_seconds_sum`: {0, 60},
			`pix_wrong_times_total{begin="future",of="queue"}`: {2, 2}, `pix_wrong_times_total{begin="past",of="queue"}`: {1, 1},
			`pix_wrong_times_total{begin="future",of="payment"}`: {1, 1}, `pix_wrong_times_total{begin="past",of="payment"}`: {1, 1},
		} {
			if got := s.metric(s.engine(0), metric); got < want[0] || got > want[1] {
				s.t.Errorf("%s is %v, it must be from %v to %v", metric, got, want[0], want[1])
			}
		}
	})
}

// Batches that no client can read, and some that unpack to far more than an engine may hold, while
// engines and banks die, are cut off, and the broker is away. Each on the orders is one dead letter.
func TestHostileBatchesWhileEnginesRestart(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(2)
		load := s.send("demo", 20, 1000, duringFaults...)
		now := time.Now().UnixMilli()
		bomb, err := hostile.Bomb(now, 100<<20, kgo.CodecGzip)
		if err != nil {
			s.t.Fatal(err)
		}
		elsewhere := hostile.New(now, nil)
		elsewhere.Records = hostile.Record(100, []byte("in the place of others"))
		batches := []*hostile.Batch{hostile.Garbage(now), hostile.Claim(now, math.MaxInt32), elsewhere, bomb}
		letters := 0
		plant := func() {
			s.pass(0, 2*time.Second)
			for range 2 {
				batch := batches[s.random.IntN(len(batches))]
				for _, topic := range []string{stream.Payments, stream.AuthorizationResponses} {
					if _, err := hostile.Produce(s.ends, s.client, topic, int32(s.random.IntN(partitions)), batch.Encode()); err != nil {
						s.t.Fatal(err)
					}
				}
				s.planted.Add(nil)
				letters++
			}
		}
		plant()
		s.anyEngine().kill(restartTime, "")
		plant()
		s.banks().kill(restartTime, "")
		plant()
		s.fault(engineFaults, "cut from all", s.anyEngine(), between(s.random, 4*time.Second, 9*time.Second))
		plant()
		s.fault(brokerFaults, "broker is absent", nil, between(s.random, time.Second, 3*time.Second))
		plant()
		load.wait(0.4)
		summary := s.verdict()
		if got := summary.DeadLetters["LQ08"]; got != letters {
			s.t.Errorf("%d dead letters LQ08, want %d", got, letters)
		}
		if summary.AnswersUnread != "" || summary.Answered == 0 {
			s.t.Errorf("a bank that writes what cannot be read keeps the audit from checking seals: %d outcomes checked, %s", summary.Answered, summary.AnswersUnread)
		}
	})
}

// An order that is too old leaves a receipt and holds no money. Other content under the same
// EndToEndId, accepted now, can hold money, because phase 1 does not see a receipt. It must be a
// dead letter all the same, and the first content must be reported again.
func TestConflictWithARefusedPayment(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(1)
		generator := mix.NewGenerator(population, s.random)
		const payments = 10
		for range payments {
			old := generator.Payment(mix.TooOld, time.Now())
			var other pixv1.PaymentOrder
			if err := other.UnmarshalVT(old.First.Value); err != nil {
				s.t.Fatal(err)
			}
			other.AmountCentavos++
			other.AcceptedAtUnixMs = time.Now().UnixMilli()
			conflict, err := other.MarshalVT()
			if err != nil {
				s.t.Fatal(err)
			}
			for _, value := range [][]byte{old.First.Value, conflict, old.First.Value} {
				s.order(value)
				time.Sleep(time.Second) // for the engine to finish it
			}
		}
		summary := s.verdict()
		if summary.Rejected["AB03"] != payments || summary.DeadLetters["DUPL"] != payments || summary.RepeatedReports != payments {
			s.t.Errorf("%d payments rejected with AB03, %d dead letters DUPL, %d reports repeated: each must be %d",
				summary.Rejected["AB03"], summary.DeadLetters["DUPL"], summary.RepeatedReports, payments)
		}
	})
}

// Bad input of every kind ends as a dead letter, and the payments between it settle. The load
// sends the kinds that it knows; hand-made records are what no client of ours would send. The
// audit accounts for each of them.
func TestBadInput(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(1)
		load := s.send("bad-input", 50, 1500, duringFaults...)
		records, want := handMade(), 0
		for _, r := range records {
			r.record.Topic = stream.Payments
			s.produce(r.record)
			if r.deadLetter {
				want++
			}
		}
		result := load.wait(0.3)
		letters := 0
		for _, n := range s.verdict().DeadLetters {
			letters += n
		}
		if byHand := letters - deadLettersOf(result); byHand != want {
			s.t.Errorf("%d of the %d hand-made records ended as dead letters, %d must", byHand, len(records), want)
		}
	})
}

// deadLettersOf counts the dead letters that a load must cause.
func deadLettersOf(result load.Result) int {
	n := 0
	for _, outcome := range result.Outcomes {
		switch outcome.Case {
		case mix.Undecodable.String(), mix.BadEndToEndID.String(), mix.Future.String(), mix.Oversized.String(), mix.Conflict.String(), mix.ConflictAgain.String():
			n += outcome.Sent
		}
	}
	return n
}

type handMadeRecord struct {
	name       string
	record     *kgo.Record
	deadLetter bool
}

// handMade returns records such as foreign clients, other versions and attackers send.
func handMade() []handMadeRecord {
	generator := mix.NewGenerator(population, rand.New(rand.NewPCG(1, 1)))
	at := time.Now()
	order := func(change func(*pixv1.PaymentOrder)) []byte {
		at = at.Add(time.Millisecond)
		var o pixv1.PaymentOrder
		if err := o.UnmarshalVT(generator.Payment(mix.Accepted, at).First.Value); err != nil {
			panic(err)
		}
		change(&o)
		value, err := o.MarshalVT()
		if err != nil {
			panic(err)
		}
		return value
	}
	same := func(*pixv1.PaymentOrder) {}
	unknownField := protowire.AppendTag(order(same), 1000, protowire.BytesType)
	unknownField = protowire.AppendString(unknownField, "from a later version")
	oldTimestamp := at.Add(-48 * time.Hour)
	return []handMadeRecord{
		{"a tombstone", &kgo.Record{Key: []byte("E1"), Value: nil}, true},
		{"an empty value", &kgo.Record{Value: []byte{}}, true},
		{"a million zeros", &kgo.Record{Value: make([]byte, 900_000)}, true},
		{"a million 0xff", &kgo.Record{Value: bytes.Repeat([]byte{0xff}, 900_000)}, true},
		{"a key of a million bytes", &kgo.Record{Key: bytes.Repeat([]byte{'k'}, 900_000), Value: []byte("?")}, true},
		{"a length of 2 GiB in 5 bytes", &kgo.Record{Value: []byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x07}}, true},
		{"deeply nested groups", &kgo.Record{Value: bytes.Repeat([]byte{0x0b}, 100_000)}, true},
		{"no payer", &kgo.Record{Value: order(func(o *pixv1.PaymentOrder) { o.Payer = nil })}, true},
		{"no payee", &kgo.Record{Value: order(func(o *pixv1.PaymentOrder) { o.Payee = nil })}, true},
		{"a branch of letters", &kgo.Record{Value: order(func(o *pixv1.PaymentOrder) { o.Payee.Branch = "ABCD" })}, true},
		{"a number with a leading zero", &kgo.Record{Value: order(func(o *pixv1.PaymentOrder) { o.Payee.Number = "01" })}, true},
		{"an ISPB in lower case", &kgo.Record{Value: order(func(o *pixv1.PaymentOrder) { o.Payee.Ispb = "abcdefgh" })}, true},
		{"an acceptance at the end of time", &kgo.Record{Value: order(func(o *pixv1.PaymentOrder) { o.AcceptedAtUnixMs = 1<<63 - 1 })}, true},
		{"an acceptance at the beginning of time", &kgo.Record{Value: order(func(o *pixv1.PaymentOrder) { o.AcceptedAtUnixMs = -1 << 63 })}, true},
		{"a record two days older than its acceptance", &kgo.Record{Timestamp: oldTimestamp, Value: order(same)}, true},
		{"an EndToEndId of other characters", &kgo.Record{Value: order(func(o *pixv1.PaymentOrder) { o.EndToEndId = "E10000001202605040302éééé12" })}, true},
		{"an amount of 2^63", &kgo.Record{Value: order(func(o *pixv1.PaymentOrder) { o.AmountCentavos = 1 << 63 })}, true},
		{"the largest amount that can be written", &kgo.Record{Value: order(func(o *pixv1.PaymentOrder) { o.AmountCentavos = 1<<64 - 1 })}, true},

		{"a good order in a partition that its key does not name", &kgo.Record{Partition: partitions - 1, Key: []byte("else"), Value: order(same)}, false},
		{"a good order without a key", &kgo.Record{Partition: 2, Value: order(same)}, false},
		{"a good order with a field of a later version", &kgo.Record{Value: unknownField}, false},
		{"a good order from the payer to itself", &kgo.Record{Value: order(func(o *pixv1.PaymentOrder) { o.Payee = o.Payer })}, false},
		{"the largest amount", &kgo.Record{Value: order(func(o *pixv1.PaymentOrder) { o.AmountCentavos = pix.AmountCentavosMax })}, false},
		{"an account number of 20 digits", &kgo.Record{Value: order(func(o *pixv1.PaymentOrder) { o.Payee.Number = "99999999999999999999" })}, false},
	}
}
