package payment

import (
	"time"

	"github.com/liquida/liquida/platform/pix"
)

// BeginReturn starts a return as Begin starts a payment, with a look-up: the returns of the
// original that the ledger has decide if this one can be held, and in which slot.
func BeginReturn(r pix.Return, now time.Time, patience time.Duration, refusal pix.Reason) (Payment, Command) {
	p := newPayment(OrderOf(r), now, patience)
	p.lookFirst = true
	command := p.Reconsider(now, refusal)

	return p, command
}

// OrderOf returns the payment that does what a return does: its id is the RtrId, payer and
// payee are the original's, exchanged. The ids name both PSPs; JudgeReturn adds the accounts.
func OrderOf(r pix.Return) pix.Order {
	return pix.Order{ID: pix.EndToEndID(r.ID), AcceptedAt: r.AcceptedAt, Content: pix.Content{
		Payer: pix.Account{ISPB: r.ID.PSP()}, Payee: pix.Account{ISPB: r.Original.Payer()},
		AmountCentavos: r.AmountCentavos,
	}}
}

// ReturnTrace is what the ledger holds about a return and its original.
type ReturnTrace struct {
	Trace
	Settled      bool        // the original has settled, with Original, at SettledAt
	Original     pix.Content // its content
	SettledAt    time.Time
	SlotFree     bool   // there is a slot in which the return could be held
	LeftCentavos uint64 // what the returns in the slots leave of the original
}

// JudgeReturn returns the trace of a return, with the refusal if it cannot be held. It
// puts the accounts of a settled original into the return's order.
func JudgeReturn(r pix.Return, order *pix.Order, found ReturnTrace) Trace {
	if found.Settled {
		order.Payer, order.Payee = found.Original.Payee, found.Original.Payer
	}

	trace := found.Trace
	switch {
	case !found.Settled:
		trace.Refusal = pix.ReasonNothingSettled
	case found.Original.Payee.ISPB != r.ID.PSP():
		trace.Refusal = pix.ReasonNotThePayee
	case !r.InTime(found.SettledAt):
		trace.Refusal = pix.ReasonReturnTooLate
	case found.LeftCentavos < r.AmountCentavos:
		trace.Refusal = pix.ReasonReturnExceeds
	case !found.SlotFree:
		trace.Refusal = pix.ReasonReturnsUsedUp
	}

	return trace
}
