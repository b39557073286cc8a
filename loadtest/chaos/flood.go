package chaos

import (
	"bytes"
	"context"
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

// flooding sends floods at the same time, for as long as their fault lasts.
func flooding(floods ...load.Flood) step {
	return func(ctx context.Context, w *world, f *fault) error {
		kafka, err := w.Kafka().Options()
		if err != nil {
			return err
		}
		ctx, stop := context.WithTimeout(ctx, f.lasts)
		defer stop()
		errs, sent := make([]error, len(floods)), make([]int, len(floods))
		var all sync.WaitGroup

		for i, flood := range floods {
			flood.Population, flood.Bank = w.population, f.index
			flood.Random = rand.New(rand.NewPCG(f.random.Uint64(), 0))
			all.Go(func() { sent[i], errs[i] = flood.Run(ctx, kafka) })
		}
		all.Wait()
		f.Detail = fmt.Sprintf("sent %v", sent)

		return errors.Join(errs...)
	}
}

// byABank is what one bank may send: conflicting orders of one EndToEndId, and copies of a payment to a payee whose
// bank does not answer. Payments of others must not suffer.
var byABank = flooding(load.Flood{Kind: load.Conflicts, PerSecond: 4000},
	load.Flood{Kind: load.Copies, PerSecond: 2000})

// overload is more payments than the clearing house can clear. What is in Kafka must end like any payment. Each payment
// is of one centavo, so the load does not run out of money.
var overload = flooding(load.Flood{Kind: load.Payments, PerSecond: 1_000_000, Most: 50_000})

// readFlooders is how many requests a bank that floods with reads has open.
const readFlooders = 32

// floodWithReads lets one bank read all that it may: its largest statements, days and balances. It may be refused.
func floodWithReads(ctx context.Context, w *world, f *fault) error {
	ctx, stop := context.WithTimeout(ctx, f.lasts)
	defer stop()
	bank := string(w.population.Bank(f.index))
	account := w.population.Customer(
		f.index + w.population.Banks*f.random.IntN(w.population.Customers/w.population.Banks))
	path := "/v1/accounts/" + bank + "/" + account.Branch + "/" + account.Number
	until := time.Now().Add(-time.Second).UTC()
	paths := []string{path, path + "/statement?limit=1000",
		fmt.Sprintf("/v1/participants/%s/statements/%v?until=%s", bank, pix.DayOf(until), until.Format(time.RFC3339))}
	var mu sync.Mutex
	answered := map[int]int{} // by status

	var all sync.WaitGroup
	for worker := range readFlooders {
		all.Go(func() {
			for n := worker; ctx.Err() == nil; n++ {
				answer, err := w.producer.Send(ctx, http.MethodGet, paths[n%len(paths)], bank, nil)
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
	f.Detail = fmt.Sprintf("responses by status: %v", answered)

	return nil
}

// Large answers are nearly as large as the broker takes them from anybody.
const (
	largeAnswerBytes      = 120_000
	largeAnswersPerSecond = 60
)

// largeAnswers writes responses that are none, and as large as they may be. Who reads them loses time for others.
func largeAnswers(ctx context.Context, w *world, f *fault) error {
	ctx, stop := context.WithTimeout(ctx, f.lasts)
	defer stop()

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
