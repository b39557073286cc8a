// Package feed reports the progress of payments and returns to clients. Some wait for the
// outcome of their submission, some follow one payment or return, and some follow all
// settlements of a participant.
package feed

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/query"
)

// Config bounds waits and streams.
type Config struct {
	WaitMax        time.Duration `env:"WAIT_MAX" envDefault:"30s" range:"1s to 5m" help:"longest wait of a submission for its outcome (Prefer: wait=N)"`
	WaitsMax       int           `env:"WAITS_MAX" envDefault:"1000" range:"1 to 100000" help:"submissions that wait at the same time; above it the response does not wait"`
	AskAgain       time.Duration `env:"ASK_AGAIN_INTERVAL" envDefault:"1s" range:"10ms to 1m" help:"how often the ledger is asked for a payment that a client follows, if no report comes"`
	StreamsMax     int           `env:"STREAMS_MAX" envDefault:"1000" range:"1 to 100000" help:"open streams of events; above it 429"`
	StreamTimeMax  time.Duration `env:"STREAM_TIME_MAX" envDefault:"1h" range:"1s to 24h" help:"how long a stream stays open; its client goes on with a new one"`
	KeepAlive      time.Duration `env:"STREAM_KEEP_ALIVE" envDefault:"15s" range:"100ms to 5m" help:"how often a silent stream sends a comment"`
	WriteTimeout   time.Duration `env:"STREAM_WRITE_TIMEOUT" envDefault:"10s" range:"100ms to 1m" help:"for one event to be written; then the stream ends"`
	HistoriesMax   int           `env:"SETTLEMENT_HISTORIES_MAX" envDefault:"4" range:"1 to 64" help:"streams that read past settlements from Kafka at the same time; others wait"`
	HistoryRateMax int           `env:"SETTLEMENT_HISTORY_RATE_MAX" envDefault:"5000" range:"100 to 10000000" help:"past settlements a second that all streams together read from Kafka at most while payments wait; fewer if twice as many as come, and 1000, are fewer; and 5 times as many of the newest, which are kept"`
}

// Feed serves waits and streams.
type Feed struct {
	config   Config
	ledger   *query.Ledger
	watcher  *Watcher
	stopping context.Context // ends when the service begins to stop

	waits, streams, reading *web.Pool
	followersMu             sync.Mutex
	followers               map[follower]int // open streams of settlements
	followersRefused        prometheus.Counter
	// numbers of the clients that may read the past; a permit of reading is for one
	histories chan int
	payments  func() bool   // wait
	pace      *rate.Limiter // of past settlements meanwhile
}

// New registers the metrics. Waits and streams end with stopping. payments reports whether payments wait: then the past
// is read slowly.
func New(stopping context.Context, config Config, ledger *query.Ledger, watcher *Watcher, payments func() bool,
	pools *web.Pools, registry prometheus.Registerer) *Feed {
	f := &Feed{payments: payments, pace: rate.NewLimiter(rate.Limit(config.HistoryRateMax), historyPage),
		config: config, ledger: ledger, watcher: watcher, stopping: stopping,
		waits:     pools.Pool("waits", "WAITS_MAX", config.WaitsMax),
		streams:   pools.Pool("streams", "STREAMS_MAX", config.StreamsMax),
		reading:   pools.Pool("histories", "SETTLEMENT_HISTORIES_MAX", config.HistoriesMax),
		histories: make(chan int, config.HistoriesMax), followers: map[follower]int{},
		followersRefused: prometheus.NewCounter(
			prometheus.CounterOpts{Name: "pix_producer_settlement_streams_refused_total",
				Help: "Refused streams of settlements: the caller has as many open of the same participant as it may."}),
	}
	for number := range config.HistoriesMax {
		f.histories <- number
	}
	registry.MustRegister(f.followersRefused,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "pix_producer_settlement_streams",
			Help: "Open streams of participants' settlements."},
			func() float64 { return float64(watcher.following.Load()) }),
		prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: "pix_producer_waits",
				Help: "Submissions that wait for the outcome of their payment."}, func() float64 {
				return float64(f.waits.Taken())
			}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "pix_producer_streams", Help: "Open streams of events."},
			func() float64 {
				return float64(f.streams.Taken())
			}))

	return f
}

// Streams is the pool of open streams.
func (f *Feed) Streams() *web.Pool { return f.streams }

// Waits is the pool of those who wait.
func (f *Feed) Waits() *web.Pool { return f.waits }

// State is the state of a payment or a return.
type State interface {
	Reached() string
	Final() bool
	Conflict(content pix.Digest) *web.Problem
}

// Subject is a payment or a return that a client follows: its id, and how to ask for its state.
type Subject[S State] struct {
	id    string
	state func(context.Context) (S, *web.Problem)
	isNew bool // the ledger did not know it before it was sent: it is not asked at once
}

// Payment is the subject of a payment, by its id alone.
func (f *Feed) Payment(id pix.EndToEndID) Subject[query.PaymentState] {
	state := func(ctx context.Context) (query.PaymentState, *web.Problem) {
		return f.ledger.PaymentWithReturns(ctx, id)
	}

	return Subject[query.PaymentState]{id: id.String(), state: state}
}

// Return is the subject of a return, by its id alone.
func (f *Feed) Return(id pix.ReturnID) Subject[query.ReturnState] {
	state := func(ctx context.Context) (query.ReturnState, *web.Problem) {
		return f.ledger.StateOfReturn(ctx, id)
	}

	return Subject[query.ReturnState]{id: id.String(), state: state}
}

// Sent is the subject of an order with this content; known: the ledger knew it before it was sent. Its state is a
// problem (409) if the ledger knows the id with other content.
func (s Subject[S]) Sent(content pix.Digest, known bool) Subject[S] {
	return Subject[S]{id: s.id, isNew: !known, state: func(ctx context.Context) (S, *web.Problem) {
		state, problem := s.state(ctx)
		if problem == nil {
			problem = state.Conflict(content)
		}

		return state, problem
	}}
}

// answer is the state of a subject, or why it has none.
type answer[S State] struct {
	state   S
	problem *web.Problem
}

// states sends each new state, the first at once if the subject is not new. It closes after the final one, after a
// conflict, or when ctx ends. It asks the ledger after a settlement report and regularly, because the broker may be
// away. While the ledger is away, no state comes.
func states[S State](ctx context.Context, f *Feed, subject Subject[S], reported <-chan struct{}) <-chan answer[S] {
	states := make(chan answer[S])
	go func() {
		defer close(states)
		again := time.NewTicker(f.config.AskAgain)
		defer again.Stop()

		for last, wait := "", subject.isNew; ; wait = true {
			if wait {
				select {
				case <-reported:
				case <-again.C:
				case <-ctx.Done():
					return
				}
			}
			state, problem := subject.state(ctx)

			conflict := problem != nil && problem.Status == http.StatusConflict
			if conflict || problem == nil && state.Reached() != last {
				select {
				case states <- answer[S]{state, problem}:
				case <-ctx.Done():
					return
				}

				if last = state.Reached(); conflict || state.Final() {
					return
				}
			}
		}
	}()

	return states
}

// Waiting is a caller that waits for the outcome of what it submits.
type Waiting struct {
	feed     *Feed
	caller   string
	longest  time.Duration   // 0: it does not wait
	reported <-chan struct{} // receives when a report comes
	forget   func()
}

// Await begins the wait of a caller before its order is looked up and sent, so that no report of it is missed. Nobody
// waits while too many do. The caller ends it.
func (f *Feed) Await(r *http.Request, longest time.Duration, id string) *Waiting {
	caller := access.Of(r).Name()
	if longest == 0 || f.waits.Take(caller) != nil {
		return &Waiting{}
	}
	reported, forget := f.watcher.notify(id)

	return &Waiting{f, caller, longest, reported, forget}
}

// End gives back what the wait has taken.
func (w *Waiting) End() {
	if w.longest > 0 {
		w.forget()
		w.feed.waits.Free(w.caller)
	}
}

// PreferenceApplied is the header of a response that has waited.
const PreferenceApplied = "Preference-Applied"

// Respond responds to the submission of a payment or a return that Kafka has acknowledged:
// with the outcome, if the caller waits and it comes in time, else with accepted.
func Respond[S State](waiting *Waiting, w http.ResponseWriter, r *http.Request, subject Subject[S],
	accepted any) *web.Problem {
	if waiting.longest > 0 {
		end := outcome(waiting, w, r, subject)
		w.Header().Set(PreferenceApplied, fmt.Sprintf("wait=%d", waiting.longest/time.Second))

		if end.problem != nil {
			return end.problem
		}

		if end.state.Final() {
			web.WriteJSON(w, http.StatusOK, end.state)
			return nil
		}
	}
	web.WriteJSON(w, http.StatusAccepted, accepted)

	return nil
}

// outcome returns the last answer before the time is over: the final state if it comes in time.
func outcome[S State](waiting *Waiting, w http.ResponseWriter, r *http.Request, subject Subject[S]) (end answer[S]) {
	f := waiting.feed
	web.NoReadDeadline(w)
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(waiting.longest + f.config.WriteTimeout))
	ctx, done := web.Bound(r.Context(), f.stopping, waiting.longest)
	defer done()

	for end = range states(query.Paying(ctx), f, subject, waiting.reported) {
	}

	return end
}

// Wait returns how long the caller of a submission waits for the outcome: N seconds of
// "Prefer: wait=N" (RFC 7240), at most WAIT_MAX; 0 without it. The standard has servers ignore what
// they do not know, and so other preferences are. A wait that cannot be read is refused: its sender
// would take 202 for an outcome that is late.
func (f *Feed) Wait(header http.Header) (time.Duration, *web.Problem) {
	return PreferredWait(header, f.config.WaitMax.Truncate(time.Second))
}

// PreferredWait is as Wait, with another longest wait.
func PreferredWait(header http.Header, longest time.Duration) (time.Duration, *web.Problem) {
	for preference := range strings.SplitSeq(strings.Join(header.Values("Prefer"), ","), ",") {
		preference = strings.TrimSpace(strings.SplitN(preference, ";", 2)[0])

		name, value, _ := strings.Cut(preference, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "wait") {
			continue
		}

		seconds, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 63)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return 0, &web.Problem{Type: web.Kind("invalid-header"), Title: "Invalid header",
				Status: http.StatusBadRequest, Field: "Prefer", Value: strings.ToValidUTF8(preference, "\uFFFD"),
				Rule:   "wait=N, a whole number of seconds",
				Detail: "nothing was sent: how long to wait cannot be read; send wait=N, or leave it out"}
		}

		return time.Duration(min(seconds, uint64(longest/time.Second))) * time.Second, nil // the first one counts
	}

	return 0, nil
}

// PaymentEvents serves GET /v1/payments/{endToEndId}/events.
func (f *Feed) PaymentEvents(w http.ResponseWriter, r *http.Request) *web.Problem {
	id, problem := query.EndToEndIDOf(r)
	if who := access.Of(r); problem == nil && !who.PaysOf(id) { // only the ledger knows the payee
		var state query.PaymentState
		if state, problem = f.ledger.StateOfPayment(r.Context(), id); problem == nil {
			problem = who.ReadsPayment(id, state.Payee.PSP())
		}
	}

	if problem != nil {
		return problem
	}

	return sendStates(f, w, r, f.Payment(id))
}

// ReturnEvents serves GET /v1/returns/{returnId}/events.
func (f *Feed) ReturnEvents(w http.ResponseWriter, r *http.Request) *web.Problem {
	id, _, problem := f.ledger.PermittedReturn(r)
	if problem != nil {
		return problem
	}

	return sendStates(f, w, r, f.Return(id))
}

// sendStates responds with a stream of states.
func sendStates[S State](f *Feed, w http.ResponseWriter, r *http.Request, subject Subject[S]) *web.Problem {
	caller := access.Of(r).Name()
	if problem := f.streams.Take(caller); problem != nil {
		return problem
	}
	defer f.streams.Free(caller)
	ctx, done := web.Bound(r.Context(), f.stopping, f.config.StreamTimeMax)
	defer done()

	events := web.StartEvents(w, f.config.WriteTimeout)
	if events.KeepAlive("") != nil { // shows at once that the stream is open
		return nil
	}
	reported, forget := f.watcher.notify(subject.id) // before the first question, so that no report is missed
	defer forget()
	states := states(ctx, f, subject, reported)
	keepAlive := time.NewTicker(f.config.KeepAlive)
	defer keepAlive.Stop()

	for {
		var err error

		select {
		case state, more := <-states:
			if !more {
				return nil
			}
			err = events.Send(state.state.Reached(), "state", state.state)
		case <-keepAlive.C:
			err = events.KeepAlive("")
		}

		if err != nil {
			return nil // the client is gone
		}
	}
}
