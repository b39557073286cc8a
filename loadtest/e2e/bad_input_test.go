package e2e

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// Bad input of every kind ends as a dead letter, and the payments between it settle. The load
// sends the kinds that it knows; hand-made records are what no client of ours would send. The
// audit accounts for each of them.
func TestBadInput(t *testing.T) {
	s := start(t, 1)
	load := s.load(300, 3000, "--mix", "bad-input")
	records := handMade()
	client, err := kgo.NewClient(kgo.SeedBrokers(s.KafkaAddress()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, r := range records {
		r.record.Topic = stream.Payments
		if err := client.ProduceSync(ctx, r.record).FirstErr(); err != nil {
			t.Fatalf("%s: %v", r.name, err)
		}
	}
	s.settledAtLeast(load.wait(), 0.3)
	before := 0
	for _, r := range records {
		if r.deadLetter {
			before++
		}
	}
	verdict := s.audit()
	letters := 0
	for _, n := range verdict.Summary.DeadLetters {
		letters += n
	}
	if byHand := letters - deadLettersOf(load); byHand != before {
		t.Errorf("%d of the %d hand-made records ended as dead letters, %d must", byHand, len(records), before)
	}
}

// deadLettersOf counts the dead letters that a load must cause.
func deadLettersOf(r *loadRun) int {
	n := 0
	for _, outcome := range r.result.Outcomes {
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
	population := sandbox.Population{Banks: 5, Customers: 5000, DepositCentavos: 100_000_000, ReserveCentavos: 1_000_000_000_000}
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

		{"a good order in a partition that its key does not name", &kgo.Record{Partition: 7, Key: []byte("else"), Value: order(same)}, false},
		{"a good order without a key", &kgo.Record{Partition: 3, Value: order(same)}, false},
		{"a good order with a field of a later version", &kgo.Record{Value: unknownField}, false},
		{"a good order from the payer to itself", &kgo.Record{Value: order(func(o *pixv1.PaymentOrder) { o.Payee = o.Payer })}, false},
		{"the largest amount", &kgo.Record{Value: order(func(o *pixv1.PaymentOrder) { o.AmountCentavos = pix.AmountCentavosMax })}, false},
		{"an account number of 20 digits", &kgo.Record{Value: order(func(o *pixv1.PaymentOrder) { o.Payee.Number = "99999999999999999999" })}, false},
	}
}
