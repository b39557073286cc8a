package load

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/sandbox"
)

func TestFrontDoorPostsTheOrderAndTellsARefusal(t *testing.T) {
	payment := mix.NewGenerator(sandbox.Population{Banks: 2, Customers: 4, DepositCentavos: 1, ReserveCentavos: 1}, rand.New(rand.NewPCG(1, 0))).Payment(mix.Accepted, time.Now())
	status := http.StatusAccepted
	var got struct {
		EndToEndID     string `json:"end_to_end_id"`
		Payee          struct{ ISPB, Number string }
		AmountCentavos uint64 `json:"amount_centavos"`
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil || r.URL.Path != "/v1/payments" || r.Header.Get("Authorization") != "Bearer the key" {
			t.Errorf("%s is posted to: %v", r.URL.Path, err)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte("the reason"))
	}))
	defer server.Close()
	door := NewCallers(server.URL, map[string]string{string(payment.Payer.ISPB): "the key"})
	kit.Must(t, door.post(payment.First.Value))
	if got.EndToEndID != payment.Name || got.Payee.ISPB != string(payment.Payee.ISPB) || got.Payee.Number != payment.Payee.Number || got.AmountCentavos != payment.First.AmountCentavos {
		t.Errorf("posted was %+v of the payment %+v", got, payment)
	}
	status = http.StatusTooManyRequests
	kit.Says(t, door.post(payment.First.Value), "the reason")
	if passes([]mix.Case{mix.Accepted, mix.SameBank}) != nil || passes([]mix.Case{mix.Accepted, mix.Undecodable}) == nil {
		t.Error("ordinary payments pass the front door, broken messages do not")
	}
}
