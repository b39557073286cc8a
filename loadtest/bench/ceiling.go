package bench

import (
	"fmt"
	"math/rand/v2"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
)

// chainsPerRequest fills a request with chains of three. Its limit is 8189 transfers.
const chainsPerRequest = 8189 / 3

// phases are the holds of payments, and the posts of the same payments.
type phases struct{ holds, posts []tb.Transfer }

// measureCeiling returns the payments a second of the ledger alone. It writes phase 1 and then phase 2
// of payments, in full requests, one at a time: three linked pendings, then three linked posts, so long after.
func measureCeiling(client tigerbeetle.Client, population sandbox.Population, payments int, postsAfter time.Duration) (perSecond float64, err error) {
	if _, err := client.LookupTransfers([]tb.Uint128{ledger.MarkerID}); err != nil { // the first request of a client is slow
		return 0, err
	}
	batches := make(chan phases, 1) // made while the ledger works, so that it never waits
	go makePhases(batches, population, payments)
	defer func() { // after an error nothing else empties it
		for range batches {
		}
	}()
	first := <-batches
	started := time.Now()
	create := func(transfers []tb.Transfer) {
		if err != nil {
			return
		}
		var refused []tb.TransferEventResult
		if refused, err = client.CreateTransfers(transfers); err == nil && len(refused) > 0 {
			err = fmt.Errorf("%d of %d transfers were refused, the first with %s", len(refused), len(transfers), refused[0].Result)
		}
	}
	type held struct {
		posts []tb.Transfer
		at    time.Time
	}
	var open []held
	post := func(all bool) {
		for len(open) > 0 && (all || time.Since(open[0].at) >= postsAfter) {
			create(open[0].posts)
			open = open[1:]
		}
	}
	for batch, more := first, true; more && err == nil; batch, more = <-batches {
		create(batch.holds)
		open = append(open, held{batch.posts, time.Now()})
		post(false)
	}
	post(true) // the last ones early: waiting for them is no work of the ledger
	return float64(payments) / time.Since(started).Seconds(), err
}

func makePhases(batches chan<- phases, population sandbox.Population, payments int) {
	defer close(batches)
	random := rand.New(rand.NewPCG(1, 2))
	for left := payments; left > 0; left -= chainsPerRequest {
		var batch phases
		for range min(chainsPerRequest, left) {
			payer := random.IntN(population.Customers)
			payee := (payer + 1 + random.IntN(population.Banks-1)) % population.Customers // at another bank
			content := pix.Content{Payer: population.Customer(payer), Payee: population.Customer(payee), AmountCentavos: 1}
			id := pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random)
			batch.holds = ledger.AppendReserve(batch.holds, id, content, 60)
			batch.posts = ledger.AppendPost(batch.posts, id, false)
		}
		batches <- batch
	}
}
