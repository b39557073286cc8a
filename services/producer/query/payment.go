package query

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/deadletter"
	"github.com/liquida/liquida/services/producer/field"
)

// PaymentState is the body of GET /v1/payments/{endToEndId}. All times are the ledger's.
type PaymentState struct {
	EndToEndID string `json:"end_to_end_id"`
	Progress
	// The rest is known where money was held; a receipt keeps only a hash of it.
	AmountCentavos int64              `json:"amount_centavos,omitempty"`
	Payer          *field.Account     `json:"payer,omitempty"`
	Payee          *field.Account     `json:"payee,omitempty"`
	Legs           []PaymentLeg       `json:"legs,omitempty" nullable:"false"`
	DeadLetter     *deadletter.Letter `json:"dead_letter,omitempty" doc:"A message with this id that became a dead letter; the rest is of another one. Only GET /v1/payments/{endToEndId} shows it, and only to the payer's bank."`
	// The rest is for settled payments, and only in GET /v1/payments/{endToEndId}.
	ReturnedCentavos int64           `json:"returned_centavos,omitempty" doc:"The sum of its settled returns, in every response and event with the state of a payment."`
	Returns          []PaymentReturn `json:"returns,omitempty" nullable:"false" doc:"Its returns for which money is or was held, the oldest first, all of one instant. A return that was refused before is shown only by GET /v1/returns/{returnId}."`

	trace ledger.Trace
}

// PaymentLeg is one movement of a payment: all of them are held, posted or released together.
type PaymentLeg struct {
	Leg            int    `json:"leg"`
	Debit          string `json:"debit" example:"customer/10000001/0001/1"`
	Credit         string `json:"credit" example:"transit/10000001"`
	AmountCentavos int64  `json:"amount_centavos"`
	State          string `json:"state" enum:"held,posted,released"`
}

// PaymentReturn is a return of a payment. All times are the ledger's.
type PaymentReturn struct {
	ReturnID         string     `json:"return_id"`
	AmountCentavos   int64      `json:"amount_centavos"`
	ReturnReasonCode string     `json:"return_reason_code" doc:"Why it is given back."`
	Status           string     `json:"status" enum:"reserved,settled,rejected"`
	ReasonCode       string     `json:"reason_code,omitempty" doc:"Why it was rejected."`
	ReservedAt       time.Time  `json:"reserved_at"`
	DecidedAt        *time.Time `json:"decided_at,omitempty"`
}

// The states of a payment or a return. Unknown means that the ledger does not know it yet.
const (
	Unknown  = "unknown"
	Reserved = "reserved"
	Settled  = "settled"
	Rejected = "rejected"
)

// Progress is how far a payment or a return has come.
type Progress struct {
	Status     string     `json:"status" enum:"unknown,reserved,settled,rejected"`
	ReasonCode string     `json:"reason_code,omitempty" doc:"Why it was rejected."`
	ReservedAt *time.Time `json:"reserved_at,omitempty"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty" doc:"When the ledger itself releases what is held. Not told of what was decided in a ledger that was lost and built again."`
	DecidedAt  *time.Time `json:"decided_at,omitempty"`
}

// Reached returns the status.
func (p Progress) Reached() string { return p.Status }

// Final reports whether no other status can follow.
func (p Progress) Final() bool { return p.Status == Settled || p.Status == Rejected }

// hold says that money is held, unless the ledger has released it. now is a time of the ledger's clock,
// at the latest when it was asked: what is called rejected too early could still settle.
func (p *Progress) hold(at, expires, now time.Time) {
	p.Status, p.ReservedAt, p.ExpiresAt = Reserved, &at, &expires
	if now.After(expires) { // no other verdict can follow
		p.Status, p.ReasonCode = Rejected, pix.ReasonPayeePSPSilent.String()
	}
	// imported into a ledger that was built again: its timeout is not known, and a verdict has ended it
	if expires.Equal(at) {
		p.ExpiresAt = nil
	}
}

// decide says how it ended, whatever was held.
func (p *Progress) decide(verdict ledger.Verdict) {
	p.Status, p.ReasonCode, p.DecidedAt = Rejected, verdict.Reason.String(), &verdict.Time
	if verdict.Settled {
		p.Status = Settled
	}
}

// open returns when the hold expires, if it is open.
func (p Progress) open() (expires time.Time) {
	if p.Status == Reserved && p.ExpiresAt != nil {
		expires = *p.ExpiresAt
	}

	return expires
}

// Payment answers GET /v1/payments/{endToEndId}.
func (l *Ledger) Payment(r *http.Request) (PaymentState, *web.Problem) {
	id, problem := EndToEndIDOf(r)
	if problem != nil {
		return PaymentState{}, problem
	}

	state, problem := l.PaymentWithReturns(r.Context(), id)
	if problem == nil {
		problem = access.Of(r).ReadsPayment(id, state.Payee.PSP())
	}

	if problem == nil && access.Of(r).PaysOf(id) {
		state.DeadLetter = l.letters.Of(id)
	}

	if problem == nil && state.Status == Unknown {
		problem = &web.Problem{Type: web.Kind("unknown-payment"), Title: "Unknown payment", Status: http.StatusNotFound,
			EndToEndID: id.String(),
			Detail:     "not in the ledger yet: it was never sent, or no engine has fetched it yet, or it became a dead letter long ago, or its log or ledger was given up"}
		tellDeadLetter(problem, state.DeadLetter)
	}

	return state, problem
}

// tellDeadLetter makes the problem of an unknown order that of its dead letter, if it has one.
func tellDeadLetter(problem *web.Problem, letter *deadletter.Letter) {
	if letter == nil {
		return
	}

	meaning := ""
	if reason, err := pix.ParseReason(letter.ReasonCode); err == nil {
		meaning = ", " + reason.Meaning()
	}
	problem.Type, problem.Title, problem.Code = web.Kind("dead-letter"), "Dead letter", letter.ReasonCode
	problem.Detail = fmt.Sprintf(
		"a message with this id, of %d centavos, became a dead letter at %s (%s%s): no money moves for it, and the ledger knows no other message with this id",
		letter.AmountCentavos, letter.At.Format(time.RFC3339), letter.ReasonCode, meaning)
}

// EndToEndIDOf returns the EndToEndId in the path.
func EndToEndIDOf(r *http.Request) (pix.EndToEndID, *web.Problem) {
	text := r.PathValue("endToEndId")

	id, err := pix.ParseEndToEndID(text)
	if err != nil {
		return id, field.Invalid("", "end_to_end_id", text, pix.ReasonBadEndToEndID, err.Error())
	}

	return id, nil
}

// StateOfPayment asks the ledger for the state of a payment, without its returns.
func (l *Ledger) StateOfPayment(ctx context.Context, id pix.EndToEndID) (PaymentState, *web.Problem) {
	return asOf(ctx, l, func(now time.Time) (state PaymentState, expires time.Time, problem *web.Problem) {
		found, problem := l.transfers.find(ctx, ledger.AppendTraceIDs(nil, id))
		if problem != nil {
			problem.EndToEndID = id.String()
			return state, expires, problem
		}
		state = paymentStateOf(id, found, now)

		return state, state.open(), nil
	})
}

// PaymentWithReturns asks the ledger for a payment and its returns as they are at one
// instant. Only a marked payment has returns in its slots. The slots name the returns, and
// these name the verdicts to look up. Whenever a verdict id is new, one request looks up
// everything again. Slots only fill, so this ends.
func (l *Ledger) PaymentWithReturns(ctx context.Context, id pix.EndToEndID) (PaymentState, *web.Problem) {
	ctx, cancel := context.WithTimeout(ctx, l.config.Timeout) // for all requests together
	defer cancel()

	return asOf(ctx, l, func(now time.Time) (PaymentState, time.Time, *web.Problem) {
		return l.withReturns(ctx, id, now)
	})
}

func (l *Ledger) withReturns(ctx context.Context, id pix.EndToEndID,
	now time.Time) (state PaymentState, expires time.Time, problem *web.Problem) {
	ids, marked, verdicts := append(ledger.AppendTraceIDs(nil, id), ledger.ReturnedMark(id)), false, []tb.Uint128(nil)
	for {
		found, problem := l.transfers.find(ctx, append(slices.Clip(ids), verdicts...))
		if problem != nil {
			problem.EndToEndID = id.String()
			return state, expires, problem
		}

		if !marked && slices.ContainsFunc(found, func(t tb.Transfer) bool { return t.Code == ledger.CodeReturned }) {
			ids, marked = ledger.AppendSlotIDs(ids, id), true
			ctx = reading(ctx) // a payment that was just sent has no returns
			continue
		}

		held, all := ledger.ReturnsOf(id, found)
		if len(all) == len(verdicts) {
			state = paymentStateOf(id, found, now)

			expires = state.open()
			for _, h := range held {
				if state.addReturn(h, now) && (expires.IsZero() || h.ExpiresAt.Before(expires)) {
					expires = h.ExpiresAt
				}
			}

			return state, expires, nil
		}
		verdicts = all
	}
}

// addReturn adds a return. It reports whether its hold is open.
func (s *PaymentState) addReturn(h ledger.SlotReturn, now time.Time) (isOpen bool) {
	var p Progress
	p.hold(h.At, h.ExpiresAt, now)

	if h.Decided {
		p.decide(h.Verdict)
	}

	if p.Status == Settled {
		s.ReturnedCentavos += h.AmountCentavos
	}
	s.Returns = append(s.Returns, PaymentReturn{
		ReturnID: h.ID.String(), AmountCentavos: h.AmountCentavos, ReturnReasonCode: h.Reason.String(),
		Status: p.Status, ReasonCode: p.ReasonCode, ReservedAt: h.At, DecidedAt: p.DecidedAt,
	})

	return p.Status == Reserved
}

// paymentStateOf returns the state of a payment with these transfers, as of now.
func paymentStateOf(id pix.EndToEndID, found []tb.Transfer, now time.Time) PaymentState {
	trace := ledger.TraceOf(id, found)

	state := PaymentState{EndToEndID: id.String(), Progress: Progress{Status: Unknown}, trace: trace}
	if trace.NamesAnother(id) {
		return state // what the ledger holds here is the payment of another id
	}
	verdict, decided := trace.Verdict()
	content, held := trace.Content()
	// A receipt decided its own content: what another order holds is not this payment.
	held = held && (!decided || trace.SameContent(id, content))
	if held {
		state.hold(trace.HeldAt(), trace.ExpiresAt(), now)
	}

	if decided {
		state.decide(verdict)
	}

	if held {
		state.Payer, state.Payee = new(field.AccountOf(content.Payer)), new(field.AccountOf(content.Payee))
		state.AmountCentavos = trace.AmountCentavos()

		legState := map[string]string{Reserved: "held", Settled: "posted", Rejected: "released"}[state.Status]
		for _, leg := range trace.Legs() {
			state.Legs = append(state.Legs,
				PaymentLeg{Leg: int(leg.Code - ledger.CodeLeg1 + 1), Debit: ledger.AccountName(leg.DebitAccountID),
					Credit: ledger.AccountName(leg.CreditAccountID), AmountCentavos: ledger.Centavos(leg.Amount),
					State: legState})
		}
	}

	return state
}
