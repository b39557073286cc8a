package audit

import (
	"fmt"
	"slices"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/loadtest/audit/spec"
)

// A cap on outflow is leg 4: it holds a payment's amount from an allowance of its payer's bank, for
// the length of the window, and nobody posts it. So what has been sent within a window is what is held.
// An allowance has as much as the cap says. Adjustments bring it there.

// capLeg is what the audit keeps about leg 4 of a payment.
type capLeg struct {
	capHeldAt uint64 // by the ledger's clock; 0: none
	capEnds   uint64
	capVoided bool
}

// allowance is an allowance as the transfers so far make it.
type allowance struct {
	posted spec.Movement
	fitted uint64 // when it was adjusted last, by the ledger's clock
	holds  openHolds
	held   spec.Money // at most
}

// heldAt returns the most that payments can hold of it at a time of the ledger, which does not go back.
func (o *allowance) heldAt(at uint64) spec.Money {
	for _, h := range o.holds.expired(at) {
		o.held = o.held.Minus(spec.MoneyOf(h.centavos))
	}

	return o.held
}

func (j *Judge) allowance(id spec.AccountID) *allowance {
	if j.allowances[id] == nil {
		j.allowances[id] = &allowance{}
	}

	return j.allowances[id]
}

// takeAllowance takes a transfer of the ledger of allowances, and reports whether it is a leg 4, which its
// payment must explain. Who follows does not know what allowances have.
func (j *Judge) takeAllowance(t tb.Transfer) (ofPayment bool) {
	debit, credit := spec.NumberOf(t.DebitAccountID), spec.NumberOf(t.CreditAccountID)

	id := debit
	if debit == spec.AllowanceSource {
		id = credit
	}
	amount, ok := spec.Centavos(t.Amount)

	wrong := j.blame(WrongAllowance, spec.TransferName(t), "")
	if !ok || debit != spec.AllowanceSource && credit != spec.AllowanceSource || spec.KindOf(id) != spec.KindAllowance {
		wrong("%s: it must stand between the source and an allowance", spec.MovedBy(t))
		return false
	}
	flags := t.TransferFlags()

	holds := flags.Pending || flags.VoidPendingTransfer
	if flags.PostPendingTransfer || holds && t.Code != spec.CodeCapLeg || !holds && t.Code != spec.CodeAdjustment {
		wrong("%s is neither a leg 4 nor an adjustment", spec.MovedBy(t))
	}

	of := j.allowance(id)
	switch {
	case !j.whole:
	case flags.Pending:
		of.holds.add(spec.NumberOf(t.ID), openHold{id, amount, j.capEnd(t) + expiryMargin})
		of.held = of.held.Plus(spec.MoneyOf(amount))
	case flags.VoidPendingTransfer:
		of.held = of.held.Minus(spec.MoneyOf(of.holds.release(spec.NumberOf(t.PendingID)).centavos))
	default:
		if t.Code == spec.CodeAdjustment {
			j.takeAdjustment(t, id, amount)
		}
		j.books.expect(debit, credit, amount)

		if debit == id {
			of.posted.Debits = of.posted.Debits.Plus(spec.MoneyOf(amount))
		} else {
			of.posted.Credits = of.posted.Credits.Plus(spec.MoneyOf(amount))
		}
	}

	return holds && t.Code == spec.CodeCapLeg
}

// capActed takes note of the record of a cap on outflow. Its adjustment is in the same chain.
func (j *Judge) capActed(id spec.AccountID, record tb.Transfer) {
	if !j.whole {
		return
	}

	if at, open := j.acts.capped[id]; open {
		j.unadjusted(id, at)
	}
	delete(j.acts.capped, id)

	if record.UserData64 > 0 { // else it is lifted: engines do not ask for it any more
		j.acts.capped[id] = record.Timestamp
		j.shortages.limit(id, record.UserData64, record.Timestamp)
	}
}

func (j *Judge) unadjusted(id spec.AccountID, at uint64) {
	j.add(WrongAllowance, spec.AccountName(id), "it was not adjusted in the chain of the act that set its cap at %v",
		time.Unix(0, int64(at)).UTC())
}

// takeAdjustment checks an adjustment before it counts. To lower an allowance, one centavo is granted first, so that
// the account's totals, of which ids are made, change even if all of it is held.
func (j *Judge) takeAdjustment(t tb.Transfer, id spec.AccountID, amount uint64) {
	of := j.allowance(id)
	lowers := spec.NumberOf(t.DebitAccountID) == id

	wrong := j.blame(WrongAllowance, spec.TransferName(t), fmt.Sprintf("adjustment of %s: ", spec.AccountName(id)))
	if at, open := j.acts.capped[id]; open && t.Timestamp == at+1 {
		delete(j.acts.capped, id)
	}
	// Who adjusts has read the account since its last adjustment, and the cap after that.
	caps := j.terms(id).outflow[id.High>>spec.BranchShift&1].during(max(j.lookedFrom(t.Timestamp), of.fitted),
		t.Timestamp)
	if !t.TransferFlags().Linked {
		of.fitted = t.Timestamp
	}

	if !slices.ContainsFunc(caps, func(limit outflowCap) bool { return limit.centavos == t.UserData64 }) {
		wrong("it aims at %d centavos, which is no cap in force", t.UserData64)
	}

	aim, has, change := spec.MoneyOf(t.UserData64), of.posted.Balance(), spec.MoneyOf(amount)
	if lowers {
		switch left, held := has.Minus(change), of.heldAt(t.Timestamp); {
		case left.Less(aim):
			wrong("it leaves %v centavos, below the cap of %v", left, aim)
		case aim.Less(left) && held.Less(left) && !j.rebuild.imported: // without what had settled
			wrong("it leaves %v centavos, above the cap of %v, and payments hold %v at most", left, aim, held)
		}

		return
	}

	if linked := t.TransferFlags().Linked; !linked && has.Plus(change) != aim || linked && amount != 1 {
		wrong("it grants %d centavos to %v, and the cap is %v", amount, has, aim)
	}
}

// takeCapLeg takes a leg 4 or its void.
func (j *Judge) takeCapLeg(p *payment, t tb.Transfer) {
	key, role := spec.Split(spec.NumberOf(t.ID))

	wrong := j.blame(WrongAllowance, p.ID.String(), "leg 4: ")
	if t.TransferFlags().VoidPendingTransfer {
		if p.capVoided = true; role != spec.CapVoidRole || spec.NumberOf(t.PendingID) != key.Role(spec.CapRole) {
			wrong("its void has role %d and resolves %x", role, t.PendingID.Bytes())
		}

		return
	}
	j.summary.Capped++
	p.capHeldAt, p.capEnds = t.Timestamp, j.capEnd(t)
	id, amount := spec.NumberOf(t.DebitAccountID), spec.Decimal(t.Amount)
	caps := func(o *spec.Order) bool {
		return amount == fmt.Sprint(o.Content.Centavos) && spec.KindOf(id) == spec.KindAllowance &&
			spec.BooksOf(id) == spec.BooksOf(o.Content.Payer)
	}

	of := &p.Order
	if other := p.claim(caps); p.foreign != 0 && other != nil && !caps(of) {
		of = other
	}
	window := int(id.High >> spec.BranchShift & 1)

	names, ispb := spec.UserData(p.ID, p.Minutes)
	switch {
	case !caps(of) || id != spec.AllowanceOf(of.Content.Payer, window) ||
		spec.NumberOf(t.CreditAccountID) != spec.AllowanceSource || of.Content.SameBank():
		wrong("it is %s, for %v", spec.MovedBy(t), of.Content)
	case role != spec.CapRole || spec.NumberOf(t.UserData128) != names || t.UserData64 != ispb:
		wrong("it is held with role %d, or its user_data does not name the payment", role)
	case t.Timestamp-p.heldAt != 3 && !j.rebuild.again():
		wrong("it is not in the chain of the other legs")
	}

	if j.whole && !j.rebuild.again() { // then it holds for what is left of its window
		j.judgeCap(p, of.Content.Payer, window, t, wrong)
	}
}

// capEnd returns when the ledger ends a leg 4. One that was imported has no timeout: it is there because it is voided.
func (j *Judge) capEnd(t tb.Transfer) uint64 {
	if j.rebuild.imported {
		return t.Timestamp + spec.WindowSecondsMax*uint64(time.Second)
	}

	return t.Timestamp + uint64(t.Timeout)*uint64(time.Second)
}

// judgeCap compares leg 4 with the caps that were in force.
func (j *Judge) judgeCap(p *payment, payer spec.AccountID, window int, t tb.Transfer, wrong blame) {
	from := j.lookedFrom(t.Timestamp)
	if !j.clockWasWrong(p.AcceptedMs, t.Timestamp) && !slices.Contains(windowsBetween(from, t.Timestamp), window) {
		wrong("it is of the %s, at %v", spec.WindowNames[window], time.Unix(0, int64(t.Timestamp)).UTC())
	}

	caps := j.terms(payer).outflow[window].during(from, t.Timestamp)
	if !slices.ContainsFunc(caps, func(limit outflowCap) bool {
		return limit.centavos > 0 &&
			(j.rebuild.imported || t.Timeout == max(limit.seconds,
				j.holdTimeout+uint32(holdBeyondDeadline/time.Second)))
	}) {
		wrong("it ends after %d s beside holds of %d s, which follows from no cap in force: %v", t.Timeout,
			j.holdTimeout, caps)
	}
}

// judgeCapEnd checks how leg 4 of a payment ended.
func (j *Judge) judgeCapEnd(p *payment, settled bool) {
	switch {
	case settled && p.capVoided:
		j.add(WrongAllowance, p.ID.String(),
			"it settled, and leg 4 was voided: the allowance is back, and the money is gone")
	case j.whole && !settled && p.capHeldAt != 0 && !p.capVoided && max(p.decidedAt, p.heldAt) < p.capEnds:
		j.add(WrongAllowance, p.ID.String(),
			"it did not settle, and leg 4 was not voided: the allowance is held for nothing")
	}
}

// judgeOutflow checks a refusal with LQ12: what was held in the window left less than the payment.
func (j *Judge) judgeOutflow(p *payment) refusal {
	c, from := p.Content, p.since()
	if c.SameBank() {
		return "it stays within its bank"
	}

	terms, looked := j.terms(c.Payer), j.lookedFrom(from)
	for _, window := range windowsBetween(looked, p.decidedAt) {
		if !slices.ContainsFunc(terms.outflow[window].during(looked, p.decidedAt), func(limit outflowCap) bool {
			return limit.centavos > 0
		}) {
			continue
		}

		if r := j.judgeShortOf(spec.AllowanceOf(c.Payer, window), p); r == "" || r == unchecked {
			return r
		}
	}

	return unless(false, "%s had no cap on outflow that %d centavos exceeded", spec.ISPBOf(c.Payer), c.Centavos)
}

// unfit returns what is wrong with allowances as they are, by account.
func (j *Judge) unfit() map[spec.AccountID]string {
	problems := map[spec.AccountID]string{}

	for books, terms := range j.acts.banks {
		for window, caps := range terms.outflow {
			if len(caps) == 0 || caps[len(caps)-1].value.centavos == 0 {
				continue
			}
			id := spec.AllowanceOf(books, window)
			account := j.books.accounts[id]

			limit, has := spec.MoneyOf(caps[len(caps)-1].value.centavos), account.posted.Balance()
			if has != limit && (has.Less(limit) || has != account.pending.Debits) {
				problems[id] = fmt.Sprintf("it has %v centavos, %v of them held, and the cap is %v", has,
					account.pending.Debits, limit)
			}
		}
	}

	return problems
}

// judgeAllowances checks that each allowance has what its cap says.
func (j *Judge) judgeAllowances() {
	for id, problem := range j.unfit() {
		j.add(WrongAllowance, spec.AccountName(id), "%s", problem)
	}

	for id, at := range j.acts.capped {
		j.unadjusted(id, at)
	}
}
