package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/web"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// payment is the body of POST /v1/payments.
type payment struct {
	EndToEndID            string  `json:"end_to_end_id" required:"false" pattern:"^(E[0-9A-Z]{8}[0-9]{12}[0-9A-Za-z]{11})?$" doc:"Its identity; made when left out. The ISPB is the payer's, the minute (UTC) within 12 h of the acceptance."`
	Payer                 account `json:"payer"`
	Payee                 account `json:"payee"`
	AmountCentavos        uint64  `json:"amount_centavos" minimum:"1"`
	AcceptedAt            string  `json:"accepted_at" required:"false" format:"date-time" doc:"When the payer's bank accepted it, at most 5 s in the future; now when left out."`
	RemittanceInformation string  `json:"remittance_information" required:"false" maxLength:"140" doc:"At most 140 bytes."`
}

type account struct {
	ISPB   string `json:"ispb" pattern:"^[0-9A-Z]{8}$" example:"10000001" doc:"The bank."`
	Branch string `json:"branch" pattern:"^[0-9]{4}$" example:"0001"`
	Number string `json:"number" pattern:"^[1-9][0-9]{0,19}$" example:"1"`
}

// record makes what is published of a payment.
func (p *payment) record(now time.Time) (*kgo.Record, *web.Problem) {
	now = now.Truncate(time.Millisecond) // Kafka keeps milliseconds
	order, problem := p.order(now)
	if problem != nil {
		return nil, problem
	}
	value, err := order.MarshalVT()
	if err != nil {
		return nil, invalid(p.EndToEndID, "", nil, pix.ReasonMalformed, err.Error())
	}
	return &kgo.Record{Topic: stream.Payments, Key: []byte(order.EndToEndId), Value: value, Timestamp: now}, nil
}

// order turns a payment into what is published, or says what is wrong with it. It gives
// the payment its id and its acceptance time when they are left out.
func (p *payment) order(now time.Time) (*pixv1.PaymentOrder, *web.Problem) {
	payer, payee := p.Payer.pix(), p.Payee.pix()
	if err := payer.Validate(); err != nil { // first, because the id is made from it
		return nil, invalid(p.EndToEndID, "payer", p.Payer, pix.ReasonMalformed, err.Error())
	}
	if p.EndToEndID == "" {
		p.EndToEndID = pix.NewEndToEndID(payer.ISPB, now, random).String()
	}
	accepted := now
	if p.AcceptedAt != "" {
		var err error
		if accepted, err = time.Parse(time.RFC3339, p.AcceptedAt); err != nil {
			return nil, invalid(p.EndToEndID, "accepted_at", p.AcceptedAt, pix.ReasonBadAcceptance, "it must be a time as in RFC 3339, like "+now.UTC().Format(time.RFC3339))
		}
	}
	// The engine will judge the record by its timestamp, which is now: the same judgement.
	draft := pix.Draft{
		EndToEndID: p.EndToEndID, Payer: payer, Payee: payee, AmountCentavos: p.AmountCentavos,
		AcceptedAtUnixMs: accepted.UnixMilli(), RemittanceInformation: p.RemittanceInformation,
	}
	if _, err := draft.Validate(now); err != nil {
		wrong := new(pix.Invalid)
		if !errors.As(err, &wrong) {
			return nil, invalid(p.EndToEndID, "", nil, pix.ReasonMalformed, err.Error())
		}
		field, value := p.named(wrong.Field)
		return nil, invalid(p.EndToEndID, field, value, wrong.Reason, wrong.Detail)
	}
	if p.AmountCentavos == 0 {
		return nil, invalid(p.EndToEndID, "amount_centavos", 0, pix.ReasonZeroAmount, "it must be at least 1")
	}
	return &pixv1.PaymentOrder{
		EndToEndId: p.EndToEndID, Payer: p.Payer.proto(), Payee: p.Payee.proto(), AmountCentavos: p.AmountCentavos,
		AcceptedAtUnixMs: draft.AcceptedAtUnixMs, RemittanceInformation: p.RemittanceInformation,
	}, nil
}

// named translates the field of a draft into the field of the request and its value.
func (p *payment) named(field string) (string, any) {
	switch field {
	case "end_to_end_id":
		return field, p.EndToEndID
	case "payer":
		return field, p.Payer
	case "payee":
		return field, p.Payee
	case "accepted_at_unix_ms":
		return "accepted_at", p.AcceptedAt
	case "remittance_information":
		return field, p.RemittanceInformation
	}
	return field, nil
}

func accountOf(a pix.Account) account { return account{string(a.ISPB), a.Branch, a.Number} }

func (a account) pix() pix.Account {
	return pix.Account{ISPB: pix.ISPB(a.ISPB), Branch: a.Branch, Number: a.Number}
}

func (a account) proto() *pixv1.Account {
	return &pixv1.Account{Ispb: a.ISPB, Branch: a.Branch, Number: a.Number}
}

// rules says what a field must be, for problems and for the API's description.
var rules = map[string]string{
	"end_to_end_id":          "E, the payer's ISPB, yyyyMMddHHmm in UTC within 12 h of the acceptance, 11 of 0-9 A-Z a-z: 32 characters",
	"return_id":              "D, the ISPB of the bank that gives back, yyyyMMddHHmm in UTC within 12 h of the acceptance, 11 of 0-9 A-Z a-z: 32 characters",
	"original_end_to_end_id": "the EndToEndId of a payment",
	"reason_code":            "MD06, BE08, FR01 or SL02",
	"payer":                  accountRule,
	"payee":                  accountRule,
	"account":                accountRule,
	"ispb":                   "8 characters of 0-9 A-Z",
	"amount_centavos":        "an integer from 1 to 2^64-1",
	"accepted_at":            "a time as in RFC 3339, at most 5 s in the future",
	"remittance_information": "at most 140 bytes of UTF-8",
	"participant":            "an ISPB: 8 characters of 0-9 A-Z",
	"from":                   "start, end, or the id of an event of this stream",
	"limit":                  "an integer from 1 to PAGE_MAX",
	"cursor":                 "a next_cursor of an earlier answer",
}

const accountRule = "ispb: 8 characters of 0-9 A-Z; branch: 4 digits; number: 1 to 20 digits without leading zeros"

// invalid is the answer to a value that is wrong. A bad id is not repeated as an id.
func invalid(endToEndID, field string, value any, code pix.Reason, detail string) *web.Problem {
	if field == "end_to_end_id" {
		endToEndID = ""
	}
	return &web.Problem{Type: web.Kind("invalid-value"), Title: "Invalid value", Status: http.StatusUnprocessableEntity,
		Detail: fmt.Sprintf("%s: %s", field, detail), Field: field, Value: value, Rule: rules[field], Code: code.String(), EndToEndID: endToEndID}
}

// random may be used by many goroutines: its source is the process's own.
var random = rand.New(processSource{})

type processSource struct{}

func (processSource) Uint64() uint64 { return rand.Uint64() }
