package payment

import (
	"time"

	"github.com/liquida/liquida/platform/pix"
)

// BeginReturn starts a return as Begin starts a payment. A return is looked up first: only
// the original's slots tell whether there is anything to hold, and where.
func BeginReturn(r pix.Return, now time.Time, patience time.Duration, refusal pix.Reason) (Payment, Command) {
	p := newPayment(OrderOf(r), now, patience, refusal)
	p.Return, p.step = &r, inspecting
	return p, Command{Action: Inspect}
}

// OrderOf returns the payment that does what a return does, as far as its message tells:
// both ids name a PSP, the accounts stand in the ledger.
func OrderOf(r pix.Return) pix.Order {
	return pix.Order{ID: pix.EndToEndID(r.ID), AcceptedAt: r.AcceptedAt, Content: pix.Content{
		Payer: pix.Account{ISPB: r.ID.PSP()}, Payee: pix.Account{ISPB: r.Original.Payer()}, AmountCentavos: r.AmountCentavos,
	}}
}

// ReturnTrace is what the ledger holds about a return and its original.
type ReturnTrace struct {
	Trace
	Settled      bool        // the original has settled, with Original, at SettledAt
	Original     pix.Content // its content
	SettledAt    time.Time
	SlotFree     bool   // there is a slot that the return could be held in
	LeftCentavos uint64 // what the returns in the slots leave of the original
}

// ReturnInspected takes the answer to Inspect for a return.
func (p *Payment) ReturnInspected(trace ReturnTrace, now time.Time) Command {
	if trace.Settled {
		p.Order.Payer, p.Order.Payee = trace.Original.Payee, trace.Original.Payer
	}
	if p.step != inspecting || trace.Held || trace.Decided {
		return p.Inspected(trace.Trace, now) // as a payment from here on
	}
	switch r := p.Return; {
	case p.refusal != pix.ReasonNone:
		return p.refuse(p.refusal)
	case !trace.Settled:
		return p.refuse(pix.ReasonNothingSettled)
	case trace.Original.Payee.ISPB != r.ID.PSP():
		return p.refuse(pix.ReasonNotThePayee)
	case !r.InTime(trace.SettledAt):
		return p.refuse(pix.ReasonReturnTooLate)
	case trace.LeftCentavos < r.AmountCentavos:
		return p.refuse(pix.ReasonReturnExceeds)
	case !trace.SlotFree:
		return p.refuse(pix.ReasonReturnsUsedUp)
	}
	p.step = reserving
	return Command{Action: Reserve}
}
