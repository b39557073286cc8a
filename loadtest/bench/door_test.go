package bench

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/liquida/liquida/loadtest/load"
)

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
	c := load.NewCallers(server.URL, map[string]string{"10000001": "key"})
	defer c.Close()
	pay := call{http.MethodPost, "/v1/payments", "10000001", []byte("{}"), http.StatusAccepted, `"status":"accepted"`, 1}
	requests := slices.Repeat([]call{pay}, 200)
	got, err := callOver(t.Context(), c, connections, each(requests))
	if err != nil || got.requests != len(requests) || answered.Load() != int64(len(requests)) || got.latency.Count != int64(len(requests)) || got.took <= 0 {
		t.Errorf("%+v %v, %d answered", got, err, answered.Load())
	}
	if most.Load() > connections {
		t.Errorf("%d requests at once on %d connections", most.Load(), connections)
	}
	answered.Store(0)
	wrong.Store(true)
	if got, err = callOver(t.Context(), c, connections, each(requests)); err == nil || !strings.Contains(err.Error(), "not valid") || got.requests >= 50 {
		t.Errorf("with a wrong answer: %+v %v", got, err)
	}
	pay.ispb = "10000002"
	if _, err = callOver(t.Context(), c, 1, each([]call{pay})); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("refused: %v", err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err = callOver(stopped, c, connections, anyFor(time.Hour, 1, func(int) call { return pay })); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}
