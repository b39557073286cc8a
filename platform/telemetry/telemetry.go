// Package telemetry makes a service observable: a JSON log, a Prometheus registry, health
// and profiles, the last three on one HTTP address.
package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/settings"
)

// Config is embedded in the configuration of every service.
type Config struct {
	LogLevel string `env:"LOG_LEVEL" envDefault:"info" help:"debug, info, warn or error; per payment only at debug"`
	Address  string `env:"TELEMETRY_ADDRESS" help:"where /metrics, /healthz and /readyz are served, host:port; on loopback /debug/pprof, too"`
	Profiles bool   `env:"TELEMETRY_PPROF" envDefault:"false" help:"true: serve /debug/pprof also where TELEMETRY_ADDRESS is not on loopback; profiles show memory and cost CPU"`
	// GCPercent has the name of Go's own variable and another default: the live heaps are
	// small, so memory is cheaper than collections. It is for the whole process, so main sets it.
	GCPercent int `env:"GOGC" envDefault:"400" range:"25 to 10000" help:"heap growth until it is collected, in percent of its live part; GOMEMLIMIT is the upper bound"`
}

// Validate names the variable and the value that is wrong.
func (c Config) Validate() error {
	if _, err := zapcore.ParseLevel(c.LogLevel); err != nil {
		return fmt.Errorf("LOG_LEVEL is %q: it must be debug, info, warn or error", c.LogLevel)
	}

	if _, _, err := net.SplitHostPort(c.Address); err != nil {
		return fmt.Errorf("TELEMETRY_ADDRESS is %q: it must be host:port", c.Address)
	}

	return nil
}

// Telemetry is the log, the registry and the health of one service.
type Telemetry struct {
	Log      *zap.Logger
	Registry *prometheus.Registry
	Health   *Health
	server   *http.Server
}

// Start serves metrics, health and profiles on config.Address of the host. The address
// answers as soon as Start returns; readiness is up to Health.
func Start(service string, config Config, on host.Host) (*Telemetry, error) {
	log, err := newLog(service, config.LogLevel, on.Log)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	t := &Telemetry{Log: log, Registry: registry, Health: NewHealth()}
	registry.MustRegister(t.Health)

	listener, err := on.Listen("tcp", config.Address)
	if err != nil {
		return nil, fmt.Errorf("cannot serve telemetry on TELEMETRY_ADDRESS %s: %w", config.Address, err)
	}
	t.server = &http.Server{Handler: t.routes(config.Profiles || settings.Loopback(config.Address)),
		ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	go func() {
		if err := t.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("telemetry stopped serving", zap.Error(err))
		}
	}()

	return t, nil
}

// newLog writes JSON. Of equal messages it drops most after the hundredth in a second, so
// that a log cannot slow a service down.
func newLog(service, level string, to io.Writer) (*zap.Logger, error) {
	least, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, err
	}
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.ISO8601TimeEncoder
	writer := zapcore.Lock(zapcore.AddSync(to))
	core := zapcore.NewCore(zapcore.NewJSONEncoder(encoding), writer, least)

	return zap.New(zapcore.NewSamplerWithOptions(core, time.Second, 100, 100), zap.ErrorOutput(writer),
		zap.AddCaller(), zap.AddStacktrace(zap.ErrorLevel), zap.Fields(zap.String("service", service))), nil
}

// Rarely returns a log that writes each message at most once in an interval: for what others may
// cause with every record.
func (t *Telemetry) Rarely(interval time.Duration) *zap.Logger {
	return t.Log.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, interval, 1, 0)
	}))
}

// Stop gives requests under way a moment, cuts off the others and flushes the log.
func (t *Telemetry) Stop() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()

	if t.server.Shutdown(ctx) != nil {
		_ = t.server.Close()
	}
	_ = t.Log.Sync() // standard error may not support sync: there is nothing to do about it
}

func (t *Telemetry) routes(profiles bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(t.Registry, promhttp.HandlerOpts{Registry: t.Registry}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", t.Health.ServeHTTP)

	if !profiles {
		return mux
	}
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/mutex", contention)
	mux.HandleFunc("GET /debug/pprof/block", contention)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)

	return mux
}

// contention records waits for locks and channels only during a request with ?seconds=.
// Always on, it would slow every payment down.
func contention(w http.ResponseWriter, r *http.Request) {
	defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(10))
	runtime.SetBlockProfileRate(int(100 * time.Microsecond)) // one sample for each 100 µs of waiting
	defer runtime.SetBlockProfileRate(0)
	pprof.Index(w, r)
}

// Report updates Health, and logs a need that changed between met (nil) and not met.
func (t *Telemetry) Report(need string, err error) {
	if !t.Health.Report(need, err) {
		return
	}

	if err != nil {
		t.Log.Warn("not ready", zap.String("need", need), zap.Error(err))
	} else {
		t.Log.Info("need met", zap.String("need", need))
	}
}

// Health is the set of needs of a service. The service is ready when the last report of
// each need was good. A need without a report is not met.
type Health struct {
	mu    sync.Mutex
	needs map[string]string // name → what is wrong; "" means met
}

// NewHealth returns a Health that is ready until a need is added.
func NewHealth() *Health { return &Health{needs: map[string]string{}} }

// Need adds a need that is not met yet.
func (h *Health) Need(name string) { h.Report(name, errors.New("not reached yet")) }

// Report says that a need is met (nil) or why it is not. It returns true if the need was
// unknown or changed between met and not met.
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

// Problems returns why the service is not ready, by need. It is empty when the service is ready.
func (h *Health) Problems() map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()

	problems := map[string]string{}
	if len(h.needs) == 0 { // it serves already, and has not said what it needs
		problems["running"] = "not reached yet"
	}

	for name, wrong := range h.needs {
		if wrong != "" {
			problems[name] = wrong
		}
	}

	return problems
}

var needMet = prometheus.NewDesc("pix_need_met", "1 while the need of the process is met, else 0; /readyz says why.",
	[]string{"need"}, nil)

// Describe is the half of prometheus.Collector that needs no values.
func (h *Health) Describe(ch chan<- *prometheus.Desc) { ch <- needMet }

// Collect sends one value for each need, so that an alert can name what is away.
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

// ServeHTTP answers 200 when the service is ready, else 503 and the problems as JSON.
func (h *Health) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	problems := h.Problems()
	w.Header().Set("Content-Type", "application/json")

	if len(problems) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"ready": len(problems) == 0, "problems": problems})
}
