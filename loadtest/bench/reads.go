package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/platform/sandbox"
)

// readsInFlightMax bounds the reads in flight. One more makes the run invalid.
const readsInFlightMax = 20_000

// startReads reads balances of random customers at a fixed rate, however slow the responses
// are. Latencies count from the intended send. The function that it returns waits for the last
// response and returns the first error.
func startReads(ctx context.Context, url string, keys map[string]string, population sandbox.Population, rate int, lasts time.Duration, into **load.Latency) func() error {
	callers := &callers{load.NewCallers(url, keys)}
	recorder := load.NewRecorder()
	var answered sync.WaitGroup
	var failed error
	var once sync.Once
	fail := func(err error) {
		once.Do(func() { failed = fmt.Errorf("the run is not valid: a balance read failed: %w", err) })
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		random := rand.New(rand.NewPCG(3, 0))
		room := make(chan struct{}, readsInFlightMax)
		start := time.Now()
		for i := range int(float64(rate) * lasts.Seconds()) {
			intended := start.Add(time.Duration(i) * time.Second / time.Duration(rate))
			time.Sleep(time.Until(intended))
			if ctx.Err() != nil {
				return
			}
			select {
			case room <- struct{}{}:
			default:
				fail(fmt.Errorf("%d reads are in flight", readsInFlightMax))
				return
			}
			account := population.Customer(random.IntN(population.Customers))
			answered.Go(func() {
				defer func() { <-room }()
				if err := callers.balance(ctx, account); err != nil {
					fail(err)
				}
				recorder.Record(time.Since(intended))
			})
		}
	}()
	return func() error {
		<-sent
		answered.Wait()
		callers.Close()
		latency := recorder.Latency("balance read")
		*into = &latency
		return failed
	}
}
