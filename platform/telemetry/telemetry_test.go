package telemetry

import (
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liquida/liquida/platform/host"
)

func TestReadinessSaysWhatIsWrong(t *testing.T) {
	health := NewHealth()
	answer := httptest.NewRecorder()
	health.ServeHTTP(answer, nil)

	if answer.Code != http.StatusServiceUnavailable {
		t.Fatalf("a service that has not said what it needs is not ready: %d %s", answer.Code, answer.Body)
	}
	health.Need("tigerbeetle")
	answer = httptest.NewRecorder()
	health.ServeHTTP(answer, nil)

	if answer.Code != http.StatusServiceUnavailable || !strings.Contains(answer.Body.String(), "tigerbeetle") {
		t.Fatalf("a need that was never reached is not ready: %d %s", answer.Code, answer.Body)
	}

	if !health.Report("tigerbeetle", nil) {
		t.Fatal("Report must return true when a need becomes healthy")
	}
	answer = httptest.NewRecorder()
	health.ServeHTTP(answer, nil)

	if answer.Code != http.StatusOK {
		t.Fatalf("all needs are met: %d %s", answer.Code, answer.Body)
	}

	if !health.Report("tigerbeetle", errors.New("no answer for 3s")) ||
		health.Report("tigerbeetle", errors.New("no answer for 4s")) {
		t.Fatal("Report must return true only when a need becomes healthy or unhealthy")
	}
}

func TestNeedsAreMetrics(t *testing.T) {
	health := NewHealth()
	health.Need("kafka")
	health.Report("tigerbeetle", nil)
	registry := prometheus.NewRegistry()
	registry.MustRegister(health)

	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "pix_need_met" {
		t.Fatalf("got %v, %v", families, err)
	}

	met := map[string]float64{}
	for _, metric := range families[0].GetMetric() {
		met[metric.GetLabel()[0].GetValue()] = metric.GetGauge().GetValue()
	}

	if want := map[string]float64{"kafka": 0, "tigerbeetle": 1}; !maps.Equal(met, want) {
		t.Fatalf("pix_need_met is %v, want %v", met, want)
	}
}

func TestConfigNamesTheVariable(t *testing.T) {
	if err := (Config{LogLevel: "loud", Address: "127.0.0.1:1"}).Validate(); err == nil ||
		!strings.Contains(err.Error(), "LOG_LEVEL") {
		t.Fatalf("got %v", err)
	}

	if err := (Config{LogLevel: "info", Address: "nowhere"}).Validate(); err == nil ||
		!strings.Contains(err.Error(), "TELEMETRY_ADDRESS") {
		t.Fatalf("got %v", err)
	}
}

// Profiles show memory. Whoever reaches the metrics must not get them by default.
func TestProfilesAreServedOnLoopbackOnly(t *testing.T) {
	for _, c := range []struct {
		config Config
		status int
	}{
		{Config{LogLevel: "error", Address: "127.0.0.1:0"}, http.StatusOK},
		{Config{LogLevel: "error", Address: "0.0.0.0:0"}, http.StatusNotFound},
		{Config{LogLevel: "error", Address: "0.0.0.0:0", Profiles: true}, http.StatusOK},
	} {
		var listener net.Listener
		on := host.System()
		on.Log = io.Discard
		on.Listen = func(network, _ string) (net.Listener, error) {
			var err error
			listener, err = net.Listen(network, "127.0.0.1:0")
			return listener, err
		}

		telemetry, err := Start("test", c.config, on)
		if err != nil {
			t.Fatal(err)
		}

		for path, status := range map[string]int{"/debug/pprof/": c.status, "/debug/pprof/mutex": c.status,
			"/metrics": http.StatusOK} {
			response, err := http.Get("http://" + listener.Addr().String() + path)
			if err != nil {
				t.Fatal(err)
			}

			_ = response.Body.Close()
			if response.StatusCode != status {
				t.Errorf("%+v: %s answers %d, want %d", c.config, path, response.StatusCode, status)
			}
		}
		telemetry.Stop()
	}
}
