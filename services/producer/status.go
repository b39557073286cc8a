package main

import (
	"context"
	"net/http"
	"slices"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/web"
)

// status answers what became of a payment, from the ledger alone.
type status struct{ *reads }

// paymentState is the body of GET /v1/payments/{endToEndId}. All times are the ledger's.
type paymentState struct {
	EndToEndID string     `json:"end_to_end_id"`
	Status     string     `json:"status" enum:"unknown,reserved,settled,rejected"`
	ReasonCode string     `json:"reason_code,omitempty" doc:"Why it was rejected."`
	ReservedAt *time.Time `json:"reserved_at,omitempty"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty" doc:"When the ledger itself releases what is held."`
	DecidedAt  *time.Time `json:"decided_at,omitempty"`
	// What follows is known where money was held; a refusal keeps only a hash of it.
	AmountCentavos int64        `json:"amount_centavos,omitempty"`
	Payer          *account     `json:"payer,omitempty"`
	Payee          *account     `json:"payee,omitempty"`
	Legs           []paymentLeg `json:"legs,omitempty" nullable:"false"`
	// What follows is told of a payment that has settled, and by GET /v1/payments/{endToEndId} alone.
	ReturnedCentavos int64           `json:"returned_centavos,omitempty" doc:"What the settled ones of its returns have given back. Told by GET /v1/payments/{endToEndId} alone, as are the returns."`
	Returns          []paymentReturn `json:"returns,omitempty" nullable:"false" doc:"Its returns for which money is or was held, the oldest first, as they are at one instant. One that was refused before that is told by GET /v1/returns/{returnId} alone."`
}

// paymentLeg is one movement of a payment: all of them are held, posted or released together.
type paymentLeg struct {
	Leg            int    `json:"leg"`
	Debit          string `json:"debit" example:"customer/10000001/0001/1"`
	Credit         string `json:"credit" example:"transit/10000001"`
	AmountCentavos int64  `json:"amount_centavos"`
	State          string `json:"state" enum:"held,posted,released"`
}

// paymentReturn is a return of a payment. All times are the ledger's.
type paymentReturn struct {
	ReturnID         string     `json:"return_id"`
	AmountCentavos   int64      `json:"amount_centavos"`
	ReturnReasonCode string     `json:"return_reason_code" doc:"Why it is given back."`
	Status           string     `json:"status" enum:"reserved,settled,rejected"`
	ReasonCode       string     `json:"reason_code,omitempty" doc:"Why it was rejected."`
	ReservedAt       time.Time  `json:"reserved_at"`
	DecidedAt        *time.Time `json:"decided_at,omitempty"`
}

// The states of a payment; one that the ledger does not know has none yet.
const (
	stateUnknown  = "unknown"
	stateReserved = "reserved"
	stateSettled  = "settled"
	stateRejected = "rejected"
)

func (s paymentState) reached() string { return s.Status }

// final tells whether nothing can follow.
func (s paymentState) final() bool { return s.Status == stateSettled || s.Status == stateRejected }

// ServeHTTP answers GET /v1/payments/{endToEndId}.
func (s status) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, problem := endToEndIDOf(r)
	if problem != nil {
		problem.Write(w)
		return
	}
	answer, problem := s.whole(r.Context(), id)
	if problem == nil {
		problem = callerOf(r).reads(answer, id)
	}
	if problem == nil && answer.Status == stateUnknown {
		problem = &web.Problem{Type: web.Kind("unknown-payment"), Title: "Unknown payment", Status: http.StatusNotFound, EndToEndID: id.String(),
			Detail: "not in the ledger yet: it was never sent, or waits to be taken up, or was refused to the dead letters as no valid payment"}
	}
	if problem != nil {
		problem.Write(w)
		return
	}
	web.WriteJSON(w, http.StatusOK, answer)
}

func endToEndIDOf(r *http.Request) (pix.EndToEndID, *web.Problem) {
	text := r.PathValue("endToEndId")
	id, err := pix.ParseEndToEndID(text)
	if err != nil {
		return id, invalid("", "end_to_end_id", text, pix.ReasonBadEndToEndID, err.Error())
	}
	return id, nil
}

// of asks the ledger for the state of a payment.
func (s status) of(ctx context.Context, id pix.EndToEndID) (paymentState, *web.Problem) {
	// The time before the question: what the ledger answers is at least that new. With the
	// time after it a payment could be called expired that was posted while the answer came.
	asked := time.Now().Add(-s.config.ClockTolerance)
	found, problem := s.transfers.ask(ctx, ledger.AppendTraceIDs(nil, id))
	if problem != nil {
		problem.EndToEndID = id.String()
		return paymentState{}, problem
	}
	return stateOf(id, found, asked), nil
}

// whole asks the ledger for the state of a payment with its returns, for an answer of one
// instant. Only a payment that is marked has returns in its slots. These only fill, and whose
// verdicts to ask for is known when the slots are: all is asked for together until no new one shows.
func (s status) whole(ctx context.Context, id pix.EndToEndID) (paymentState, *web.Problem) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout) // for all of it
	defer cancel()
	ids, marked, verdicts := append(ledger.AppendTraceIDs(nil, id), ledger.ReturnedMark(id)), false, []tb.Uint128(nil)
	for {
		asked := time.Now().Add(-s.config.ClockTolerance) // as in of: before the question
		found, problem := s.transfers.ask(ctx, append(slices.Clip(ids), verdicts...))
		if problem != nil {
			problem.EndToEndID = id.String()
			return paymentState{}, problem
		}
		if !marked && slices.ContainsFunc(found, func(t tb.Transfer) bool { return t.Code == ledger.CodeReturned }) {
			ids, marked = ledger.AppendSlotIDs(ids, id), true
			continue
		}
		held, all := ledger.ReturnsOf(id, found)
		if len(all) == len(verdicts) {
			answer := stateOf(id, found, asked)
			answer.add(held, asked)
			return answer, nil
		}
		verdicts = all
	}
}

// add tells what was given back.
func (s *paymentState) add(held []ledger.SlotReturn, now time.Time) {
	for _, h := range held {
		r := paymentReturn{ReturnID: h.ID.String(), AmountCentavos: h.AmountCentavos, ReturnReasonCode: h.Reason.String(), Status: stateReserved, ReservedAt: h.At}
		switch {
		case h.Decided:
			r.Status, r.ReasonCode, r.DecidedAt = stateRejected, h.Verdict.Reason.String(), &h.Verdict.Time
			if h.Verdict.Settled {
				r.Status = stateSettled
				s.ReturnedCentavos += h.AmountCentavos
			}
		case now.After(h.ExpiresAt): // no verdict but this one can follow
			r.Status, r.ReasonCode = stateRejected, pix.ReasonPayeePSPSilent.String()
		}
		s.Returns = append(s.Returns, r)
	}
}

// stateOf says what the ledger's transfers mean for a payment. now is by the ledger's
// clock, and not later than when it was asked: called rejected too early, a payment could
// still settle.
func stateOf(id pix.EndToEndID, found []tb.Transfer, now time.Time) paymentState {
	trace := ledger.TraceOf(id, found)
	answer := paymentState{EndToEndID: id.String(), Status: stateUnknown}
	verdict, decided := trace.Verdict()
	content, held := trace.Content()
	// A receipt has decided by its own content: what another message holds is not this payment.
	held = held && (!decided || trace.SameContent(id, content))
	switch {
	case decided:
		answer.Status, answer.ReasonCode, answer.DecidedAt = stateRejected, verdict.Reason.String(), &verdict.Time
		if verdict.Settled {
			answer.Status = stateSettled
		}
	case !held:
	case now.After(trace.ExpiresAt()):
		// The ledger has released the money, and no verdict but this one can follow.
		answer.Status, answer.ReasonCode = stateRejected, pix.ReasonPayeePSPSilent.String()
	default:
		answer.Status = stateReserved
	}
	if held {
		at, expires := trace.HeldAt(), trace.ExpiresAt()
		answer.ReservedAt, answer.ExpiresAt, answer.AmountCentavos = &at, &expires, trace.AmountCentavos()
		payer, payee := accountOf(content.Payer), accountOf(content.Payee)
		answer.Payer, answer.Payee = &payer, &payee
		legState := map[string]string{stateReserved: "held", stateSettled: "posted", stateRejected: "released"}[answer.Status]
		for _, leg := range trace.Legs() {
			answer.Legs = append(answer.Legs, paymentLeg{Leg: int(leg.Code - ledger.CodeLeg1 + 1), Debit: ledger.AccountName(leg.DebitAccountID),
				Credit: ledger.AccountName(leg.CreditAccountID), AmountCentavos: ledger.Centavos(leg.Amount), State: legState})
		}
	}
	return answer
}
