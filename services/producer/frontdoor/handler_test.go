package frontdoor

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/register"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/query"
)

// Who reads has a turn, even for a refusal. All strangers share one, and what paying needs has none.
func TestReadsHaveATurn(t *testing.T) {
	digests := filepath.Join(t.TempDir(), "digests")
	key := keys.New(keys.CentralBank)
	kit.Must(t, os.WriteFile(digests, fmt.Appendf(nil, "%s %x\n", keys.CentralBank, sha256.Sum256([]byte(key))), 0o600))
	health := &telemetry.Telemetry{Log: zap.NewNop(), Registry: prometheus.NewRegistry(), Health: telemetry.NewHealth()}
	control, err := access.New(access.Config{KeysFile: digests, RateMax: 0, BurstMax: 4}, time.Now,
		register.New(nil, 1, health))
	kit.Must(t, err)
	var taken, wrong []string
	serve := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }
	api := []route{{method: "GET", path: "/read", handler: serve}, {method: "POST", path: "/act", handler: serve},
		{method: "GET", path: "/paying", handler: serve, paying: true}}
	shared := turns{func(_ context.Context, holder string) *web.Problem {
		taken = append(taken, holder)
		return nil
	}, func(holder string) { wrong = append(wrong, holder) }}
	handler := handler(api, control, func() *web.Problem { return nil }, shared, prometheus.NewRegistry())

	for _, test := range []struct {
		method, path, key string
		status            int
		turn              string
	}{
		{"GET", "/read", "", 401, strangers}, {"POST", "/act", "", 401, strangers},
		{"GET", "/none", key, 404, strangers}, {"POST", "/read", key, 405, strangers},
		{"GET", "/read", key, 200, keys.CentralBank}, {"POST", "/act", key, 200, ""},
		{"GET", "/paying", key, 200, ""}, {"GET", "/paying?wrong=1", key, 422, keys.CentralBank},
		{"GET", "/paying", key, 429, keys.CentralBank},
		{"GET", "/read?wrong=1", key, 429, keys.CentralBank},
	} {
		request, response := httptest.NewRequest(test.method, test.path, http.NoBody), httptest.NewRecorder()
		if test.key != "" {
			request.Header.Set("Authorization", "Bearer "+test.key)
		}
		taken, wrong = nil, nil
		handler.ServeHTTP(response, request)

		isWrong := test.status == 401 || test.status == 422
		if response.Code != test.status || strings.Join(taken, ",") != test.turn || (len(wrong) > 0) != isWrong {
			t.Errorf("%+v: %d after turns of %q, wrong %q", test, response.Code, taken, wrong)
		}
	}
}

// A response that breaks off is counted, and not as a good one.
func TestABrokenResponseIsCounted(t *testing.T) {
	control, err := access.New(access.Config{}, time.Now, nil)
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	breaks := route{method: "GET", path: "/breaks", id: "breaks", permission: access.CentralBankOnly,
		responses: map[int]message{200: {"A balance.", asJSON, query.Balance{}}},
		handler: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "begin")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}}
	server := httptest.NewServer(handler([]route{breaks}, control, func() *web.Problem { return nil },
		turns{func(context.Context, string) *web.Problem { return nil }, func(string) {}}, registry))
	defer server.Close()

	response, err := http.Get(server.URL + "/breaks")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()

	if text, err := io.ReadAll(response.Body); err == nil {
		t.Errorf("it does not break: %s", text)
	}
	server.Close() // the handler has ended
	shown := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(shown, httptest.NewRequest("GET", "/", nil))

	if want := `pix_producer_requests_total{route="GET /breaks",status="broken"} 1`; !strings.Contains(
		shown.Body.String(), want) || !strings.Contains(shown.Body.String(), "pix_producer_requests_in_flight 0") {
		t.Errorf("%s is missing in %s", want, shown.Body)
	}
}
