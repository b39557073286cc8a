package frontdoor

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/feed"
)

// serves returns a handler that responds with the problem that serve returns. Without one, serve has responded.
func serves(serve func(http.ResponseWriter, *http.Request) *web.Problem) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if problem := serve(w, r); problem != nil {
			problem.Write(w)
		}
	}
}

// answers returns a handler that responds with what answer returns.
func answers[B any](answer func(*http.Request) (B, *web.Problem)) http.HandlerFunc {
	return serves(func(w http.ResponseWriter, r *http.Request) *web.Problem {
		body, problem := answer(r)
		if problem == nil {
			web.WriteJSON(w, http.StatusOK, body)
		}
		return problem
	})
}

func (r route) permits(who access.Caller, request *http.Request) *web.Problem {
	if r.permission == nil {
		return access.CentralBankOnly(who, request)
	}
	return r.permission(who, request)
}

// handler serves the API and its description. It admits callers and counts responses.
func handler(api []route, control *access.Control, registry prometheus.Registerer) http.Handler {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pix_producer_requests_total", Help: "HTTP requests answered, by route and HTTP status; broken: the connection broke before the end of the response.",
	}, []string{"route", "status"})
	acceptSeconds := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "pix_producer_accept_seconds", Help: "Time from the request of a payment or return to the response that Kafka has acknowledged it (202 only).",
		Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
	})
	inFlight := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "pix_producer_requests_in_flight", Help: "HTTP requests under way.",
	})
	registry.MustRegister(requests, acceptSeconds, inFlight)

	mux := http.NewServeMux()
	methods := map[string][]string{}
	for _, route := range api {
		methods[route.path] = append(methods[route.path], route.method)
		pattern := route.method + " " + route.path
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			inFlight.Inc()
			defer inFlight.Dec()
			started := time.Now()
			response, status := &statusWriter{ResponseWriter: w}, "broken" // if the handler panics
			defer func() { requests.WithLabelValues(pattern, status).Inc() }()
			who, problem := control.Admit(r)
			if problem == nil {
				problem = web.Known(response, r, who.Name())
			}
			if problem == nil {
				problem = route.permits(who, r)
			}
			if problem == nil {
				problem = noIdempotencyKey(r)
			}
			if problem != nil {
				problem.Write(response)
			} else {
				who.Serve(route.handler, response, r)
			}
			status = strconv.Itoa(response.status)
			if response.status == http.StatusAccepted && !response.waited() {
				acceptSeconds.Observe(time.Since(started).Seconds())
			}
		})
		if route.lasts {
			mux.HandleFunc("HEAD "+route.path, notAllowed([]string{route.method}))
		}
	}
	for path, allowed := range methods {
		mux.HandleFunc(path, notAllowed(allowed))
	}
	description := sync.OnceValue(func() []byte { return describe(api) }) // it takes milliseconds, which a start can do without
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(description()) // an error means that the client is gone
	})
	serveViewer(mux)
	mux.HandleFunc("GET /{$}", index)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		(&web.Problem{Type: web.Kind("unknown-path"), Title: "Unknown path", Status: http.StatusNotFound, Field: "path", Value: r.URL.Path, Rule: "a path of /openapi.json",
			Detail: "there is nothing here: GET /openapi.json describes what there is"}).Write(w)
	})
	return mux
}

// index leads to what there is: people to the viewer, programs to the description.
func index(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		http.Redirect(w, r, "/docs", http.StatusSeeOther)
		return
	}
	web.WriteJSON(w, http.StatusOK, map[string]string{
		"service": "Liquida, the front door of a PIX-style clearing house", "documentation": "/docs", "openapi": "/openapi.json", "api": "/v1",
		"health": "/healthz and /readyz, on the port of TELEMETRY_ADDRESS",
	})
}

// noIdempotencyKey refuses a header that this API does not use. What makes a request safe to repeat is
// the id of the order or the act. A sender that relies on the header instead, and leaves the id out,
// would pay twice.
func noIdempotencyKey(r *http.Request) *web.Problem {
	values := r.Header.Values("Idempotency-Key")
	if len(values) == 0 || r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	return &web.Problem{Type: web.Kind("invalid-header"), Title: "Invalid header", Status: http.StatusBadRequest, Field: "Idempotency-Key", Value: strings.ToValidUTF8(strings.Join(values, ", "), "\uFFFD"),
		Rule:   "no Idempotency-Key: end_to_end_id, return_id or the id of an act is the key",
		Detail: "nothing was done: the id of a payment, a return or an act makes it safe to repeat, so send the same id again and leave this header out"}
}

func notAllowed(allowed []string) http.HandlerFunc {
	allow := strings.Join(slices.Sorted(slices.Values(allowed)), ", ")
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allow)
		(&web.Problem{Type: web.Kind("method-not-allowed"), Title: "Method not allowed", Status: http.StatusMethodNotAllowed, Field: "method", Value: r.Method, Rule: allow,
			Detail: fmt.Sprintf("%s is not possible here: use %s", r.Method, allow)}).Write(w)
	}
}

// statusWriter remembers the HTTP status.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// waited reports whether the response was held on purpose.
func (w *statusWriter) waited() bool { return w.Header().Get(feed.PreferenceApplied) != "" }

// Unwrap lets a stream set deadlines and flush.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *statusWriter) Write(text []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(text)
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}
