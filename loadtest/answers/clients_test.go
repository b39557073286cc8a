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
)

// clientsOf returns clients of a front door.
func clientsOf(t *testing.T, door http.HandlerFunc) *Clients {
	t.Helper()
	server := httptest.NewServer(door)
	t.Cleanup(server.Close)

	return NewClients(Config{Doors: []string{server.URL}, Population: sandbox.Population{Banks: 1, Customers: 1},
		Judge: NewJudge(1, 0)})
}

// Only a response that was cut off may leave out payments of a batch.
func TestABatchHasALineForEachPayment(t *testing.T) {
	const accepted1, accepted2, later2 = `{"line": 1, "status": "accepted"}` + "\n",
		`{"line": 2, "status": "accepted"}` + "\n", `{"line": 2, "problem": {"status": 503}}` + "\n"
	for _, c := range []struct {
		name, text string
		whole      bool
		accepted   []bool
		want       string // what is refused; empty: nothing
	}{
		{"both accepted", accepted1 + accepted2, true, []bool{true, true}, ""},
		{"cut off in a line", accepted1 + accepted2[:9], false, []bool{true, false}, ""},
		{"too short", accepted1, true, []bool{true, false}, "is complete and has 1 lines"},
		{"not JSON", accepted1 + "{\n", true, []bool{true, false}, "line 2 of the response"},
		{"a line twice", accepted1 + accepted1, true, []bool{true, false}, "line 2 of the response"},
		{"refused without a fault", accepted1 + `{"line": 2, "problem": {"status": 409}}` + "\n", true,
			[]bool{true, false}, "line 2 of the response"},
	} {
		t.Run(c.name, func(t *testing.T) {
			clients, accepted := clientsOf(t, nil), make([]bool, 2)
			clients.readBatch([]byte(c.text), c.whole, accepted)
			said := clients.Problems(Verdict{Told: map[string]int{toldAnswers: 1}})[0]

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
	clients := clientsOf(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "{}", http.StatusServiceUnavailable)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	kit.Says(t, clients.Begin(ctx), "503 Service Unavailable") // the error does not say why

	if problems := fmt.Sprint(clients.Problems(Verdict{})); !strings.Contains(problems, "accepted no payment") ||
		!strings.Contains(problems, "answered about no payment") {
		t.Error(problems)
	}
	clients.calm.Store(true)
	clients.read(t.Context(), paid)

	if problems := fmt.Sprint(clients.Problems(Verdict{})); !strings.Contains(problems,
		"without any fault: GET /v1/payments/"+paid.String()+": 503") {
		t.Error(problems)
	}
}
