package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// Returns, derived from "Returns" in ARCHITECTURE.md.

const (
	returnSlots    = 64
	returnDaysMax  = 90
	nanosecondsDay = uint64(24 * time.Hour)
)

var returnReasons = []string{"MD06", "BE08", "FR01", "SL02"}

// returnContent decides whether two orders are the same return.
type returnContent struct {
	original endToEndID
	minutes  uint64 // in the original's id
	centavos uint64
	reason   uint32
}

// key returns the key of the original.
func (c *returnContent) key() number128 { return paymentKey(c.original, c.minutes) }

// slot returns the slot of the original whose transfers have this key.
func (c *returnContent) slot(key number128) (int, bool) {
	for slot := range returnSlots {
		if returnKey(c.original, c.minutes, slot) == key {
			return slot, true
		}
	}

	return 0, false
}

// returnKey is the id of the transfers in a slot of a payment, with role 0. It is made as the
// payment's own, but the hash is over "R", the EndToEndId and the slot.
func returnKey(original endToEndID, minutes uint64, slot int) number128 {
	return keyWith(original, minutes, sha256.Sum256(append(append([]byte{'R'}, original[:]...), byte(slot))))
}

// idIn reads the id in a transfer's user_data, and puts its letter before it.
func idIn(letter byte, t tb.Transfer) (id endToEndID, minutes uint64, err error) {
	n := fromTigerBeetle(t.UserData128)
	if minutes = n.high >> 24; minutes > minutesMax {
		return id, 0, fmt.Errorf("%d minutes since 2020 are too many", minutes)
	}
	text := append([]byte{letter}, binary.BigEndian.AppendUint64(nil, t.UserData64)...)
	text = epoch.Add(time.Duration(minutes)*time.Minute).AppendFormat(text, "200601021504")
	text = append(text, byte(n.high>>16), byte(n.high>>8), byte(n.high))

	return parseIDOf(letter, string(binary.BigEndian.AppendUint64(text, n.low)))
}

// readReturn judges a return. One with flaws must have a dead letter.
func readReturn(message *pixv1.PaymentOrder, recordTime time.Time) (order, flaws) {
	m := message.ReturnOrder
	var found flaws
	ofPayment := message.EndToEndId != "" || message.Payer.SizeVT()+message.Payee.SizeVT() > 0 ||
		message.AmountCentavos != 0 || message.AcceptedAtUnixMs != 0 || message.RemittanceInformation != ""
	found.note(ofPayment, codeMalformed, "return_order", "")
	id, minutes, err := parseIDOf('D', m.ReturnId)
	found.note(err != nil, codeBadID, "return_id", m.ReturnId)
	found.noteAcceptance(m.AcceptedAtUnixMs, minutes, err == nil, recordTime, "return_id", m.ReturnId)
	original, originalMinutes, err := parseIDOf('E', m.OriginalEndToEndId)
	found.note(err != nil, codeBadID, "original_end_to_end_id", m.OriginalEndToEndId)
	found.note(!slices.Contains(returnReasons, m.ReasonCode), codeMalformed, "reason_code", m.ReasonCode)
	found.note(m.AmountCentavos > amountMax, codeMalformed, "amount_centavos", fmt.Sprint(m.AmountCentavos))

	if found != nil {
		return order{}, found
	}
	text := append(append(original[:], '/'), m.ReasonCode+"/"...)
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(text, m.AmountCentavos))
	reason, _ := reasonNumber(m.ReasonCode) // it is one of returnReasons

	return order{id: id, minutes: minutes, hash: binary.BigEndian.Uint64(sum[:]), acceptedMs: m.AcceptedAtUnixMs,
		back: &returnContent{
			original: original, minutes: originalMinutes, centavos: m.AmountCentavos, reason: reason,
		}}, nil
}

// original is what is kept about a payment for its returns.
type original struct {
	returned money // in the ledger
	marked   bool  // as a payment with returns
	returns  []*payment
}

func (j *Judge) original(key number128) *original {
	if j.originals[key] == nil {
		j.originals[key] = &original{}
	}

	return j.originals[key]
}

// paid is what the original of a return moved.
type paid struct {
	content   content  // zero: there is no such payment
	settledAt uint64   // by the ledger's clock; 0: it did not settle
	payment   *payment // nil: it is not kept
}

// returns takes note of an order's original. It gives the money back: its content is the original's backwards.
func (o *order) returns(of paid) {
	o.original = &of
	if of.content != (content{}) {
		o.content = content{payer: of.content.payee, payee: of.content.payer, centavos: o.back.centavos}
	}
}

// recallOriginal finds the original of a return among the payments that are kept.
func (j *Judge) recallOriginal(o *order) (found bool) {
	p := j.payments[o.back.key()]
	switch {
	case p != nil && p.id == o.back.original && (j.whole || p.settledAt() != 0):
		o.returns(paid{p.content, 0, p})
	case j.whole:
		o.returns(paid{})
	}

	return o.original != nil
}

// when returns when the original settled, by the ledger's clock; 0: it did not.
func (of *paid) when() uint64 {
	if of.payment != nil {
		return of.payment.settledAt()
	}

	return of.settledAt
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
		j.original(of).marked = true
	}
}

// judgeSlot checks where a return is held.
func (j *Judge) judgeSlot(p *payment) {
	if p.back == nil || p.held == 0 {
		return
	}

	if !j.original(p.back.key()).marked {
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

	settledAt := p.original.when()
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
		uint64(p.acceptedMs)*uint64(time.Millisecond) > p.original.when()+returnDaysMax*nanosecondsDay
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
