package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// chainsPerRequest fills a request with chains of three. Its limit is 8189 transfers.
const chainsPerRequest = 8189 / 3

// phases are the holds of payments, and the posts of the same payments, by the steps after which their banks answer.
type phases struct {
	holds []tb.Transfer
	posts [][]tb.Transfer
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
func connect(addresses string) (tigerbeetle.Client, error) {
	client, err := ledger.Connect(ledger.Config{Addresses: strings.Split(addresses, ",")})
	if err != nil {
		return nil, err
	}

	if _, err := client.LookupTransfers([]tb.Uint128{ledger.MarkerID}); err != nil {
		client.Close()
		return nil, err
	}

	return client, nil
}

// answerStep is how exactly answers are in time.
const answerStep = 5 * time.Millisecond

// answersAfter draws after how long a bank answers, about as banks of PIX do if the mean is 1.47 s.
func answersAfter(mean time.Duration) time.Duration {
	return min(2*mean/3+time.Duration(rand.ExpFloat64()*float64(mean/3)), 5*mean/3)
}

// ledgerAlone measures a ceiling and its costs. It writes phase 1 and then phase 2 of payments, in full requests, one
// at a time: three linked pendings, then three linked posts, in the order in which banks answer.
func (m *session) ledgerAlone() error {
	client, err := connect(m.TigerBeetleAddresses())
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
	var answered []tb.Transfer
	late := map[int][][]tb.Transfer{} // posts, by the step in which their banks answer

	for step := 0; err == nil && (more || len(answered)+len(late) > 0); {
		// The last ones early: waiting for them is no work of the ledger.
		for ; len(late) > 0 && (!more || time.Since(started) >= time.Duration(step)*answerStep); step++ {
			for _, posts := range late[step] {
				answered = append(answered, posts...)
			}
			delete(late, step)
		}

		if n := min(len(answered), 3*chainsPerRequest); !more || n == 3*chainsPerRequest {
			err = create(client, answered[:n])
			answered = answered[:copy(answered, answered[n:])]

			continue
		}
		err = create(client, batch.holds)

		held := max(step, int(time.Since(started)/answerStep))
		for k, posts := range batch.posts {
			late[held+k] = append(late[held+k], posts)
		}
		batch, more = <-batches
	}
	took := time.Since(started)

	if err := errors.Join(err, m.end()); err != nil {
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
			k := int(answersAfter(m.answers) / answerStep)
			batch.posts = append(batch.posts, make([][]tb.Transfer, max(0, k+1-len(batch.posts)))...)
			batch.posts[k] = ledger.AppendPost(batch.posts[k], id, false)
		}
		batches <- batch
	}
}
