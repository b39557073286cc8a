package audit

import (
	"container/heap"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// A cap on outflow is leg 4: it holds a payment's amount from an allowance of its payer's bank, for
// the length of the window, and nobody posts it. So what has been sent within a window is what is held.
// An allowance has as much as the cap says. Adjustments bring it there.

var windowNames = [...]string{"day", "night"}

const (
	// codeCapLeg is of leg 4 and of its void.
	codeCapLeg     = 4
	codeAdjustment = 51
	capRole        = 3
	capVoidRole    = 7
)

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

func (a *Auditor) allowance(id accountID) *allowance {
	if a.allowances[id] == nil {
		a.allowances[id] = &allowance{}
	}
	return a.allowances[id]
}

// takeAllowance takes a transfer of the ledger of allowances: a leg 4, or an adjustment.
func (a *Auditor) takeAllowance(t tb.Transfer) {
	debit, credit := fromTigerBeetle(t.DebitAccountID), fromTigerBeetle(t.CreditAccountID)
	id := debit
	if debit == allowanceSource {
		id = credit
	}
	amount, ok := centavos(t.Amount)
	if !ok || debit != allowanceSource && credit != allowanceSource || kindOf(id) != kindAllowance {
		a.add(WrongAllowance, transferName(t), "%s with code %d from %s to %s: it must stand between the source and an allowance", decimal(t.Amount), t.Code, nameOf(debit), nameOf(credit))
		return
	}
	flags := t.TransferFlags()
	switch {
	case flags.Pending || flags.VoidPendingTransfer:
		a.takeCapLeg(t, id, amount)
		return
	case flags.PostPendingTransfer:
		a.add(WrongAllowance, transferName(t), "a leg 4 of %d centavos is posted", amount)
	case t.Code != codeAdjustment:
		a.add(WrongAllowance, transferName(t), "%d centavos with code %d from %s to %s are no adjustment", amount, t.Code, nameOf(debit), nameOf(credit))
	default:
		a.takeAdjustment(t, id, amount)
	}
	a.expect(debit, credit, amount)
	of := a.allowance(id)
	if debit == id {
		of.posted.debits = of.posted.debits.plus(moneyOf(amount))
	} else {
		of.posted.credits = of.posted.credits.plus(moneyOf(amount))
	}
}

// capActed takes note of the record of a cap on outflow. Its adjustment is in the same chain.
func (a *Auditor) capActed(id accountID, record tb.Transfer) {
	if at, open := a.acts.capped[id]; open {
		a.unadjusted(id, at)
	}
	delete(a.acts.capped, id)
	if record.UserData64 > 0 { // else it is lifted: engines do not ask for it any more
		a.acts.capped[id] = record.Timestamp
		a.shortages.limit(id, record.UserData64, record.Timestamp)
	}
}

func (a *Auditor) unadjusted(id accountID, at uint64) {
	a.add(WrongAllowance, nameOf(id), "it was not adjusted in the chain of the act that set its cap at %v", time.Unix(0, int64(at)).UTC())
}

// takeAdjustment checks an adjustment before it counts. Its id follows from the account's totals, so
// one adjustment is taken of all that were computed from them. To lower an allowance, one centavo is
// granted first, so that the totals change even if all of it is held.
func (a *Auditor) takeAdjustment(t tb.Transfer, id accountID, amount uint64) {
	of := a.allowance(id)
	lowers := fromTigerBeetle(t.DebitAccountID) == id
	wrong := func(format string, arguments ...any) {
		a.add(WrongAllowance, transferName(t), "adjustment of %s: %s", nameOf(id), fmt.Sprintf(format, arguments...))
	}
	if at, open := a.acts.capped[id]; open && t.Timestamp == at+1 {
		delete(a.acts.capped, id)
	}
	caps := a.terms(id).outflow[id.high>>branchShift&1].during(a.lookedFrom(t.Timestamp), t.Timestamp)
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
		case aim.less(left) && held.less(left):
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

// adjustmentKey returns the id of the next adjustment of an allowance, with role 0.
func adjustmentKey(id accountID, posted movement) number128 {
	text := []byte("liquida allowance\x00")
	for _, part := range [...]number128{id, number128(posted.credits), number128(posted.debits)} {
		text = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(text, part.high), part.low)
	}
	sum := sha256.Sum256(text)
	return number128{binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16]) &^ 15}
}

// takeCapLeg takes a leg 4 or its void.
func (a *Auditor) takeCapLeg(t tb.Transfer, id accountID, amount uint64) {
	if flags := t.TransferFlags(); flags.Pending {
		a.allowance(id).hold(fromTigerBeetle(t.ID), amount, t.Timestamp+uint64(t.Timeout)*uint64(time.Second))
	} else {
		a.allowance(id).release(fromTigerBeetle(t.PendingID))
	}
	key, role := split(fromTigerBeetle(t.ID))
	p := a.find(key)
	if p == nil || t.Code != codeCapLeg {
		a.add(WrongAllowance, transferName(t), "with code %d, a leg 4 of a payment that is in no record of %s", t.Code, paymentsTopic)
		return
	}
	wrong := func(format string, arguments ...any) {
		a.add(WrongAllowance, p.id.String(), "leg 4: %s", fmt.Sprintf(format, arguments...))
	}
	if t.TransferFlags().VoidPendingTransfer {
		if p.capVoided = true; role != capVoidRole || fromTigerBeetle(t.PendingID) != key.role(capRole) {
			wrong("its void has role %d and resolves %x", role, t.PendingID.Bytes())
		}
		return
	}
	a.summary.Capped++
	p.capHeldAt, p.capEnds = t.Timestamp, t.Timestamp+uint64(t.Timeout)*uint64(time.Second)
	of := p.content
	if amount != of.centavos || booksOf(id) != booksOf(of.payer) {
		for _, other := range a.conflicting[key] {
			if p.foreign != 0 && amount == other.centavos && booksOf(id) == booksOf(other.payer) {
				of = other
				break
			}
		}
	}
	window := int(id.high >> branchShift & 1)
	from := a.lookedFrom(t.Timestamp)
	switch {
	case role != capRole:
		wrong("it is held with role %d", role)
	case amount != of.centavos || id != allowanceOf(of.payer, window) || fromTigerBeetle(t.CreditAccountID) != allowanceSource:
		wrong("it holds %d centavos from %s for %s", amount, nameOf(fromTigerBeetle(t.DebitAccountID)), nameOf(fromTigerBeetle(t.CreditAccountID)))
	case booksOf(of.payer) == booksOf(of.payee):
		wrong("the payment stays within %s", ispbOf(of.payer))
	case t.Timestamp-p.heldAt != 3:
		wrong("it is not in the chain of the other legs")
	case !a.clockWasWrong(p.acceptedMs, t.Timestamp) && !slices.Contains(windowsBetween(from, t.Timestamp), window):
		wrong("it is of the %s, at %v", windowNames[window], time.Unix(0, int64(t.Timestamp)).UTC())
	}
	if names, ispb := userData(p.id, uint64(p.minutes)); fromTigerBeetle(t.UserData128) != names || t.UserData64 != ispb {
		wrong("its user_data does not name the payment")
	}
	caps := a.terms(of.payer).outflow[window].during(from, t.Timestamp)
	if !slices.ContainsFunc(caps, func(limit outflowCap) bool {
		return limit.centavos > 0 && t.Timeout == max(limit.seconds, a.holdTimeout+uint32(holdBeyondDeadline/time.Second))
	}) {
		wrong("it ends after %d s beside holds of %d s, which follows from no cap in force: %v", t.Timeout, a.holdTimeout, caps)
	}
}

// judgeCapLeg checks how leg 4 of a payment ended.
func (a *Auditor) judgeCapLeg(p *payment, settled bool) {
	switch {
	case settled && p.capVoided:
		a.add(WrongAllowance, p.id.String(), "it settled, and leg 4 was voided: the allowance is back, and the money is gone")
	case !settled && p.capHeldAt != 0 && !p.capVoided && max(p.decidedAt, p.heldAt) < p.capEnds:
		a.add(WrongAllowance, p.id.String(), "it did not settle, and leg 4 was not voided: the allowance is held for nothing")
	}
}

// judgeOutflow checks a refusal with LQ12: what was held in the window left less than the payment.
func (a *Auditor) judgeOutflow(p *payment, from uint64) refusal {
	c := p.content
	if p.sameBank() {
		return refusal{wrong: "it stays within its bank"}
	}
	terms, looked := a.terms(c.payer), a.lookedFrom(from)
	for _, window := range windowsBetween(looked, p.decidedAt) {
		if !slices.ContainsFunc(terms.outflow[window].during(looked, p.decidedAt), func(limit outflowCap) bool { return limit.centavos > 0 }) {
			continue
		}
		if r := a.judgeShort(allowanceOf(c.payer, window), c.centavos, from, p.decidedAt); r.unchecked || r.wrong == "" {
			return r
		}
	}
	return refusal{wrong: fmt.Sprintf("%s had no cap on outflow that %d centavos exceeded", ispbOf(c.payer), c.centavos)}
}

// unfit returns what is wrong with allowances as they are, by account.
func (a *Auditor) unfit() map[accountID]string {
	problems := map[accountID]string{}
	for books, terms := range a.acts.banks {
		for window, caps := range terms.outflow {
			if len(caps) == 0 || caps[len(caps)-1].value.centavos == 0 {
				continue
			}
			id := allowanceOf(books, window)
			account := a.accounts[id]
			limit, has := moneyOf(caps[len(caps)-1].value.centavos), account.posted.balance()
			if has != limit && (has.less(limit) || has != account.pending.debits) {
				problems[id] = fmt.Sprintf("it has %v centavos, %v of them held, and the cap is %v", has, account.pending.debits, limit)
			}
		}
	}
	return problems
}

// judgeAllowances checks that each allowance has what its cap says.
func (a *Auditor) judgeAllowances() {
	for id, problem := range a.unfit() {
		a.add(WrongAllowance, nameOf(id), "%s", problem)
	}
	for id, at := range a.acts.capped {
		a.unadjusted(id, at)
	}
}
