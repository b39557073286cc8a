package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// readResponses reads the PSPs' responses for the partitions that this engine owns.
func (e *Engine) readResponses(ctx context.Context) {
	forged := &forgeries{engine: e}
	for ctx.Err() == nil {
		fetches := e.direct.PollFetches(ctx)
		fetches.EachPartition(func(fetched kgo.FetchTopicPartition) {
			p := e.partition(fetched.Partition)
			if p == nil {
				return
			}
			var records []*kgo.Record

			if err := p.responses.take(fetched.Records, func(taken []*kgo.Record) { records = taken }); err != nil {
				e.pause(p, p.responses, err)
			}

			for _, record := range records {
				r, err := decodeResponse(record.Value)
				if err != nil {
					e.metrics.Responses.Invalid.Inc()
					e.rarely.Warn("dropped a response that cannot be decoded",
						zap.String("topic", stream.AuthorizationResponses),
						zap.Int32("partition", record.Partition), zap.Int64("offset", record.Offset), zap.Error(err))

					continue
				}

				if e.seals != nil && !e.genuine(r.psp, record) {
					forged.keep(p, record, r)
					continue
				}
				p.inbox.offer(event{kind: responded, response: r})
			}
		})
		fetches.EachError(func(topic string, number int32, err error) {
			e.fetchError(ctx, topic, number, err, func(p *partition) *position { return p.responses })
		})
	}
}

// genuine reports whether a bank has sealed a response, with a secret that is not revoked. The file
// of secrets is read again when it changes. Only the goroutine of readResponses calls it.
func (e *Engine) genuine(psp pix.ISPB, record *kgo.Record) bool {
	seals, err := e.seals.Now()
	if err != nil {
		e.log.Error("ANSWER_KEYS_FILE has changed and cannot be read: the secrets of before stay in use",
			zap.Error(err))
	}

	fingerprint, sealed := seals.SealedBy(psp, record.Value, sealOf(record))
	if !sealed {
		return false
	}
	state, _ := e.register.Current() // as far as it was read: what is in flight ends by the word of its bank

	return !state.SealRevoked(psp, ledger.ActDigest(fingerprint))
}

// decodeResponse reads a PSP's response. Its texts lie in value.
func decodeResponse(value []byte) (response, error) {
	var message pixv1.AuthorizationResponse
	if err := message.UnmarshalVTUnsafe(value); err != nil {
		return response{}, fmt.Errorf("%d bytes that are not a pix.v1.AuthorizationResponse: %w", len(value), err)
	}

	id, err := pix.ParsePaymentOrReturnID(message.EndToEndId)
	if err != nil {
		return response{}, fmt.Errorf("end_to_end_id: %w", err)
	}

	r := response{id: id, psp: pix.ISPB(message.Ispb)}
	switch message.Status {
	case pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_ACSP:
		r.accepted = true
	case pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_RJCT:
		if r.code, err = pix.ParseReason(message.ReasonCode); err != nil {
			r.code = pix.ReasonBankUnspecified // rejected is rejected, whatever the code
		}
		r.reason = r.code.FromBank()
	default:
		return response{}, fmt.Errorf("status is %v: it must be ACSP or RJCT", message.Status)
	}

	return r, nil
}

// sealOf returns the seal of a record, or nil.
func sealOf(record *kgo.Record) []byte {
	for _, header := range record.Headers {
		if header.Key == keys.SealHeader {
			return header.Value
		}
	}

	return nil
}

// Every forged response is counted. Few are kept as dead letters, which stay forever: a
// forger must fill neither the disk nor the buffer of records on their way to Kafka.
const (
	forgedPerSecond   = 10
	forgedInFlightMax = 10
)

// forgeries keeps responses without their bank's seal.
type forgeries struct {
	engine   *Engine
	second   time.Time
	kept     int // in this second
	inFlight atomic.Int32
}

func (f *forgeries) keep(p *partition, record *kgo.Record, r response) {
	f.engine.metrics.Forged.Inc()

	if now := time.Now(); now.Sub(f.second) >= time.Second {
		f.second, f.kept = now, 0
	}

	if f.kept >= forgedPerSecond || f.inFlight.Load() >= forgedInFlightMax {
		return
	}
	f.kept++
	f.inFlight.Add(1)
	f.engine.log.Warn("a response does not have the seal of the bank that it names: see pix.dead-letters; further ones are only counted",
		zap.Int32("partition", record.Partition), zap.Int64("offset", record.Offset),
		zap.String("ispb", string(r.psp[:min(len(r.psp), 16)])))
	f.engine.produce(p.encoder.deadLetterRecord(record.Offset, record,
		&pix.Invalid{Reason: pix.ReasonMalformed, Field: keys.SealHeader,
			Detail: fmt.Sprintf("the response to %s names bank %.16q and does not have its seal", r.id, r.psp)}),
		func() {
			f.inFlight.Add(-1)
		})
}
