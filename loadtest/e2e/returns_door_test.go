package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/platform/keys"
)

// A bank gives back over the HTTP API: a part, the same again, another amount under the same id,
// too much. Other banks try it in its place. Money moves once.
func TestReturnsAtTheFrontDoor(t *testing.T) {
	s := start(t, 1)
	callers, err := s.Keys()
	s.must(err)
	const payer, payee, third = "10000001", "10000002", "10000003"
	client := http.Client{Timeout: time.Minute}
	type state struct {
		ReturnID         string `json:"return_id"`
		EndToEndID       string `json:"end_to_end_id"`
		Status           any    `json:"status"` // in a problem document a number
		ReasonCode       string `json:"reason_code"`
		DecidedAt        string `json:"decided_at"`
		AmountCentavos   int64  `json:"amount_centavos"`
		ReturnedCentavos int64  `json:"returned_centavos"`
		PostedCentavos   int64  `json:"posted_centavos"`
		Returns          []state
		Field            string
	}
	ask := func(as, method, path, body string) (code int, answer state, text string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, s.ProducerURL()+path, strings.NewReader(body))
		s.must(err)
		request.Header.Set("Authorization", "Bearer "+callers[as])
		request.Header.Set("Prefer", "wait=30")
		response, err := client.Do(request)
		s.must(err)
		defer response.Body.Close()
		read, err := io.ReadAll(response.Body)
		s.must(err)
		if !strings.HasSuffix(path, "/events") {
			s.must(json.Unmarshal(read, &answer))
		}
		return response.StatusCode, answer, string(read)
	}
	posted := func(bank string) int64 {
		t.Helper()
		_, balance, _ := ask(bank, "GET", "/v1/accounts/"+bank+"/0001/1", "")
		return balance.PostedCentavos
	}
	code, paid, text := ask(payer, "POST", "/v1/payments", `{"payer": {"ispb": "10000001", "branch": "0001", "number": "1"}, "payee": {"ispb": "10000002", "branch": "0001", "number": "1"}, "amount_centavos": 1000}`)
	if code != 200 || paid.Status != "settled" {
		t.Fatalf("%d %s", code, text)
	}
	before := [2]int64{posted(payer), posted(payee)}
	order := func(id, centavos string) string {
		return `{"return_id": "` + id + `", "original_end_to_end_id": "` + paid.EndToEndID + `", "amount_centavos": ` + centavos + `, "reason_code": "BE08"}`
	}
	for _, as := range []string{payer, third, keys.CentralBank} {
		if code, _, text := ask(as, "POST", "/v1/returns", order("", "234")); code != 403 && code != 422 {
			t.Errorf("%s gives back what it did not receive: %d %s", as, code, text)
		}
	}
	code, back, text := ask(payee, "POST", "/v1/returns", order("", "234"))
	if code != 200 || back.Status != "settled" || back.AmountCentavos != 234 {
		t.Fatalf("%d %s", code, text)
	}
	// The same again changes nothing. Another amount becomes a dead letter, because the id is
	// that of the first.
	for _, centavos := range []string{"234", "235"} {
		if code, again, text := ask(payee, "POST", "/v1/returns", order(back.ReturnID, centavos)); code != 200 || again.DecidedAt != back.DecidedAt || again.AmountCentavos != 234 {
			t.Errorf("%s again: %d %s", centavos, code, text)
		}
	}
	if code, refused, text := ask(payee, "POST", "/v1/returns", order("", "767")); code != 200 || refused.Status != "rejected" || refused.ReasonCode != "AM09" {
		t.Errorf("more than is left: %d %s", code, text)
	}
	for bank, want := range map[string]int64{payer: before[0] + 234, payee: before[1] - 234} {
		if got := posted(bank); got != want {
			t.Errorf("the account at %s holds %d centavos, it must hold %d", bank, got, want)
		}
	}
	for as, want := range map[string]int{payer: 200, payee: 200, keys.CentralBank: 200, third: 403} {
		if code, _, text := ask(as, "GET", "/v1/returns/"+back.ReturnID, ""); code != want {
			t.Errorf("%s reads the return: %d %s", as, code, text)
		}
		if code, _, text := ask(as, "GET", "/v1/returns/"+back.ReturnID+"/events", ""); code != want || want == 200 && !strings.Contains(text, `"settled"`) {
			t.Errorf("%s follows the return: %d %s", as, code, text)
		}
		code, original, text := ask(as, "GET", "/v1/payments/"+paid.EndToEndID, "")
		if code != want || want == 200 && (original.ReturnedCentavos != 234 || len(original.Returns) != 1 || original.Returns[0].ReturnID != back.ReturnID || original.Returns[0].Status != "settled") {
			t.Errorf("%s reads the payment: %d %s", as, code, text)
		}
	}
	summary := s.audit().Summary
	if summary.Returns != 2 || summary.Returned != 1 || summary.ReturnedCentavos != 234 || summary.ReturnsRejected["AM09"] != 1 || summary.DeadLetters["DUPL"] != 1 {
		t.Errorf("the audit saw %+v", summary)
	}
	// Two reports of the settled return, because it came twice.
	for metric, want := range map[string]float64{
		`pix_returns_total{reason="",status="ACSC"}`: 2, `pix_returns_total{reason="AM09",status="RJCT"}`: 1,
		"pix_returned_centavos_total": 2 * 234, `pix_payments_total{reason="",status="ACSC"}`: 1,
	} {
		if got := s.metric(stack.EngineName(0), metric); got != want {
			t.Errorf("%s is %v, it must be %v", metric, got, want)
		}
	}
}
