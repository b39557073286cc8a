package frontdoor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/feed"
	"github.com/liquida/liquida/services/producer/field"
	"github.com/liquida/liquida/services/producer/query"
	"github.com/liquida/liquida/services/producer/submission"
)

// batchPath may have a larger body than other paths.
const batchPath = "/v1/payments:batch"

// route is one operation of the API: its handler and its description. The served description
// is generated from the routes, so none is missing.
type route struct {
	method, path string
	handler      http.HandlerFunc
	permission   access.Permission // nil: the central bank only
	lasts        bool              // a stream: HEAD would wait for its end

	id, summary, description string
	parameters               []string // names in parameters; those of the path need not be listed
	body                     message
	answers                  map[int]message
	problems                 []int
}

// message is a body: its media type, and a value of its Go type.
type message struct {
	description, mediaType string
	of                     any
}

// serverEvent is one event of a stream as clients see it; data is JSON.
type serverEvent struct {
	ID    string `json:"id,omitempty"`
	Event string `json:"event,omitempty" enum:"state,settlement"`
	Data  string `json:"data,omitempty" doc:"JSON; left out in what only keeps the stream alive."`
}

func api(submissions *submission.Submissions, ledger *query.Ledger, feed *feed.Feed) []route {
	const asJSON, asNDJSON, asEvents = "application/json", "application/x-ndjson", "text/event-stream"
	return []route{
		{
			method: "POST", path: "/v1/payments", handler: submissions.Pay, permission: access.DecidedInside, id: "pay",
			summary: "Send a payment",
			description: "Answers once Kafka has acknowledged. 503 with an end_to_end_id means that its fate is unknown: send the same again, which is safe. " +
				"With Prefer: wait=N the answer is held until the outcome (200) or for N seconds (202).",
			parameters: []string{"Prefer"}, body: message{"The payment.", asJSON, submission.Payment{}},
			answers: map[int]message{
				http.StatusAccepted: {"Taken: it will be settled or rejected.", asJSON, submission.Accepted{}},
				http.StatusOK:       {"Its outcome, when the wait was preferred and long enough.", asJSON, query.PaymentState{}},
			},
			problems: []int{400, 413, 422, 429, 503},
		},
		{
			method: "POST", path: batchPath, handler: submissions.PayBatch, permission: access.DecidedInside, id: "payBatch",
			summary: "Send many payments",
			description: "One payment a line in, one result a line out, in the same order, each once Kafka has acknowledged it. A line that is wrong does not touch the others. " +
				"Empty lines are passed over. The answer begins before the request has ended. A result with status 413 or one that says that the body ended early is the last: neither its line nor what follows was sent.",
			body: message{"One payment a line.", asNDJSON, submission.Payment{}},
			answers: map[int]message{
				http.StatusOK: {"One result a line.", asNDJSON, submission.BatchResult{}},
			},
			problems: []int{413, 429},
		},
		{
			method: "GET", path: "/v1/payments/{endToEndId}", handler: ledger.Payment, permission: access.DecidedInside, id: "payment",
			summary: "What became of a payment", description: "Computed from the ledger alone, with what was given back of it. 404: not in the ledger (yet).",
			answers:  map[int]message{http.StatusOK: {"Its state.", asJSON, query.PaymentState{}}},
			problems: []int{404, 422, 429, 503},
		},
		{
			method: "GET", path: "/v1/payments/{endToEndId}/events", handler: feed.PaymentEvents, permission: access.DecidedInside, lasts: true, id: "paymentEvents",
			summary:     "The states of a payment as they come",
			description: "Server-sent events named state, the data as of GET /v1/payments/{endToEndId} or with the status unknown. The stream ends after settled or rejected.",
			answers:     map[int]message{http.StatusOK: {"Events; the data of each is a PaymentState.", asEvents, serverEvent{}}},
			problems:    []int{422, 429, 503},
		},
		{
			method: "POST", path: "/v1/returns", handler: submissions.GiveBack, permission: access.DecidedInside, id: "giveBack",
			summary: "Give a payment back, all of it or a part",
			description: "Within 90 days of its settlement, by the bank that received it, as often as there is something left. Answers once Kafka has acknowledged; " +
				"503 with an end_to_end_id, which is the return's, means that its fate is unknown: send the same again, which is safe. " +
				"With Prefer: wait=N the answer is held until the outcome (200) or for N seconds (202).",
			parameters: []string{"Prefer"}, body: message{"The return.", asJSON, submission.ReturnOrder{}},
			answers: map[int]message{
				http.StatusAccepted: {"Taken: it will be settled or rejected.", asJSON, submission.AcceptedReturn{}},
				http.StatusOK:       {"Its outcome, when the wait was preferred and long enough.", asJSON, query.ReturnState{}},
			},
			problems: []int{400, 413, 422, 429, 503},
		},
		{
			method: "GET", path: "/v1/returns/{returnId}", handler: ledger.Return, permission: access.DecidedInside, id: "return",
			summary: "What became of a return", description: "Computed from the ledger alone. 404: not in the ledger (yet).",
			answers:  map[int]message{http.StatusOK: {"Its state.", asJSON, query.ReturnState{}}},
			problems: []int{404, 422, 429, 503},
		},
		{
			method: "GET", path: "/v1/returns/{returnId}/events", handler: feed.ReturnEvents, permission: access.DecidedInside, lasts: true, id: "returnEvents",
			summary:     "The states of a return as they come",
			description: "Server-sent events named state, the data as of GET /v1/returns/{returnId} or with the status unknown. The stream ends after settled or rejected.",
			answers:     map[int]message{http.StatusOK: {"Events; the data of each is a ReturnState.", asEvents, serverEvent{}}},
			problems:    []int{422, 429, 503},
		},
		{
			method: "GET", path: "/v1/settlements", handler: feed.Settlements, permission: access.OwnParticipant, lasts: true, id: "settlements",
			summary: "What became of a participant's payments and returns, as it comes",
			description: "Server-sent events named settlement, for payments and returns that the participant pays or receives. The id of an event is the position after it: give it as from, or as Last-Event-ID, to go on. " +
				"Delivered at least once: compare end_to_end_id. Payments of one partition come in order, others in any.",
			parameters: []string{"participant", "from", "Last-Event-ID"},
			answers:    map[int]message{http.StatusOK: {"Events; the data of each is a Settlement.", asEvents, serverEvent{}}},
			problems:   []int{422, 429, 503},
		},
		{
			method: "GET", path: "/v1/accounts/{ispb}/{branch}/{number}", handler: ledger.Account, permission: access.OwnPath, id: "account",
			summary:  "What a customer's account holds",
			answers:  map[int]message{http.StatusOK: {"Its balance.", asJSON, query.AccountBalance{}}},
			problems: []int{404, 422, 429, 503},
		},
		{
			method: "GET", path: "/v1/accounts/{ispb}/{branch}/{number}/statement", handler: ledger.Statement, permission: access.OwnPath, id: "statement",
			summary:     "What moved a customer's account, newest first",
			description: "held lines change what is pending, posted lines the balance, released lines give back what was held. What is held past its expiry is released without a line.",
			parameters:  []string{"limit", "cursor"},
			answers:     map[int]message{http.StatusOK: {"A page of lines.", asJSON, query.Statement{}}},
			problems:    []int{404, 422, 429, 503},
		},
		{
			method: "GET", path: "/v1/participants", handler: ledger.Participants, permission: access.CentralBankOnly, id: "participants",
			summary: "All participants", description: "For the central bank only.", parameters: []string{"limit", "cursor"},
			answers:  map[int]message{http.StatusOK: {"A page of participants.", asJSON, query.ParticipantPage{}}},
			problems: []int{422, 429, 503},
		},
		{
			method: "GET", path: "/v1/participants/{ispb}", handler: ledger.Participant, permission: access.OwnPath, id: "participant",
			summary: "A participant's reserve and transit, and whether its books agree", description: "Both accounts are of one instant.",
			answers:  map[int]message{http.StatusOK: {"The participant.", asJSON, query.Participant{}}},
			problems: []int{404, 422, 429, 503},
		},
	}
}

// parameters are those of path, query and header, by name.
var parameters = map[string]*huma.Param{
	"endToEndId":    {In: "path", Required: true, Description: field.Rules["end_to_end_id"], Schema: &huma.Schema{Type: huma.TypeString, Pattern: endToEndIDPattern}},
	"returnId":      {In: "path", Required: true, Description: field.Rules["return_id"], Schema: &huma.Schema{Type: huma.TypeString, Pattern: "^D[0-9A-Z]{8}[0-9]{12}[0-9A-Za-z]{11}$"}},
	"ispb":          {In: "path", Required: true, Description: field.Rules["ispb"], Schema: &huma.Schema{Type: huma.TypeString, Pattern: "^[0-9A-Z]{8}$"}},
	"branch":        {In: "path", Required: true, Description: "4 digits", Schema: &huma.Schema{Type: huma.TypeString, Pattern: "^[0-9]{4}$"}},
	"number":        {In: "path", Required: true, Description: "1 to 20 digits without leading zeros", Schema: &huma.Schema{Type: huma.TypeString, Pattern: "^[1-9][0-9]{0,19}$"}},
	"limit":         {In: "query", Description: field.Rules["limit"] + "; 100 when left out", Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: ptr(1.0)}},
	"cursor":        {In: "query", Description: field.Rules["cursor"], Schema: &huma.Schema{Type: huma.TypeString, Pattern: "^[0-9]+$"}},
	"participant":   {In: "query", Required: true, Description: field.Rules["participant"], Schema: &huma.Schema{Type: huma.TypeString, Pattern: "^[0-9A-Z]{8}$"}},
	"from":          {In: "query", Description: field.Rules["from"] + "; end when left out", Schema: &huma.Schema{Type: huma.TypeString}},
	"Last-Event-ID": {In: "header", Description: "The id of the last event that was taken; goes before from.", Schema: &huma.Schema{Type: huma.TypeString}},
	"Prefer":        {In: "header", Description: "wait=N: hold the answer for the outcome, at most N seconds (RFC 7240); Preference-Applied tells how long it may be held.", Schema: &huma.Schema{Type: huma.TypeString}},
}

const endToEndIDPattern = "^E[0-9A-Z]{8}[0-9]{12}[0-9A-Za-z]{11}$"

func ptr[V any](value V) *V { return &value }

func (r route) permits(who access.Caller, request *http.Request) *web.Problem {
	if r.permission == nil {
		return access.CentralBankOnly(who, request)
	}
	return r.permission(who, request)
}

// handler serves the API and its description. It admits callers and counts responses.
func handler(api []route, control *access.Control, registry prometheus.Registerer) http.Handler {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pix_producer_requests_total", Help: "HTTP requests answered, by route and HTTP status.",
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
			response := &statusWriter{ResponseWriter: w}
			who, problem := control.Admit(r)
			if problem == nil {
				problem = route.permits(who, r)
			}
			if problem != nil {
				problem.Write(response)
			} else {
				route.handler(response, access.With(r, who))
			}
			requests.WithLabelValues(pattern, strconv.Itoa(response.status)).Inc()
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
	description := describe(api)
	mux.HandleFunc("GET /openapi.json", serve("application/json", description))
	mux.HandleFunc("GET /docs", serve("text/html; charset=utf-8", page(api)))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		(&web.Problem{Type: web.Kind("unknown-path"), Title: "Unknown path", Status: http.StatusNotFound, Field: "path", Value: r.URL.Path, Rule: "a path of /openapi.json",
			Detail: "there is nothing here: GET /openapi.json describes what there is"}).Write(w)
	})
	return mux
}

func serve(mediaType string, text []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		_, _ = w.Write(text) // an error means that the client is gone
	}
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

// indented returns JSON that people can read and compare.
func indented(value any) []byte {
	text, err := json.Marshal(value)
	var out bytes.Buffer
	if err == nil {
		err = json.Indent(&out, text, "", "  ")
	}
	if err != nil {
		panic(err) // impossible for our own types, as a test shows
	}
	out.WriteByte('\n')
	return out.Bytes()
}
