package audit

import (
	"container/heap"
	"fmt"
	"slices"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
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
	posted movement
	base   number128 // of the ids of the last adjustment
	fitted uint64    // when it was adjusted last, by the ledger's clock
	holds  map[number128]uint64
	ending endings
	held   money // at most
}

func (o *allowance) hold(id number128, centavos, ends uint64) {
	if o.holds == nil {
		o.holds = map[number128]uint64{}
	}
	o.holds[id], o.held = centavos, o.held.plus(moneyOf(centavos))
	heap.Push(&o.ending, holdEnd{id, ends + expiryMargin})
}

func (o *allowance) release(id number128) {
	o.held = o.held.minus(moneyOf(o.holds[id]))
	delete(o.holds, id)
}

// heldAt returns the most that payments can hold of it at a time of the ledger, which does not go back.
func (o *allowance) heldAt(at uint64) money {
	for len(o.ending) > 0 && o.ending[0].ends <= at {
		o.release(heap.Pop(&o.ending).(holdEnd).id)
	}

	return o.held
}

func (j *Judge) allowance(id accountID) *allowance {
	if j.allowances[id] == nil {
		j.allowances[id] = &allowance{}
	}

	return j.allowances[id]
}

// takeAllowance takes a transfer of the ledger of allowances, and reports whether it is a leg 4, which its
// payment must explain. Who follows does not know what allowances have.
func (j *Judge) takeAllowance(t tb.Transfer) (ofPayment bool) {
	debit, credit := fromTigerBeetle(t.DebitAccountID), fromTigerBeetle(t.CreditAccountID)

	id := debit
	if debit == allowanceSource {
		id = credit
	}
	amount, ok := centavos(t.Amount)

	wrong := j.blame(WrongAllowance, transferName(t), "")
	if !ok || debit != allowanceSource && credit != allowanceSource || kindOf(id) != kindAllowance {
		wrong("%s: it must stand between the source and an allowance", movedBy(t))
		return false
	}
	flags := t.TransferFlags()

	holds := flags.Pending || flags.VoidPendingTransfer
	if flags.PostPendingTransfer || holds && t.Code != codeCapLeg || !holds && t.Code != codeAdjustment {
		wrong("%s is neither a leg 4 nor an adjustment", movedBy(t))
	}

	of := j.allowance(id)
	switch {
	case !j.whole:
	case flags.Pending:
		of.hold(fromTigerBeetle(t.ID), amount, j.capEnd(t))
	case flags.VoidPendingTransfer:
		of.release(fromTigerBeetle(t.PendingID))
	default:
		if t.Code == codeAdjustment {
			j.takeAdjustment(t, id, amount)
		}
		j.books.expect(debit, credit, amount)

		if debit == id {
			of.posted.debits = of.posted.debits.plus(moneyOf(amount))
		} else {
			of.posted.credits = of.posted.credits.plus(moneyOf(amount))
		}
	}

	return holds && t.Code == codeCapLeg
}

// capActed takes note of the record of a cap on outflow. Its adjustment is in the same chain.
func (j *Judge) capActed(id accountID, record tb.Transfer) {
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

func (j *Judge) unadjusted(id accountID, at uint64) {
	j.add(WrongAllowance, nameOf(id), "it was not adjusted in the chain of the act that set its cap at %v",
		time.Unix(0, int64(at)).UTC())
}

// takeAdjustment checks an adjustment before it counts. Its id follows from the account's totals, so
// one adjustment is taken of all that were computed from them. To lower an allowance, one centavo is
// granted first, so that the totals change even if all of it is held.
func (j *Judge) takeAdjustment(t tb.Transfer, id accountID, amount uint64) {
	of := j.allowance(id)
	lowers := fromTigerBeetle(t.DebitAccountID) == id

	wrong := j.blame(WrongAllowance, transferName(t), fmt.Sprintf("adjustment of %s: ", nameOf(id)))
	if at, open := j.acts.capped[id]; open && t.Timestamp == at+1 {
		delete(j.acts.capped, id)
	}
	// Who adjusts has read the account since its last adjustment, and the cap after that.
	caps := j.terms(id).outflow[id.high>>branchShift&1].during(max(j.lookedFrom(t.Timestamp), of.fitted), t.Timestamp)
	if !t.TransferFlags().Linked {
		of.fitted = t.Timestamp
	}

	if !slices.ContainsFunc(caps, func(limit outflowCap) bool { return limit.centavos == t.UserData64 }) {
		wrong("it aims at %d centavos, which is no cap in force", t.UserData64)
	}
	key, role := split(fromTigerBeetle(t.ID))

	aim, has, change := moneyOf(t.UserData64), of.posted.balance(), moneyOf(amount)
	if lowers {
		if role != moneyRole || key != of.base {
			wrong("it lowers with an id that does not follow from the account's totals")
		}

		switch left, held := has.minus(change), of.heldAt(t.Timestamp); {
		case left.less(aim):
			wrong("it leaves %v centavos, below the cap of %v", left, aim)
		case aim.less(left) && held.less(left) && !j.rebuild.imported: // without what had settled
			wrong("it leaves %v centavos, above the cap of %v, and payments hold %v at most", left, aim, held)
		}

		return
	}

	of.base = adjustmentKey(id, of.posted)
	if role != recordRole || key != of.base {
		wrong("it raises with an id that does not follow from the account's totals")
	}

	if linked := t.TransferFlags().Linked; !linked && has.plus(change) != aim || linked && amount != 1 {
		wrong("it grants %d centavos to %v, and the cap is %v", amount, has, aim)
	}
}

// takeCapLeg takes a leg 4 or its void.
func (j *Judge) takeCapLeg(p *payment, t tb.Transfer) {
	key, role := split(fromTigerBeetle(t.ID))

	wrong := j.blame(WrongAllowance, p.id.String(), "leg 4: ")
	if t.TransferFlags().VoidPendingTransfer {
		if p.capVoided = true; role != capVoidRole || fromTigerBeetle(t.PendingID) != key.role(capRole) {
			wrong("its void has role %d and resolves %x", role, t.PendingID.Bytes())
		}

		return
	}
	j.summary.Capped++
	p.capHeldAt, p.capEnds = t.Timestamp, j.capEnd(t)
	id, amount := fromTigerBeetle(t.DebitAccountID), decimal(t.Amount)
	caps := func(o *order) bool {
		return amount == fmt.Sprint(o.content.centavos) && kindOf(id) == kindAllowance &&
			booksOf(id) == booksOf(o.content.payer)
	}

	of := &p.order
	if other := p.claim(caps); p.foreign != 0 && other != nil && !caps(of) {
		of = other
	}
	window := int(id.high >> branchShift & 1)

	names, ispb := userData(p.id, p.minutes)
	switch {
	case !caps(of) || id != allowanceOf(of.content.payer, window) ||
		fromTigerBeetle(t.CreditAccountID) != allowanceSource || of.content.sameBank():
		wrong("it is %s, for %v", movedBy(t), of.content)
	case role != capRole || fromTigerBeetle(t.UserData128) != names || t.UserData64 != ispb:
		wrong("it is held with role %d, or its user_data does not name the payment", role)
	case t.Timestamp-p.heldAt != 3 && !j.rebuild.again():
		wrong("it is not in the chain of the other legs")
	}

	if j.whole && !j.rebuild.again() { // then it holds for what is left of its window
		j.judgeCap(p, of.content.payer, window, t, wrong)
	}
}

// capEnd returns when the ledger ends a leg 4. One that was imported has no timeout: it is there because it is voided.
func (j *Judge) capEnd(t tb.Transfer) uint64 {
	if j.rebuild.imported {
		return t.Timestamp + windowSecondsMax*uint64(time.Second)
	}

	return t.Timestamp + uint64(t.Timeout)*uint64(time.Second)
}

// judgeCap compares leg 4 with the caps that were in force.
func (j *Judge) judgeCap(p *payment, payer accountID, window int, t tb.Transfer, wrong blame) {
	from := j.lookedFrom(t.Timestamp)
	if !j.clockWasWrong(p.acceptedMs, t.Timestamp) && !slices.Contains(windowsBetween(from, t.Timestamp), window) {
		wrong("it is of the %s, at %v", windowNames[window], time.Unix(0, int64(t.Timestamp)).UTC())
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
		j.add(WrongAllowance, p.id.String(),
			"it settled, and leg 4 was voided: the allowance is back, and the money is gone")
	case j.whole && !settled && p.capHeldAt != 0 && !p.capVoided && max(p.decidedAt, p.heldAt) < p.capEnds:
		j.add(WrongAllowance, p.id.String(),
			"it did not settle, and leg 4 was not voided: the allowance is held for nothing")
	}
}

// judgeOutflow checks a refusal with LQ12: what was held in the window left less than the payment.
func (j *Judge) judgeOutflow(p *payment) refusal {
	c, from := p.content, p.since()
	if c.sameBank() {
		return "it stays within its bank"
	}

	terms, looked := j.terms(c.payer), j.lookedFrom(from)
	for _, window := range windowsBetween(looked, p.decidedAt) {
		if !slices.ContainsFunc(terms.outflow[window].during(looked, p.decidedAt), func(limit outflowCap) bool {
			return limit.centavos > 0
		}) {
			continue
		}

		if r := j.judgeShortOf(allowanceOf(c.payer, window), p); r == "" || r == unchecked {
			return r
		}
	}

	return unless(false, "%s had no cap on outflow that %d centavos exceeded", ispbOf(c.payer), c.centavos)
}

// unfit returns what is wrong with allowances as they are, by account.
func (j *Judge) unfit() map[accountID]string {
	problems := map[accountID]string{}

	for books, terms := range j.acts.banks {
		for window, caps := range terms.outflow {
			if len(caps) == 0 || caps[len(caps)-1].value.centavos == 0 {
				continue
			}
			id := allowanceOf(books, window)
			account := j.books.accounts[id]

			limit, has := moneyOf(caps[len(caps)-1].value.centavos), account.posted.balance()
			if has != limit && (has.less(limit) || has != account.pending.debits) {
				problems[id] = fmt.Sprintf("it has %v centavos, %v of them held, and the cap is %v", has,
					account.pending.debits, limit)
			}
		}
	}

	return problems
}

// judgeAllowances checks that each allowance has what its cap says.
func (j *Judge) judgeAllowances() {
	for id, problem := range j.unfit() {
		j.add(WrongAllowance, nameOf(id), "%s", problem)
	}

	for id, at := range j.acts.capped {
		j.unadjusted(id, at)
	}
}
