package frontdoor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/feed"
	"github.com/liquida/liquida/services/producer/field"
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

// handler serves the API and its description. It admits callers and counts responses. While closed returns a
// problem, that is the response to all of them: even who may call stands in the ledger. What paying needs waits for
// no turn.
func handler(api []route, control *access.Control, closed func() *web.Problem, turns turns,
	registry prometheus.Registerer) http.Handler {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pix_producer_requests_total",
		Help: "HTTP requests answered, by route and HTTP status; broken: the connection broke before the end of the response.",
	}, []string{"route", "status"})
	acceptSeconds := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "pix_producer_accept_seconds",
		Help:    "Time from the request of a payment or return to the response that Kafka has acknowledged it (202 only).",
		Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
	})
	inFlight := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "pix_producer_requests_in_flight", Help: "HTTP requests under way.",
	})
	registry.MustRegister(requests, acceptSeconds, inFlight)

	mux, others := http.NewServeMux(), http.NewServeMux()
	public := func(w http.ResponseWriter, r *http.Request) {
		if problem := turns.wait(r.Context(), strangers); problem != nil {
			problem.Write(w)
		} else {
			others.ServeHTTP(w, r)
		}
	}
	mux.HandleFunc("/", public)

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
			var who access.Caller

			problem := closed()
			if problem == nil {
				who, problem = control.Admit(r)
			}

			holder, reads := who.Name(), route.method == http.MethodGet
			if problem != nil && problem.Status == http.StatusUnauthorized {
				holder, reads = strangers, true
			}

			if problem == nil {
				problem = web.Known(response, r, who.Name())
			}

			for _, wrong := range []func() *web.Problem{
				func() *web.Problem { return route.wrongQuery(r) },
				func() *web.Problem { return route.permits(who, r) },
				func() *web.Problem { return wrongHeader(r) },
			} {
				if problem == nil {
					problem = wrong()
				}
			}

			if reads && holder != "" && (problem != nil || !route.paying) {
				problem = cmp.Or(turns.wait(r.Context(), holder), problem)
			}

			if problem != nil {
				problem.Write(response)
			} else {
				who.Serve(route.handler, response, r)
			}

			status = strconv.Itoa(response.status)
			if reads && holder != "" && slices.Contains(wrongStatuses, response.status) {
				turns.wrong(holder)
			}

			if response.status == http.StatusAccepted && !response.waited() {
				acceptSeconds.Observe(time.Since(started).Seconds())
			}
		})

		if route.lasts {
			mux.HandleFunc("HEAD "+route.path, public)
			others.HandleFunc("HEAD "+route.path, notAllowed([]string{route.method}))
		}
	}

	for path, allowed := range methods {
		others.HandleFunc(path, notAllowed(allowed))
	}
	// it takes milliseconds, which a start can do without
	description := sync.OnceValue(func() []byte { return describe(api) })
	others.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(description()) // an error means that the client is gone
	})
	serveViewer(others)
	others.HandleFunc("GET /{$}", index)
	others.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		(&web.Problem{Type: web.Kind("unknown-path"), Title: "Unknown path", Status: http.StatusNotFound, Field: "path",
			Value: r.URL.Path, Rule: "a path of /openapi.json",
			Detail: "there is nothing here: GET /openapi.json describes what there is"}).Write(w)
	})

	return web.NamesRequests(mux)
}

// turns are how callers share the time for answers to reads.
type turns struct {
	wait  func(ctx context.Context, holder string) *web.Problem // until it may be answered
	wrong func(holder string)                                   // its request was wrong
}

// wrongStatuses are those that no correct program gets for a read.
var wrongStatuses = []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden,
	http.StatusUnprocessableEntity}

// strangers are all callers who have not shown who they are. They share one turn: there may be any number of them.
const strangers = "strangers"

// index leads to what there is: people to the viewer, programs to the description.
func index(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")

	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		http.Redirect(w, r, "/docs", http.StatusSeeOther)
		return
	}
	web.WriteJSON(w, http.StatusOK, map[string]string{
		"service": "Liquida, the front door of a PIX-style clearing house", "documentation": "/docs",
		"openapi": "/openapi.json", "api": "/v1",
		"health": "/healthz and /readyz, on the port of TELEMETRY_ADDRESS",
	})
}

// wrongHeader refuses headers that this API does not follow, and that must not be ignored. What makes
// a request safe to repeat is the id of the order or the act: a sender that relies on a header instead,
// and leaves the id out, would pay twice. A body in an encoding would be read as something else.
func wrongHeader(r *http.Request) *web.Problem {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}

	wrong := func(name, kind, title string, status int) *web.Problem {
		return &web.Problem{Type: web.Kind(kind), Title: title, Status: status, Field: name,
			Value: strings.ToValidUTF8(strings.Join(r.Header.Values(name), ", "), "\uFFFD")}
	}
	for _, name := range idempotencyKeys {
		if len(r.Header.Values(name)) > 0 {
			problem := wrong(name, "invalid-header", "Invalid header", http.StatusBadRequest)
			problem.Rule = "no " + name + ": end_to_end_id, return_id or the id of an act is the key"
			problem.Detail = "nothing was done: the id of a payment, a return or an act makes it safe to repeat, so send the same id again and leave this header out"

			return problem
		}
	}

	for _, encoding := range r.Header.Values("Content-Encoding") {
		if !strings.EqualFold(encoding, "identity") {
			problem := wrong("Content-Encoding", "unsupported-encoding", "Unsupported content encoding",
				http.StatusUnsupportedMediaType)
			problem.Rule, problem.Detail = "identity, or no such header",
				"nothing was done: send the body as it is, without an encoding"

			return problem
		}
	}

	return nil
}

// idempotencyKeys are the names that such headers have in the world.
var idempotencyKeys = []string{"Idempotency-Key", "X-Idempotency-Key", "X-Idempotency"}

// wrongQuery refuses parameters that the route does not have, as fields of a body that are unknown: formt=csv
// would give the wrong format, and form=start the wrong events. An empty one would mean what leaving it out does.
func (r route) wrongQuery(request *http.Request) *web.Problem {
	if request.URL.RawQuery == "" {
		return nil
	}
	wrong := func(name string, value any, rule, detail string) *web.Problem {
		problem := field.Invalid("", strings.ToValidUTF8(name, "\uFFFD"), value, pix.ReasonMalformed, detail)
		problem.Rule = cmp.Or(problem.Rule, rule)
		return problem
	}

	values, err := url.ParseQuery(request.URL.RawQuery)
	if err != nil {
		return wrong("query", strings.ToValidUTF8(request.URL.RawQuery, "\uFFFD"),
			"name=value pairs with & between them", err.Error()+": encode it as URLs are")
	}
	var known []string

	for _, name := range r.parameters {
		if parameters[name].In == "query" {
			known = append(known, name)
		}
	}

	rule := "no query parameter"
	if len(known) > 0 {
		rule = "one of the query parameters " + strings.Join(known, ", ")
	}

	for _, name := range slices.Sorted(maps.Keys(values)) {
		of := values[name]

		value := strings.ToValidUTF8(strings.Join(of, ", "), "\uFFFD")
		switch {
		case !slices.Contains(known, name):
			problem := wrong(name, value, "", "this query parameter is not known: remove it or correct its name")
			problem.Rule = rule
			return problem
		case len(of) > 1:
			return wrong(name, value, rule, "it stands more than once: send it once")
		case of[0] == "":
			return wrong(name, value, rule, "it is empty: give it a value, or leave it out")
		}
	}

	return nil
}

func notAllowed(allowed []string) http.HandlerFunc {
	allow := strings.Join(slices.Sorted(slices.Values(allowed)), ", ")

	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allow)
		(&web.Problem{Type: web.Kind("method-not-allowed"), Title: "Method not allowed",
			Status: http.StatusMethodNotAllowed, Field: "method", Value: r.Method, Rule: allow,
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
