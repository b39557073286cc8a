package ledger

import (
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// Writer sends the chains of all payments to the ledger, of both phases. While a request
// is under way, chains gather. When it returns, all that wait go out in the next one, up to
// the request limit. So an idle system writes a chain at once, and a loaded one fills its
// requests. A full one goes out while others are under way, so that the ledger never waits for
// this process. A chain is never divided between two requests.
//
// T is the tag of a chain, with which its result is delivered.
type Writer[T any] struct {
	client  tigerbeetle.Client
	queue   *queue[T, tb.Transfer]
	admit   func() func(T) bool
	deliver func(T, Result)
	metrics requestMetrics

	mu     sync.Mutex
	latest []latest // of each sender
}

// latest is the last transfers that the results of a sender have shown to be in the ledger: one that it
// wrote, and one that was there. A sender has one request under way, so it knows their order.
type latest struct{ written, existed tb.Uint128 }

// BatchConfig bounds the requests to the ledger.
type BatchConfig struct {
	EventsMax   int           `env:"LEDGER_BATCH_EVENTS_MAX" envDefault:"8189" range:"8 to 8189" help:"accounts or transfers in one request to the ledger, of an engine at least 134; at most the server's own limit (253 if it was started with --development)"`
	InFlightMax int           `env:"LEDGER_REQUESTS_IN_FLIGHT_MAX" envDefault:"4" range:"1 to 8" help:"write requests at the same time; all but the first are full, and wait in the ledger's client; at most 2 while one takes over 500 ms"`
	Pause       time.Duration `env:"LEDGER_REQUEST_PAUSE" envDefault:"4ms" range:"0 to 1s" help:"shortest time between two requests of the same kind that are not full, because small ones cost the ledger's disk"`
}

// NewWriter starts a writer. It calls deliver with the result of every chain, from its own
// goroutines; deliver must not block. It calls fail if the client is of no more use
// (evicted, wrong version, wrong limit): the process must end.
//
// Right before each request it calls admit, whose result says of each chain whether it may still be
// sent. What may not is delivered unsent. Without admit all are sent.
func NewWriter[T any](client tigerbeetle.Client, config BatchConfig, registry prometheus.Registerer,
	admit func() func(T) bool, deliver func(T, Result), fail func(error)) *Writer[T] {
	w := &Writer[T]{
		client:  client,
		queue:   newQueue[T, tb.Transfer](config.EventsMax),
		admit:   admit,
		deliver: deliver,
		metrics: newRequestMetrics(registry, "write"),
		latest:  make([]latest, config.InFlightMax),
	}
	promauto.With(registry).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pix_ledger_chains_waiting", Help: "Chains of transfers that wait for the next request to the ledger.",
	}, func() float64 { return float64(w.queue.length()) })

	for sender := range config.InFlightMax {
		go w.queue.send(config.Pause, func(r *request[T, tb.Transfer]) error { return w.send(sender, r) }, fail)
	}

	return w
}

// Write queues a chain: linked transfers in order, and behind those that hold a return the
// mark of its payment. The slice is copied.
func (w *Writer[T]) Write(tag T, chain []tb.Transfer) { w.queue.put(tag, chain) }

// Close stops sending. The result of a request that is under way is still delivered. If
// the server is absent the request waits forever, because the client has no time limit:
// the process ends without it.
func (w *Writer[T]) Close() { w.queue.close() }

// Latest returns transfers that are surely in the ledger: no chain whose result was delivered was written
// after the youngest of them.
func (w *Writer[T]) Latest() (ids []tb.Uint128) {
	w.mu.Lock()
	defer w.mu.Unlock()

	for _, l := range w.latest {
		for _, id := range []tb.Uint128{l.written, l.existed} {
			if id != (tb.Uint128{}) {
				ids = append(ids, id)
			}
		}
	}

	return ids
}

// note keeps what a request has shown to be in the ledger.
func (w *Writer[T]) note(sender int, events []tb.Transfer, failures []tb.TransferEventResult) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l, existed := &w.latest[sender], false

	for i := len(events) - 1; i >= 0; i-- {
		n := len(failures)
		if n == 0 || int(failures[n-1].Index) != i {
			l.written = events[i].ID
			return
		}

		if failures[n-1].Result == tb.TransferExists && !existed {
			l.existed, existed = events[i].ID, true
		}
		failures = failures[:n-1]
	}
}

func (w *Writer[T]) send(sender int, r *request[T, tb.Transfer]) error {
	w.keepBack(r)

	if len(r.tags) == 0 {
		return nil
	}
	started := time.Now()

	failures, err := w.client.CreateTransfers(r.events)
	if err != nil {
		return fmt.Errorf("the ledger refused a write request of %d transfers (LEDGER_BATCH_EVENTS_MAX must not exceed the server's limit): %w",
			len(r.events), err)
	}
	w.metrics.observe(len(r.events), time.Since(started))
	w.note(sender, r.events, failures) // before anybody can finish anything
	classify(r, failures, w.deliver)

	return nil
}

// keepBack takes the chains out of a request that may not be sent any more.
func (w *Writer[T]) keepBack(r *request[T, tb.Transfer]) {
	if w.admit == nil {
		return
	}
	admits := w.admit()
	kept, start, to := 0, 0, 0

	for i, tag := range r.tags {
		end := r.ends[i]

		if !admits(tag) {
			w.deliver(tag, Result{Unsent: true})
		} else {
			if to != start {
				copy(r.events[to:], r.events[start:end])
			}
			to += end - start
			r.tags[kept], r.ends[kept] = tag, to
			kept++
		}
		start = end
	}
	clear(r.tags[kept:])
	r.events, r.tags, r.ends = r.events[:to], r.tags[:kept], r.ends[:kept]
}

// classify delivers the one real status of each chain of the request. The server's failures
// name only the transfers that are not ok, in order.
func classify[T any](request *request[T, tb.Transfer], failures []tb.TransferEventResult, deliver func(T, Result)) {
	start := 0

	for i, end := range request.ends {
		own := 0
		for own < len(failures) && int(failures[own].Index) < end {
			own++
		}
		deliver(request.tags[i], ResultOf(request.events[start:end], start, failures[:own]))
		start, failures = end, failures[own:]
	}
}

// requestMetrics measures one kind of request to the ledger.
type requestMetrics struct {
	events  prometheus.Observer
	seconds prometheus.Observer
}

func newRequestMetrics(registry prometheus.Registerer, kind string) requestMetrics {
	of, labels := promauto.With(registry), prometheus.Labels{"kind": kind}

	return requestMetrics{
		events: of.NewHistogram(prometheus.HistogramOpts{
			Name: "pix_ledger_request_events", Help: "Transfers or ids in one request to the ledger.",
			ConstLabels: labels,
			Buckets:     []float64{1, 3, 10, 30, 100, 300, 1000, 3000, 8189},
		}),
		seconds: of.NewHistogram(prometheus.HistogramOpts{
			Name: "pix_ledger_request_seconds", Help: "Time of one request to the ledger, from sent to its result.",
			ConstLabels: labels,
			Buckets:     prometheus.ExponentialBuckets(0.0003, 2, 16),
		}),
	}
}

func (m requestMetrics) observe(events int, took time.Duration) {
	m.events.Observe(float64(events))
	m.seconds.Observe(took.Seconds())
}
