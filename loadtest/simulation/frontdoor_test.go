package simulation

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
)

// open starts a front door, and waits for it.
func (s *scenario) open() *service {
	s.t.Helper()
	s.startProducer(len(s.doors))
	door := s.services[len(s.services)-1]
	s.ready(door)
	return door
}

// ask makes a request to the front door as a caller, which waits for an outcome.
func (s *scenario) ask(as, method, path, body string) (code int, text string) {
	s.t.Helper()
	return s.askAt(s.doors[0], as, method, path, body)
}

// askAt makes a request to one of several front doors.
func (s *scenario) askAt(door, as, method, path, body string) (code int, text string) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.ends, method, door+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+s.keys[as])
	request.Header.Set("Prefer", "wait=30")
	request.Header.Set("Expect", "100-continue") // the network keeps nothing that a door which refuses does not read
	client := http.Client{Transport: &http.Transport{DialContext: s.network.DialContext, DisableKeepAlives: true, ExpectContinueTimeout: time.Minute}, Timeout: time.Minute}
	response, err := client.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, string(said)
}

// onePayment is the body of a payment from 10000001 to 10000002.
func onePayment(centavos int) string {
	return fmt.Sprintf(`{"payer": {"ispb": "10000001", "branch": "0001", "number": "1"}, "payee": {"ispb": "10000002", "branch": "0001", "number": "1"}, "amount_centavos": %d}`, centavos)
}

// The producer's clock is wrong, either way, while clients pay and ask: it is not ready, takes
// nothing, and takes back nothing that it said.
func TestTheProducersClockIsWrong(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(2)
		door := s.open()
		const rate, sending = 20, 2 * time.Minute
		if err := s.invite(s.seed); err != nil {
			s.t.Fatal(err)
		}
		if err := s.beginDoor(s.seed, pace{payments: int(rate * sending.Seconds()), asks: denseAsks}); err != nil {
			s.t.Fatal(err)
		}
		s.door.begin(sending, rate)
		for _, behind := range []bool{false, true, false} {
			s.pass(2*time.Second, 10*time.Second)
			offset := between(s.random, 5*time.Second, 70*time.Second)
			if behind {
				offset = -offset
			}
			s.producerConfig.ClockOffset = offset
			s.note("the producer's clock is %v wrong", offset)
			door.kill(restartTime, "")
			s.eventually("not ready because of its clock", func() bool {
				code, said := s.get(door, "/readyz")
				return code == http.StatusServiceUnavailable && strings.Contains(said, `"clock":"this machine's clock differs`)
			})
			s.pass(4*time.Second, 8*time.Second)
			if code, said := s.ask("10000001", "POST", "/v1/payments", onePayment(1)); code != http.StatusServiceUnavailable || !strings.Contains(said, "clock-wrong") {
				s.t.Errorf("with a wrong clock it answers a payment with %d: %s", code, said)
			}
			s.producerConfig.ClockOffset = 0
			door.kill(restartTime, "")
			s.ready(door)
		}
		s.door.end()
		if paid := s.door.clients.Submitted(); paid < 100 {
			s.t.Errorf("clients submitted %d payments: too few to show anything", paid)
		}
		s.verdict()
	})
}

// A bank gives back over the HTTP API: a part, the same again, another amount under the same id,
// too much. Other banks try it in its place. Money moves once.
func TestReturnsAtTheFrontDoor(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		t := s.t
		s.start(1)
		s.open()
		const payer, payee, third = "10000001", "10000002", "10000003"
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
		}
		ask := func(as, method, path, body string) (code int, answer state, text string) {
			t.Helper()
			code, text = s.ask(as, method, path, body)
			if !strings.HasSuffix(path, "/events") {
				if err := json.Unmarshal([]byte(text), &answer); err != nil {
					t.Fatal(err)
				}
			}
			return code, answer, text
		}
		posted := func(bank string) int64 {
			t.Helper()
			_, balance, _ := ask(bank, "GET", "/v1/accounts/"+bank+"/0001/1", "")
			return balance.PostedCentavos
		}
		code, paid, text := ask(payer, "POST", "/v1/payments", onePayment(1000))
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
		// The same again changes nothing. Another amount is refused, because the id is that of the first.
		if code, again, text := ask(payee, "POST", "/v1/returns", order(back.ReturnID, "234")); code != 200 || again.DecidedAt != back.DecidedAt || again.AmountCentavos != 234 {
			t.Errorf("the same again: %d %s", code, text)
		}
		if code, _, text := ask(payee, "POST", "/v1/returns", order(back.ReturnID, "235")); code != 409 || !strings.Contains(text, `"DUPL"`) {
			t.Errorf("another amount: %d %s", code, text)
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
		summary := s.verdict()
		if summary.Returns != 2 || summary.Returned != 1 || summary.ReturnedCentavos.String() != "234" || summary.ReturnsRejected["AM09"] != 1 || len(summary.DeadLetters) > 0 {
			t.Errorf("the audit saw %+v", summary)
		}
		// Two reports of the settled return, because it came twice.
		for metric, want := range map[string]float64{
			`pix_returns_total{reason="",status="ACSC"}`: 2, `pix_returns_total{reason="AM09",status="RJCT"}`: 1,
			"pix_returned_centavos_total": 2 * 234, `pix_payments_total{reason="",status="ACSC"}`: 1,
		} {
			if got := s.metric(s.engine(0), metric); got != want {
				t.Errorf("%s is %v, it must be %v", metric, got, want)
			}
		}
	})
}

// While the engine is frozen, the front door refuses orders: with nothing done, and whole batches
// at once. When the engine goes on it takes them again, and all that it ever accepted has settled.
func TestTheFrontDoorRefusesWhileNoEngineWorks(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(1)
		s.open()
		const bank, lines = "10000001", 50
		accepted := 0
		offer := func() int {
			s.t.Helper()
			var body strings.Builder
			for range lines {
				body.WriteString(strings.Replace(onePayment(1), "{", `{"end_to_end_id": "`+pix.NewEndToEndID(bank, time.Now(), s.random).String()+`", `, 1) + "\n")
			}
			code, said := s.ask(bank, "POST", "/v1/payments:batch", body.String())
			switch n := strings.Count(said, `"status":"accepted"`); {
			case code == http.StatusOK && n == lines:
				accepted += n
			case code != http.StatusTooManyRequests || n > 0:
				s.t.Fatalf("%d: %s", code, said)
			}
			return code
		}
		await := func(code int) {
			s.t.Helper()
			s.eventually(fmt.Sprintf("the response %d", code), func() bool { return offer() == code })
		}
		for range 4 {
			await(http.StatusOK)
		}
		s.eventually("a commit of each partition", func() bool { // before that, nothing is known of it
			commits, err := kadm.NewClient(s.client).FetchOffsets(s.ends, stream.EngineGroup)
			if err != nil {
				s.t.Fatal(err)
			}
			known := 0
			commits.Each(func(o kadm.OffsetResponse) {
				if o.Topic == stream.Payments && o.At > 0 {
					known++
				}
			})
			return known == partitions
		})
		resume := s.engine(0).pause()
		await(http.StatusTooManyRequests) // within seconds: what waits for it is still young enough to settle
		resume()
		s.ready(s.engine(0))
		await(http.StatusOK)
		if summary := s.verdict(); summary.Payments != accepted || summary.Settled != accepted {
			s.t.Errorf("%d payments of %d that were accepted, %d settled", summary.Payments, accepted, summary.Settled)
		}
	})
}

// A hold expires, and no engine says so. Two front doors compare their clocks with the ledger's at
// different times. Once one of them has called the payment rejected, none
// calls it reserved.
func TestNoFrontDoorGoesBackWhenAHoldExpires(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.open()
		time.Sleep(500 * time.Millisecond) // the doors ask the ledger once a second
		s.startProducer(1)
		other := s.services[len(s.services)-1]
		s.ready(other)
		id := pix.NewEndToEndID("10000001", time.Now(), s.random)
		payer, payee := pix.Account{ISPB: "10000001", Branch: "0001", Number: "1"}, pix.Account{ISPB: "10000002", Branch: "0001", Number: "1"}
		hold := ledger.AppendReserve(nil, id, pix.Content{Payer: payer, Payee: payee, AmountCentavos: 1}, 5)
		if _, err := s.world.ledger.Connect(nil).CreateTransfers(hold); err != nil {
			s.t.Fatal(err)
		}
		statuses := func() (said [2]string) {
			for i, door := range s.doors {
				var state struct{ Status string }
				_, text := s.askAt(door, keys.CentralBank, http.MethodGet, "/v1/payments/"+id.String(), "")
				if err := json.Unmarshal([]byte(text), &state); err != nil {
					s.t.Fatal(err)
				}
				said[i] = state.Status
			}
			return said
		}
		for said, end := statuses(), time.Now().Add(10*time.Second); time.Now().Before(end); said = statuses() {
			if said == [2]string{"rejected", "reserved"} {
				s.t.Fatal("one front door says rejected, and the other after it reserved")
			}
			time.Sleep(20 * time.Millisecond)
		}
		if said := statuses(); said != [2]string{"rejected", "rejected"} {
			s.t.Errorf("after the hold has expired: %v", said)
		}
	})
}
