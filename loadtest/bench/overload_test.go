package bench

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/platform/pix"
)

// A refused request did nothing: it is offered again, and what it holds counts as refused each
// time.
func TestARefusedRequestIsOfferedAgain(t *testing.T) {
	var mu sync.Mutex
	tries := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if tries[string(body)]++; tries[string(body)] < 3 {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		fmt.Fprintf(w, "%s", strings.Repeat(`{"status":"accepted"}`+"\n", strings.Count(string(body), "\n")))
	}))
	defer server.Close()
	made, err := orders(everything.Population, 10)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := orderRequests(made, 2)
	if err != nil {
		t.Fatal(err)
	}
	requests := len(pool)
	d := &offers{callers: &callers{load.NewCallers(server.URL, nil)}, pool: pool, outcomes: &outcomes{sent: map[pix.EndToEndID]time.Time{}}, refusals: load.NewRecorder()}
	for range 3 * requests {
		if err := d.offer(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if d.accepted.Load() != 10 || d.refused.Load() != 20 || d.outcomes.open() != 10 || len(d.outcomes.sent) != 10 || d.refusals.Latency("").Count != int64(2*requests) {
		t.Errorf("%d accepted, %d refused, %d open, %d noted", d.accepted.Load(), d.refused.Load(), d.outcomes.open(), len(d.outcomes.sent))
	}
	if err := d.offer(t.Context()); err == nil {
		t.Error("nothing is left to offer, and there is no error")
	}
}

func TestOverloadHasATableAndADrawing(t *testing.T) {
	r := &Result{}
	for _, row := range everything.rows() {
		if row.over == "" {
			continue
		}
		kept := Row{Part: row.part, Name: row.name}
		if kept.way() != row.over {
			t.Errorf("%s offers by %q, not by %q", row.name, kept.way(), row.over)
		}
		kept.add(Run{PerSecond: 950, Latency: &load.Latency{Count: 1, P50: 900, P99: 2000}, Overload: &Overload{Maximum: 1000, Offered: 1000 * row.times, Accepted: 100, Settled: 100, RefusalMicros: 321, NormalAfter: 12.3, GeneratorProcessors: 0.45, SettledBesideRefusals: 678}})
		r.Rows = append(r.Rows, kept)
	}
	table := r.overloadTable()
	if len(r.Rows) != 6 || len(table.Rows) != 6 || !strings.Contains(fmt.Sprint(table.Rows[0]), "95.0 % ") || !strings.Contains(fmt.Sprint(table.Rows[0]), "321") {
		t.Errorf("%v", table.Rows)
	}
	for i, name := range table.Head {
		if want, ok := map[string]string{"normal after": "12.3", "generator": "0.45", "settled/s beside refusals": "678"}[name]; ok && table.Rows[4][i] != want {
			t.Errorf("%s is %q, not %q", name, table.Rows[4][i], want)
		}
	}
	if r.drawOverload() == nil || (&Result{}).drawOverload() != nil {
		t.Error("a drawing without figures, or figures without a drawing")
	}
	if singles := (&Result{Rows: r.Rows[2:4]}); singles.Rows[0].way() != overSingles || singles.drawOverload() != nil {
		t.Error("single requests are drawn, of which less is offered than settles")
	}
}
