package submission

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/web"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/field"
	"github.com/liquida/liquida/services/producer/overload"
	"github.com/liquida/liquida/services/producer/query"
)

const valid = `{"payer": {"ispb": "10000001", "branch": "0001", "number": "1"}, "payee": {"ispb": "10000002", "branch": "0001", "number": "2"}, "amount_centavos": 12345}`

// Nothing that a bank sends may end the process, and a problem must say why. Every go test
// runs the inputs in testdata/fuzz, which are named for what they show; make fuzz looks for more.

func FuzzPayment(f *testing.F) {
	for _, text := range []string{valid, ``, `{}`, `[]`, `null`, `{"payer": null}`, valid + `x`,
		`{"amount_centavos": 1e3}`, `{"payer": {"ispb": "ÀÀÀÀ"}}`, `{"accepted_at": "2026-01-01T00:00:00+99:99"}`} {
		f.Add([]byte(text))
	}
	now := time.Now()
	f.Fuzz(func(t *testing.T, text []byte) {
		var body Payment

		problem := field.ReadJSON(bytes.NewReader(text), &body)
		if problem == nil {
			var payment *sending
			if payment, problem = body.sending(now); problem == nil &&
				(len(payment.Value) == 0 || payment.ID.String() != body.EndToEndID) {
				t.Fatal("neither taken nor refused")
			}
		}

		if problem != nil {
			checkProblem(t, problem)
		}
	})
}

func FuzzReturn(f *testing.F) {
	now := time.Now()

	order := fmt.Sprintf(`{"return_id": %q, "original_end_to_end_id": %q, "amount_centavos": 1, "reason_code": "MD06"}`,
		pix.NewReturnID("10000002", now, random), pix.NewEndToEndID("10000001", now, random))
	for _, text := range []string{order, ``, `{}`, `[]`, `null`, order + `x`, strings.Replace(order, "1,", "1e3,", 1),
		strings.Replace(order, `"D`, `"E`, 1), strings.Replace(order, "MD06", "ÀÀÀÀ", 1),
		`{"accepted_at": "2026-01-01T00:00:00+99:99"}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, who := range []access.Caller{{}, {Holder: "10000002"}, {Holder: keys.CentralBank}} {
			var body ReturnOrder

			problem := field.ReadJSON(bytes.NewReader(text), &body)
			if problem == nil {
				var record *sending
				if record, _, problem = body.sending(who, now); problem == nil {
					// The engine can read what is published.
					var order pixv1.PaymentOrder
					if err := order.UnmarshalVT(record.Value); err != nil ||
						order.ReturnOrder.GetReturnId() != body.ReturnID || who.Holder == keys.CentralBank {
						t.Fatalf("%q publishes %v: %v", who.Holder, &order, err)
					}
				}
			}

			if problem != nil {
				checkProblem(t, problem)
			}
		}
	})
}

// checkProblem checks that a problem can be encoded and says what is wrong.
func checkProblem(t *testing.T, problem *web.Problem) {
	t.Helper()

	text, err := json.Marshal(problem)
	if err != nil || problem.Status < 400 || problem.Status > 499 || problem.Detail == "" {
		t.Fatalf("%s %v", text, err)
	}

	if problem.Status == http.StatusUnprocessableEntity &&
		(problem.Field == "" || problem.Code == "" || problem.Rule == "") {
		t.Fatalf("it does not say field, code and rule: %s", text)
	}
}

func FuzzBatch(f *testing.F) {
	for _, text := range []string{"", "\n", "{}\n{}", "\r\n{}\r\n", "x\n\nx", strings.Repeat("y", 200),
		strings.Repeat("{}\n", 20), "\x00\n\xff"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		// No line may be valid, because nothing is sent here.
		text = bytes.ReplaceAll(text, []byte("amount_centavos"), nil)
		s := &Submissions{Publisher: &Publisher{now: time.Now,
			gate: overload.NewGate(overload.Config{Age: time.Second}, prometheus.NewRegistry())},
			batches: batches{config: BatchConfig{LinesMax: 10, BytesMax: 1000}, lineMax: 100}, ledger: &query.Ledger{}}
		lines := make(chan *batchLine, s.batches.config.LinesMax+1)
		// It must never block on its results.
		ctx := access.With(httptest.NewRequest("POST", "/v1/payments:batch", nil), access.Caller{}).Context()
		s.readBatch(ctx, http.MaxBytesReader(nil, io.NopCloser(bytes.NewReader(text)),
			s.batches.config.BytesMax), lines)

		last := 0
		for line := range lines {
			if line.result.Line <= last || line.result.Problem == nil {
				t.Fatalf("%+v after line %d", line.result, last)
			}
			last = line.result.Line
			checkProblem(t, line.result.Problem)
		}

		if last == 0 || last > bytes.Count(text, []byte("\n"))+1 {
			t.Fatalf("the last result is of line %d", last)
		}
	})
}
