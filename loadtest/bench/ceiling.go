package bench

import (
	"fmt"
	"math/rand/v2"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// chainsPerRequest fills a request with chains of three. Its limit is 8189 transfers.
const chainsPerRequest = 8189 / 3

// phases are the holds of payments, and the posts of the same payments.
type phases struct {
	holds, posts []tb.Transfer
	heldAt       time.Time
}

// create writes transfers in full requests, none of which may be refused.
func create(client tigerbeetle.Client, transfers []tb.Transfer) error {
	for len(transfers) > 0 {
		request := transfers[:min(len(transfers), 3*chainsPerRequest)]
		transfers = transfers[len(request):]

		refused, err := client.CreateTransfers(request)
		if err != nil {
			return err
		}

		if len(refused) > 0 {
			return fmt.Errorf("%d of %d transfers were refused, the first with %s", len(refused), len(request),
				refused[0].Result)
		}
	}

	return nil
}

// connect returns a client whose first request, which is slow, is over.
func connect(config ledger.Config) (tigerbeetle.Client, error) {
	client, err := ledger.Connect(config)
	if err != nil {
		return nil, err
	}

	if _, err := client.LookupTransfers([]tb.Uint128{ledger.MarkerID}); err != nil {
		client.Close()
		return nil, err
	}

	return client, nil
}

// ledgerAlone measures a ceiling and its costs. It writes phase 1 and then phase 2 of payments, in full requests, one
// at a time: three linked pendings, then three linked posts, as late as banks answer.
func (m *session) ledgerAlone() error {
	client, err := connect(m.ledgerConfig())
	if err != nil {
		return err
	}
	defer client.Close()

	if err := m.begin(); err != nil {
		return err
	}
	batches := make(chan phases, 1) // made while the ledger works, so that it never waits
	go m.makePhases(batches)
	defer func() { // after an error nothing else empties it
		for range batches {
		}
	}()

	batch, more := <-batches
	started := time.Now()

	var open []phases
	for err == nil && (more || len(open) > 0) {
		// The last ones early: waiting for them is no work of the ledger.
		if len(open) > 0 && (!more || time.Since(open[0].heldAt) >= m.answers) {
			err = create(client, open[0].posts)
			open = open[1:]
			continue
		}
		err = create(client, batch.holds)
		batch.heldAt = time.Now()
		open = append(open, batch)
		batch, more = <-batches
	}
	took := time.Since(started)

	if err == nil {
		err = m.end()
	}

	if err != nil {
		return err
	}
	m.run.verdict = "the ledger refused no transfer; not audited"
	m.run.set(perSecond.group, perSecond.name, float64(m.payments)/took.Seconds())
	m.costs(m.payments)

	return nil
}

func (m *session) makePhases(batches chan<- phases) {
	defer close(batches)
	random := rand.New(rand.NewPCG(1, 2))

	for left := m.payments; left > 0; left -= chainsPerRequest {
		var batch phases

		for range min(chainsPerRequest, left) {
			payer := random.IntN(m.population.Customers)
			payee := (payer + 1 + random.IntN(m.population.Banks-1)) % m.population.Customers // at another bank
			content := pix.Content{Payer: m.population.Customer(payer), Payee: m.population.Customer(payee),
				AmountCentavos: 1}
			id := pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random)
			batch.holds = ledger.AppendReserve(batch.holds, id, content, 60)
			batch.posts = ledger.AppendPost(batch.posts, id, false)
		}
		batches <- batch
	}
}
