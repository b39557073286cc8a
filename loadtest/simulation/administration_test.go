package simulation

import (
	"math/rand/v2"
	"time"

	"github.com/liquida/liquida/deploy/bootstrap"
	"github.com/liquida/liquida/platform/sandbox"
)

// administration is what an operator does while all runs. Bootstrap changes nothing in a ledger that
// it has filled, and refuses every other population.
var administration = []fault{
	{"bootstrap again", bootstrapping(func(*sandbox.Population) {}, true)},
	{"bootstrap with more banks", bootstrapping(func(p *sandbox.Population) { p.Banks++ }, false)},
	{"bootstrap with more customers", bootstrapping(func(p *sandbox.Population) { p.Customers++ }, false)},
	{"bootstrap with more money", bootstrapping(func(p *sandbox.Population) { p.ReserveCentavos++ }, false)},
}

// bootstrapping runs the ledger's part of bootstrap with a changed population.
func bootstrapping(change func(*sandbox.Population), isRight bool) func(*world, *service, *rand.Rand, time.Duration) {
	return func(w *world, _ *service, _ *rand.Rand, hold time.Duration) {
		config := parsed(w.t, &bootstrap.Config{})
		config.Population = population
		change(&config.Population)
		err := bootstrap.Populate(w.ends, config, acting{w: w}.now())
		if (err == nil) != isRight {
			w.t.Errorf("bootstrap with %+v: %v", config.Population, err)
		}
		time.Sleep(hold)
	}
}
