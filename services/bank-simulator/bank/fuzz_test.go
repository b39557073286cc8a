package bank

import (
	"testing"
	"unicode/utf8"

	pixv1 "github.com/liquida/liquida/proto/pix/v1"
	"github.com/liquida/liquida/services/bank-simulator/decision"
)

// A request gets a response that names the same payment, or an error.
func FuzzRequest(f *testing.F) {
	for _, message := range []*pixv1.AuthorizationRequest{
		{EndToEndId: "E1000000120261121120000000000001",
			Payee: &pixv1.Account{Ispb: "10000002", Branch: "0001", Number: "1"}, AmountCentavos: 1, ReplyPartition: 3},
		{EndToEndId: "D1000000220261121120000000000001", Payee: &pixv1.Account{Ispb: "1000000\xff"},
			ReplyPartition: -1},
		{EndToEndId: "E1000000120261121120000000000001"},
	} {
		value, err := message.MarshalVT()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(value)
		f.Add(append(value, 0xff))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		request, err := new(requestMessage).read(value)
		if err != nil {
			if request != nil || !utf8.ValidString(err.Error()) {
				t.Fatalf("%+v, %q", request, err)
			}

			return
		}

		for _, decided := range []decision.Decision{{}, {RejectCode: "AC03"}} {
			a := newResponse(request, decided, nil)

			var answer pixv1.AuthorizationResponse
			if err := answer.UnmarshalVT(a.record.Value); err != nil {
				t.Fatal(err)
			}

			if answer.EndToEndId != request.EndToEndId || string(a.record.Key) != request.EndToEndId ||
				answer.Ispb != request.Payee.Ispb ||
				answer.ReasonCode != decided.RejectCode || a.record.Partition != request.ReplyPartition ||
				a.record.Partition < 0 {
				t.Fatalf("the response to %+v is %+v", request, &answer)
			}
		}
	})
}
