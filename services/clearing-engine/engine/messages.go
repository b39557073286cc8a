package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
	"github.com/liquida/liquida/services/clearing-engine/payment"
)

// orderMessage decodes orders. It is reused from record to record.
type orderMessage struct {
	order        pixv1.PaymentOrder
	payer, payee pixv1.Account
}

// decode reads and validates an order: a pure function of the record. The order's texts
// lie in the record's value.
func (m *orderMessage) decode(record *kgo.Record) (arrival, *pix.Invalid) {
	m.payer, m.payee = pixv1.Account{}, pixv1.Account{}

	m.order = pixv1.PaymentOrder{Payer: &m.payer, Payee: &m.payee}
	if err := m.order.UnmarshalVTUnsafe(record.Value); err != nil {
		return arrival{}, &pix.Invalid{Reason: pix.ReasonMalformed, Field: "value",
			Detail: fmt.Sprintf("%d bytes that are not a pix.v1.PaymentOrder: %v", len(record.Value), err)}
	}
	var a arrival

	var err error
	if m.order.ReturnOrder == nil {
		a, err = m.payment(record)
	} else {
		a, err = m.returnOrder(record)
	}

	if err == nil {
		return a, nil
	}

	invalid, ok := errors.AsType[*pix.Invalid](err)
	if !ok {
		invalid = &pix.Invalid{Reason: pix.ReasonMalformed, Field: "value", Detail: err.Error()}
	}

	return arrival{}, invalid
}

func (m *orderMessage) payment(record *kgo.Record) (arrival, error) {
	message := &m.order
	order, err := pix.Draft{
		EndToEndID: message.EndToEndId, Payer: pix.AccountIn(message.Payer), Payee: pix.AccountIn(message.Payee),
		AmountCentavos: message.AmountCentavos, AcceptedAtUnixMs: message.AcceptedAtUnixMs,
		RemittanceInformation: message.RemittanceInformation,
	}.Validate(record.Timestamp)

	return arrival{order: order, kind: paymentKind{}, record: record}, err
}

// returnOrder reads a return, which stands alone in its message.
func (m *orderMessage) returnOrder(record *kgo.Record) (arrival, error) {
	o := &m.order
	// The decoder leaves a missing account empty, not nil.
	if o.EndToEndId != "" || m.payer.SizeVT()+m.payee.SizeVT() > 0 || o.AmountCentavos != 0 ||
		o.AcceptedAtUnixMs != 0 || o.RemittanceInformation != "" {
		return arrival{}, &pix.Invalid{Reason: pix.ReasonMalformed, Field: "return_order",
			Detail: "a return must not have the fields of a payment beside it"}
	}
	message := o.ReturnOrder
	r, err := pix.ReturnDraft{
		ReturnID: message.ReturnId, OriginalEndToEndID: message.OriginalEndToEndId,
		AmountCentavos: message.AmountCentavos,
		ReasonCode:     message.ReasonCode, AcceptedAtUnixMs: message.AcceptedAtUnixMs,
	}.Validate(record.Timestamp)

	return arrival{order: payment.OrderOf(r), kind: &returnKind{Return: r}, record: record}, err
}

// encoder makes the records that a partition produces.
type encoder struct {
	number int32  // of the partition
	page   []byte // keys and values of records are cut from it
}

// authorizationRequest asks the bank. deadline is by the ledger's clock.
func (e *encoder) authorizationRequest(f *flight, deadline time.Time) *kgo.Record {
	order := &f.payment.Order
	payer, payee := accountMessage(order.Payer), accountMessage(order.Payee)
	message := pixv1.AuthorizationRequest{
		EndToEndId: order.ID.String(), OriginalEndToEndId: f.kind.original(),
		Payer: &payer, Payee: &payee, AmountCentavos: order.AmountCentavos, ReplyPartition: e.number,
		RemittanceInformation: remittanceOf(f), DeadlineUnixMs: deadline.UnixMilli(),
	}
	key, value := e.cut(f.kind.key(order), message.SizeVT())
	_, err := message.MarshalToSizedBufferVT(value)

	return e.record(stream.AuthorizationRequests, key, value, err)
}

// remittanceOf returns the payer's text. A return has none, nor has a payment whose large record was let go of.
func remittanceOf(f *flight) string {
	if f.kind.original() != "" {
		return ""
	}
	const field = 6 // of PaymentOrder
	text := ""

	for value := f.record.Value; len(value) > 0; {
		number, kind, n := protowire.ConsumeTag(value)
		if n < 0 {
			return ""
		}

		value = value[n:]
		if number == field && kind == protowire.BytesType {
			if text, n = protowire.ConsumeString(value); n < 0 {
				return ""
			}
		} else if n = protowire.ConsumeFieldValue(number, kind, value); n < 0 {
			return ""
		}
		value = value[n:]
	}

	return text
}

func (e *encoder) settlementReport(f *flight) *kgo.Record {
	order, outcome := &f.payment.Order, f.payment.Outcome

	message := pixv1.SettlementReport{
		EndToEndId: order.ID.String(), OriginalEndToEndId: f.kind.original(),
		Status: pixv1.SettlementStatus_SETTLEMENT_STATUS_RJCT, ReasonCode: outcome.Reason.String(),
		AmountCentavos: order.AmountCentavos,
	}
	if outcome.Settled {
		message.Status = pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC
	}

	payer, payee := accountMessage(order.Payer), accountMessage(order.Payee)
	if f.kind.reportsAccounts(outcome) {
		message.Payer, message.Payee = &payer, &payee
	}
	key, value := e.cut(f.kind.key(order), message.SizeVT())
	_, err := message.MarshalToSizedBufferVT(value)

	return e.record(stream.Settlements, key, value, err)
}

// deadLetterRecord returns the dead letter of a source, which may stand for all records from offset first on.
func (e *encoder) deadLetterRecord(first int64, source *kgo.Record, invalid *pix.Invalid) *kgo.Record {
	letter := pixv1.DeadLetter{
		Topic: source.Topic, Partition: source.Partition, Offset: first,
		ReasonCode: invalid.Reason.String(), Reason: invalid.Error(),
		PayloadSizeBytes: uint64(len(source.Value)),
		Payload:          source.Value[:min(len(source.Value), stream.DeadLetterPayloadBytesMax)],
	}
	if invalid.Reason == pix.ReasonUnreadable {
		letter.LastOffset = source.Offset
	}
	value, err := letter.MarshalVT()

	return e.record(stream.DeadLetters, source.Key[:min(len(source.Key), keyBytesMax)], value, err)
}

// keyBytesMax bounds the key of a dead letter: a source's key may be anything.
const keyBytesMax = 256

// pageBytes holds the records of a hundred payments: one allocation for all of them. Go's allocator takes the lock of
// the whole heap for each one above 32 KB.
const pageBytes = 28 << 10

// cut returns the key of a record, and room for its value.
func (e *encoder) cut(key *pix.EndToEndID, valueBytes int) (_, value []byte) {
	need := len(key) + valueBytes
	if len(e.page) < need {
		e.page = make([]byte, max(pageBytes, need))
	}
	cut := e.page[:need:need]
	e.page = e.page[need:]
	copy(cut, key[:])

	return cut[:len(key):len(key)], cut[len(key):]
}

func (e *encoder) record(topic string, key, value []byte, err error) *kgo.Record {
	if err != nil {
		panic(fmt.Sprintf("a message for %s cannot be encoded: %v", topic, err))
	}

	return &kgo.Record{Topic: topic, Partition: e.number, Key: key, Value: value}
}

func accountMessage(account pix.Account) pixv1.Account {
	return pixv1.Account{Ispb: string(account.ISPB), Branch: account.Branch, Number: account.Number}
}
