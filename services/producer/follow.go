package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/web"
)

// follow lets clients follow payments and returns to their end: those that wait for the
// answer, and those that want every state as it comes.
type follow struct {
	config      FollowConfig
	status      status
	settlements *settlements
	stopping    context.Context // ended when the process is asked to stop

	waits, streams *places
	histories      chan int // numbers of those who may read what is past
}

func newFollow(stopping context.Context, config FollowConfig, reads *reads, settlements *settlements, registry prometheus.Registerer) *follow {
	f := &follow{config: config, status: status{reads}, settlements: settlements, stopping: stopping,
		waits:     newPlaces(config.WaitsMax, registry, "pix_producer_waits", "Submissions that wait for their payment's outcome."),
		streams:   newPlaces(config.StreamsMax, registry, "pix_producer_streams", "Open streams of events."),
		histories: make(chan int, config.HistoriesMax),
	}
	for number := range config.HistoriesMax {
		f.histories <- number
	}
	return f
}

// places bounds how many do something at once, and shows how many do.
type places struct {
	slots chan struct{}
	taken prometheus.Gauge
}

func newPlaces(limit int, registry prometheus.Registerer, name, help string) *places {
	p := &places{make(chan struct{}, limit), prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})}
	registry.MustRegister(p.taken)
	return p
}

func (p *places) take() bool {
	select {
	case p.slots <- struct{}{}:
		p.taken.Inc()
		return true
	default:
		return false
	}
}

func (p *places) leave() {
	p.taken.Dec()
	<-p.slots
}

// lasting returns a context that ends with the request, with the process, and after a time.
func (f *follow) lasting(r *http.Request, longest time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithTimeout(r.Context(), longest)
	stop := context.AfterFunc(f.stopping, cancel)
	return ctx, func() { stop(); cancel() }
}

// outcome is the state of a payment or a return.
type outcome interface {
	reached() string
	final() bool
}

// followed is a payment or a return that somebody follows: its id, and how the ledger is
// asked for its state.
type followed[S outcome] struct {
	id string
	of func(context.Context) (S, *web.Problem)
}

func (f *follow) payment(id pix.EndToEndID) followed[paymentState] {
	return followed[paymentState]{id.String(), func(ctx context.Context) (paymentState, *web.Problem) { return f.status.of(ctx, id) }}
}

// statesOf sends each new state, the first at once, and closes after the final one or when
// ctx ends. A settlement report gives a reason to ask, and so does the clock: the broker may
// be away. While the ledger is away nothing comes.
func statesOf[S outcome](ctx context.Context, f *follow, what followed[S]) <-chan S {
	states := make(chan S)
	go func() {
		defer close(states)
		woken, forget := f.settlements.wake(what.id) // before the first question, so that no end is missed
		defer forget()
		again := time.NewTicker(f.config.AskAgain)
		defer again.Stop()
		for last := ""; ; {
			state, problem := what.of(ctx)
			if problem == nil && state.reached() != last {
				select {
				case states <- state:
				case <-ctx.Done():
					return
				}
				if last = state.reached(); state.final() {
					return
				}
			}
			select {
			case <-woken:
			case <-again.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return states
}

// answerTaken answers for a payment or a return that Kafka has acknowledged: with its
// outcome, if the caller prefers to wait for it and it comes in time, else that it is taken.
func answerTaken[S outcome](f *follow, w http.ResponseWriter, r *http.Request, what followed[S], taken any) {
	if longest, wanted := preferredWait(r.Header, f.config.WaitMax); wanted {
		if end, applied := waitFor(f, w, r, what, longest); applied {
			w.Header().Set("Preference-Applied", fmt.Sprintf("wait=%d", longest/time.Second))
			if end.final() {
				web.WriteJSON(w, http.StatusOK, end)
				return
			}
		}
	}
	web.WriteJSON(w, http.StatusAccepted, taken)
}

// waitFor returns the final state if it comes within the time. applied is false when too
// many wait already.
func waitFor[S outcome](f *follow, w http.ResponseWriter, r *http.Request, what followed[S], longest time.Duration) (end S, applied bool) {
	if !f.waits.take() {
		return end, false
	}
	defer f.waits.leave()
	web.NoReadDeadline(w)
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(longest + f.config.WritePatience))
	ctx, done := f.lasting(r, longest)
	defer done()
	for end = range statesOf(ctx, f, what) {
	}
	return end, true
}

// preferredWait reads "Prefer: wait=N" (RFC 7240), in whole seconds and at most so long.
// What cannot be read is no preference: the standard asks to ignore it.
func preferredWait(header http.Header, longest time.Duration) (wait time.Duration, ok bool) {
	for preference := range strings.SplitSeq(strings.Join(header.Values("Prefer"), ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(strings.SplitN(preference, ";", 2)[0]), "=")
		if !strings.EqualFold(strings.TrimSpace(name), "wait") {
			continue
		}
		value = strings.Trim(strings.TrimSpace(value), `"`)
		seconds, err := strconv.ParseUint(value, 10, 31)
		if err != nil || seconds == 0 {
			return 0, false // the first one counts
		}
		return min(time.Duration(seconds)*time.Second, longest.Truncate(time.Second)), true
	}
	return 0, false
}

// events answers GET /v1/payments/{endToEndId}/events.
func (f *follow) events(w http.ResponseWriter, r *http.Request) {
	id, problem := endToEndIDOf(r)
	if who := callerOf(r); problem == nil && who.readsOf(id.Payer()) != nil { // the payee is known to the ledger only
		var state paymentState
		if state, problem = f.status.of(r.Context(), id); problem == nil {
			problem = who.reads(state, id)
		}
	}
	if problem != nil {
		problem.Write(w)
		return
	}
	sendStates(f, w, r, f.payment(id))
}

// sendStates answers with a stream of states.
func sendStates[S outcome](f *follow, w http.ResponseWriter, r *http.Request, what followed[S]) {
	if !f.streams.take() {
		f.tooManyStreams().Write(w)
		return
	}
	defer f.streams.leave()
	ctx, done := f.lasting(r, f.config.StreamTimeMax)
	defer done()
	stream := web.StartEvents(w, f.config.WritePatience)
	if stream.KeepAlive("") != nil { // says at once that the stream is open
		return
	}
	states := statesOf(ctx, f, what)
	keepAlive := time.NewTicker(f.config.KeepAlive)
	defer keepAlive.Stop()
	for {
		var err error
		select {
		case state, more := <-states:
			if !more {
				return
			}
			err = stream.Send(state.reached(), "state", state)
		case <-keepAlive.C:
			err = stream.KeepAlive("")
		}
		if err != nil {
			return // the client has gone
		}
	}
}

func (f *follow) tooManyStreams() *web.Problem {
	return &web.Problem{Type: web.Kind("busy"), Title: "Too many streams", Status: http.StatusTooManyRequests, RetryAfter: time.Second,
		Detail: "STREAMS_MAX streams (" + strconv.Itoa(cap(f.streams.slots)) + ") are open: close some, or try again later"}
}

// stream answers GET /v1/settlements: what became of a participant's payments, from a
// position on, then as it comes. Delivered at least once: after a break a client goes on
// from the id of the last event that it took.
func (f *follow) stream(w http.ResponseWriter, r *http.Request) {
	participant, at, problem := f.streamOf(r)
	if problem == nil && !f.streams.take() {
		problem = f.tooManyStreams()
	}
	if problem != nil {
		problem.Write(w)
		return
	}
	defer f.streams.leave()
	ctx, done := f.lasting(r, f.config.StreamTimeMax)
	defer done()
	out := &settlementStream{follow: f, participant: participant, at: at, events: web.StartEvents(w, f.config.WritePatience)}
	if out.events.KeepAlive(at.cursor()) != nil {
		return
	}
	for out.once(ctx) {
	}
}

func (f *follow) streamOf(r *http.Request) (pix.ISPB, position, *web.Problem) {
	values := r.URL.Query()
	participant, err := pix.ParseISPB(values.Get("participant"))
	if err != nil {
		return "", nil, invalid("", "participant", values.Get("participant"), pix.ReasonMalformed, err.Error())
	}
	end, err := endOf(r.Context(), f.settlements.admin)
	if err != nil {
		return "", nil, &web.Problem{Type: web.Kind("kafka-away"), Title: "Kafka does not answer", Status: http.StatusServiceUnavailable, RetryAfter: time.Second,
			Detail: "where the settlements end cannot be told (" + err.Error() + "): ask again later"}
	}
	from := r.Header.Get("Last-Event-ID") // a client that comes back says where it was
	if from == "" {
		from = values.Get("from")
	}
	switch from {
	case "", "end":
		return participant, end, nil
	case "start":
		return participant, make(position, len(end)), nil
	}
	at, err := positionOf(from, len(end))
	if err == nil && !end.reaches(at) {
		err = errBeyondEnd
	}
	if err != nil {
		return "", nil, invalid("", "from", from, pix.ReasonMalformed, err.Error())
	}
	return participant, slices.Clone(at), nil
}
