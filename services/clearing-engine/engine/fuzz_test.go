package engine

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// A program that may write to a topic can write anything there. It becomes an order, or a
// dead letter that says why not. make fuzz looks for inputs that become neither.
func FuzzOrder(f *testing.F) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	random := rand.New(rand.NewPCG(1, 1))
	order := &pixv1.PaymentOrder{
		EndToEndId: pix.NewEndToEndID("10000001", at, random).String(), AmountCentavos: 1,
		AcceptedAtUnixMs: at.UnixMilli(), RemittanceInformation: "café",
		Payer: &pixv1.Account{Ispb: "10000001", Branch: "0001", Number: "1"},
		Payee: &pixv1.Account{Ispb: "10000002", Branch: "0001", Number: "2"},
	}

	back := &pixv1.PaymentOrder{ReturnOrder: &pixv1.ReturnOrder{
		ReturnId: pix.NewReturnID("10000002", at, random).String(), OriginalEndToEndId: order.EndToEndId,
		AmountCentavos: 1, ReasonCode: "MD06", AcceptedAtUnixMs: at.UnixMilli(),
	}}
	for _, message := range []*pixv1.PaymentOrder{order, back, {},
		{Payer: order.Payer, ReturnOrder: back.ReturnOrder}} {
		value, err := message.MarshalVT()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(value)
		f.Add(append(value, 0xff))
		f.Add(value[:len(value)/2])
		f.Add(bytes.ReplaceAll(value, []byte("1000"), []byte("\xc3\x28\x00\xff")))
	}

	valid, err := order.MarshalVT()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		record := &kgo.Record{Topic: stream.Payments, Key: value[:min(len(value), 32)], Value: value, Timestamp: at}

		var fresh, used orderMessage
		if _, invalid := used.decode(&kgo.Record{Value: valid, Timestamp: at}); invalid != nil {
			t.Fatal(invalid)
		}
		a, invalid := fresh.decode(record)

		again, sameInvalid := used.decode(record)
		if a.order != again.order || !sameKind(a.kind, again.kind) || (invalid == nil) != (sameInvalid == nil) ||
			invalid != nil && *invalid != *sameInvalid {
			t.Fatalf("the record before left something: %+v %v, %+v %v", a, invalid, again, sameInvalid)
		}

		if invalid == nil {
			if id, err := pix.ParsePaymentOrReturnID(a.order.ID.String()); err != nil || id != a.order.ID ||
				a.record != record || isReturn(a.kind) != (id[0] == 'D') {
				t.Fatalf("%+v: %v", a, err)
			}

			return
		}

		if a != (arrival{}) || invalid.Reason == pix.ReasonNone || invalid.Field == "" || invalid.Detail == "" ||
			!utf8.ValidString(invalid.Error()) {
			t.Fatalf("%+v is refused as %+v", a, invalid)
		}

		var letter pixv1.DeadLetter
		if err := letter.UnmarshalVT((&encoder{}).deadLetterRecord(record.Offset, record, invalid).Value); err != nil ||
			letter.ReasonCode != invalid.Reason.String() ||
			!bytes.Equal(letter.Payload, value[:min(len(value), stream.DeadLetterPayloadBytesMax)]) {
			t.Fatalf("the dead letter is %+v (%v)", &letter, err)
		}
	})
}

func isReturn(k kind) bool { _, is := k.(*returnKind); return is }

func sameKind(a, b kind) bool {
	if isReturn(a) && isReturn(b) {
		return *a.(*returnKind) == *b.(*returnKind)
	}

	return a == b
}

// A program that may write responses can write anything there, too.
func FuzzResponse(f *testing.F) {
	for _, message := range []*pixv1.AuthorizationResponse{
		{EndToEndId: "E1000000120261121120000000000001", Ispb: "10000002",
			Status: pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_ACSP},
		{EndToEndId: "D1000000220261121120000000000001", Ispb: "\xff",
			Status: pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_RJCT, ReasonCode: "AC03"},
		{EndToEndId: "E", Status: 99, ReasonCode: "\xff"},
	} {
		value, err := message.MarshalVT()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(value)
		f.Add(append(value, 0xff))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		r, err := decodeResponse(value)
		if err != nil {
			if r != (response{}) || !utf8.ValidString(err.Error()) {
				t.Fatalf("%+v, %q", r, err)
			}

			return
		}

		if id, err := pix.ParsePaymentOrReturnID(r.id.String()); err != nil || id != r.id ||
			r.accepted != (r.reason == pix.ReasonNone) {
			t.Fatalf("%+v: %v", r, err)
		}
	})
}

// A commit's metadata may come from another program.
func FuzzHint(f *testing.F) {
	f.Add(int64(7), stream.WriteHint(7,
		finishedSpans([]entry{{7, 7, false, false}, {8, 8, true, true}, {9, 9, true, true}, {11, 11, true, true}}), 7))
	f.Add(int64(0), "1:")
	f.Add(int64(1)<<62, "1://///w8BAQ")
	f.Fuzz(func(t *testing.T, next int64, metadata string) {
		if next < 0 || next > 1<<62 { // no offset that a group has committed
			t.Skip()
		}
		h := stream.ReadHint(next, metadata)

		at := next
		for _, span := range h.Spans {
			if span.From < at || span.To < span.From {
				t.Fatalf("%d, %q: spans %v", next, metadata, h.Spans)
			}
			at = span.To
		}

		if h.Taken != -1 && h.Taken < next {
			t.Fatalf("%d, %q: %d is taken", next, metadata, h.Taken)
		}
	})
}
