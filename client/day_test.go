package client

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A statement that breaks off, stalls, or does not begin is an error; only a whole one is none.
func TestAStatementIsWholeOrAnError(t *testing.T) {
	asked := 0
	flush := func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }
	problem := func(w http.ResponseWriter, status int, kind string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"type": "urn:liquida:problem:%s", "title": "No", "detail": "no", "status": %d}`, kind, status)
	}
	for _, c := range []struct {
		name              string
		answer            func(w http.ResponseWriter, r *http.Request)
		text              string
		asked             int
		whole, again, not bool // not finished
	}{
		{"whole, after a retry", func(w http.ResponseWriter, _ *http.Request) {
			if asked == 1 {
				problem(w, http.StatusServiceUnavailable, "ledger-away")
				return
			}
			fmt.Fprint(w, "begin ")
			flush(w)
			fmt.Fprint(w, "end")
		}, "begin end", 2, true, false, false},
		{"broken off", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "begin ")
			flush(w)
			panic(http.ErrAbortHandler)
		}, "begin ", 1, false, true, false},
		{"stalled", func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "begin ")
			flush(w)
			<-r.Context().Done()
		}, "begin ", 1, false, true, false},
		{"not over", func(w http.ResponseWriter, _ *http.Request) { problem(w, http.StatusConflict, "unfinished-day") }, "", 1, false, false, true},
		{"no history", func(w http.ResponseWriter, _ *http.Request) { problem(w, http.StatusConflict, "no-history") }, "", 1, false, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked = 0
			api := at(t, "", func(w http.ResponseWriter, r *http.Request) {
				asked++
				if want := "/v1/participants/10000001/statements/2026-01-02?format=csv&until=2026-01-02T12%3A00%3A00Z"; r.URL.String() != want {
					t.Errorf("asked for %s, want %s", r.URL, want)
				}
				c.answer(w, r)
			})
			if c.name == "stalled" {
				api.Timeout = 3 * time.Second
			}
			var text bytes.Buffer
			err := api.CopyDay(t.Context(), Day{Participant: "10000001", Day: "2026-01-02", Until: "2026-01-02T12:00:00Z", Format: "csv"}, &text)
			if (err == nil) != c.whole || TryAgain(err) != c.again || Unfinished(err) != c.not || text.String() != c.text || asked != c.asked {
				t.Errorf("%v, retry %v, unfinished %v, %q, asked %d times", err, TryAgain(err), Unfinished(err), text.String(), asked)
			}
			if c.again && !strings.Contains(err.Error(), "broke off") {
				t.Error(err)
			}
		})
	}
}
