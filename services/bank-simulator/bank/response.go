package bank

import (
	"container/list"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
	"github.com/liquida/liquida/services/bank-simulator/decision"
)

// response is one response from its decision until Kafka has acknowledged it.
type response struct {
	record kgo.Record
	label  label
	due    time.Time // when it is sent
	tries  int       // how often Kafka refused it

	partition *partition    // of its request
	place     *list.Element // in partition.unanswered
}

// requestMessage reads requests. It is reused from record to record.
type requestMessage struct {
	request      pixv1.AuthorizationRequest
	payer, payee pixv1.Account
}

// read refuses what cannot be answered. The request's texts share memory with value.
func (m *requestMessage) read(value []byte) (*pixv1.AuthorizationRequest, error) {
	request := &m.request
	m.payer, m.payee = pixv1.Account{}, pixv1.Account{}

	m.request = pixv1.AuthorizationRequest{Payer: &m.payer, Payee: &m.payee}
	if err := request.UnmarshalVTUnsafe(value); err != nil {
		return nil, err
	}

	if _, err := pix.ParsePaymentOrReturnID(request.EndToEndId); err != nil {
		return nil, fmt.Errorf("end_to_end_id: %w", err)
	}

	if _, err := pix.ParseISPB(m.payee.Ispb); err != nil {
		return nil, fmt.Errorf("payee.ispb: %w", err)
	}

	if request.ReplyPartition < 0 {
		return nil, fmt.Errorf("reply_partition is %d: it must not be negative", request.ReplyPartition)
	}

	return request, nil
}

// newResponse encodes and seals the response to a request. Seals are not safe for concurrent
// use, so only the fetching goroutine calls it.
func newResponse(request *pixv1.AuthorizationRequest, decided decision.Decision, seals keys.Seals) *response {
	message := pixv1.AuthorizationResponse{
		EndToEndId: request.EndToEndId, Ispb: request.Payee.Ispb,
		Status: pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_ACSP, ReasonCode: decided.RejectCode,
	}
	if decided.RejectCode != "" {
		message.Status = pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_RJCT
	}
	// Everything is copied: a text of the request would keep its whole fetch in memory.
	keyed := make([]byte, len(request.EndToEndId)+message.SizeVT())
	key, value := keyed[:len(request.EndToEndId):len(request.EndToEndId)], keyed[len(request.EndToEndId):]
	copy(key, request.EndToEndId)

	if _, err := message.MarshalToSizedBufferVT(value); err != nil {
		// impossible: the buffer has SizeVT bytes
		panic(fmt.Sprintf("cannot encode a response to %s: %v", request.EndToEndId, err))
	}

	r := &response{
		label: label{ispb: strings.Clone(request.Payee.Ispb), reason: decided.RejectCode},
		record: kgo.Record{Topic: stream.AuthorizationResponses, Partition: request.ReplyPartition, Key: key,
			Value: value},
	}
	if seal := seals.Seal(pix.ISPB(request.Payee.Ispb), value); seal != nil {
		r.record.Headers = []kgo.RecordHeader{{Key: keys.SealHeader, Value: seal}}
	}

	return r
}
