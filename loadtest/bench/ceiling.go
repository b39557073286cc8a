package bench

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
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
// posts for each payment, once its bank of the row has answered. If the row is mixed, half of each
// request holds, and half posts. The time in which nothing is left but payments whose banks have not
// answered does not count.
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
	chains := chainsPerRequest
	if r.mixed {
		chains /= 2
	}
	batches := make(chan phases, 1)
	go func() {
		defer close(batches)
		makePhases(batches, population, r.ids, r.payments, chains, random)
	}()
	defer func() { // after an error nothing else empties it
		for range batches {
		}
	}()
	first := <-batches
	started := time.Now()
	answers := answers{delay: r.delay, random: rand.New(rand.NewPCG(3, 4))}
	for batch := first; batch.holds != nil; batch = <-batches {
		request := batch.holds
		for posts := answers.take(time.Now(), legs*chains, false); posts != nil; posts = answers.take(time.Now(), legs*chains, false) {
			if r.mixed {
				request = append(posts, request...)
				break
			}
			if err := send(posts); err != nil {
				return 0, err
			}
		}
		if err := send(request); err != nil {
			return 0, err
		}
		answers.add(batch.posts, time.Now())
	}
	var idle time.Duration
	for answers.open() {
		posts := answers.take(time.Now(), legs*chains, true)
		if posts == nil {
			idle += answerStep
			time.Sleep(answerStep)
		} else if err := send(posts); err != nil {
			return 0, err
		}
	}
	return float64(r.payments) / (time.Since(started) - idle).Seconds(), nil
}

// phases are the holds of payments, and the posts of the same payments.
type phases struct {
	holds, posts []tb.Transfer
}

// legs of a payment to another bank.
const legs = 3

// answers are the posts of payments that are held, by when their bank answers.
type answers struct {
	delay  delay
	random *rand.Rand
	ready  []tb.Transfer   // their bank has answered
	steps  [][]tb.Transfer // those of the others, by the step in which the bank answers
	first  time.Time       // the begin of the first of steps
}

// answerStep is how exactly answers are in time.
const answerStep = 5 * time.Millisecond

// add takes the posts of payments that are held now.
func (a *answers) add(posts []tb.Transfer, now time.Time) {
	if a.delay.max == 0 {
		a.ready = append(a.ready, posts...)
		return
	}
	if len(a.steps) == 0 {
		a.first = now
	}
	for chain := range slices.Chunk(posts, legs) {
		step := int(now.Add(a.delay.draw(a.random)).Sub(a.first) / answerStep)
		for len(a.steps) <= step {
			a.steps = append(a.steps, nil)
		}
		a.steps[step] = append(a.steps[step], chain...)
	}
}

// take returns posts whose banks have answered: so many, or fewer if the rest is wanted, too; nil if there are none.
func (a *answers) take(now time.Time, most int, rest bool) (posts []tb.Transfer) {
	for ; len(a.steps) > 0 && now.Sub(a.first) >= answerStep; a.first = a.first.Add(answerStep) {
		a.ready = append(a.ready, a.steps[0]...)
		a.steps = a.steps[1:]
	}
	n := min(most, len(a.ready))
	if n == 0 || n < most && !rest {
		return nil
	}
	posts, a.ready = a.ready[:n:n], a.ready[n:]
	return posts
}

// open reports whether payments are left.
func (a *answers) open() bool { return len(a.ready)+len(a.steps) > 0 }

// delay is how long banks take: a minimum and an exponential time, at most a maximum. All zero means
// at once.
type delay struct{ min, mean, max time.Duration }

func (d delay) draw(random *rand.Rand) time.Duration {
	return min(d.min+time.Duration(random.ExpFloat64()*float64(d.mean-d.min)), d.max)
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
