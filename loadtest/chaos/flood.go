package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
)

// flooding lets a flood send for as long as its fault lasts.
func flooding(flood step) step {
	return func(ctx context.Context, w *world, f *fault) error {
		ctx, stop := context.WithTimeout(ctx, f.lasts)
		defer stop()
		return flood(ctx, w, f)
	}
}

// request is one to the front door.
type request struct {
	method, path, bank string
	body               []byte
}

// ask lets workers send requests until ctx ends, and says how they were answered.
func (w *world) ask(ctx context.Context, workers int, next func(worker, n int) request) string {
	var mu sync.Mutex
	answered := map[int]int{} // by status

	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				r := next(worker, n)

				answer, err := w.producer.Send(ctx, r.method, r.path, r.bank, r.body)
				if err != nil {
					host.Sleep(ctx, 100*time.Millisecond) // of another fault
				}
				mu.Lock()
				answered[answer.Status]++
				mu.Unlock()
			}
		})
	}
	all.Wait()

	return fmt.Sprintf("responses by status: %v", answered)
}

// readFlooders is how many requests a bank that floods with reads has open.
const readFlooders = 32

// floodWithReads lets one bank read all that it may: its largest statements, days and balances. It may be refused.
func floodWithReads(ctx context.Context, w *world, f *fault) error {
	bank := string(w.population.Bank(f.index))
	account := w.population.Customer(
		f.index + w.population.Banks*f.random.IntN(w.population.Customers/w.population.Banks))
	path := "/v1/accounts/" + bank + "/" + account.Branch + "/" + account.Number
	until := time.Now().Add(-time.Second).UTC()
	paths := []string{path, path + "/statement?limit=1000",
		fmt.Sprintf("/v1/participants/%s/statements/%v?until=%s", bank, pix.DayOf(until), until.Format(time.RFC3339))}
	f.Detail = w.ask(ctx, readFlooders, func(worker, n int) request {
		return request{http.MethodGet, paths[(worker+n)%len(paths)], bank, nil}
	})

	return nil
}

// Large answers are nearly as large as the broker takes them from anybody.
const (
	largeAnswerBytes      = 120_000
	largeAnswersPerSecond = 60
)

// largeAnswers writes responses that are none, and as large as they may be. Who reads them loses time for others.
func largeAnswers(ctx context.Context, w *world, f *fault) error {
	client, err := w.Kafka().Client(kgo.ClientID("hostile"), kgo.ProducerBatchMaxBytes(stream.BatchBytesMax),
		kgo.RecordPartitioner(kgo.UniformBytesPartitioner(largeAnswerBytes, false, false, nil)),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return err
	}
	defer client.Close()
	value := bytes.Repeat([]byte{0xff}, largeAnswerBytes)
	var written atomic.Int64

	for host.Sleep(ctx, time.Second/largeAnswersPerSecond) {
		client.TryProduce(ctx, &kgo.Record{Topic: stream.AuthorizationResponses, Value: value},
			func(_ *kgo.Record, err error) {
				if err == nil { // else it is refused, or the broker is down by another fault
					written.Add(1)
				}
			})
	}
	f.Detail = fmt.Sprintf("%d written", written.Load())

	return nil
}

// floodByABank lets one bank send as much as it may: conflicting orders of one EndToEndId, and copies
// of a payment to a payee whose bank does not answer. Payments of others must not suffer.
func floodByABank(ctx context.Context, w *world, f *fault) error {
	kafka, err := w.Kafka().Options()
	if err != nil {
		return err
	}
	conflicts, copies := w.flood(f, load.Conflicts, f.index), w.flood(f, load.Copies, f.index)
	conflicts.PerSecond, copies.PerSecond = 4000, 2000
	var errs [2]error
	var both sync.WaitGroup
	both.Go(func() { _, errs[0] = conflicts.Run(ctx, kafka) })
	both.Go(func() { _, errs[1] = copies.Run(ctx, kafka) })
	both.Wait()

	return errors.Join(errs[:]...)
}

// flood is one that a bank sends.
func (w *world) flood(f *fault, kind load.FloodKind, bank int) load.Flood {
	return load.Flood{Kind: kind, Population: w.population, Bank: bank,
		Random: rand.New(rand.NewPCG(f.random.Uint64(), 0))}
}

const (
	overloadBatches = 8      // at the same time
	overloadLines   = 500    // of a batch
	overloadRecords = 50_000 // straight to Kafka
)

// overload pays from all banks as fast as it goes, over HTTP and straight to Kafka. The front
// door may refuse with 429; what it takes, and what is in Kafka, must end like any payment. Each
// payment is of one centavo, so the load does not run out of money.
func overload(ctx context.Context, w *world, f *fault) error {
	kafka, err := w.Kafka().Options()
	if err != nil {
		return err
	}

	var floods []load.Flood
	for worker := range overloadBatches {
		floods = append(floods, w.flood(f, load.Payments, worker%w.population.Banks))
	}
	straight := w.flood(f, load.Payments, f.random.IntN(w.population.Banks))
	straight.PerSecond, straight.Most = 1_000_000, overloadRecords
	written := 0
	var records sync.WaitGroup
	records.Go(func() { written, err = straight.Run(ctx, kafka) })
	said := w.ask(ctx, overloadBatches, func(worker, _ int) request {
		var batch bytes.Buffer

		encoder := json.NewEncoder(&batch)
		for range overloadLines {
			if err := encoder.Encode(load.Payment(floods[worker].Order(time.Now(), 0))); err != nil {
				panic(fmt.Sprintf("cannot encode a payment: %v", err)) // texts and numbers
			}
		}

		return request{http.MethodPost, "/v1/payments:batch", string(w.population.Bank(floods[worker].Bank)),
			batch.Bytes()}
	})
	records.Wait()
	f.Detail = fmt.Sprintf("over HTTP %s; %d to Kafka", said, written)

	return err
}
