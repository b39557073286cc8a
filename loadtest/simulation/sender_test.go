package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/platform/kit/hostile"
	"github.com/liquida/liquida/platform/stream"
)

// senderFaults are what those who may write to Kafka can do to the others.
var senderFaults = []fault{
	{"flood of conflicts", flooding(load.Conflicts, 150)},
	{"flood of copies", flooding(load.Copies, 100)},
	{"flood to silent banks", flooding(load.ToSilentBanks, 50)},
	{"unreadable batch", plant(func(now int64, random *rand.Rand) (*hostile.Batch, error) {
		n := int32(2 + random.IntN(1000)) //nolint:gosec // small
		elsewhere := hostile.New(now, nil)
		elsewhere.Records = hostile.Record(n, []byte("in the place of others"))
		return []*hostile.Batch{hostile.Garbage(now), hostile.Claim(now, n), elsewhere}[random.IntN(3)], nil
	})},
	{"bomb", plant(func(now int64, random *rand.Rand) (*hostile.Batch, error) {
		return hostile.Bomb(now, batchBytesMax+random.IntN(batchBytesMax), kgo.CodecGzip)
	})},
	{"hanging transaction", hangTransaction},
}

// flooding lets one bank send as much as it may.
func flooding(kind load.FloodKind, perSecond int) func(*world, *service, *rand.Rand, time.Duration) {
	return func(w *world, _ *service, random *rand.Rand, hold time.Duration) {
		ctx, cancel := context.WithTimeout(w.ends, hold)
		defer cancel()
		bank := random.IntN(population.Banks)
		if _, err := (load.Flood{Kind: kind, PerSecond: perSecond, Population: population, Bank: bank, Random: random}).Run(ctx, w.kafka()); err != nil {
			w.t.Error(err)
		}
	}
}

// plant writes a batch to one partition of the payments, and of the responses.
func plant(batch func(now int64, random *rand.Rand) (*hostile.Batch, error)) func(*world, *service, *rand.Rand, time.Duration) {
	return func(w *world, _ *service, random *rand.Rand, hold time.Duration) {
		bytes, err := batch(time.Now().UnixMilli(), random)
		if err != nil {
			w.t.Error(err)
			return
		}
		partition := random.Int32N(partitions)
		for _, topic := range []string{stream.Payments, stream.AuthorizationResponses} {
			ctx, cancel := context.WithTimeout(w.ends, 10*time.Second)
			_, err := hostile.Produce(ctx, w.client, topic, partition, bytes.Encode())
			cancel()
			w.note("unreadable batch on %s/%d: %v", topic, partition, err)
			if topic == stream.Payments {
				w.planted.Add(err)
			}
		}
		time.Sleep(hold)
	}
}

// hangTransaction opens a transaction on the payments: engines read only up to it. It is aborted in
// the end, by its owner, or by the broker if the owner is gone.
func hangTransaction(w *world, _ *service, random *rand.Rand, hold time.Duration) {
	client, err := kgo.NewClient(append(w.kafka(), kgo.TransactionalID(fmt.Sprintf("hanging-%x", random.Uint64())),
		kgo.TransactionTimeout(holdMax), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		w.t.Error(err)
		return
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		w.t.Error(err)
		return
	}
	ctx, cancel := context.WithTimeout(w.ends, 2*holdMax)
	defer cancel()
	client.Produce(ctx, &kgo.Record{Topic: stream.Payments, Partition: random.Int32N(partitions), Key: []byte("hanging"), Value: []byte("never given")}, nil)
	time.Sleep(hold)
	if random.IntN(2) == 0 {
		w.note("the owner of the transaction goes away")
		return
	}
	err = client.EndTransaction(ctx, kgo.TryAbort)
	w.note("the transaction is aborted: %v", err)
}
