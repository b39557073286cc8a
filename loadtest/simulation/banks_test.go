package simulation

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// Banks are silent, late and slow, respond twice and reject; others forge their responses.
func TestBanksMisbehave(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(2)
		load := s.send("demo", 20, 1200, pix.ReasonPayeePSPSilent, pix.ReasonTooLate, rejectedByBank)
		end := s.forge(lies)
		for _, kind := range []string{"silent bank", "late bank", "slow bank", "bank says all twice", "rejecting bank"} {
			s.pass(time.Second, 3*time.Second)
			s.fault(bankFaults, kind, nil, between(s.random, 4*time.Second, 8*time.Second))
		}
		result := load.wait(0.6)
		end()
		if result.GoodRejected[forged] > 0 {
			s.t.Errorf("%d payments were rejected by forged responses", result.GoodRejected[forged])
		}
		s.verdict()
		for what, name := range map[string]string{"late answers": "late", "answers about unknown payments": "unknown", "answers of banks not asked": "invalid"} {
			name = `pix_authorization_responses_total{fate="` + name + `"}`
			if s.metric(s.engine(0), name)+s.metric(s.engine(1), name) == 0 {
				s.t.Errorf("the engines saw no %s: the test is not what it says", what)
			}
		}
	})
}

// A forger may write to the topic of responses. In the name of silent banks it accepts every
// payment, without a seal and with made-up seals. The engine uses none of these responses, and
// keeps some as dead letters.
func TestForgedAnswersAreNotBelieved(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(1)
		end := s.forge(acceptances)
		if result := s.send("silent=1", 20, 500).wait(0); result.Settled != 0 { // each must be rejected with AB03
			s.t.Errorf("%d payments were settled by forged answers", result.Settled)
		}
		forgeries := end()
		s.eventually("all forgeries are counted", func() bool { return s.metric(s.engine(0), "pix_responses_forged_total") == float64(forgeries) })
		if forgeries < 4*500 {
			s.t.Errorf("%d answers were forged: too few to show anything", forgeries)
		}
		if kept := s.verdict().DeadLetters["forged answer"]; kept == 0 || kept >= forgeries {
			s.t.Errorf("%d of %d forged answers were kept: some must be, not all", kept, forgeries)
		}
	})
}

// forge writes what a forger makes of requests and reports, until end. end returns how much.
func (s *scenario) forge(of func(s *scenario, record *kgo.Record) []*kgo.Record) (end func() int) {
	s.t.Helper()
	client, err := kgo.NewClient(append(s.kafka(), kgo.ConsumeTopics(stream.AuthorizationRequests, stream.Settlements),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(s.ends)
	written, done := atomic.Int64{}, make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			client.PollFetches(ctx).EachRecord(func(record *kgo.Record) {
				for _, lie := range of(s, record) {
					client.Produce(context.Background(), lie, nil)
					written.Add(1)
				}
			})
		}
	}()
	return func() int {
		stop()
		<-done
		if err := client.Flush(s.ends); err != nil {
			s.t.Error(err)
		}
		client.Close()
		return int(written.Load())
	}
}

func (s *scenario) response(to *kgo.Record, id, bank string, status pixv1.AuthorizationStatus, reason string) *kgo.Record {
	value, err := (&pixv1.AuthorizationResponse{EndToEndId: id, Ispb: bank, Status: status, ReasonCode: reason}).MarshalVT()
	if err != nil {
		s.t.Error(err)
	}
	return &kgo.Record{Topic: stream.AuthorizationResponses, Partition: to.Partition, Key: []byte(id), Value: value}
}

const (
	accepts = pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_ACSP
	rejects = pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_RJCT
)

// acceptances accept a payment in the name of its bank, without a seal and with made-up ones.
func acceptances(s *scenario, record *kgo.Record) (all []*kgo.Record) {
	var request pixv1.AuthorizationRequest
	if record.Topic != stream.AuthorizationRequests {
		return nil
	}
	if err := request.UnmarshalVT(record.Value); err != nil {
		s.t.Errorf("a request cannot be read: %v", err)
		return nil
	}
	for _, seal := range [][]byte{nil, {}, make([]byte, 32), record.Value} {
		lie := s.response(record, request.EndToEndId, request.Payee.Ispb, accepts, "")
		lie.Partition = request.ReplyPartition
		if seal != nil {
			lie.Headers = []kgo.RecordHeader{{Key: keys.SealHeader, Value: seal}}
		}
		all = append(all, lie)
	}
	return all
}

// lies are responses that no bank sent: from a bank that was not asked, about an unknown payment,
// bytes that are no response, in the bank's name before its own response and after the verdict.
func lies(s *scenario, record *kgo.Record) []*kgo.Record {
	if record.Topic == stream.Settlements {
		var report pixv1.SettlementReport
		if report.UnmarshalVT(record.Value) != nil || report.Payee == nil {
			return nil // a judge names it
		}
		if report.Status == pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC {
			return []*kgo.Record{s.response(record, report.EndToEndId, report.Payee.Ispb, rejects, forged)}
		}
		return []*kgo.Record{s.response(record, report.EndToEndId, report.Payee.Ispb, accepts, "")}
	}
	var request pixv1.AuthorizationRequest
	if request.UnmarshalVT(record.Value) != nil || request.Payee == nil || request.Payer == nil {
		return nil // a judge names it
	}
	id, reply := request.EndToEndId, &kgo.Record{Partition: request.ReplyPartition}
	unknown := id[:len(id)-len("FORGED")] + "FORGED"
	return []*kgo.Record{
		s.response(reply, id, request.Payer.Ispb, rejects, forged),
		s.response(reply, unknown, request.Payee.Ispb, accepts, ""),
		{Topic: stream.AuthorizationResponses, Partition: request.ReplyPartition, Key: []byte(id), Value: []byte{0xff, 0x07}},
		s.response(reply, id, request.Payee.Ispb, rejects, forged),
	}
}
