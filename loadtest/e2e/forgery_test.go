package e2e

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// A forger may write to the topic of responses. In the name of silent banks it accepts every
// payment, without a seal and with made-up seals. The engine uses none of these responses, and
// keeps some as dead letters.
func TestForgedAnswersAreNotBelieved(t *testing.T) {
	s := start(t, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	client, err := kgo.NewClient(kgo.SeedBrokers(s.KafkaAddress()), kgo.ConsumeTopics(stream.AuthorizationRequests),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	s.must(err)
	defer client.Close()
	done := make(chan int, 1)
	go func() {
		forged := 0
		for ctx.Err() == nil {
			for _, record := range client.PollFetches(ctx).Records() {
				var request pixv1.AuthorizationRequest
				if err := request.UnmarshalVT(record.Value); err != nil {
					t.Errorf("a request cannot be read: %v", err)
					continue
				}
				answer := pixv1.AuthorizationResponse{EndToEndId: request.EndToEndId, Ispb: request.Payee.Ispb, Status: pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_ACSP}
				value, err := answer.MarshalVT()
				if err != nil {
					t.Errorf("an answer cannot be written: %v", err)
				}
				for _, seal := range [][]byte{nil, {}, make([]byte, 32), value} {
					lie := &kgo.Record{Topic: stream.AuthorizationResponses, Partition: request.ReplyPartition, Key: record.Key, Value: value}
					if seal != nil {
						lie.Headers = []kgo.RecordHeader{{Key: keys.SealHeader, Value: seal}}
					}
					client.Produce(context.Background(), lie, nil)
					forged++
				}
			}
		}
		done <- forged
	}()
	load := s.load(100, 500, "--mix", "silent=1") // each must be rejected with AB03
	if result := load.wait(); result.Settled != 0 {
		t.Errorf("%d payments were settled by forged answers", result.Settled)
	}
	stop()
	s.must(client.Flush(t.Context()))
	forged := <-done
	s.eventually("all forgeries are counted", func() bool { return s.metric(stack.EngineName(0), "pix_responses_forged_total") == float64(forged) })
	if forged < 4*500 {
		t.Errorf("%d answers were forged: too few to show anything", forged)
	}
	kept := s.audit().Summary.DeadLetters["forged answer"]
	if kept == 0 || kept >= forged {
		t.Errorf("%d of %d forged answers were kept: some must be, not all", kept, forged)
	}
}
