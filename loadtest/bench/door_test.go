package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/meter"
	"github.com/liquida/liquida/platform/sandbox"
)

func doorRow(name string, rates ...float64) Row {
	row := Row{Part: doorPart, Name: name}
	for _, rate := range rates {
		row.add(Run{Payments: 1000, PerSecond: rate, Latency: &load.Latency{Count: 1000, P50: 1.5, P99: 7.5, Max: 77.5}, Audit: "AUDIT CLEAN",
			Door: &Door{Operation: payOne, Connections: 64, Count: 123_456}, Costs: []meter.Cost{{Process: "producer", CPUMicroseconds: 33.3}}})
	}
	return row
}

// What the front door answers is not what settles: its figures have tables of their own.
func TestTheFrontDoorHasTablesOfItsOwn(t *testing.T) {
	r := &Result{Rows: []Row{runs("maximum", 30_000), doorRow("front door, payments one by one", 4000, 6000, 5000),
		{Part: doorPart, Name: "front door, states", Invalid: []string{"front door, states: the run is not valid: 503"}}}}
	var text bytes.Buffer
	r.Write(&text)
	for _, want := range []string{"payments accepted", "123,456", "5000", "least", "4000", "6000", "1.5", "7.5", "77.5", "33.3", "front door, states: INVALID, no figure", "INVALID front door, states"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in %s", want, &text)
		}
	}
	for _, table := range r.Tables() {
		door := strings.Contains(table.Title, "ront door")
		for _, cells := range table.Rows {
			if strings.HasPrefix(cells[0], "front door") != door && !strings.HasPrefix(cells[0], "    ") {
				t.Errorf("%q stands in the table %q", cells[0], table.Title)
			}
		}
	}
	changes, _ := (&Result{Rows: []Row{doorRow("front door, payments one by one", 2000)}}).Compare(r)
	if len(changes) != 1 || changes[0].Worse != 0.6 {
		t.Errorf("2000 against 5000 a second: %+v", changes)
	}
	path := filepath.Join(t.TempDir(), "report.html")
	if err := r.WriteReport(path, ""); err != nil {
		t.Fatal(err)
	}
	html, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"5,000/s", "every response was right. AUDIT CLEAN", "503"} {
		if !bytes.Contains(html, []byte(want)) {
			t.Errorf("the report does not hold %q", want)
		}
	}
	if bytes.Contains(html, []byte("NaN")) {
		t.Error("the report must hold numbers only")
	}
}

func TestRequestsOfTheFrontDoorHoldEachPaymentOnce(t *testing.T) {
	const n = 1234
	population := sandbox.Population{Banks: 5, Customers: 100, DepositCentavos: 100_000_000, ReserveCentavos: 1_000_000_000}
	made, err := orders(population, n)
	if err != nil {
		t.Fatal(err)
	}
	for _, lines := range []int{1, 50} {
		all, err := orderRequests(made, lines)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, s := range all {
			decoder, count := json.NewDecoder(bytes.NewReader(s.body)), 0
			for {
				var o client.Payment
				if err := decoder.Decode(&o); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				if seen[o.EndToEndID] || o.Payer.ISPB != s.ispb || o.EndToEndID[1:9] != s.ispb || o.AmountCentavos == 0 {
					t.Errorf("%+v in a request of %s", o, s.ispb)
				}
				seen[o.EndToEndID] = true
				count++
			}
			if count != s.payments || count > lines {
				t.Errorf("a request of %d payments says %d, at most %d may be", count, s.payments, lines)
			}
		}
		if len(seen) != n || lines > 1 && len(all) > n/lines+population.Banks {
			t.Errorf("%d payments in %d requests of at most %d", len(seen), len(all), lines)
		}
	}
}

// The API is called on this many connections and no more, and one wrong response is the
// end: no figure comes of it.
func TestAskingEndsWithTheFirstWrongAnswer(t *testing.T) {
	const connections = 4
	var answered, now, most atomic.Int64
	var wrong atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
		}
		defer now.Add(-1)
		if r.Header.Get("Authorization") != "Bearer key" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		n = answered.Add(1)
		if n > 50 && wrong.Load() { // until the caller that got the wrong answer ends the others
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
			return
		}
		w.WriteHeader(http.StatusAccepted)
		if n == 50 && wrong.Load() {
			_, _ = io.WriteString(w, `{"problem": {}}`)
			return
		}
		_, _ = io.WriteString(w, `{"status":"accepted"}`)
	}))
	defer server.Close()
	c := &callers{load.NewCallers(server.URL, map[string]string{"10000001": "key"})}
	defer c.Close()
	requests := make([]orderRequest, 200)
	for i := range requests {
		requests[i] = orderRequest{ispb: "10000001", body: []byte("{}"), payments: 1}
	}
	got, err := callOver(t.Context(), connections, each(requests, c.pay))
	if err != nil || got.requests != len(requests) || answered.Load() != int64(len(requests)) || got.latency.Count != int64(len(requests)) || got.took <= 0 {
		t.Errorf("%+v %v, %d answered", got, err, answered.Load())
	}
	if most.Load() > connections {
		t.Errorf("%d requests at once on %d connections", most.Load(), connections)
	}
	answered.Store(0)
	wrong.Store(true)
	if got, err = callOver(t.Context(), connections, each(requests, c.pay)); err == nil || !strings.Contains(err.Error(), "not valid") || got.requests >= 50 {
		t.Errorf("with a wrong answer: %+v %v", got, err)
	}
	if _, err = callOver(t.Context(), 1, each([]orderRequest{{ispb: "10000002"}}, c.pay)); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("refused: %v", err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err = callOver(stopped, connections, anyFor(time.Hour, 1, func(context.Context, int) error { return nil })); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}
