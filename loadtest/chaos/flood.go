package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/liquida/liquida/loadtest/load"
)

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
