package audit

import (
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// Returns, derived from "Returns" in ARCHITECTURE.md.

const (
	returnDaysMax  = 90
	nanosecondsDay = uint64(24 * time.Hour)
)

// given is what is kept about a payment for its returns.
type given struct {
	returned money // in the ledger
	marked   bool  // as a payment with returns
	returns  []*payment
}

func (j *Judge) given(key number128) *given {
	if j.originals[key] == nil {
		j.originals[key] = &given{}
	}

	return j.originals[key]
}

// recallOriginal finds the original of a return among the payments that are kept.
func (j *Judge) recallOriginal(o *order) (found bool) {
	p := j.payments[o.back.key()]
	switch {
	case p != nil && p.id == o.back.original && (j.whole || p.settledAt() != 0):
		o.returns(original{p.content, p.settledAt})
	case j.whole:
		o.returns(original{content{}, never})
	}

	return o.original != nil
}

// takeMark takes a mark of a payment: that it has returns, without which nobody looks for them, or that a slot
// is burnt, in which nobody holds a return any more.
func (j *Judge) takeMark(t tb.Transfer) {
	key, role := split(fromTigerBeetle(t.ID))
	id, minutes, err := idIn('E', t)
	idIsRight := role == burntMarkRole

	if t.Code == codeReturned {
		if p := j.payments[key]; p != nil && p.ordered() {
			id, minutes, err = p.id, p.minutes, nil
		}
		idIsRight = role == returnMarkRole && err == nil && key == paymentKey(id, minutes)
	} else if err == nil {
		_, isSlot := (&returnContent{original: id, minutes: minutes}).slot(key)
		idIsRight = idIsRight && isSlot

		if j.whole {
			j.burnt[key] = struct{}{}
		}
	}

	of := paymentKey(id, minutes)
	if p := j.payments[of]; j.whole && (err != nil || p == nil || p.id != id || j.originals[of] == nil) {
		j.add(UnexplainedMoney, transferName(t), "the mark with code %d of a payment of which %s holds no return",
			t.Code, paymentsTopic)
		return
	}
	names, ispb := userData(id, minutes)

	debit, credit := fromTigerBeetle(t.DebitAccountID), fromTigerBeetle(t.CreditAccountID)
	if err != nil || !idIsRight || t.Amount != (tb.Uint128{}) || t.Flags != 0 || debit != transitOf(bankNamed(id)) ||
		credit != reserveOf(bankNamed(id)) ||
		fromTigerBeetle(t.UserData128) != names || t.UserData64 != ispb {
		j.add(WrongTransfer, id.String(),
			"its mark with code %d has the wrong id %x, moves %s centavos from %s to %s with flags %#x, or names another payment",
			t.Code, t.ID.Bytes(), decimal(t.Amount), nameOf(debit), nameOf(credit), t.Flags)
	}

	if t.Code == codeReturned && j.whole {
		j.given(of).marked = true
	}
}

// judgeSlot checks where a return is held.
func (j *Judge) judgeSlot(p *payment) {
	if p.back == nil || p.held == 0 {
		return
	}

	if !j.given(p.back.key()).marked {
		j.add(NoMark, p.id.String(), "it is held, but its original %s has no mark, so nobody looks for its returns",
			p.back.original)
	}

	if _, burnt := j.burnt[p.slot]; burnt {
		j.add(WrongTransfer, p.id.String(), "it is held in a slot of %s that is marked as burnt", p.back.original)
	}
}

// judgeSettledReturn checks that a settled return was allowed to settle.
func (j *Judge) judgeSettledReturn(p *payment) {
	wrong := j.blame(WrongReturn, p.id.String(), "")

	settledAt := p.original.settledAt()
	switch {
	case settledAt == 0 || settledAt >= p.decidedAt:
		wrong("its original %s had not settled before", p.back.original)
	case p.tooOld():
		wrong("it was accepted more than %d days after its original settled", returnDaysMax)
	}

	if !p.byReceiver() {
		wrong("its RtrId is not from the PSP that received the original")
	}

	if p.back.centavos == 0 {
		wrong("it gives nothing back")
	}

	if o := j.originals[p.back.key()]; o != nil {
		o.returned = o.returned.plus(moneyOf(p.back.centavos))
	} else {
		j.sumReturns(p)
	}
}

// tooOld reports whether a return was accepted too long after its original settled.
func (p *payment) tooOld() bool {
	return p.acceptedMs > 0 &&
		uint64(p.acceptedMs)*uint64(time.Millisecond) > p.original.settledAt()+returnDaysMax*nanosecondsDay
}

// byReceiver reports whether a return is from the PSP that received its original.
func (p *payment) byReceiver() bool { return transitOf(p.content.payer) == transitOf(bankNamed(p.id)) }

// judgeReturned compares what was paid with what was returned of it.
func (j *Judge) judgeReturned(subject string, original endToEndID, paid uint64, returned money) {
	if moneyOf(paid).less(returned) {
		j.add(ReturnedTooMuch, subject, "%d centavos were paid with %s and %v returned", paid, original, returned)
	}
}

// sumReturns adds up what has been returned of a payment that is not kept. Returns of lower slots were judged
// against it before, so it asks about these only.
func (j *Judge) sumReturns(p *payment) {
	back, subject, of := *p.back, p.id.String(), p.original.content.centavos

	slot, _ := back.slot(p.slot)
	if slot == 0 {
		j.judgeReturned(subject, back.original, of, moneyOf(back.centavos))
		return
	}

	var ids []number128
	for below := range slot {
		ids = append(ids, returnKey(back.original, back.minutes, below).role(resolutionRole))
	}
	j.lookUp(ids, func(found map[number128]tb.Transfer) {
		sum := moneyOf(back.centavos)

		for _, id := range ids {
			if t := found[id]; t.TransferFlags().PostPendingTransfer && t.Code == codeReturnLeg1 {
				sum = sum.plus(moneyIn(t.Amount))
			}
		}
		j.judgeReturned(subject, back.original, of, sum)
	})
}
