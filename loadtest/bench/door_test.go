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

// One wrong response is the end: no figure comes of it.
func TestAskingEndsWithTheFirstWrongAnswer(t *testing.T) {
	var answered, wrongAt atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := answered.Add(1)
		if at := wrongAt.Load(); at > 0 && n > at { // until the caller that got the wrong answer ends the others
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
			return
		}
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w,
			map[bool]string{false: `{"status":"accepted"}`, true: `{"problem": {}}`}[n == wrongAt.Load()])
	}))
	defer server.Close()
	c := load.NewCallers(server.URL, nil)
	defer c.Close()
	pay := call{http.MethodPost, "/v1/payments", "10000001", []byte("{}"), http.StatusAccepted,
		`"status":"accepted"`, 1}
	requests := slices.Repeat([]call{pay}, 200)

	got, err := callOver(t.Context(), c, 4, each(requests))
	if err != nil || got.count != len(requests) || answered.Load() != int64(len(requests)) || got.took <= 0 {
		t.Errorf("%+v %v, %d answered", got, err, answered.Load())
	}
	answered.Store(0)
	wrongAt.Store(50)

	if got, err = callOver(t.Context(), c, 4, each(requests)); err == nil ||
		!strings.Contains(err.Error(), "not valid") || got.count >= 50 {
		t.Errorf("with a wrong answer: %+v %v", got, err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()

	if _, err = callOver(stopped, c, 4, anyFor(time.Hour, 1, func(int) call {
		return pay
	})); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}
