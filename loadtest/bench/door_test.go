package bench

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/platform/kit"
)

// One wrong response is the end: no figure comes of it.
func TestAskingEndsWithTheFirstWrongAnswer(t *testing.T) {
	var answered atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := answered.Add(1)
		if n > 250 { // until the caller that got the wrong answer ends the others
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
			return
		}
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, map[bool]string{false: `{"status":"accepted"}`, true: `{"problem": {}}`}[n == 250])
	}))
	defer server.Close()
	c := load.NewCallers(server.URL, nil)
	defer c.Close()
	requests := slices.Repeat([]call{{http.MethodPost, "/v1/payments", "10000001", []byte("{}"), http.StatusAccepted,
		`"status":"accepted"`, 1}}, 200)

	got, err := callOver(t.Context(), c, 4, each(requests))
	if err != nil || got.count != len(requests) || answered.Load() != int64(len(requests)) || got.took <= 0 {
		t.Errorf("%+v %v, %d answered", got, err, answered.Load())
	}

	got, err = callOver(t.Context(), c, 4, each(requests))
	if kit.Says(t, err, "not valid"); got.count >= 50 {
		t.Errorf("with a wrong answer: %+v", got)
	}
}
