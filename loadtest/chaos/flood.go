package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"

	"github.com/liquida/liquida/loadtest/load"
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
		errs := make([]error, len(floods))
		var all sync.WaitGroup

		for i, flood := range floods {
			flood.Population, flood.Bank = w.population, f.index
			flood.Random = rand.New(rand.NewPCG(f.random.Uint64(), 0))
			all.Go(func() { _, errs[i] = flood.Run(ctx, kafka) })
		}
		all.Wait()

		return errors.Join(errs...)
	}
}

// byABank is what one bank may send: conflicting orders of one EndToEndId, and copies of a payment to a payee whose
// bank does not answer. Payments of others must not suffer.
var byABank = flooding(load.Flood{Kind: load.Conflicts, PerSecond: 4000},
	load.Flood{Kind: load.Copies, PerSecond: 2000})

// overload is more payments than the clearing house can clear. The front door may refuse with 429; what is in Kafka
// must end like any payment. Each payment is of one centavo, so the load does not run out of money.
var overload = flooding(load.Flood{Kind: load.Payments, PerSecond: 1_000_000, Most: 50_000})
