package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/web"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// What a bank can send must not end the process, and what is refused must say why. The
// inputs in testdata/fuzz, named for what they show, are tried by every go test; make fuzz looks for more.

func FuzzPayment(f *testing.F) {
	for _, text := range []string{valid, ``, `{}`, `[]`, `null`, `{"payer": null}`, valid + `x`, `{"amount_centavos": 1e3}`, `{"payer": {"ispb": "ÀÀÀÀ"}}`, `{"accepted_at": "2026-01-01T00:00:00+99:99"}`} {
		f.Add([]byte(text))
	}
	now := time.Now()
	f.Fuzz(func(t *testing.T, text []byte) {
		var body payment
		problem := web.ReadJSON(bytes.NewReader(text), &body)
		if problem == nil {
			var record *kgo.Record
			if record, problem = body.record(now); problem == nil && len(record.Value) == 0 {
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
	for _, text := range []string{order, ``, `{}`, `[]`, `null`, order + `x`, strings.Replace(order, "1,", "1e3,", 1), strings.Replace(order, `"D`, `"E`, 1), strings.Replace(order, "MD06", "ÀÀÀÀ", 1), `{"accepted_at": "2026-01-01T00:00:00+99:99"}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, who := range []caller{{}, {holder: "10000002"}, {holder: keys.CentralBank}} {
			var body returnOrder
			problem := web.ReadJSON(bytes.NewReader(text), &body)
			if problem == nil {
				var record *kgo.Record
				if record, problem = body.record(who, now); problem == nil {
					// What is published is what the engine takes.
					var order pixv1.PaymentOrder
					if err := order.UnmarshalVT(record.Value); err != nil || order.ReturnOrder.GetReturnId() != body.ReturnID || who.holder == keys.CentralBank {
						t.Fatalf("%q publishes %v: %v", who.holder, &order, err)
					}
				}
			}
			if problem != nil {
				checkProblem(t, problem)
			}
		}
	})
}

// checkProblem checks that a problem can be sent and says what is wrong.
func checkProblem(t *testing.T, problem *web.Problem) {
	t.Helper()
	text, err := json.Marshal(problem)
	if err != nil || problem.Status < 400 || problem.Status > 499 || problem.Detail == "" {
		t.Fatalf("%s %v", text, err)
	}
	if problem.Status == http.StatusUnprocessableEntity && (problem.Field == "" || problem.Code == "" || problem.Rule == "") {
		t.Fatalf("it does not say field, code and rule: %s", text)
	}
}

func FuzzBatch(f *testing.F) {
	for _, text := range []string{"", "\n", "{}\n{}", "\r\n{}\r\n", "x\n\nx", strings.Repeat("y", 200), strings.Repeat("{}\n", 20), "\x00\n\xff"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		// No line may be valid: nothing is sent here.
		text = bytes.ReplaceAll(text, []byte("amount_centavos"), nil)
		b := &batches{config: BatchConfig{LinesMax: 10, BytesMax: 1000}, lineMax: 100}
		lines := make(chan *batchLine, b.config.LinesMax+1)
		// It must never wait for somebody to take its results.
		b.read(caller{}, http.MaxBytesReader(nil, io.NopCloser(bytes.NewReader(text)), b.config.BytesMax), lines)
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

func FuzzCursor(f *testing.F) {
	f.Add(position{}.cursor())
	f.Add(position{1, 2, 3, 1 << 62}.cursor())
	f.Add("AQ")
	f.Add("////")
	f.Fuzz(func(t *testing.T, text string) {
		for partitions := range 5 {
			if at, err := positionOf(text, partitions); err == nil {
				if again, err := positionOf(at.cursor(), partitions); err != nil || !slices.Equal(again, at) || len(at) != partitions {
					t.Fatalf("%v is read again as %v %v", at, again, err)
				}
				for _, offset := range at {
					if offset < 0 {
						t.Fatal(at)
					}
				}
			}
		}
	})
}

func FuzzPrefer(f *testing.F) {
	for _, text := range []string{"wait=10", `respond-async; a="b,c", wait="7"`, ",,=;", "wait=18446744073709551616"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if wait, ok := preferredWait(http.Header{"Prefer": {text}}, 30*time.Second); ok != (wait >= time.Second) || wait > 30*time.Second {
			t.Fatalf("%v %v", wait, ok)
		}
	})
}
