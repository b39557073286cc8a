package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// FloodKind is what a flood sends.
type FloodKind string

// The kinds. ToSilentBanks is to all banks but the first, which must be silent then.
const (
	Conflicts     FloodKind = "conflicts"
	Copies        FloodKind = "copies"
	ToSilentBanks FloodKind = "payments to silent banks"
	Payments      FloodKind = "payments" // to any account
	HotAccount    FloodKind = "payments to one account"
)

// Flood is what one bank may send to hurt the others: orders that conflict, copies of an order that waits, payments
// to banks that do not answer.
type Flood struct {
	Kind       FloodKind
	PerSecond  int
	Most       int // messages in all; 0: as many as ctx gives time for
	Population sandbox.Population
	Bank       int // that sends
	Random     *rand.Rand
}

const (
	// idFor is how long all messages have one id.
	idFor = 10 * time.Second
	// floodTick is the time between two bursts.
	floodTick = 10 * time.Millisecond
	// bufferedMax bounds what waits for Kafka: a flood never takes more memory than this.
	bufferedMax = 100_000
)

// Run sends until ctx ends, and returns how many messages it sent.
func (f Flood) Run(ctx context.Context, kafka []kgo.Opt) (sent int, err error) {
	client, err := kgo.NewClient(
		append(slices.Clone(kafka), kgo.ClientID("flood"), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
			kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(bufferedMax))...)
	if err != nil {
		return 0, fmt.Errorf("cannot create the Kafka producer of a flood: %w", err)
	}
	defer client.Close()
	started := time.Now()
	ticker := time.NewTicker(floodTick)
	defer ticker.Stop()
	var order *pixv1.PaymentOrder
	var from time.Time

	for {
		select {
		case <-ctx.Done():
			return sent, nil
		case now := <-ticker.C:
			due := int(now.Sub(started).Seconds() * float64(f.PerSecond))
			if f.Most > 0 {
				due = min(due, f.Most)
			}

			for ; sent < due && ctx.Err() == nil; sent++ {
				if order == nil || f.Kind != Conflicts && f.Kind != Copies || now.Sub(from) > idFor {
					order, from = f.Order(now, sent), now
				}

				if f.Kind == Conflicts {
					order.AmountCentavos++
				}

				value, err := order.MarshalVT()
				if err != nil {
					return sent, err
				}
				client.Produce(ctx, &kgo.Record{Topic: stream.Payments, Key: []byte(order.EndToEndId),
					Value: value}, nil)
			}
		}
	}
}

// Order returns a new payment of one centavo, the n-th.
func (f Flood) Order(now time.Time, n int) *pixv1.PaymentOrder {
	p := f.Population
	payer := p.Customer(f.Bank + p.Banks*f.Random.IntN(p.Customers/p.Banks))

	payee := p.Customer(1 + f.Bank)
	switch f.Kind {
	case Copies:
		payee = p.Special((f.Bank+1)%p.Banks, sandbox.SilentBranch)
	case Payments:
		payee = p.Customer(f.Random.IntN(p.Customers))
	case ToSilentBanks:
		payer, payee = p.Customer(f.Random.IntN(p.Customers)), p.Customer(1+n%(p.Banks-1))
	}

	return &pixv1.PaymentOrder{
		EndToEndId: pix.NewEndToEndID(payer.ISPB, now, f.Random).String(), AcceptedAtUnixMs: now.UnixMilli(),
		Payer: mix.AccountMessage(payer), Payee: mix.AccountMessage(payee), AmountCentavos: 1,
	}
}
