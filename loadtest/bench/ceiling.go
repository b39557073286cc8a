package bench

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
)

// IDs is a kind of transfer ids, to measure what ordered ids are worth.
type IDs string

// The kinds of ids.
const (
	OurIDs        IDs = "ours"       // minute, microseconds, hash
	SequentialIDs IDs = "sequential" // one after the other
	RandomIDs     IDs = "random"     // uniformly random
)

// chainsPerRequest fills a request with chains of three. Its limit is 8189 transfers.
const chainsPerRequest = 8189 / 3

// measureCeiling returns the payments a second of the ledger alone. It writes phase 1 and then
// phase 2 of payments, in full requests, one at a time: three linked pendings, then three linked
// posts for each payment, once they are held for so long. If the row is mixed, half of each request
// holds, and half posts what the request before held. The time in which only holds are left that are
// not old enough does not count.
func measureCeiling(client tigerbeetle.Client, population sandbox.Population, r row) (perSecond float64, err error) {
	if _, err := client.LookupTransfers([]tb.Uint128{ledger.MarkerID}); err != nil { // the first request of a client is slow
		return 0, err
	}
	random := rand.New(rand.NewPCG(1, 2))
	send := func(transfers []tb.Transfer) error {
		refused, err := client.CreateTransfers(transfers)
		if err != nil {
			return err
		}
		if len(refused) > 0 {
			return fmt.Errorf("%d of %d transfers were refused, the first with %s", len(refused), len(transfers), refused[0].Result)
		}
		return nil
	}
	batches := make(chan phases, 1)
	go func() {
		defer close(batches)
		chains := chainsPerRequest
		if r.mixed {
			chains /= 2
		}
		makePhases(batches, population, r.ids, r.payments, chains, random)
	}()
	defer func() { // after an error nothing else empties it
		for range batches {
		}
	}()
	first := <-batches
	started := time.Now()
	var held []phases // to be posted, the oldest first
	for batch := first; batch.holds != nil; batch = <-batches {
		holds := batch.holds
		for ; len(held) > 0 && time.Since(held[0].heldAt) >= r.heldFor; held = held[1:] {
			if r.mixed {
				holds = append(held[0].posts, holds...)
			} else if err := send(held[0].posts); err != nil {
				return 0, err
			}
		}
		if err := send(holds); err != nil {
			return 0, err
		}
		batch.holds, batch.heldAt = nil, time.Now()
		held = append(held, batch)
	}
	var idle time.Duration
	for _, batch := range held {
		if early := r.heldFor - time.Since(batch.heldAt); early > 0 {
			time.Sleep(early)
			idle += early
		}
		if err := send(batch.posts); err != nil {
			return 0, err
		}
	}
	return float64(r.payments) / (time.Since(started) - idle).Seconds(), nil
}

// phases are the holds of payments, and the posts of the same payments.
type phases struct {
	holds, posts []tb.Transfer
	heldAt       time.Time
}

// makePhases creates requests while the ledger works on earlier ones, so that the ledger
// never waits.
func makePhases(batches chan<- phases, population sandbox.Population, ids IDs, payments, chains int, random *rand.Rand) {
	base := rand.Uint64()
	for done := 0; done < payments; {
		batch := phases{holds: make([]tb.Transfer, 0, 3*chains), posts: make([]tb.Transfer, 0, 6*chains)}
		for range min(chains, payments-done) {
			payer := random.IntN(population.Customers)
			payee := (payer + 1 + random.IntN(population.Banks-1)) % population.Customers // at another bank
			content := pix.Content{Payer: population.Customer(payer), Payee: population.Customer(payee), AmountCentavos: 1}
			id := pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random)
			from := len(batch.holds)
			batch.holds = ledger.AppendReserve(batch.holds, id, content, 60)
			batch.posts = ledger.AppendPost(batch.posts, id, false)
			if ids != OurIDs {
				renumber(batch.holds[from:], batch.posts[from:], ids, base, done, random)
			}
			done++
		}
		batches <- batch
	}
}

// renumber changes the ids of the legs of one payment.
func renumber(holds, posts []tb.Transfer, ids IDs, base uint64, payment int, random *rand.Rand) {
	for i := range holds {
		for j, transfer := range []*tb.Transfer{&holds[i], &posts[i]} {
			high, low := base>>1, uint64(payment)*8+uint64(2*i+j)+1
			if ids == RandomIDs {
				high, low = random.Uint64()>>1, random.Uint64()|1
			}
			transfer.ID = uint128(high, low)
		}
		posts[i].PendingID = holds[i].ID
	}
}

func uint128(high, low uint64) tb.Uint128 {
	var id [16]byte
	binary.LittleEndian.PutUint64(id[:8], low)
	binary.LittleEndian.PutUint64(id[8:], high)
	return tb.BytesToUint128(id)
}
