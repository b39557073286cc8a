package ledger

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// Reader looks up objects by id. It fills requests like the Writer: after a restart,
// thousands of payments are looked up at once.
type Reader[T, O any] struct {
	queue   *queue[T, tb.Uint128]
	lookup  func([]tb.Uint128) ([]O, error)
	idOf    func(*O) tb.Uint128
	deliver func(T, []O)
	metrics requestMetrics
}

// NewTransferReader starts a reader of transfers. It calls deliver with the transfers that
// exist, in the order of their ids; deliver must not block. It calls fail if the client is
// of no more use.
func NewTransferReader[T any](client tigerbeetle.Client, config BatchConfig, registry prometheus.Registerer,
	deliver func(T, []tb.Transfer), fail func(error)) *Reader[T, tb.Transfer] {
	r := &Reader[T, tb.Transfer]{
		lookup: client.LookupTransfers, idOf: func(t *tb.Transfer) tb.Uint128 { return t.ID },
		deliver: deliver, metrics: newRequestMetrics(registry, "look up transfers"),
	}

	return r.start(config, fail)
}

// NewAccountReader starts a reader of accounts, like NewTransferReader.
func NewAccountReader[T any](client tigerbeetle.Client, config BatchConfig, registry prometheus.Registerer,
	deliver func(T, []tb.Account), fail func(error)) *Reader[T, tb.Account] {
	r := &Reader[T, tb.Account]{
		lookup: client.LookupAccounts, idOf: func(a *tb.Account) tb.Uint128 { return a.ID },
		deliver: deliver, metrics: newRequestMetrics(registry, "look up accounts"),
	}

	return r.start(config, fail)
}

func (r *Reader[T, O]) start(config BatchConfig, fail func(error)) *Reader[T, O] {
	r.queue = newQueue[T, tb.Uint128](config.EventsMax)
	go r.queue.send(config.Pause, r.send, fail)
	return r
}

// Read queues a look-up. The slice is copied.
func (r *Reader[T, O]) Read(tag T, ids []tb.Uint128) { r.queue.put(tag, ids) }

// Close stops sending; see Writer.Close.
func (r *Reader[T, O]) Close() { r.queue.close() }

func (r *Reader[T, O]) send(request *request[T, tb.Uint128]) error {
	started := time.Now()

	objects, err := r.lookup(request.events)
	if err != nil {
		return fmt.Errorf("the ledger refused a look-up of %d ids (LEDGER_BATCH_EVENTS_MAX must not exceed the server's limit): %w",
			len(request.events), err)
	}
	r.metrics.observe(len(request.events), time.Since(started))
	byID := indexed(objects, r.idOf)

	start := 0
	for i, tag := range request.tags {
		r.deliver(tag, among(byID, request.events[start:request.ends[i]]))
		start = request.ends[i]
	}

	return nil
}

func indexed[O any](objects []O, idOf func(*O) tb.Uint128) map[tb.Uint128]*O {
	byID := make(map[tb.Uint128]*O, len(objects))
	for i := range objects {
		byID[idOf(&objects[i])] = &objects[i]
	}

	return byID
}

// among returns those of the objects that have one of the ids, in their order.
func among[O any](byID map[tb.Uint128]*O, ids []tb.Uint128) (found []O) {
	for _, id := range ids {
		if object := byID[id]; object != nil {
			found = append(found, *object)
		}
	}

	return found
}
