package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/liquida/liquida/loadtest/load"
)

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
	population := w.simulator.population
	sending, stop := context.WithTimeout(ctx, f.between(4*time.Second, 8*time.Second))
	defer stop()
	var accepted, refused, failed atomic.Int64
	written := 0
	var all sync.WaitGroup
	f.Target = "all banks"
	w.begin(f)
	for i := range overloadBatches {
		flood := load.Flood{Kind: load.Payments, Population: population, Bank: i % population.Banks, Random: rand.New(rand.NewPCG(f.random.Uint64(), 0))}
		bank := string(population.Bank(flood.Bank))
		all.Go(func() {
			for sending.Err() == nil {
				var body bytes.Buffer
				encoder := json.NewEncoder(&body)
				for range overloadLines {
					if err := encoder.Encode(load.Payment(flood.Order(time.Now(), 0))); err != nil {
						panic(fmt.Sprintf("cannot encode a payment: %v", err)) // texts and numbers
					}
				}
				answer, err := w.callers.Send(sending, http.MethodPost, "/v1/payments:batch", bank, body.Bytes())
				lines := int64(bytes.Count(answer.Body, []byte(`"status":"accepted"`)))
				accepted.Add(lines)
				switch {
				case err == nil && (answer.Status == http.StatusTooManyRequests || answer.Status == http.StatusOK):
					refused.Add(overloadLines - lines)
				default: // another fault
					failed.Add(overloadLines - lines)
					time.Sleep(100 * time.Millisecond)
				}
			}
		})
	}
	flood := load.Flood{Kind: load.Payments, PerSecond: 1_000_000, Most: overloadRecords, Population: population, Bank: f.random.IntN(population.Banks), Random: rand.New(rand.NewPCG(f.random.Uint64(), 0))}
	all.Go(func() { written, err = flood.Run(sending, kafka) })
	all.Wait()
	w.end(f)
	f.Detail = fmt.Sprintf("over HTTP %d accepted, %d refused, %d without a response; %d to Kafka", accepted.Load(), refused.Load(), failed.Load(), written)
	return err
}
