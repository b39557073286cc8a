package submission

import (
	"context"
	"net/http"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/web"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/feed"
	"github.com/liquida/liquida/services/producer/field"
	"github.com/liquida/liquida/services/producer/query"
)

// ReturnOrder is the body of POST /v1/returns.
type ReturnOrder struct {
	ReturnID           string `json:"return_id,omitempty" required:"false" pattern:"^(D[0-9A-Z]{8}[0-9]{12}[0-9A-Za-z]{11})?$" doc:"RtrId, its identity: the ISPB is that of the bank that received the payment, the minute (UTC) within 12 h of the acceptance. Made when left out, which only a participant with a key or certificate can do."`
	OriginalEndToEndID string `json:"original_end_to_end_id" required:"true" pattern:"^E[0-9A-Z]{8}[0-9]{12}[0-9A-Za-z]{11}$" doc:"The payment that is given back."`
	AmountCentavos     uint64 `json:"amount_centavos" required:"true" minimum:"1" doc:"At most 9223372036854775807 (2^63-1). All returns of a payment together never exceed it."`
	ReasonCode         string `json:"reason_code" required:"true" enum:"MD06,BE08,FR01,SL02"`
	AcceptedAt         string `json:"accepted_at,omitempty" required:"false" format:"date-time" doc:"When the bank accepted it, at most 5 s in the future; now when left out."`
}

// AcceptedReturn is the body of a response to POST /v1/returns.
type AcceptedReturn struct {
	ReturnID string `json:"return_id"`
	Status   string `json:"status" enum:"accepted"`
}

// GiveBack serves POST /v1/returns.
func (s *Submissions) GiveBack(w http.ResponseWriter, r *http.Request) *web.Problem {
	var body ReturnOrder

	wait, problem := s.receive(r, &body)
	if problem != nil {
		return problem
	}
	who := access.Of(r)

	order, content, problem := body.sending(who, s.now())
	if problem != nil {
		return problem
	}

	if _, problem := s.ledger.Register(); problem != nil {
		return problem
	}

	waiting := s.feed.Await(r, wait, body.ReturnID)
	defer waiting.End()

	if problem := s.compareReturn(r.Context(), who, order, content); problem != nil {
		return problem
	}

	if err := s.publish(who, order, nil).wait(who); err != nil {
		return notPublished(body.ReturnID, err)
	}
	s.crash.Pass(afterAcknowledged)

	return feed.Respond(waiting, w, r, s.feed.Return(pix.ReturnID(order.ID)).Sent(order.Content, order.known),
		AcceptedReturn{body.ReturnID, "accepted"})
}

// compareReturn returns nil if the ledger shows that a customer of the caller received the payment,
// and knows no other return with this id. The engine checks that again.
func (s *Submissions) compareReturn(ctx context.Context, who access.Caller, order *sending,
	content pix.ReturnContent) *web.Problem {
	if who.Holder == "" && order.newID { // nobody needs a key or certificate
		return nil
	}

	knows, receiver, problem := s.ledger.KnowsReturn(ctx, pix.ReturnID(order.ID), content)
	if problem != nil {
		problem.Detail = "nothing was sent: " + problem.Detail
		return problem
	}

	if problem := who.Received(content.Original.String(), receiver); problem != nil {
		return problem // first: nobody else learns anything of the payment
	}

	if knows == query.KnowsOther {
		return query.KnownConflict(order.ID.String())
	}
	order.known = knows == query.KnowsSame

	return nil
}

// sending returns a return that may be sent, and its content, or what is wrong with it. It sets the id
// of a return without one.
func (o *ReturnOrder) sending(who access.Caller, now time.Time) (*sending, pix.ReturnContent, *web.Problem) {
	none, newID := pix.ReturnContent{}, o.ReturnID == ""

	now = now.Truncate(time.Millisecond) // Kafka keeps milliseconds
	if psp, err := pix.ParseISPB(who.Holder); err == nil && o.ReturnID == "" {
		o.ReturnID = pix.NewReturnID(psp, now, random).String()
	}
	accepted := now

	if o.AcceptedAt != "" {
		var err error
		if accepted, err = time.Parse(time.RFC3339, o.AcceptedAt); err != nil {
			return nil, none, field.Invalid(o.ReturnID, "accepted_at", o.AcceptedAt, pix.ReasonBadAcceptance,
				"it must be a time as in RFC 3339, like "+now.UTC().Format(time.RFC3339))
		}
	}
	draft := pix.ReturnDraft{
		ReturnID: o.ReturnID, OriginalEndToEndID: o.OriginalEndToEndID, AmountCentavos: o.AmountCentavos,
		ReasonCode: o.ReasonCode, AcceptedAtUnixMs: accepted.UnixMilli(),
	}

	valid, err := draft.Validate(now)
	if err != nil {
		return nil, none, refusal("", err, map[string]any{
			"return_id": o.ReturnID, "original_end_to_end_id": o.OriginalEndToEndID,
			"amount_centavos": o.AmountCentavos,
			"reason_code":     o.ReasonCode, "accepted_at": o.AcceptedAt,
		})
	}

	if o.AmountCentavos == 0 {
		return nil, none, field.Invalid("", "amount_centavos", 0, pix.ReasonZeroAmount, "it must be at least 1")
	}

	if problem := who.GivesBack(valid.ID); problem != nil {
		return nil, none, problem
	}

	value, err := (&pixv1.PaymentOrder{ReturnOrder: &pixv1.ReturnOrder{
		ReturnId: o.ReturnID, OriginalEndToEndId: o.OriginalEndToEndID, AmountCentavos: o.AmountCentavos,
		ReasonCode: o.ReasonCode, AcceptedAtUnixMs: draft.AcceptedAtUnixMs,
	}}).MarshalVT()
	if err != nil {
		return nil, none, field.Invalid("", "", nil, pix.ReasonMalformed, err.Error())
	}
	// Keyed by the original, so that all returns of a payment meet in its partition.
	return &sending{Record: &kgo.Record{Topic: stream.Payments, Key: []byte(o.OriginalEndToEndID), Value: value,
			Timestamp: now},
			Order: query.Order{ID: pix.EndToEndID(valid.ID), Content: valid.Digest()}, newID: newID},
		valid.ReturnContent, nil
}
