package engine

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/pix"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
	"github.com/liquida/liquida/services/clearing-engine/payment"
)

// orderMessage is reused from order to order.
type orderMessage struct {
	order        pixv1.PaymentOrder
	payer, payee pixv1.Account
}

// decode reads and validates a payment order: a pure function of the record. The
// order's texts lie in the record's value.
func (m *orderMessage) decode(record *kgo.Record) (arrival, *pix.Invalid) {
	m.payer, m.payee = pixv1.Account{}, pixv1.Account{}
	m.order = pixv1.PaymentOrder{Payer: &m.payer, Payee: &m.payee}
	message := &m.order
	if err := message.UnmarshalVTUnsafe(record.Value); err != nil {
		return arrival{}, &pix.Invalid{Reason: pix.ReasonMalformed, Field: "value", Detail: fmt.Sprintf("%d bytes that are not a pix.v1.PaymentOrder: %v", len(record.Value), err)}
	}
	if message.ReturnOrder != nil {
		return m.decodeReturn(record)
	}
	order, err := pix.Draft{
		EndToEndID: message.EndToEndId, Payer: accountOf(message.Payer), Payee: accountOf(message.Payee),
		AmountCentavos: message.AmountCentavos, AcceptedAtUnixMs: message.AcceptedAtUnixMs,
		RemittanceInformation: message.RemittanceInformation,
	}.Validate(record.Timestamp)
	if err == nil {
		return arrival{order: order, record: record}, nil
	}
	return arrival{}, invalidOf(err)
}

func invalidOf(err error) *pix.Invalid {
	invalid, ok := errors.AsType[*pix.Invalid](err)
	if !ok {
		invalid = &pix.Invalid{Reason: pix.ReasonMalformed, Field: "value", Detail: err.Error()}
	}
	return invalid
}

// decodeReturn reads a return, which stands alone in its message.
func (m *orderMessage) decodeReturn(record *kgo.Record) (arrival, *pix.Invalid) {
	o := &m.order
	// A decoder leaves an account that is missing as it was: empty.
	if o.EndToEndId != "" || m.payer.SizeVT()+m.payee.SizeVT() > 0 || o.AmountCentavos != 0 || o.AcceptedAtUnixMs != 0 || o.RemittanceInformation != "" {
		return arrival{}, &pix.Invalid{Reason: pix.ReasonMalformed, Field: "return_order", Detail: "a return must not have the fields of a payment beside it"}
	}
	message := o.ReturnOrder
	back, err := pix.ReturnDraft{
		ReturnID: message.ReturnId, OriginalEndToEndID: message.OriginalEndToEndId, AmountCentavos: message.AmountCentavos,
		ReasonCode: message.ReasonCode, AcceptedAtUnixMs: message.AcceptedAtUnixMs,
	}.Validate(record.Timestamp)
	if err != nil {
		return arrival{}, invalidOf(err)
	}
	return arrival{order: payment.OrderOf(back), back: &back, record: record}, nil
}

// decodeResponse reads a PSP's answer. Its texts lie in value.
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
