package frontdoor

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/query"
)

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
	server := httptest.NewServer(handler([]route{breaks}, control, func() *web.Problem { return nil }, registry))
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
