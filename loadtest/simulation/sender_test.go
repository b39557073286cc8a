package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit/hostile"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
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
		if _, err := (load.Flood{Kind: kind, PerSecond: perSecond, Population: population, Bank: bank,
			Random: random}).Run(ctx, w.kafka()); err != nil {
			w.t.Error(err)
		}
	}
}

// plant writes a batch to one partition of the payments, and of the responses.
func plant(batch func(now int64, random *rand.Rand) (*hostile.Batch, error)) func(*world, *service, *rand.Rand,
	time.Duration) {
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
	client.Produce(ctx, &kgo.Record{Topic: stream.Payments, Partition: random.Int32N(partitions),
		Key: []byte("hanging"), Value: []byte("never given")}, nil)
	time.Sleep(hold)

	if random.IntN(2) == 0 {
		w.note("the owner of the transaction goes away")
		return
	}
	err = client.EndTransaction(ctx, kgo.TryAbort)
	w.note("the transaction is aborted: %v", err)
}

// forged is the reason of forged rejections. No report may have it.
const forged = "FRGD"

// forge contradicts banks. Nothing may come of it: neither of a rejection in the name of the bank
// that was asked, without a seal or with the one of another bank, nor of one by another bank under
// its own seal, nor of bytes that are no response.
func forge(w *world, _ *service, random *rand.Rand, hold time.Duration) {
	client, err := kgo.NewClient(
		append(w.kafka(), kgo.ConsumeTopics(stream.AuthorizationRequests),
			kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		w.t.Error(err)
		return
	}
	defer client.Close()

	seals, err := keys.ReadSeals(w.sealsFile)
	if err != nil {
		w.t.Error(err)
		return
	}
	ctx, cancel := context.WithTimeout(w.ends, hold)
	defer cancel()

	for ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			var request pixv1.AuthorizationRequest
			if request.UnmarshalVT(r.Value) != nil {
				return // a judge names it
			}
			answer := &pixv1.AuthorizationResponse{EndToEndId: request.EndToEndId, Ispb: request.Payee.Ispb,
				Status: pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_RJCT, ReasonCode: forged}

			stranger := request.Payer.Ispb != request.Payee.Ispb && random.IntN(3) > 0
			if stranger && random.IntN(2) == 0 {
				answer.Ispb = request.Payer.Ispb
			}

			value, err := answer.MarshalVT()
			if err != nil {
				w.t.Error(err)
			}

			var seal []kgo.RecordHeader
			if stranger {
				seal = []kgo.RecordHeader{
					{Key: keys.SealHeader, Value: seals.Seal(pix.ISPB(request.Payer.Ispb), value)}}
			}

			if random.IntN(4) == 0 {
				value = []byte{0xff, 0x07}
			}
			client.Produce(context.Background(),
				&kgo.Record{Topic: stream.AuthorizationResponses, Partition: request.ReplyPartition, Key: r.Key,
					Value: value, Headers: seal}, nil)
		})
	}
	flushing, stop := context.WithTimeout(w.ends, 10*time.Second)
	defer stop()
	_ = client.Flush(flushing) // what the broker did not take does no harm
}
