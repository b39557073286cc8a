// Package telemetry gives every service the same eyes: a JSON log, a Prometheus
// registry, health that tells the truth, and profiles, on one HTTP address.
package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/liquida/liquida/platform/settings"
)

// Config is embedded in the configuration of every service.
type Config struct {
	LogLevel string `env:"LOG_LEVEL" envDefault:"info" help:"debug, info, warn or error; per payment only at debug"`
	Address  string `env:"TELEMETRY_ADDRESS" help:"where /metrics, /healthz, /readyz and /debug/pprof are served, host:port"`
	// GCPercent has the name of Go's own variable, and another default: what lives on these
	// heaps is small, so that memory is cheaper than collecting it at twice its size.
	GCPercent int `env:"GOGC" envDefault:"400" help:"how much the heap may grow before garbage is collected, in percent of what lives on it, 25 to 10000; GOMEMLIMIT bounds it"`
}

// Validate names the variable and the value that is wrong.
func (c Config) Validate() error {
	if _, err := zapcore.ParseLevel(c.LogLevel); err != nil {
		return fmt.Errorf("LOG_LEVEL is %q: it must be debug, info, warn or error", c.LogLevel)
	}
	if _, _, err := net.SplitHostPort(c.Address); err != nil {
		return fmt.Errorf("TELEMETRY_ADDRESS is %q: it must be host:port", c.Address)
	}
	return settings.InRange("GOGC", c.GCPercent, 25, 10_000)
}

// Telemetry is the log, the registry and the health of one process.
type Telemetry struct {
	Log      *zap.Logger
	Registry *prometheus.Registry
	Health   *Health
	server   *http.Server
}

// Start sets the collector's target, builds the log and serves metrics, health and profiles on config.Address. The
// address answers as soon as Start returns; readiness is up to Health.
func Start(service string, config Config) (*Telemetry, error) {
	level, err := zapcore.ParseLevel(config.LogLevel)
	if err != nil {
		return nil, err
	}
	debug.SetGCPercent(config.GCPercent)
	logging := zap.NewProductionConfig()
	logging.Level = zap.NewAtomicLevelAt(level)
	logging.EncoderConfig.EncodeTime = zapcore.ISO8601TimeEncoder
	logging.InitialFields = map[string]any{"service": service}
	log, err := logging.Build()
	if err != nil {
		return nil, fmt.Errorf("cannot build the log: %w", err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	t := &Telemetry{Log: log, Registry: registry, Health: NewHealth()}
	registry.MustRegister(t.Health)
	listener, err := net.Listen("tcp", config.Address)
	if err != nil {
		return nil, fmt.Errorf("cannot serve telemetry on TELEMETRY_ADDRESS %s: %w", config.Address, err)
	}
	t.server = &http.Server{Handler: t.routes(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	go func() {
		if err := t.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("telemetry stopped serving", zap.Error(err))
		}
	}()
	return t, nil
}

// Stop ends serving within the context's time and flushes the log.
func (t *Telemetry) Stop(ctx context.Context) {
	_ = t.server.Shutdown(ctx)
	_ = t.Log.Sync() // standard error may not support sync; nothing to do about it
}

func (t *Telemetry) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(t.Registry, promhttp.HandlerOpts{Registry: t.Registry}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", t.Health.ServeHTTP)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/mutex", contention)
	mux.HandleFunc("GET /debug/pprof/block", contention)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// contention records waiting for locks and channels only while it is asked for, with
// ?seconds=: all the time it would cost every payment.
func contention(w http.ResponseWriter, r *http.Request) {
	defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(10))
	runtime.SetBlockProfileRate(int(100 * time.Microsecond)) // one sample for so long a wait
	defer runtime.SetBlockProfileRate(0)
	pprof.Index(w, r)
}

// Health is the set of things a process needs to do its work. It is ready when each of
// them has been reported well; one that was never reported is not.
type Health struct {
	mu    sync.Mutex
	needs map[string]string // name → what is wrong; "" is well
}

// NewHealth returns a Health that is ready until a need is added.
func NewHealth() *Health { return &Health{needs: map[string]string{}} }

// Need adds a need that is not met yet.
func (h *Health) Need(name string) { h.Report(name, errors.New("not reached yet")) }

// Report says that the need is met (nil) or why it is not. It tells whether that is news.
func (h *Health) Report(name string, err error) (changed bool) {
	wrong := ""
	if err != nil {
		wrong = err.Error()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	before, known := h.needs[name]
	h.needs[name] = wrong
	return !known || (before == "") != (wrong == "")
}

// Problems returns what keeps the process from being ready, by need; empty is ready.
func (h *Health) Problems() map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	problems := map[string]string{}
	for name, wrong := range h.needs {
		if wrong != "" {
			problems[name] = wrong
		}
	}
	return problems
}

var needMet = prometheus.NewDesc("pix_need_met", "1 while what the process needs for its work is there, else 0; /readyz says why.", []string{"need"}, nil)

// Describe and Collect make the needs a metric, so that who watches sees what is away.
func (h *Health) Describe(ch chan<- *prometheus.Desc) { ch <- needMet }

// Collect sends one value for each need.
func (h *Health) Collect(ch chan<- prometheus.Metric) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, wrong := range h.needs {
		met := 0.0
		if wrong == "" {
			met = 1
		}
		ch <- prometheus.MustNewConstMetric(needMet, prometheus.GaugeValue, met, name)
	}
}

// ServeHTTP answers 200 when ready, else 503 with what is wrong, as JSON.
func (h *Health) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	problems := h.Problems()
	w.Header().Set("Content-Type", "application/json")
	if len(problems) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"ready": len(problems) == 0, "problems": problems})
}
