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
			fmt.Fprint(w, "\nclosing,2\n")
		}, "begin \nclosing,2\n", 2, true, false, false},
		{"cut off, as a proxy may show it", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "begin\nline,1\n")
		}, "begin\nline,1\n", 1, false, true, false},
		{"cut off in its last row", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "begin\nclosing,")
		}, "begin\nclosing,", 1, false, true, false},
		{"wrong", func(w http.ResponseWriter, _ *http.Request) {
			problem(w, http.StatusInternalServerError, "broken-law")
		}, "", 1, false, false, false},
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
		{"not over", func(w http.ResponseWriter, _ *http.Request) {
			problem(w, http.StatusConflict, "unfinished-day")
		}, "", 1, false, false, true},
		{"no history", func(w http.ResponseWriter, _ *http.Request) {
			problem(w, http.StatusConflict, "no-history")
		}, "", 1, false, false, false},
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
				api.silence = 3 * time.Second
			}
			var text bytes.Buffer

			err := api.CopyDay(t.Context(),
				Day{Participant: "10000001", Day: "2026-01-02", Until: "2026-01-02T12:00:00Z", Format: "csv"}, &text)
			if (err == nil) != c.whole || TryAgain(err) != c.again || Unfinished(err) != c.not ||
				text.String() != c.text || asked != c.asked {
				t.Errorf("%v, retry %v, unfinished %v, %q, asked %d times", err, TryAgain(err), Unfinished(err),
					text.String(), asked)
			}

			if c.again && !strings.Contains(err.Error(), "broke off") {
				t.Error(err)
			}
		})
	}
}

// The ledger may take longer for the first part than the connection may for the request.
func TestAStatementMayBeginLate(t *testing.T) {
	api := at(t, "", func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(2 * time.Second)
		fmt.Fprint(w, "closing,\n")
	})

	api.Timeout = time.Second
	if err := api.CopyDay(t.Context(), Day{Participant: "10000001", Day: "2026-01-02", Format: "csv"},
		new(bytes.Buffer)); err != nil {
		t.Error(err)
	}
}

func TestEachFormatHasItsEnd(t *testing.T) {
	for format, texts := range map[string]struct{ whole, cut string }{
		"csv":     {"record\nclosing,2026-01-03T03:00:00Z,,,,,,935,2\n", "record\nsum,,,,10000002,debit,105,,1\n"},
		"json":    {"{\"lines\":[],\n\"counterparties\":[]}\n", "{\"lines\":[\n{}"},
		"camt053": {"<Document></Document>\n", "<Document></Stmt>\n"},
	} {
		if !dayEnds[format].MatchString(texts.whole) || dayEnds[format].MatchString(texts.cut) {
			t.Errorf("%s: %q or %q is taken for what it is not", format, texts.whole, texts.cut)
		}
	}
}
