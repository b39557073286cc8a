package e2e

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/platform/pix"
)

// While no engine takes orders, the front door refuses them: with nothing done, and whole batches
// at once. When the engine is back it takes them again, and all that it ever accepted has ended.
func TestTheFrontDoorRefusesWhileNoEngineWorks(t *testing.T) {
	s := start(t, 1, func(c *stack.Config) {
		c.Env[stack.Producer] = []string{"SHED_AGE=1s"}
		c.Env[stack.Engine] = nil // the deadline as shipped: what was accepted must not end by it
	})
	keys, err := s.Keys()
	s.must(err)
	callers := load.NewCallers(s.ProducerURL(), keys)
	defer callers.Close()
	random := rand.New(rand.NewPCG(1, 2))
	const bank, lines = "10000001", 50
	accepted := 0
	offer := func() int {
		t.Helper()
		var body bytes.Buffer
		for range lines {
			s.must(json.NewEncoder(&body).Encode(client.Payment{EndToEndID: pix.NewEndToEndID(bank, time.Now(), random).String(), AmountCentavos: 1,
				Payer: client.Account{ISPB: bank, Branch: "0001", Number: "1"}, Payee: client.Account{ISPB: "10000002", Branch: "0001", Number: "1"}}))
		}
		answer, err := callers.Send(t.Context(), http.MethodPost, "/v1/payments:batch", bank, body.Bytes())
		s.must(err)
		switch n := bytes.Count(answer.Body, []byte(`"status":"accepted"`)); {
		case answer.Status == http.StatusOK && n == lines:
			accepted += n
		case answer.Status != http.StatusTooManyRequests, n > 0, answer.RetryAfter == 0:
			t.Fatalf("%d, Retry-After %v: %s", answer.Status, answer.RetryAfter, answer.Body)
		}
		return answer.Status
	}
	await := func(status int) {
		t.Helper()
		for until := time.Now().Add(drainTimeout); offer() != status; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("the response is never %d", status)
			}
		}
	}
	for range 4 {
		await(http.StatusOK)
	}
	s.audit() // every partition has a commit: before that, nothing is known of it
	s.must(s.Pause("engine-0"))
	await(http.StatusTooManyRequests)
	s.must(s.Resume("engine-0"))
	await(http.StatusOK)
	if verdict := s.audit(); verdict.Summary.Payments != accepted || verdict.Summary.Settled != accepted {
		t.Errorf("%d payments of %d that were accepted, %d settled", verdict.Summary.Payments, accepted, verdict.Summary.Settled)
	}
}
