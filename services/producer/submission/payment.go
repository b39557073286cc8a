package submission

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/web"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
	"github.com/liquida/liquida/services/producer/field"
	"github.com/liquida/liquida/services/producer/query"
)

// Payment is the body of POST /v1/payments, and of each line of a batch.
type Payment struct {
	EndToEndID            string        `json:"end_to_end_id,omitempty" required:"false" pattern:"^(E[0-9A-Z]{8}[0-9]{12}[0-9A-Za-z]{11})?$" doc:"Its identity; made when left out. The ISPB is the payer's, the minute (UTC) within 12 h of the acceptance."`
	Payer                 field.Account `json:"payer" required:"true"`
	Payee                 field.Account `json:"payee" required:"true"`
	AmountCentavos        uint64        `json:"amount_centavos" required:"true" minimum:"1" doc:"At most 9223372036854775807 (2^63-1)."`
	AcceptedAt            string        `json:"accepted_at,omitempty" required:"false" format:"date-time" doc:"When the payer's bank accepted it, at most 5 s in the future; now when left out."`
	RemittanceInformation string        `json:"remittance_information,omitempty" required:"false" maxLength:"140" doc:"At most 140 bytes."`
}

// sending returns a payment that may be sent, or what is wrong with it.
func (p *Payment) sending(now time.Time) (*sending, *web.Problem) {
	now = now.Truncate(time.Millisecond) // Kafka keeps milliseconds
	newID := p.EndToEndID == ""

	order, problem := p.order(now)
	if problem != nil {
		return nil, problem
	}

	value, err := order.MarshalVT()
	if err != nil {
		return nil, field.Invalid(p.EndToEndID, "", nil, pix.ReasonMalformed, err.Error())
	}
	id, _ := pix.ParseEndToEndID(order.EndToEndId) // valid: the order is
	content := pix.Content{Payer: p.Payer.Pix(), Payee: p.Payee.Pix(), AmountCentavos: p.AmountCentavos}

	return &sending{Record: &kgo.Record{Topic: stream.Payments, Key: []byte(order.EndToEndId), Value: value,
		Timestamp: now},
		Order: query.Order{ID: id, Content: content.Digest()}, newID: newID}, nil
}

// order returns the message of a payment, or what is wrong with it. It sets the id and the
// acceptance time of a payment without them.
func (p *Payment) order(now time.Time) (*pixv1.PaymentOrder, *web.Problem) {
	payer, payee := p.Payer.Pix(), p.Payee.Pix()
	// first: the id is made from it
	if problem := field.InvalidAccount(p.EndToEndID, "payer", p.Payer); problem != nil {
		return nil, problem
	}

	if p.EndToEndID == "" {
		p.EndToEndID = pix.NewEndToEndID(payer.ISPB, now, random).String()
	}
	accepted := now

	if p.AcceptedAt != "" {
		var err error
		if accepted, err = time.Parse(time.RFC3339, p.AcceptedAt); err != nil {
			return nil, field.Invalid(p.EndToEndID, "accepted_at", p.AcceptedAt, pix.ReasonBadAcceptance,
				"it must be a time as in RFC 3339, like "+now.UTC().Format(time.RFC3339))
		}
	}
	// The engine validates the order at the record's timestamp, which is now, and so comes to
	// the same result.
	draft := pix.Draft{
		EndToEndID: p.EndToEndID, Payer: payer, Payee: payee, AmountCentavos: p.AmountCentavos,
		AcceptedAtUnixMs: accepted.UnixMilli(), RemittanceInformation: p.RemittanceInformation,
	}
	if _, err := draft.Validate(now); err != nil {
		if wrong, is := errors.AsType[*pix.Invalid](err); is && wrong.Field == "payee" {
			return nil, field.InvalidAccount(p.EndToEndID, "payee", p.Payee)
		}

		return nil, refusal(p.EndToEndID, err, map[string]any{
			"end_to_end_id": p.EndToEndID, "payer": p.Payer, "payee": p.Payee, "amount_centavos": p.AmountCentavos,
			"accepted_at": p.AcceptedAt, "remittance_information": p.RemittanceInformation,
		})
	}

	if p.AmountCentavos == 0 {
		return nil, field.Invalid(p.EndToEndID, "amount_centavos", 0, pix.ReasonZeroAmount, "it must be at least 1")
	}

	return &pixv1.PaymentOrder{
		EndToEndId: p.EndToEndID, Payer: p.Payer.Proto(), Payee: p.Payee.Proto(), AmountCentavos: p.AmountCentavos,
		AcceptedAtUnixMs: draft.AcceptedAtUnixMs, RemittanceInformation: p.RemittanceInformation,
	}, nil
}

// refusal says what is wrong with an order, by the fields of its request.
func refusal(id string, err error, fields map[string]any) *web.Problem {
	wrong, is := errors.AsType[*pix.Invalid](err)
	if !is {
		return field.Invalid(id, "", nil, pix.ReasonMalformed, err.Error())
	}

	name := wrong.Field
	if name == "accepted_at_unix_ms" {
		name = "accepted_at"
	}

	return field.Invalid(id, name, fields[name], wrong.Reason, wrong.Detail)
}

// random is safe for concurrent use: its source is the process's own.
var random = rand.New(processSource{})

type processSource struct{}

func (processSource) Uint64() uint64 { return rand.Uint64() }
