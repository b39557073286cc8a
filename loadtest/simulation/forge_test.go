package simulation

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// forged is the reason of forged rejections. No report may have it.
const forged = "FRGD"

// forge contradicts banks. Nothing may come of it: neither of a rejection in the name of the bank
// that was asked, without a seal or with the one of another bank, nor of one by another bank under
// its own seal, nor of bytes that are no response.
func forge(w *world, _ *service, random *rand.Rand, hold time.Duration) {
	client, err := kgo.NewClient(append(w.kafka(), kgo.ConsumeTopics(stream.AuthorizationRequests), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
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
			answer := &pixv1.AuthorizationResponse{EndToEndId: request.EndToEndId, Ispb: request.Payee.Ispb, Status: pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_RJCT, ReasonCode: forged}
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
				seal = []kgo.RecordHeader{{Key: keys.SealHeader, Value: seals.Seal(pix.ISPB(request.Payer.Ispb), value)}}
			}
			if random.IntN(4) == 0 {
				value = []byte{0xff, 0x07}
			}
			client.Produce(context.Background(), &kgo.Record{Topic: stream.AuthorizationResponses, Partition: request.ReplyPartition, Key: r.Key, Value: value, Headers: seal}, nil)
		})
	}
	flushing, stop := context.WithTimeout(w.ends, 10*time.Second)
	defer stop()
	_ = client.Flush(flushing) // what the broker did not take does no harm
}
