package ledger

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// Writer sends the chains of all payments to the ledger, of phase 1 and of phase 2. It
// batches naturally: while requests are in flight, chains gather; when one returns,
// everything waiting goes out, up to the request limit, never cutting a chain. An idle
// system answers in one round trip, a loaded one fills its batches.
//
// T tags a chain, so that its answer finds the way back.
type Writer[T any] struct {
	client  tigerbeetle.Client
	queue   *queue[T, tb.Transfer]
	pause   time.Duration
	deliver func(T, Answer)
	fail    func(error)
	metrics requestMetrics
}

// BatchConfig bounds what is sent to the ledger.
type BatchConfig struct {
	EventsMax   int           `env:"LEDGER_BATCH_EVENTS_MAX" envDefault:"8189" help:"transfers in one request to the ledger, 8 to 8189, for an engine 70 at least; at most the server's own limit (253 for a server started with --development)"`
	InFlightMax int           `env:"LEDGER_REQUESTS_IN_FLIGHT_MAX" envDefault:"1" help:"write requests to the ledger at the same time, 1 to 8; more than 1 has shown no gain"`
	Pause       time.Duration `env:"LEDGER_REQUEST_PAUSE" envDefault:"4ms" help:"shortest time from one request to the next of the same kind, 0 to 1s; small requests are expensive for the ledger's disk"`
}

// Validate names the variable and the value that is wrong.
func (c BatchConfig) Validate() error {
	if c.EventsMax < 8 || c.EventsMax > 8189 {
		return fmt.Errorf("LEDGER_BATCH_EVENTS_MAX is %d: it must be from 8 to 8189", c.EventsMax)
	}
	if c.InFlightMax < 1 || c.InFlightMax > 8 {
		return fmt.Errorf("LEDGER_REQUESTS_IN_FLIGHT_MAX is %d: it must be from 1 to 8", c.InFlightMax)
	}
	if c.Pause < 0 || c.Pause > time.Second {
		return fmt.Errorf("LEDGER_REQUEST_PAUSE is %v: it must be from 0s to 1s", c.Pause)
	}
	return nil
}

// NewWriter starts a writer. deliver is called with the answer to every chain, from the
// writer's own goroutines, and must not block. fail is called when the client can never
// answer again (evicted, wrong version, wrong limit): the process must end.
func NewWriter[T any](client tigerbeetle.Client, config BatchConfig, registry prometheus.Registerer, deliver func(T, Answer), fail func(error)) *Writer[T] {
	w := &Writer[T]{
		client:  client,
		queue:   newQueue[T, tb.Transfer](config.EventsMax),
		pause:   config.Pause,
		deliver: deliver,
		fail:    fail,
		metrics: newRequestMetrics(registry, "write"),
	}
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pix_ledger_chains_waiting", Help: "Chains of transfers that wait for the next request to the ledger.",
	}, func() float64 { return float64(w.queue.length()) }))
	for range config.InFlightMax {
		go w.send()
	}
	return w
}

// Holds and what decides them go in requests of their own when there is more than one
// request's worth: mixed, they cost the ledger more CPU and disk.
const (
	holding kind = iota
	deciding
)

// Write queues a chain: transfers that are linked, in order, and behind those of a return its
// payment's mark. The slice is copied.
func (w *Writer[T]) Write(tag T, chain []tb.Transfer) {
	kind := deciding
	if chain[0].TransferFlags().Pending {
		kind = holding
	}
	w.queue.put(kind, tag, chain)
}

// Close stops sending. The result of a request that is under way is still delivered. If
// the server is absent the request waits for ever, because the client has no time limit:
// the process ends without it.
func (w *Writer[T]) Close() { w.queue.close() }

func (w *Writer[T]) send() {
	var answers []Answer
	var started time.Time
	for w.queue.wait() {
		time.Sleep(w.pause - time.Since(started))
		batch := w.queue.take()
		if batch == nil {
			continue
		}
		started = time.Now()
		results, err := w.client.CreateTransfers(batch.events)
		switch {
		case err != nil && w.queue.isClosed(): // the client may be closed too
			return
		case err != nil:
			w.fail(fmt.Errorf("the ledger refused a write request of %d transfers (LEDGER_BATCH_EVENTS_MAX must not exceed the server's limit): %w", len(batch.events), err))
			return
		}
		w.metrics.observe(len(batch.events), time.Since(started))
		answers = classify(answers[:0], batch, results)
		for i, tag := range batch.tags {
			w.deliver(tag, answers[i])
		}
		w.queue.giveBack(batch)
	}
}

// classify gives each chain of the batch its one real status. The server's results name
// only the transfers that are not ok, in order.
func classify[T any](answers []Answer, batch *batch[T, tb.Transfer], results []tb.TransferEventResult) []Answer {
	start := 0
	for _, end := range batch.ends {
		var answer Answer
		for len(results) > 0 && int(results[0].Index) < end {
			index := int(results[0].Index)
			isMark := batch.events[index].Code == CodeReturned // behind the chain; that it exists says nothing of it
			if status := results[0].Result; status != tb.TransferLinkedEventFailed && (!isMark || status != tb.TransferExists) {
				answer = Answer{Status: status, Code: batch.events[index].Code, Index: index - start}
			}
			results = results[1:]
		}
		answers = append(answers, answer)
		start = end
	}
	return answers
}

// requestMetrics measures one kind of request to the ledger.
type requestMetrics struct {
	events  prometheus.Observer
	seconds prometheus.Observer
}

var requestKinds = []string{"kind"}

func newRequestMetrics(registry prometheus.Registerer, kind string) requestMetrics {
	events := register(registry, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "pix_ledger_request_events", Help: "Transfers or ids in one request to the ledger.",
		Buckets: []float64{1, 3, 10, 30, 100, 300, 1000, 3000, 8189},
	}, requestKinds))
	seconds := register(registry, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "pix_ledger_request_seconds", Help: "Time of one request to the ledger, from sent to answered.",
		Buckets: prometheus.ExponentialBuckets(0.0003, 2, 16),
	}, requestKinds))
	return requestMetrics{events.WithLabelValues(kind), seconds.WithLabelValues(kind)}
}

func (m requestMetrics) observe(events int, took time.Duration) {
	m.events.Observe(float64(events))
	m.seconds.Observe(took.Seconds())
}

// register returns the collector that is registered already under the same name, if any.
func register[C prometheus.Collector](registry prometheus.Registerer, collector C) C {
	if err := registry.Register(collector); err != nil {
		if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
			return already.ExistingCollector.(C)
		}
		panic(err)
	}
	return collector
}
