package engine

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/pix"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// orderMessage is reused from order to order.
type orderMessage struct {
	order        pixv1.PaymentOrder
	payer, payee pixv1.Account
}

// decode reads and validates a payment order: a pure function of the record. The
// order's texts lie in the record's value.
func (m *orderMessage) decode(record *kgo.Record) (pix.Order, *pix.Invalid) {
	m.payer, m.payee = pixv1.Account{}, pixv1.Account{}
	m.order = pixv1.PaymentOrder{Payer: &m.payer, Payee: &m.payee}
	message := &m.order
	if err := message.UnmarshalVTUnsafe(record.Value); err != nil {
		return pix.Order{}, &pix.Invalid{Reason: pix.ReasonMalformed, Field: "value", Detail: fmt.Sprintf("%d bytes that are not a pix.v1.PaymentOrder: %v", len(record.Value), err)}
	}
	order, err := pix.Draft{
		EndToEndID: message.EndToEndId, Payer: accountOf(message.Payer), Payee: accountOf(message.Payee),
		AmountCentavos: message.AmountCentavos, AcceptedAtUnixMs: message.AcceptedAtUnixMs,
		RemittanceInformation: message.RemittanceInformation,
	}.Validate(record.Timestamp)
	if err == nil {
		return order, nil
	}
	invalid, ok := errors.AsType[*pix.Invalid](err)
	if !ok {
		invalid = &pix.Invalid{Reason: pix.ReasonMalformed, Field: "value", Detail: err.Error()}
	}
	return pix.Order{}, invalid
}

// decodeResponse reads a PSP's answer. Its texts lie in value.
func decodeResponse(value []byte) (response, error) {
	var message pixv1.AuthorizationResponse
	if err := message.UnmarshalVTUnsafe(value); err != nil {
		return response{}, fmt.Errorf("%d bytes that are not a pix.v1.AuthorizationResponse: %w", len(value), err)
	}
	id, err := pix.ParseEndToEndID(message.EndToEndId)
	if err != nil {
		return response{}, fmt.Errorf("end_to_end_id: %w", err)
	}
	r := response{id: id, psp: pix.ISPB(message.Ispb)}
	switch message.Status {
	case pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_ACSP:
		r.accepted = true
	case pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_RJCT:
		if r.reason, err = pix.ParseReason(message.ReasonCode); err != nil {
			r.reason = pix.ReasonBankUnspecified // rejected is rejected, whatever the code
		}
	default:
		return response{}, fmt.Errorf("status is %v: it must be ACSP or RJCT", message.Status)
	}
	return r, nil
}

func accountOf(message *pixv1.Account) pix.Account {
	return pix.Account{ISPB: pix.ISPB(message.Ispb), Branch: message.Branch, Number: message.Number}
}
