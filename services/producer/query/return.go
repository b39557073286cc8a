package query

import (
	"context"
	"net/http"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/deadletter"
	"github.com/liquida/liquida/services/producer/field"
)

// ReturnState is the body of GET /v1/returns/{returnId}. All times are the ledger's.
type ReturnState struct {
	ReturnID           string `json:"return_id"`
	OriginalEndToEndID string `json:"original_end_to_end_id,omitempty" doc:"Known once it is decided, where the original's payer bank exists."`
	Progress
	// The rest is known where money was held.
	ReturnReasonCode string         `json:"return_reason_code,omitempty" doc:"Why it is given back."`
	AmountCentavos   int64          `json:"amount_centavos,omitempty"`
	Payer            *field.Account `json:"payer,omitempty" doc:"Who gives back: the payee of the original."`
	Payee            *field.Account `json:"payee,omitempty"`
	// Only for the bank that gives back, and only in GET /v1/returns/{returnId}.
	DeadLetter *deadletter.Letter `json:"dead_letter,omitempty" doc:"A message with this id that became a dead letter; the rest is of another one. Only GET /v1/returns/{returnId} shows it, and only to the bank that gives back."`

	verdict *tb.Transfer // nil: not decided
}

// PermittedReturn returns the return in the path and its state, if the caller may read it.
func (l *Ledger) PermittedReturn(r *http.Request) (id pix.ReturnID, state ReturnState, problem *web.Problem) {
	text := r.PathValue("returnId")

	id, err := pix.ParseReturnID(text)
	if err != nil {
		return id, state, field.Invalid("", "return_id", text, pix.ReasonBadEndToEndID, err.Error())
	}

	if state, problem = l.StateOfReturn(r.Context(), id); problem == nil {
		problem = access.Of(r).ReadsReturn(id, state.Payee.PSP(), state.OriginalEndToEndID)
	}

	return id, state, problem
}

// Return answers GET /v1/returns/{returnId}.
func (l *Ledger) Return(r *http.Request) (ReturnState, *web.Problem) {
	id, state, problem := l.PermittedReturn(r)
	if problem == nil && access.Of(r).PaysOf(pix.EndToEndID(id)) { // it gives back
		state.DeadLetter = l.letters.Of(pix.EndToEndID(id))
	}

	if problem == nil && state.Status == Unknown {
		problem = &web.Problem{Type: web.Kind("unknown-return"), Title: "Unknown return", Status: http.StatusNotFound,
			Field: "return_id", Value: id.String(),
			Detail: "not in the ledger yet: it was never sent, or no engine has fetched it yet, or it became a dead letter long ago, or its log or ledger was given up"}
		tellDeadLetter(problem, state.DeadLetter)
	}

	return state, problem
}

// StateOfReturn asks the ledger for the state of a return. It asks for the verdict first, so
// that the legs of a settled return are certain to be seen.
func (l *Ledger) StateOfReturn(ctx context.Context, id pix.ReturnID) (ReturnState, *web.Problem) {
	ctx, cancel := context.WithTimeout(ctx, l.config.Timeout) // for both questions
	defer cancel()

	return asOf(ctx, l, func(now time.Time) (state ReturnState, expires time.Time, problem *web.Problem) {
		found, problem := l.transfers.find(ctx, []tb.Uint128{ledger.ReturnVerdict(id)})
		if problem != nil {
			return state, expires, problem
		}

		legs, problem := query(reading(ctx), l, returnLegs(id))
		if problem != nil {
			return state, expires, problem
		}
		state = returnStateOf(id, found, legs, now)

		return state, state.open(), nil
	})
}

func returnStateOf(id pix.ReturnID, verdict, legs []tb.Transfer, now time.Time) ReturnState {
	state := ReturnState{ReturnID: id.String(), Progress: Progress{Status: Unknown}}

	held, isHeld := ledger.HeldReturnOf(verdict, legs)
	if len(verdict) > 0 && ledger.ReturnVerdictOf(verdict[0]).Settled && !held.Posted &&
		len(legs) < int(ledger.ReturnLegs(id).Limit) {
		verdict = nil // of another RtrId: what settles posts the legs of its own
		held, isHeld = ledger.HeldReturnOf(nil, legs)
	}

	if isHeld {
		state.hold(held.At, held.ExpiresAt, now)
		state.ReturnReasonCode, state.AmountCentavos = held.Reason.String(), int64(held.Content.AmountCentavos)
		state.Payer, state.Payee = new(field.AccountOf(held.Content.Payer)), new(field.AccountOf(held.Content.Payee))
	}

	if len(verdict) > 0 {
		state.decide(ledger.ReturnVerdictOf(verdict[0]))

		state.verdict = &verdict[0]
		if original, known := ledger.OriginalOf(verdict[0]); known {
			state.OriginalEndToEndID = original.String()
		}
	}

	return state
}
