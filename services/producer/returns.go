package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/web"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// returns takes returns and tells what became of them.
type returns struct {
	*acceptance
	*reads
}

// returnOrder is the body of POST /v1/returns.
type returnOrder struct {
	ReturnID           string `json:"return_id" required:"false" pattern:"^(D[0-9A-Z]{8}[0-9]{12}[0-9A-Za-z]{11})?$" doc:"RtrId, its identity: the ISPB is that of the bank that received the payment, the minute (UTC) within 12 h of the acceptance. Made when left out, which only a participant with a key or certificate can do."`
	OriginalEndToEndID string `json:"original_end_to_end_id" pattern:"^E[0-9A-Z]{8}[0-9]{12}[0-9A-Za-z]{11}$" doc:"The payment that is given back."`
	AmountCentavos     uint64 `json:"amount_centavos" minimum:"1" doc:"All returns of a payment together never exceed it."`
	ReasonCode         string `json:"reason_code" enum:"MD06,BE08,FR01,SL02"`
	AcceptedAt         string `json:"accepted_at" required:"false" format:"date-time" doc:"When the bank accepted it, at most 5 s in the future; now when left out."`
}

type acceptedReturn struct {
	ReturnID string `json:"return_id"`
	Status   string `json:"status" enum:"accepted"`
}

// take answers POST /v1/returns.
func (s returns) take(w http.ResponseWriter, r *http.Request) {
	var body returnOrder
	if problem := web.ReadJSON(r.Body, &body); problem != nil {
		problem.Write(w)
		return
	}
	s.crash.Pass(afterRequestRead)
	who := callerOf(r)
	record, problem := body.record(who, time.Now())
	if problem != nil {
		problem.Write(w)
		return
	}
	if problem := s.receivedBy(r.Context(), who, body.OriginalEndToEndID); problem != nil {
		problem.Write(w)
		return
	}
	if err := s.send(record, nil).wait(); err != nil {
		notPublished(body.ReturnID, err).Write(w)
		return
	}
	s.crash.Pass(afterAcknowledged)
	id, _ := pix.ParseReturnID(body.ReturnID) // valid: it was published
	answerTaken(s.follow, w, r, s.followed(id), acceptedReturn{body.ReturnID, "accepted"})
}

// receivedBy tells why a participant may not give a payment back: the ledger does not show
// that one of its customers received it. The answer does not tell whether there is such a
// payment. The engine judges all of it again.
func (s returns) receivedBy(ctx context.Context, who caller, original string) *web.Problem {
	if who.holder == "" { // a door without locks
		return nil
	}
	id, _ := pix.ParseEndToEndID(original) // valid, or there would be no record
	payment, problem := status{s.reads}.of(ctx, id)
	if problem != nil {
		problem.EndToEndID, problem.Detail = "", "nothing was sent: "+problem.Detail
		return problem
	}
	if payment.Payee != nil && payment.Payee.ISPB == who.holder {
		return nil
	}
	return forbidden("original_end_to_end_id", original, "a participant gives back only payments that its own customers received, once the ledger holds money for them", who, "")
}

func (s returns) followed(id pix.ReturnID) followed[returnState] {
	return followed[returnState]{id.String(), func(ctx context.Context) (returnState, *web.Problem) { return s.of(ctx, id) }}
}

// record makes what is published of a return, or says what is wrong with it.
func (o *returnOrder) record(who caller, now time.Time) (*kgo.Record, *web.Problem) {
	now = now.Truncate(time.Millisecond) // Kafka keeps milliseconds
	if psp, err := pix.ParseISPB(who.holder); o.ReturnID == "" && err == nil {
		o.ReturnID = pix.NewReturnID(psp, now, random).String()
	}
	accepted := now
	if o.AcceptedAt != "" {
		var err error
		if accepted, err = time.Parse(time.RFC3339, o.AcceptedAt); err != nil {
			return nil, invalid(o.ReturnID, "accepted_at", o.AcceptedAt, pix.ReasonBadAcceptance, "it must be a time as in RFC 3339, like "+now.UTC().Format(time.RFC3339))
		}
	}
	draft := pix.ReturnDraft{
		ReturnID: o.ReturnID, OriginalEndToEndID: o.OriginalEndToEndID, AmountCentavos: o.AmountCentavos, ReasonCode: o.ReasonCode, AcceptedAtUnixMs: accepted.UnixMilli(),
	}
	valid, err := draft.Validate(now)
	if err != nil {
		wrong := new(pix.Invalid)
		if !errors.As(err, &wrong) {
			return nil, invalid("", "", nil, pix.ReasonMalformed, err.Error())
		}
		field, value := wrong.Field, any(nil)
		switch field {
		case "return_id":
			value = o.ReturnID
		case "original_end_to_end_id":
			value = o.OriginalEndToEndID
		case "reason_code":
			value = o.ReasonCode
		case "accepted_at_unix_ms":
			field, value = "accepted_at", o.AcceptedAt
		}
		return nil, invalid("", field, value, wrong.Reason, wrong.Detail)
	}
	if o.AmountCentavos == 0 {
		return nil, invalid("", "amount_centavos", 0, pix.ReasonZeroAmount, "it must be at least 1")
	}
	if who.holder != "" && who.holder != string(valid.ID.PSP()) {
		return nil, forbidden("return_id", o.ReturnID, "a participant gives back only what its own customers received", who, "")
	}
	value, err := (&pixv1.PaymentOrder{ReturnOrder: &pixv1.ReturnOrder{
		ReturnId: o.ReturnID, OriginalEndToEndId: o.OriginalEndToEndID, AmountCentavos: o.AmountCentavos, ReasonCode: o.ReasonCode, AcceptedAtUnixMs: draft.AcceptedAtUnixMs,
	}}).MarshalVT()
	if err != nil {
		return nil, invalid("", "", nil, pix.ReasonMalformed, err.Error())
	}
	// Keyed by the original, so that all returns of a payment meet in its partition.
	return &kgo.Record{Topic: stream.Payments, Key: []byte(o.OriginalEndToEndID), Value: value, Timestamp: now}, nil
}

// returnState is the body of GET /v1/returns/{returnId}. All times are the ledger's.
type returnState struct {
	ReturnID           string     `json:"return_id"`
	OriginalEndToEndID string     `json:"original_end_to_end_id,omitempty" doc:"Known once it is decided, where the original's payer bank exists."`
	Status             string     `json:"status" enum:"unknown,reserved,settled,rejected"`
	ReasonCode         string     `json:"reason_code,omitempty" doc:"Why it was rejected."`
	ReservedAt         *time.Time `json:"reserved_at,omitempty"`
	ExpiresAt          *time.Time `json:"expires_at,omitempty" doc:"When the ledger itself releases what is held."`
	DecidedAt          *time.Time `json:"decided_at,omitempty"`
	// What follows is known where money was held.
	ReturnReasonCode string   `json:"return_reason_code,omitempty" doc:"Why it is given back."`
	AmountCentavos   int64    `json:"amount_centavos,omitempty"`
	Payer            *account `json:"payer,omitempty" doc:"Who gives back: the payee of the original."`
	Payee            *account `json:"payee,omitempty"`
}

func (s returnState) reached() string { return s.Status }

// final tells whether nothing can follow.
func (s returnState) final() bool { return s.Status == stateSettled || s.Status == stateRejected }

// readsReturn tells why the caller may not read a return: participants read those that they
// make and, as far as the ledger tells, those of payments that they have paid.
func (c caller) readsReturn(state returnState, id pix.ReturnID) *web.Problem {
	if c.readsOf(id.PSP()) == nil || state.Payee != nil && c.holder == state.Payee.ISPB || strings.HasPrefix(state.OriginalEndToEndID, "E"+c.holder) {
		return nil
	}
	return forbidden("return_id", id.String(), "a participant reads only returns that it makes, and those of payments that it has paid once the ledger holds money for them or has decided them", c, "")
}

// permitted reads which return is asked for, and its state.
func (s returns) permitted(r *http.Request) (id pix.ReturnID, state returnState, problem *web.Problem) {
	text := r.PathValue("returnId")
	id, err := pix.ParseReturnID(text)
	if err != nil {
		return id, state, invalid("", "return_id", text, pix.ReasonBadEndToEndID, err.Error())
	}
	if state, problem = s.of(r.Context(), id); problem == nil {
		problem = callerOf(r).readsReturn(state, id)
	}
	return id, state, problem
}

// events answers GET /v1/returns/{returnId}/events.
func (s returns) events(w http.ResponseWriter, r *http.Request) {
	id, _, problem := s.permitted(r)
	if problem != nil {
		problem.Write(w)
		return
	}
	sendStates(s.follow, w, r, s.followed(id))
}

// status answers GET /v1/returns/{returnId}.
func (s returns) status(w http.ResponseWriter, r *http.Request) {
	id, answer, problem := s.permitted(r)
	if problem == nil && answer.Status == stateUnknown {
		problem = &web.Problem{Type: web.Kind("unknown-return"), Title: "Unknown return", Status: http.StatusNotFound, Field: "return_id", Value: id.String(),
			Detail: "not in the ledger yet: it was never sent, or waits to be taken up, or was refused to the dead letters as no valid return"}
	}
	if problem != nil {
		problem.Write(w)
		return
	}
	web.WriteJSON(w, http.StatusOK, answer)
}

// of asks the ledger for the state of a return: first for its verdict, so that the legs of
// one that has settled are seen for certain.
func (s returns) of(ctx context.Context, id pix.ReturnID) (returnState, *web.Problem) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout) // for both questions
	defer cancel()
	asked := time.Now().Add(-s.config.ClockTolerance) // as for payments: before the question
	found, problem := s.transfers.ask(ctx, []tb.Uint128{ledger.ReturnVerdict(id)})
	if problem != nil {
		return returnState{}, problem
	}
	filter := ledger.ReturnLegs(id)
	legs, problem := query(ctx, s.reads, func(c tigerbeetle.Client) ([]tb.Transfer, error) { return c.QueryTransfers(filter) })
	if problem != nil {
		return returnState{}, problem
	}
	return returnStateOf(id, found, legs, asked), nil
}

func returnStateOf(id pix.ReturnID, verdict, legs []tb.Transfer, now time.Time) returnState {
	answer := returnState{ReturnID: id.String(), Status: stateUnknown}
	held, isHeld := ledger.HeldReturnOf(verdict, legs)
	if len(verdict) > 0 {
		decided := ledger.ReturnVerdictOf(verdict[0])
		answer.Status, answer.ReasonCode, answer.DecidedAt = stateRejected, decided.Reason.String(), &decided.Time
		if decided.Settled {
			answer.Status = stateSettled
		}
		if original, known := ledger.OriginalOf(verdict[0]); known {
			answer.OriginalEndToEndID = original.String()
		}
	} else if isHeld {
		answer.Status = stateReserved
		if now.After(held.ExpiresAt) { // no verdict but this one can follow
			answer.Status, answer.ReasonCode = stateRejected, pix.ReasonPayeePSPSilent.String()
		}
	}
	if isHeld {
		payer, payee := accountOf(held.Content.Payer), accountOf(held.Content.Payee)
		answer.ReservedAt, answer.ExpiresAt, answer.ReturnReasonCode = &held.At, &held.ExpiresAt, held.Reason.String()
		answer.AmountCentavos, answer.Payer, answer.Payee = int64(held.Content.AmountCentavos), &payer, &payee
	}
	return answer
}
