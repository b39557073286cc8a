package audit

import (
	"fmt"
	"math"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// A refusal is a receipt: nothing was held, or the hold expired. No bank has a say in it, so its
// reason must follow from the order and the ledger. This file derives what can be derived, from
// docs/outcomes.md. The rest is counted as not checked.

// openQuestions are the holds that wait for one bank. Times are by the ledger's clock, ns.
type openQuestions struct {
	ends map[number128]uint64 // by the hold of leg 1: when it has ended at the latest
	last uint64               // when another one ended last
}

// ask begins a question: leg 1 of an order to a bank is held.
func (a *Auditor) ask(payee accountID, leg tb.Transfer) {
	bank := transitOf(payee)
	q := a.questions[bank]
	if q == nil {
		q = &openQuestions{ends: map[number128]uint64{}}
		a.questions[bank] = q
	}
	ends := uint64(math.MaxUint64)
	if leg.Timeout > 0 {
		ends = leg.Timestamp + uint64(leg.Timeout)*uint64(time.Second) + expiryMargin
	}
	q.ends[fromTigerBeetle(leg.ID)] = ends
}

// answered ends the question of a hold.
func (a *Auditor) answered(payee accountID, hold number128, at uint64) {
	if q := a.questions[transitOf(payee)]; q != nil {
		if _, open := q.ends[hold]; open {
			delete(q.ends, hold)
			q.last = max(q.last, at)
		}
	}
}

// wasAsked reports whether a payment waited for a bank at some time after from.
func (a *Auditor) wasAsked(payee accountID, from uint64) bool {
	q := a.questions[transitOf(payee)]
	if q == nil {
		return false
	}
	for hold, ends := range q.ends {
		if ends >= from {
			return true
		}
		delete(q.ends, hold) // the ledger has ended it by its timeout
		q.last = max(q.last, ends)
	}
	return q.last >= from
}

// since returns the earliest time of the ledger at which an engine can have looked at an order.
func (s *sending) since(acceptedMs int64) uint64 {
	return uint64(max(0, min(acceptedMs, s.sentMs)*int64(time.Millisecond)-int64(clockSkewMax)))
}

// followAccounts follows the accounts that reports say were short.
func (a *Auditor) followAccounts() {
	for i := range a.payments {
		p := &a.payments[i]
		switch p.reason {
		case payerShort:
			a.shortages.follow(p.content.payer, p.content.centavos)
		case reserveShort:
			a.shortages.follow(reserveOf(p.content.payer), p.content.centavos)
		case outflowCapped:
			a.shortages.follow(allowanceOf(p.content.payer, 0), p.content.centavos)
			a.shortages.follow(allowanceOf(p.content.payer, 1), p.content.centavos)
		}
	}
	for _, g := range a.returns {
		if p := a.originalOf(g.content); p != nil && g.reason == payerShort {
			a.shortages.follow(p.content.payee, g.content.centavos)
		} else if p != nil && g.reason == reserveShort {
			a.shortages.follow(reserveOf(p.content.payee), g.content.centavos)
		}
	}
}

// code returns the number of a reason code in this file.
func code(text string) uint32 {
	number, err := reasonNumber(text)
	if err != nil {
		panic(err)
	}
	return number
}

var (
	payerShort    = code("LQ01")
	reserveShort  = code("AM04")
	bankBusy      = code("LQ02")
	outflowCapped = code("LQ12")
)

// refusal is what the audit says to the reason of a refusal.
type refusal struct {
	wrong     string // empty: it is justified, or unchecked
	unchecked bool
}

func unless(right bool, format string, arguments ...any) refusal {
	if right {
		return refusal{}
	}
	return refusal{wrong: fmt.Sprintf(format, arguments...)}
}

// judgeRefusal checks the reason of a payment's receipt. The verdict and the accounts are known.
func (a *Auditor) judgeRefusal(p *payment) {
	c := p.content
	from := p.since(p.acceptedMs)
	exists := func(id accountID) bool { _, known := a.accounts[id]; return known }
	var r refusal
	switch reasonText(p.verdict) {
	case "AB03", tooLateReason: // judgeDeadlines, takeReceipt
		r.unchecked = a.clockWasWrong(p.acceptedMs, p.decidedAt)
	case "LQ02": // takeReceipt
	case "AM01":
		r = unless(c.centavos == 0, "its amount is %d centavos", c.centavos)
	case "RC09":
		r = unless(!exists(transitOf(c.payer)), "the ledger has the payer's bank %s", ispbOf(c.payer))
	case "RC10":
		r = unless(!exists(transitOf(c.payee)), "the ledger has the payee's bank %s", ispbOf(c.payee))
	case "AC02":
		r = unless(!exists(c.payer) && exists(transitOf(c.payer)), "the payer's account %s is there (%t), its bank is (%t)", nameOf(c.payer), exists(c.payer), exists(transitOf(c.payer)))
	case "AC03":
		r = unless(!exists(c.payee) && exists(transitOf(c.payee)), "the payee's account %s is there (%t), its bank is (%t)", nameOf(c.payee), exists(c.payee), exists(transitOf(c.payee)))
	case "LQ01":
		if !exists(c.payer) {
			r.wrong = "the payer's account is not in the ledger"
			break
		}
		r = a.judgeShort(c.payer, c.centavos, from, p.decidedAt)
	case "AM04":
		if p.sameBank() {
			r.wrong = "it does not move reserves"
			break
		}
		r = a.judgeShort(reserveOf(c.payer), c.centavos, from, p.decidedAt)
	case "DS27":
		r = a.judgeSuspended(p.decidedAt, c.payer, c.payee)
	case "AM13":
		r = a.judgePaymentCap(p)
	case "LQ12":
		r = a.judgeOutflow(p, from)
	default:
		r.wrong = "no order is refused with this reason without its bank"
	}
	a.count(p.id, p.verdict, r)
}

func (a *Auditor) judgeShort(account accountID, centavos, from, to uint64) refusal {
	short, followed := a.shortages.wasShort(account, centavos, from, to)
	if !followed { // the report says another reason, which is a finding
		return refusal{unchecked: true}
	}
	return unless(short, "%s had %d centavos and more all the time", nameOf(account), centavos)
}

// count counts a refusal, and reports one that is not justified.
func (a *Auditor) count(id endToEndID, reason uint32, r refusal) {
	switch {
	case r.unchecked:
		a.summary.ReasonsUnchecked[reasonText(reason)]++
	case r.wrong != "":
		a.add(WrongReason, id.String(), "refused with %s, but %s", reasonText(reason), r.wrong)
	default:
		a.summary.ReasonsChecked[reasonText(reason)]++
	}
}

// judgeReturnRefusal checks the reason of a return that was refused without being held. p is its
// original, or nil.
func (a *Auditor) judgeReturnRefusal(g *paymentReturn, p *payment) {
	from := g.since(g.content.acceptedMs)
	o := a.originals[paymentKey(g.content.original, g.content.minutes)]
	known := p != nil && o.settledAt != 0 && o.settledAt < from
	settled := p != nil && o.settledAt != 0
	var r refusal
	switch reasonText(g.verdict) {
	case "AB03", tooLateReason: // judgeDeadlines, takeReturnVerdict
		r.unchecked = a.clockWasWrong(g.content.acceptedMs, g.decidedAt)
	case "LQ02": // takeReturnVerdict: the original's id names the bank
	case "AM01":
		r = unless(g.content.centavos == 0, "its amount is %d centavos", g.content.centavos)
	case "LQ04":
		r = unless(!known, "its original %s had settled before it was sent", g.content.original)
	case "LQ05":
		psp, err := packISPB(string(g.id[1:9]))
		r = unless(err == nil && p != nil && p.content.payee.high&ispbMask != psp<<ispbShift, "its RtrId is of the bank that received the original")
	case "DT05":
		r = unless(settled && uint64(g.content.acceptedMs)*uint64(time.Millisecond) > o.settledAt+returnDaysMax*nanosecondsDay,
			"it was accepted within %d days after its original settled", returnDaysMax)
	case "AM09", "LQ01", "AM04":
		r = a.judgeWithOriginal(g, p, from)
	case "LQ06":
		used := a.usedSlots(g, o)
		r = unless(used >= returnSlots, "only %d slots of its original are used", used)
	case "DS27":
		r = a.judgeSuspended(g.decidedAt, bankNamed(g.id)) // one to a suspended bank is taken
	case "LQ11":
		r.unchecked = true
	default:
		r.wrong = "no return is refused with this reason without its bank"
	}
	a.count(g.id, g.verdict, r)
}

// judgeWithOriginal checks a reason that a return can have only if its original is known.
func (a *Auditor) judgeWithOriginal(g *paymentReturn, p *payment, from uint64) refusal {
	if p == nil {
		return refusal{wrong: "no record is its original"}
	}
	switch reasonText(g.verdict) {
	case "AM09":
		return a.originals[paymentKey(p.id, uint64(p.minutes))].judgeExceeds(g, p, from)
	case "LQ01":
		return a.judgeShort(p.content.payee, g.content.centavos, from, g.decidedAt)
	}
	return a.judgeShort(reserveOf(p.content.payee), g.content.centavos, from, g.decidedAt) // AM04
}

// judgeExceeds checks that the returns which were held or had settled left less than g wants.
func (o *original) judgeExceeds(g *paymentReturn, p *payment, from uint64) refusal {
	var given money
	for _, other := range o.returns {
		if other.foreign != 0 || len(other.conflicts) > 0 { // a conflicting message may hold money, too
			return refusal{unchecked: true}
		}
		rejected := other.verdict != 0 && other.decidedAt != 0 && other.decidedAt < from
		if other != g && other.heldAt != 0 && other.heldAt <= g.decidedAt && !rejected {
			given = given.plus(moneyOf(other.content.centavos))
		}
	}
	return unless(moneyOf(p.content.centavos).less(given.plus(moneyOf(g.content.centavos))), "%d centavos were paid, and %v of them were held or given back", p.content.centavos, given)
}

// usedSlots returns the slots of an original in which returns are or were held, or that are burnt.
func (a *Auditor) usedSlots(g *paymentReturn, o *original) (used int) {
	held := map[number128]bool{}
	for _, other := range o.returns {
		held[other.slotKey] = other.held != 0
		if other.foreign != 0 {
			used++
		}
	}
	for slot := range returnSlots {
		key := returnKey(g.content.original, g.content.minutes, slot)
		if _, burnt := a.burnt[key]; burnt || held[key] {
			used++
		}
	}
	return used
}

// checkBusy reports a verdict that says that a bank had too many questions, while it had none.
func (a *Auditor) checkBusy(t tb.Transfer, payee accountID, from uint64, wrong func(format string, arguments ...any)) {
	if t.UserData32 == bankBusy && !a.wasAsked(payee, from) {
		wrong("it says %s, but no payment waited for the bank %s", reasonText(bankBusy), ispbOf(payee))
	}
}
