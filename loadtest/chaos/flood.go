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

// readFlooders is how many requests a bank that floods with reads has open.
const readFlooders = 32

// floodWithReads lets one bank read all that it may: its largest statements, days and balances. It may be refused.
func floodWithReads(ctx context.Context, w *world, f *fault) error {
	free, err := w.take(ctx, "read-flood")
	if err != nil {
		return err
	}
	defer free()
	population := w.simulator.population
	bank := population.Bank(f.random.IntN(population.Banks))
	account := population.Customer(f.random.IntN(population.Customers))
	for account.ISPB != bank {
		account = population.Customer(f.random.IntN(population.Customers))
	}
	path := "/v1/accounts/" + string(account.ISPB) + "/" + account.Branch + "/" + account.Number
	until := time.Now().Add(-time.Second).UTC()
	paths := []string{path, path + "/statement?limit=1000",
		fmt.Sprintf("/v1/participants/%s/statements/%v?until=%s", bank, pix.DayOf(until), until.Format(time.RFC3339))}
	f.Target = "bank " + string(bank)
	w.begin(f)
	reading, stop := context.WithTimeout(ctx, f.between(4*time.Second, 8*time.Second))
	defer stop()
	var answered, refused, failed atomic.Int64
	var all sync.WaitGroup
	for i := range readFlooders {
		all.Go(func() {
			for n := i; reading.Err() == nil; n++ {
				answer, err := w.callers.Send(reading, http.MethodGet, paths[n%len(paths)], string(bank), nil)
				switch {
				case err != nil:
					failed.Add(1)
					host.Sleep(reading, 100*time.Millisecond) // of another fault
				case answer.Status == http.StatusTooManyRequests:
					refused.Add(1)
				default:
					answered.Add(1)
				}
			}
		})
	}
	all.Wait()
	w.end(f)
	f.Detail = fmt.Sprintf("%d answered, %d refused, %d without a response", answered.Load(), refused.Load(), failed.Load())
	return nil
}

// Large answers are nearly as large as the broker takes them from anybody.
const (
	largeAnswerBytes      = 120_000
	largeAnswersPerSecond = 60
)

// largeAnswers writes responses that are none, and as large as they may be. Who reads them loses time for others.
func largeAnswers(ctx context.Context, w *world, f *fault) error {
	free, err := w.take(ctx, "large answers")
	if err != nil {
		return err
	}
	defer free()
	client, err := w.Kafka().Client(kgo.ClientID("hostile"), kgo.ProducerBatchMaxBytes(stream.BatchBytesMax),
		kgo.RecordPartitioner(kgo.UniformBytesPartitioner(largeAnswerBytes, false, false, nil)), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return err
	}
	defer client.Close()
	f.Target = "responses"
	w.begin(f)
	defer w.end(f)
	value := bytes.Repeat([]byte{0xff}, largeAnswerBytes)
	writing, stop := context.WithTimeout(ctx, f.between(4*time.Second, 8*time.Second))
	defer stop()
	var written, refused atomic.Int64
	for host.Sleep(writing, time.Second/largeAnswersPerSecond) {
		client.TryProduce(writing, &kgo.Record{Topic: stream.AuthorizationResponses, Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				refused.Add(1) // or the broker is down by another fault
			} else {
				written.Add(1)
			}
		})
	}
	f.Detail = fmt.Sprintf("%d written, %d not", written.Load(), refused.Load())
	return nil
}

// floodByABank lets one bank send as much as it may: conflicting orders of one EndToEndId, and copies
// of a payment to a payee whose bank does not answer. Payments of others must not suffer.
func floodByABank(ctx context.Context, w *world, f *fault) error {
	free, err := w.take(ctx, "flood")
	if err != nil {
		return err
	}
	defer free()
	population := w.simulator.population
	bank := f.random.IntN(population.Banks)
	f.Target = "bank " + string(population.Bank(bank))
	kafka, err := w.Kafka().Options()
	if err != nil {
		return err
	}
	w.begin(f)
	defer w.end(f)
	ctx, cancel := context.WithCancel(ctx)
	var floods sync.WaitGroup
	var errs [2]error
	for i, sent := range []struct {
		kind      load.FloodKind
		perSecond int
	}{{load.Conflicts, 4000}, {load.Copies, 2000}} {
		random := rand.New(rand.NewPCG(f.random.Uint64(), 0))
		floods.Go(func() {
			_, errs[i] = load.Flood{Kind: sent.kind, PerSecond: sent.perSecond, Population: population, Bank: bank, Random: random}.Run(ctx, kafka)
		})
	}
	f.hold(ctx, 4*time.Second, 8*time.Second)
	cancel()
	floods.Wait()
	return errors.Join(errs[:]...)
}
