package engine

import (
	"fmt"
	"slices"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/services/clearing-engine/payment"
	"github.com/liquida/liquida/services/clearing-engine/room"
)

// perform carries out a command. Its result comes back as an event.
func (p *partition) perform(f *flight, command payment.Command, now time.Time) {
	order := &f.payment.Order

	switch command.Action {
	case payment.Wait:
	case payment.Reserve, payment.Post, payment.Void, payment.Refuse:
		purpose, chain := p.chainFor(f, command, now)
		p.write(f, purpose, chain)
	case payment.Authorize:
		f.hopAt = now
		f.question = p.room.Ask(order, payeeOf(order), now)
		p.noteDue(f)
		p.ask(f)
		p.slim(f) // the question has the record's text
	case payment.Inspect:
		if f.glimpse = f.payment.Refuses(); f.glimpse { // under overload these are most look-ups
			p.ids = ledger.AppendGlimpseIDs(p.ids[:0], order.ID)
		} else {
			p.ids = f.kind.lookUp(p.ids[:0], order)
		}
		p.effects.lookUp(p, f, p.ids)
	case payment.Diagnose:
		if f.payment.Refuses() && p.engine.room.Knows(order.Payer.ISPB) {
			p.perform(f, f.payment.Diagnosed(payment.Accounts{PayerPSP: true}), now)
			return
		}
		p.ids = appendAccountIDs(p.ids[:0], order)
		p.effects.lookUpAccounts(p, f, p.ids)
	case payment.Report:
		if !f.decided || f.verdict != f.payment.Outcome {
			broken("a report is the verdict in the ledger: order %s, report %+v, verdict %+v (%t)", order.ID,
				f.payment.Outcome, f.verdict, f.decided)
		}
		f.hopAt = now
		p.effects.produce(p.encoder.settlementReport(f), func() { p.inbox.put(event{kind: reported, flight: f}) })
		p.engine.crash.Pass(afterReportProduced)
	case payment.DeadLetter:
		if f.share == (room.Share{}) {
			f.share = p.room.AddToShare(order.ID.Payer())
		}

		if f.slim {
			p.free(f.record)
			p.fetchAgain(f.record.Offset, returning{f.share, command.Reason})
			f.share = room.Share{} // of the record now
			p.leave(f)

			return
		}
		invalid := conflictOf(f.kind, order, command.Reason)
		p.keep(f.record.Offset, f.record, invalid, func() {
			p.inbox.put(event{kind: reported, flight: f})
		})
	case payment.Halt:
		p.effects.fail(fmt.Errorf("partition %d, offset %d: %s", p.number, f.record.Offset, command.Detail))
	}
}

// ask asks the receiving bank, until the payment's wait for it ends by the ledger's clock.
func (p *partition) ask(f *flight) {
	aheadOfLedger := time.Duration(p.engine.aheadOfLedger.Load())
	deadline := p.engine.now().Add(time.Until(f.payment.DueAt()) - aheadOfLedger)
	p.effects.produce(p.encoder.authorizationRequest(f, deadline), func() {
		p.engine.crash.Pass(afterRequestProduced)
	})
}

// chainFor returns the chain that a command writes, and what it is for.
func (p *partition) chainFor(f *flight, command payment.Command, now time.Time) (chainPurpose, []tb.Transfer) {
	order := &f.payment.Order

	switch command.Action {
	case payment.Reserve:
		return chainReserve, p.hold(f, now)
	case payment.Post:
		return chainPost, f.kind.post(p.chain[:0], order)
	case payment.Void:
		chain := f.kind.void(p.chain[:0], order, command.Reason)
		if f.capped {
			chain = ledger.AppendCapVoid(chain, order.ID, command.Reason)
		}

		return chainVoid, chain
	}

	chain := f.kind.refuse(p.chain[:0], order, command.Reason)
	if f.capped { // the hold has expired, so it cannot settle any more
		chain = ledger.AppendCapRelease(chain, order.ID, command.Reason)
	}

	return chainReceipt, chain
}

// capBeyondHoldSeconds is how much longer than its hold a leg 4 lasts at least.
const capBeyondHoldSeconds = 5

// hold returns the chain of phase 1. If the register changes before it is sent, it is not sent: see
// reconsider.
func (p *partition) hold(f *flight, now time.Time) []tb.Transfer {
	order, window := &f.payment.Order, ledger.WindowAt(now)
	chain := f.kind.hold(p.chain[:0], order, p.engine.pendingTimeoutSeconds)
	state, _ := p.engine.register.Current()

	limit := f.kind.outflow(state, order, window)
	if f.capped = limit.Centavos > 0; f.capped {
		chain = ledger.AppendCap(chain, order.ID, order.Content, window,
			max(limit.WindowSeconds, p.engine.pendingTimeoutSeconds+capBeyondHoldSeconds))
	}

	return chain
}

func (p *partition) write(f *flight, purpose chainPurpose, chain []tb.Transfer) {
	p.chain = chain // keep what append grew

	if f.writing != chainNone {
		broken("an order has one chain under way, so no verdict precedes the result of phase 1: order %s, %s during %s",
			f.payment.Order.ID, chainNames[purpose], chainNames[f.writing])
	}
	checkChain(purpose, chain, f.payment.Outcome)

	f.writing = purpose
	if purpose != chainReserve && purpose != chainCapRelease {
		f.verdict, f.decided = verdictIn(purpose, chain), false
	}
	rules := uint64(0) // what was held, or refused for another reason, ends whatever they are now

	reason := f.payment.Outcome.Reason
	if purpose == chainReserve || purpose == chainReceipt &&
		(reason == pix.ReasonInactivePSP || reason == pix.ReasonAboveCap) {
		rules = f.rules
	}
	p.effects.write(p, f, chain, rules)

	if purpose == chainReserve {
		p.engine.crash.PassSent(afterPhase1Sent)
	} else {
		p.engine.crash.PassSent(afterPhase2Sent)
	}
}

func (p *partition) noteDue(f *flight) {
	if due := f.payment.DueAt(); p.nextDue.IsZero() || due.Before(p.nextDue) {
		p.nextDue = due
	}
}

// payeeOf returns the payee of an order. That of a return is not known before its original is.
func payeeOf(order *pix.Order) room.Payee {
	if order.Payee.Number == "" {
		return room.Payee{}
	}

	return ledger.CustomerAccount(order.Payee).Bytes()
}

// appendAccountIDs appends the accounts whose absence explains a refusal.
func appendAccountIDs(ids []tb.Uint128, order *pix.Order) []tb.Uint128 {
	return append(ids,
		ledger.TransitAccount(order.Payer.ISPB), ledger.TransitAccount(order.Payee.ISPB),
		ledger.CustomerAccount(order.Payer), ledger.CustomerAccount(order.Payee))
}

func accountsOf(order *pix.Order, found []tb.Account) payment.Accounts {
	exists := func(id ledger.AccountID) bool {
		return slices.ContainsFunc(found, func(account tb.Account) bool { return account.ID == id })
	}

	return payment.Accounts{
		PayerPSP: exists(ledger.TransitAccount(order.Payer.ISPB)),
		PayeePSP: exists(ledger.TransitAccount(order.Payee.ISPB)),
		Payer:    exists(ledger.CustomerAccount(order.Payer)),
		Payee:    exists(ledger.CustomerAccount(order.Payee)),
	}
}
