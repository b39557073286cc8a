package answers

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/sandbox"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// clientsOf returns clients of a front door.
func clientsOf(t *testing.T, door http.HandlerFunc) *Clients {
	t.Helper()
	server := httptest.NewServer(door)
	t.Cleanup(server.Close)
	return NewClients(Config{Doors: []string{server.URL}, Population: sandbox.Population{Banks: 1, Customers: 1}, Judge: NewJudge(1, 0)})
}

// Only a response that was cut off may leave out payments of a batch.
func TestABatchHasALineForEachPayment(t *testing.T) {
	const accepted1, accepted2, later2 = `{"line": 1, "status": "accepted"}` + "\n", `{"line": 2, "status": "accepted"}` + "\n", `{"line": 2, "problem": {"status": 503}}` + "\n"
	for _, c := range []struct {
		name, text string
		whole      bool
		accepted   []bool
		want       string // what is refused; empty: nothing
	}{
		{"both accepted", accepted1 + accepted2, true, []bool{true, true}, ""},
		{"one is to be sent again", accepted1 + later2, true, []bool{true, false}, ""},
		{"cut off between the lines", accepted1, false, []bool{true, false}, ""},
		{"cut off in a line", accepted1 + accepted2[:9], false, []bool{true, false}, ""},
		{"too short", accepted1, true, []bool{true, false}, "is complete and has 1 lines"},
		{"no line", "", true, []bool{false, false}, "is complete and has 0 lines"},
		{"not JSON", accepted1 + "{\n", true, []bool{true, false}, "line 2 of the response"},
		{"a line twice", accepted1 + accepted1, true, []bool{true, false}, "line 2 of the response"},
		{"a line too many", accepted1 + accepted2 + `{"line": 3, "status": "accepted"}` + "\n", true, []bool{true, true}, "line 3 of the response"},
		{"refused without a fault", accepted1 + `{"line": 2, "problem": {"status": 409}}` + "\n", true, []bool{true, false}, "line 2 of the response"},
	} {
		t.Run(c.name, func(t *testing.T) {
			clients, accepted := clientsOf(t, nil), make([]bool, 2)
			clients.readBatch([]byte(c.text), c.whole, accepted)
			said := clients.Problems(Verdict{Answers: 1})[0]
			if !slices.Equal(accepted, c.accepted) {
				t.Errorf("accepted are %v, want %v", accepted, c.accepted)
			}
			if c.want != "" && !strings.Contains(said, c.want) || c.want == "" && clients.refused.Load() != 0 {
				t.Errorf("it says %q, want %q", said, c.want)
			}
		})
	}
}

func TestADoorThatServesNobodyIsAProblem(t *testing.T) {
	clients := clientsOf(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "{}", http.StatusServiceUnavailable) })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	kit.Says(t, clients.Begin(ctx), "503 Service Unavailable") // the error does not say why
	if problems := fmt.Sprint(clients.Problems(Verdict{})); !strings.Contains(problems, "accepted no payment") || !strings.Contains(problems, "answered about no payment") {
		t.Error(problems)
	}
	clients.calm.Store(true)
	clients.read(t.Context(), paid)
	if problems := fmt.Sprint(clients.Problems(Verdict{})); !strings.Contains(problems, "without any fault: GET /v1/payments/"+paid.String()+": 503") {
		t.Error(problems)
	}
}

// Without faults an id ends as its payee's account says, with an amount that was sent under it.
func TestAPaymentInCalmEndsAsWanted(t *testing.T) {
	const settled = `{"status": "settled", "amount_centavos": 500}`
	for _, c := range []struct {
		name      string
		contested bool
		status    int
		text      string
		want      bool
	}{
		{"settled", false, 200, settled, true},
		{"settled, contested", true, 200, settled, true},
		{"the other amount came first", true, 200, `{"status": "settled", "amount_centavos": 501}`, true},
		{"an amount that nobody sent", true, 200, `{"status": "settled", "amount_centavos": 502}`, false},
		{"another amount, though only one was sent", false, 200, `{"status": "settled", "amount_centavos": 501}`, false},
		{"no amount", false, 200, `{"status": "settled"}`, false},
		{"rejected", false, 200, `{"status": "rejected", "reason_code": "AB03", "amount_centavos": 500}`, false},
		{"not ended", false, 200, `{"status": "reserved", "amount_centavos": 500}`, false},
		{"not found", false, 404, settled, false},
		{"no answer", false, 200, "", false},
	} {
		s := &sample{order: order{paid, 500}, contested: c.contested, wanted: Outcome{Settled: true}}
		if got := s.endedAsWanted(c.status, []byte(c.text)); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}

// The events of a payment that has ended must come to their end, as soon as there is no fault.
func TestEventsComeToTheirEnd(t *testing.T) {
	clients := clientsOf(t, func(w http.ResponseWriter, r *http.Request) {
		state := fmt.Sprintf(`{"end_to_end_id": %q, "status": "settled", "amount_centavos": 500}`, paid)
		if strings.HasSuffix(r.URL.Path, "/events") {
			state = "data: " + strings.Replace(state, "settled", "reserved", 1) + "\n\n"
		}
		fmt.Fprint(w, state)
	})
	clients.accounts = nil
	clients.Judge.Choose(paid)
	following, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	clients.followPayment(following, paid)
	finishing, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	kit.Must(t, kit.ErrorOf(clients.Finish(finishing, nil)))
	if n := clients.refused.Load(); n != 0 {
		t.Errorf("%d answers are refused before the payment has ended", n)
	}
	clients.Judge.reported(paid, time.Now(), isSettled, &pixv1.SettlementReport{AmountCentavos: 500})
	finishing, cancel = context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	kit.Must(t, kit.ErrorOf(clients.Finish(finishing, nil)))
	if problems := fmt.Sprint(clients.Problems(Verdict{})); !strings.Contains(problems, "its events do not say so") {
		t.Error(problems)
	}
}

// In the calm a response must not break off. A stream may end, by the door's order or the client's.
func TestAResponseThatBreaksOff(t *testing.T) {
	const cut, ended, hungUp = "cut", "ended", "hung up"
	for _, c := range []struct {
		how        string
		calm, told bool
	}{{cut, false, false}, {cut, true, true}, {ended, true, false}, {hungUp, true, false}} {
		t.Run(fmt.Sprintf("%s, calm %t", c.how, c.calm), func(t *testing.T) {
			clients := clientsOf(t, func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprint(w, "id: 7\n\n")
				w.(http.Flusher).Flush()
				switch c.how {
				case cut:
					panic(http.ErrAbortHandler)
				case hungUp:
					<-r.Context().Done()
				}
			})
			clients.calm.Store(c.calm)
			bank := clients.Population.Bank(0)
			clients.Judge.follow(bank)
			_ = clients.follow(t.Context(), bank, 500*time.Millisecond, func() bool { return false })
			if got := clients.refused.Load() > 0; got != c.told {
				t.Errorf("a stream of settlements: refused %t, want %t", got, c.told)
			}
			clients.refused.Store(0)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, _, _ = clients.ask(ctx, call{method: http.MethodGet, path: "/"})
			if got := clients.refused.Load() > 0; got != c.told {
				t.Errorf("a response: refused %t, want %t", got, c.told)
			}
		})
	}
}
