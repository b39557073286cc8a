package engine

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/pix"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// What was fetched together shares its memory. A payment in flight must keep its own part only.
func TestAPaymentInFlightKeepsNothingElseInMemory(t *testing.T) {
	at := time.Now()
	id := pix.NewEndToEndID("10000001", at, rand.New(rand.NewPCG(1, 2)))

	value, err := (&pixv1.PaymentOrder{EndToEndId: id.String(), AmountCentavos: 1, AcceptedAtUnixMs: at.UnixMilli(),
		Payer: &pixv1.Account{Ispb: "10000001", Branch: "0001", Number: "1"},
		Payee: &pixv1.Account{Ispb: "10000002", Branch: "0001", Number: "2"}}).MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	var m orderMessage
	var a arrival
	var body weak.Pointer[[1 << 20]byte]
	var batch weak.Pointer[[1000]kgo.Record]
	func() {
		fetched, records := new([1 << 20]byte), new([1000]kgo.Record)
		body, batch = weak.Make(fetched), weak.Make(records)
		n := copy(fetched[:], id.String()+string(value))
		records[7] = kgo.Record{Key: fetched[:32:32], Value: fetched[32:n:n], Timestamp: at, Offset: 7,
			Headers: []kgo.RecordHeader{{Key: "h", Value: fetched[:1]}}}

		var invalid *pix.Invalid
		if a, invalid = m.decode(own(&records[7])); invalid != nil {
			t.Fatal(invalid)
		}
	}()
	m = orderMessage{}
	runtime.GC()

	if body.Value() != nil || batch.Value() != nil {
		t.Error("what was fetched with a payment stays in memory while it is in flight")
	}

	if r := a.record; string(r.Key) != id.String() || !bytes.Equal(r.Value, value) || r.Offset != 7 ||
		string(r.Headers[0].Value) != "E" || a.order.Payee.ISPB != "10000002" {
		t.Errorf("the copy differs: %+v", r)
	}
}
