package audit

import (
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/loadtest/audit/spec"

	"github.com/liquida/liquida/loadtest/audit/source"
)

// Returns, derived from "Returns" in ARCHITECTURE.md.

const (
	returnDaysMax  = 90
	nanosecondsDay = uint64(24 * time.Hour)
)

// givenBack is what is kept about a payment for its returns.
type givenBack struct {
	returned spec.Money // in the ledger
	marked   bool       // as a payment with returns
	returns  []*payment
	used     int // slots in which returns were held, or that are burnt
}

func (j *Judge) givenBack(key spec.Number) *givenBack {
	if j.originals[key] == nil {
		j.originals[key] = &givenBack{}
	}

	return j.originals[key]
}

// recallOriginal finds the original of a return among the payments that are kept.
func (j *Judge) recallOriginal(o *spec.Order) (found bool) {
	p := j.payments[o.Back.Key()]
	switch {
	case p != nil && p.ID == o.Back.Original && (j.whole || p.settledAt() != 0):
		o.Returns(spec.Original{Content: p.Content, SettledAt: p.settledAt})
	case j.whole:
		o.Returns(spec.Original{SettledAt: spec.Never})
	}

	return o.Original != nil
}

// takeMark takes a mark of a payment: that it has returns, without which nobody looks for them, or that a slot
// is burnt, in which nobody holds a return any more.
func (j *Judge) takeMark(t tb.Transfer) {
	key, role := spec.Split(spec.NumberOf(t.ID))
	id, minutes, err := spec.IDIn('E', t)
	idIsRight := role == spec.BurntMarkRole

	if t.Code == spec.CodeReturned {
		if p := j.payments[key]; p != nil && p.ordered() {
			id, minutes, err = p.ID, p.Minutes, nil
		}
		idIsRight = role == spec.ReturnMarkRole && err == nil && key == spec.PaymentKey(id, minutes)
	} else if err == nil {
		_, isSlot := (&spec.ReturnContent{Original: id, Minutes: minutes}).Slot(key)
		idIsRight = idIsRight && isSlot

		if j.whole {
			j.burnt[key] = struct{}{}
		}
	}

	of := spec.PaymentKey(id, minutes)
	if p := j.payments[of]; j.whole && (err != nil || p == nil || p.ID != id || j.originals[of] == nil) {
		j.add(UnexplainedMoney, spec.TransferName(t), "the mark with code %d of a payment of which %s holds no return",
			t.Code, source.Payments)
		return
	}
	names, ispb := spec.UserData(id, minutes)

	debit, credit := spec.NumberOf(t.DebitAccountID), spec.NumberOf(t.CreditAccountID)
	if err != nil || !idIsRight || t.Amount != (tb.Uint128{}) || t.Flags != 0 ||
		debit != spec.TransitOf(spec.BankNamed(id)) ||
		credit != spec.ReserveOf(spec.BankNamed(id)) ||
		spec.NumberOf(t.UserData128) != names || t.UserData64 != ispb {
		j.add(WrongTransfer, id.String(),
			"its mark with code %d has the wrong id %x, moves %s centavos from %s to %s with flags %#x, or names another payment",
			t.Code, t.ID.Bytes(), spec.Decimal(t.Amount), spec.AccountName(debit), spec.AccountName(credit), t.Flags)
	}

	switch {
	case !j.whole:
	case t.Code == spec.CodeReturned:
		j.givenBack(of).marked = true
	default:
		j.givenBack(of).used++
	}
}

// judgeSlot checks where a return is held.
func (j *Judge) judgeSlot(p *payment) {
	if p.Back == nil || p.held == 0 {
		return
	}

	if !j.givenBack(p.Back.Key()).marked {
		j.add(NoMark, p.ID.String(), "it is held, but its original %s has no mark, so nobody looks for its returns",
			p.Back.Original)
	}

	if _, burnt := j.burnt[p.slot]; burnt {
		j.add(WrongTransfer, p.ID.String(), "it is held in a slot of %s that is marked as burnt", p.Back.Original)
	}
}

// judgeSettledReturn checks that a settled return was allowed to settle.
func (j *Judge) judgeSettledReturn(p *payment) {
	wrong := j.blame(WrongReturn, p.ID.String(), "")

	settledAt := p.Original.SettledAt()
	switch {
	case settledAt == 0 || settledAt >= p.decidedAt:
		wrong("its original %s had not settled before", p.Back.Original)
	case p.tooOld():
		wrong("it was accepted more than %d days after its original settled", returnDaysMax)
	}

	if !p.byReceiver() {
		wrong("its RtrId is not from the PSP that received the original")
	}

	if p.Back.Centavos == 0 {
		wrong("it gives nothing back")
	}

	if o := j.originals[p.Back.Key()]; o != nil {
		o.returned = o.returned.Plus(spec.MoneyOf(p.Back.Centavos))
	} else {
		j.sumReturns(p)
	}
}

// tooOld reports whether a return was accepted too long after its original settled.
func (p *payment) tooOld() bool {
	return p.AcceptedMs > 0 &&
		uint64(p.AcceptedMs)*uint64(time.Millisecond) > p.Original.SettledAt()+returnDaysMax*nanosecondsDay
}

// byReceiver reports whether a return is from the PSP that received its original.
func (p *payment) byReceiver() bool {
	return spec.TransitOf(p.Content.Payer) == spec.TransitOf(spec.BankNamed(p.ID))
}

// judgeReturned compares what was paid with what was returned of it.
func (j *Judge) judgeReturned(subject string, original spec.ID, paid uint64, returned spec.Money) {
	if spec.MoneyOf(paid).Less(returned) {
		j.add(ReturnedTooMuch, subject, "%d centavos were paid with %s and %v returned", paid, original, returned)
	}
}

// sumReturns adds up what has been returned of a payment that is not kept. Returns of lower slots were judged
// against it before, so it asks about these only.
func (j *Judge) sumReturns(p *payment) {
	back, subject, of := *p.Back, p.ID.String(), p.Original.Content.Centavos

	slot, _ := back.Slot(p.slot)
	if slot == 0 {
		j.judgeReturned(subject, back.Original, of, spec.MoneyOf(back.Centavos))
		return
	}

	var ids []spec.Number
	for below := range slot {
		ids = append(ids, spec.ReturnKey(back.Original, back.Minutes, below).Role(spec.ResolutionRole))
	}
	j.lookUp(ids, func(found map[spec.Number]tb.Transfer) {
		sum := spec.MoneyOf(back.Centavos)

		for _, id := range ids {
			if t := found[id]; t.TransferFlags().PostPendingTransfer && t.Code == spec.CodeReturnLeg1 {
				sum = sum.Plus(spec.MoneyIn(t.Amount))
			}
		}
		j.judgeReturned(subject, back.Original, of, sum)
	})
}
