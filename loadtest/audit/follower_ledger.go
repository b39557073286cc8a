package audit

import (
	"fmt"
	"slices"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// Transfer takes a transfer of the ledger, in the ledger's order.
func (f *Follower) Transfer(t tb.Transfer) {
	f.position = t.Timestamp
	if key, ofPayment := f.courseOf(t); ofPayment {
		c := f.course(key)
		f.touch(c)
		f.take(c, t)
	} else {
		f.takeOther(t)
	}
	if !t.TransferFlags().Linked { // the chain is complete
		for _, c := range f.touched {
			c.inChain = false
			f.judge(c)
		}
		f.touched = f.touched[:0]
	}
}

// ReadTo says that the ledger has no other transfer until a time.
func (f *Follower) ReadTo(at uint64) { f.position = max(f.position, at) }

func (f *Follower) touch(c *course) {
	if !c.inChain {
		c.inChain = true
		f.touched = append(f.touched, c)
	}
}

// courseOf returns the key of the payment or return that a transfer is of.
func (f *Follower) courseOf(t tb.Transfer) (key number128, ofPayment bool) {
	key, _ = split(fromTigerBeetle(t.ID))
	flags := t.TransferFlags()
	resolves := flags.PostPendingTransfer || flags.VoidPendingTransfer
	switch {
	case t.Ledger == ledgerNumber && (t.Code == codeReceipt || t.Code == codeReturn):
		return key, true
	case t.Ledger == ledgerNumber && t.Code >= 1 && t.Code <= 3, t.Ledger == allowanceLedger && t.Code == codeCapLeg:
		if resolves { // of its hold, whatever the own id is
			key, _ = split(fromTigerBeetle(t.PendingID))
		}
		return key, true
	case t.Ledger == ledgerNumber && t.Code >= codeReturnLeg1 && t.Code <= codeReturnLeg1+2:
		if id, err := idIn('D', t); err == nil {
			if _, minutes, err := parseIDOf('D', id.String()); err == nil {
				return paymentKey(id, minutes), true
			}
		}
		f.add(UnexplainedMoney, transferName(t), "%s names no return", whatIs(t))
		return key, true // it becomes a doubt, too
	}
	return number128{}, false
}

// takeOther takes what is of no payment, and marks.
func (f *Follower) takeOther(t tb.Transfer) {
	switch {
	case t.Ledger == ledgerNumber && (t.Code == codeReturned || t.Code == codeBurnt):
		id, err := idIn('E', t)
		if err != nil || t.Amount != (tb.Uint128{}) || t.Flags&^linkedFlag != 0 {
			f.add(WrongTransfer, transferName(t), "a mark with code %d moves %s centavos with the flags %#x, or names no payment", t.Code, decimal(t.Amount), t.Flags)
			return
		}
		key, role := split(fromTigerBeetle(t.ID))
		_, minutes, _ := parseEndToEndID(id.String())
		isSlot := false
		if t.Code == codeBurnt {
			_, isSlot = returnContent{original: id, minutes: minutes}.slot(key)
		}
		if t.Code == codeReturned && (role != returnMarkRole || key != paymentKey(id, minutes)) || t.Code == codeBurnt && (role != burntMarkRole || !isSlot) {
			f.add(WrongTransfer, id.String(), "its mark with code %d has the wrong id %x", t.Code, t.ID.Bytes())
		}
	case t.Ledger == allowanceLedger:
		debit, credit := fromTigerBeetle(t.DebitAccountID), fromTigerBeetle(t.CreditAccountID)
		toOne := debit == allowanceSource && kindOf(credit) == kindAllowance || credit == allowanceSource && kindOf(debit) == kindAllowance
		if t.Code != codeAdjustment || !toOne || t.Flags&^linkedFlag != 0 {
			f.add(WrongAllowance, transferName(t), "%s centavos with code %d and the flags %#x from %s to %s are no adjustment", decimal(t.Amount), t.Code, t.Flags, nameOf(debit), nameOf(credit))
		}
	default:
		f.others.Transfer(t)
		clear(f.others.acts.capped) // allowances are not followed
	}
}

// take takes a transfer of a payment or return. Without the order it waits.
func (f *Follower) take(c *course, t tb.Transfer) {
	flags := t.TransferFlags()
	resolves := flags.PostPendingTransfer || flags.VoidPendingTransfer
	isLeg := t.Code <= 3 || t.Code >= codeReturnLeg1 && t.Code <= codeReturnLeg1+2
	switch {
	case !c.ordered || c.waits > 0 || len(c.early) > 0:
		f.keep(c, t)
		return
	case t.Code >= codeReturnLeg1 && isLeg && c.find(func(v *variant) bool { return v.back != nil && v.original == nil }) != nil:
		if f.askOriginals(c); c.waits > 0 {
			f.keep(c, t)
			return
		}
	}
	switch {
	case !c.allRead && !c.adopted && !c.explains(t): // its order may be one that is not read yet
		f.keep(c, t)
		return
	case isLeg && resolves && c.held == 0 && !c.heldAsked: // held before the beginning
		f.keep(c, t)
		if c.slot == (number128{}) && t.Code >= codeReturnLeg1 {
			c.slot, _ = split(fromTigerBeetle(t.PendingID))
		}
		f.askHolds(c)
		return
	}
	switch {
	case t.Code == codeCapLeg:
		f.takeCapLeg(c, t)
	case t.Code == codeReceipt:
		f.takeReceipt(c, t)
	case t.Code == codeReturn:
		f.takeReturnVerdict(c, t)
	case t.Code >= codeReturnLeg1:
		f.takeReturnLeg(c, t)
	default:
		f.takeLeg(c, t)
	}
}

// asks reports whether an order asks for a leg of a payment.
func (v *variant) asks(t tb.Transfer) bool {
	return v.back == nil && v.content.moves(t) && v.names(t)
}

// refused reports whether a receipt, or the verdict of a return, is about an order.
func (v *variant) refused(t tb.Transfer) bool {
	of, minutes := v.id, v.minutes
	if v.back != nil {
		of, minutes = v.back.original, v.back.minutes
	}
	names, _ := userData(of, minutes)
	return (t.Code == codeReturn) == (v.back != nil) && t.UserData64 == v.hash && fromTigerBeetle(t.UserData128) == names
}

// explains reports whether what begins a payment or return, or ends it without a hold, is of an order that is known.
// The legs of a return are compared with its original: whose they are, the verdict says.
func (c *course) explains(t tb.Transfer) bool {
	switch {
	case t.Code >= 1 && t.Code <= 3 && t.TransferFlags().Pending:
		return c.find(func(v *variant) bool { return v.asks(t) }) != nil
	case t.Code == codeReceipt || t.Code == codeReturn:
		return c.find(func(v *variant) bool { return v.refused(t) }) != nil
	}
	return true
}

func (f *Follower) keep(c *course, t tb.Transfer) {
	if len(c.early) == coursesEarlyMax {
		f.add(WrongTransfer, c.name(), "it has more than %d transfers, no payment has as many", coursesEarlyMax)
		return
	}
	c.early = append(c.early, t)
}

func (f *Follower) askHolds(c *course) {
	c.heldAsked = true
	c.waits++
	f.ask(c.ownIDs(), func(found map[number128]tb.Transfer) {
		c.waits--
		early := c.early
		c.early = nil
		for _, id := range c.ownIDs() {
			if t, has := found[id]; has && t.TransferFlags().Pending {
				f.take(c, t)
			}
		}
		c.early = append(c.early, early...)
		f.again(c)
	})
}

// askOriginals finds the originals of a return. What the ledger must be asked for comes later: the return waits.
func (f *Follower) askOriginals(c *course) {
	ask := func(v *variant) bool {
		if v.back == nil || v.original != nil {
			return false
		}
		key := paymentKey(v.back.original, v.back.minutes)
		if o := f.courses[key]; o != nil && o.settled() {
			v.original = &settledOriginal{o.heldAs.content, o.decidedAt}
			return false
		}
		c.waits++
		v.original = &settledOriginal{}
		f.ask([]number128{key.role(0), key.role(2), key.role(resolutionRole)}, func(found map[number128]tb.Transfer) {
			c.waits--
			first, last, verdict := found[key.role(0)], found[key.role(2)], found[key.role(resolutionRole)]
			if amount, ok := centavos(first.Amount); ok && first.Code == 1 && last.Code == 3 && verdict.TransferFlags().PostPendingTransfer {
				*v.original = settledOriginal{content{fromTigerBeetle(first.DebitAccountID), fromTigerBeetle(last.CreditAccountID), amount}, verdict.Timestamp}
			}
			if c.waits == 0 {
				f.again(c)
			}
		})
		return false
	}
	c.find(ask) // it finds none, and asks for each
}

// wrong adds a finding about a transfer of a payment.
func (f *Follower) wrong(c *course, what, format string, arguments ...any) {
	f.add(WrongTransfer, c.name(), "%s: %s", what, fmt.Sprintf(format, arguments...))
}

func (f *Follower) takeLeg(c *course, t tb.Transfer) {
	key, role := split(fromTigerBeetle(t.ID))
	leg, flags := int(t.Code), t.TransferFlags()
	bit := firstLeg << (leg - 1)
	what := fmt.Sprintf("leg %d", leg)
	switch {
	case flags.Pending:
		as := c.find(func(v *variant) bool { // orders may agree in some legs
			return v.asks(t) && !slices.ContainsFunc(c.holds, func(before tb.Transfer) bool { return !v.asks(before) })
		})
		if as != nil {
			c.heldAs = as
		} else {
			as = c.find(func(v *variant) bool { return v.asks(t) })
		}
		if as == nil {
			f.wrong(c, what, "it holds %s centavos from %s to %s, and is not what the order %v asks for", decimal(t.Amount), nameOf(fromTigerBeetle(t.DebitAccountID)), nameOf(fromTigerBeetle(t.CreditAccountID)), c.order.content)
			as = &c.order
		}
		if role != leg-1 {
			f.wrong(c, what, "it is held with role %d", role)
		}
		if c.heldAs == nil || c.held == 0 {
			c.heldAs = as
		} else if c.heldAs != as {
			f.wrong(c, what, "it is held for another order than the legs before it")
		}
		if c.held&bit == 0 {
			c.holds = append(c.holds, t)
		}
		c.held |= bit
		return
	case flags.PostPendingTransfer:
		c.posted |= bit
	case flags.VoidPendingTransfer:
		c.voided |= bit
	default:
		f.wrong(c, what, "it moves %s centavos from %s to %s at once, without being held: flags %#x", decimal(t.Amount), nameOf(fromTigerBeetle(t.DebitAccountID)), nameOf(fromTigerBeetle(t.CreditAccountID)), t.Flags)
		return
	}
	if role != resolutionRole+leg-1 || key != c.key || fromTigerBeetle(t.PendingID) != c.key.role(leg-1) {
		f.wrong(c, what, "its resolution has the id %x and resolves %x", t.ID.Bytes(), t.PendingID.Bytes())
	}
	if c.heldAs != nil && !c.heldAs.content.moves(t) {
		f.wrong(c, what, "%s centavos are resolved from %s to %s, the order is %v", decimal(t.Amount), nameOf(fromTigerBeetle(t.DebitAccountID)), nameOf(fromTigerBeetle(t.CreditAccountID)), c.heldAs.content)
	}
	if leg == 1 {
		c.verdict, c.decidedAt = t.UserData32, t.Timestamp
	}
}

// names reports whether a hold names the payment of an order.
func (v *variant) names(t tb.Transfer) bool {
	names, ispb := userData(v.id, v.minutes)
	return fromTigerBeetle(t.UserData128) == names && t.UserData64 == ispb
}

func (f *Follower) takeCapLeg(c *course, t tb.Transfer) {
	_, role := split(fromTigerBeetle(t.ID))
	flags := t.TransferFlags()
	debit, credit := fromTigerBeetle(t.DebitAccountID), fromTigerBeetle(t.CreditAccountID)
	amount, ok := centavos(t.Amount)
	fits := c.find(func(v *variant) bool {
		return ok && amount == v.content.centavos && kindOf(debit) == kindAllowance && booksOf(debit) == booksOf(v.content.payer)
	}) != nil
	switch {
	case flags.VoidPendingTransfer:
		c.capVoided = true
		if role != capVoidRole || fromTigerBeetle(t.PendingID) != c.key.role(capRole) {
			f.add(WrongAllowance, c.name(), "leg 4: its void has role %d and resolves %x", role, t.PendingID.Bytes())
		}
	case !flags.Pending:
		f.add(WrongAllowance, c.name(), "leg 4: %d centavos with the flags %#x: it must be held, and never posted", amount, t.Flags)
	case !fits && !c.adopted || role != capRole || credit != allowanceSource:
		f.add(WrongAllowance, c.name(), "leg 4: with role %d it holds %s centavos from %s for %s", role, decimal(t.Amount), nameOf(debit), nameOf(credit))
	}
}

func (f *Follower) takeReceipt(c *course, t tb.Transfer) {
	const what = "receipt"
	_, role := split(fromTigerBeetle(t.ID))
	c.receipt, c.verdict, c.decidedAt = true, t.UserData32, t.Timestamp
	as := c.find(func(v *variant) bool { return v.refused(t) })
	if as == nil && !c.adopted {
		f.wrong(c, what, "it is not about what the order %v asks for", c.order.content)
	}
	if as == nil {
		as = &c.order
	}
	c.refusedAs = as
	debit, credit := fromTigerBeetle(t.DebitAccountID), fromTigerBeetle(t.CreditAccountID)
	ofPayer := bankNamed(as.id)
	if (debit != transitOf(ofPayer) || credit != reserveOf(ofPayer)) && (debit != issuance || credit != refusals) {
		f.wrong(c, what, "it stands between %s and %s", nameOf(debit), nameOf(credit))
	}
	if t.Amount != (tb.Uint128{}) || t.Flags&^linkedFlag != 0 {
		f.wrong(c, what, "it moves %s centavos with flags %#x, it must move none", decimal(t.Amount), t.Flags)
	}
	if role != resolutionRole {
		f.wrong(c, what, "it has role %d", role)
	}
	if t.UserData32 == 0 {
		f.wrong(c, what, "it has no reason")
	}
}

func (f *Follower) takeReturnLeg(c *course, t tb.Transfer) {
	key, role := split(fromTigerBeetle(t.ID))
	leg, flags := int(t.Code)-codeReturnLeg1+1, t.TransferFlags()
	bit := firstLeg << (leg - 1)
	what := fmt.Sprintf("leg %d of the return", leg)
	amount, ok := centavos(t.Amount)
	index := c.slotIndex
	as := c.find(func(v *variant) bool {
		if v.back == nil || !ok || amount != v.back.centavos || flags.Pending && t.UserData32 != v.back.reason {
			return false
		}
		if c.heldAs == v && c.slot == key {
			return true
		}
		i, isSlot := v.back.slot(key)
		index = i
		return isSlot
	})
	if as == nil {
		f.wrong(c, what, "%s centavos with reason %s: not what the order gives back, or not in a slot of its original", decimal(t.Amount), reasonText(t.UserData32))
		return
	}
	from, to := fromTigerBeetle(t.DebitAccountID), fromTigerBeetle(t.CreditAccountID)
	back := backwards(as.original.content, amount)
	if debit, credit := back.leg(leg); from != debit || to != credit {
		f.wrong(c, what, "it moves money from %s to %s, and the original %s went from %s to %s", nameOf(from), nameOf(to), as.back.original, nameOf(back.payee), nameOf(back.payer))
	}
	switch {
	case flags.Pending:
		if c.held != 0 && c.slot != key {
			f.wrong(c, what, "it is in two slots")
		}
		if role != leg-1 {
			f.wrong(c, what, "it is held with role %d", role)
		}
		c.heldAs, c.slot, c.slotIndex = as, key, index
		c.held |= bit
		return
	case flags.PostPendingTransfer:
		c.posted |= bit
	case flags.VoidPendingTransfer:
		c.voided |= bit
	default:
		f.wrong(c, what, "it moves %s centavos at once, without being held: flags %#x", decimal(t.Amount), t.Flags)
		return
	}
	if role != resolutionRole+leg-1 || fromTigerBeetle(t.PendingID) != key.role(leg-1) {
		f.wrong(c, what, "its resolution has role %d and resolves %x", role, t.PendingID.Bytes())
	}
}

// backwards returns the content of a return of this many centavos.
func backwards(of content, centavos uint64) content {
	return content{payer: of.payee, payee: of.payer, centavos: centavos}
}

func (f *Follower) takeReturnVerdict(c *course, t tb.Transfer) {
	const what = "verdict of the return"
	_, role := split(fromTigerBeetle(t.ID))
	c.verdict, c.decidedAt = t.UserData32, t.Timestamp
	as := c.find(func(v *variant) bool { return v.refused(t) })
	if as == nil {
		f.wrong(c, what, "it is not about what the order asks for")
		as = &c.order
	}
	c.refusedAs = as
	if as.back == nil {
		f.wrong(c, what, "the order is a payment")
		return
	}
	ofPayer := bankNamed(as.back.original)
	debit, credit := fromTigerBeetle(t.DebitAccountID), fromTigerBeetle(t.CreditAccountID)
	if (debit != transitOf(ofPayer) || credit != reserveOf(ofPayer)) && (debit != issuance || credit != refusals) {
		f.wrong(c, what, "it stands between %s and %s", nameOf(debit), nameOf(credit))
	}
	if t.Amount != (tb.Uint128{}) || t.Flags&^linkedFlag != 0 || role != resolutionRole {
		f.wrong(c, what, "with role %d it moves %s centavos with flags %#x, it must move none", role, decimal(t.Amount), t.Flags)
	}
}

// legsOf returns the legs of what moves by a content.
func legsOf(c content) legs { return (&payment{content: c}).legs() }

// settled reports whether all legs of a payment are posted.
func (c *course) settled() bool {
	if c.heldAs == nil || c.heldAs.back != nil {
		return false
	}
	all := legsOf(c.heldAs.content)
	return c.decidedAt != 0 && c.posted == all && c.held == all && c.voided == 0 && !c.receipt
}

// judge compares what is known about a payment: legs, verdict and report.
func (f *Follower) judge(c *course) {
	if c.waits > 0 || c.inChain {
		return
	}
	if !c.ordered || len(c.early) > 0 {
		f.doubt(c)
		return
	}
	isReturn := c.order.back != nil
	all := legs(0)
	if as := c.heldAs; as != nil && isReturn && as.original != nil && as.original.settledAt != 0 {
		all = legsOf(as.original.content)
	} else if as != nil && !isReturn {
		all = legsOf(as.content)
	}
	disagree := func(format string, arguments ...any) {
		if !c.flagged {
			c.flagged = true
			f.add(LegsDisagree, c.name(), "%s: %s", fmt.Sprintf(format, arguments...), c.ledgerState())
		}
	}
	if c.held != 0 && c.held != all {
		disagree("all legs %v or none must be held", all)
	}
	if c.decidedAt == 0 {
		if c.posted|c.voided != 0 {
			disagree("legs are resolved without a verdict")
		}
		if c.report != nil && !c.flagged {
			f.doubt(c)
		}
		return
	}
	settled := c.settled()
	rejected := c.posted == 0 && (c.voided == all && c.held == all && !c.receipt || c.voided == 0 && c.receipt)
	if isReturn {
		settled = c.verdict == 0 && all != 0 && c.held == all && c.posted == all && c.voided == 0
		rejected = c.verdict != 0 && c.posted == 0 && (c.voided == 0 || c.voided == all && c.held == all)
	}
	unseen := isReturn && c.recalled && c.slot == (number128{}) // its slot is not known, nor where its legs are
	if unseen {
		settled = c.verdict == 0
	}
	if !settled && !rejected && !unseen {
		disagree("some legs are posted, not all")
	}
	if settled && c.capVoided {
		disagree("it settled, and leg 4 was voided")
	}
	if c.report == nil || c.counted {
		f.release(c)
		return
	}
	if isReturn {
		if settled && !unseen && c.refusedAs.original == nil {
			if f.askOriginals(c); c.waits > 0 {
				return // it judges again
			}
		}
		f.compareReturn(c, settled, unseen)
	} else {
		f.comparePayment(c, settled)
	}
	c.counted = true
	if !c.recalled || c.decidedAt <= f.since { // else it was counted, and an order came again
		f.checked++
	}
	f.release(c)
}

// disagrees adds the finding that a report contradicts the ledger.
func (f *Follower) disagrees(c *course, settled bool) {
	switch {
	case c.report.settled != settled:
		f.add(LedgerDisagrees, c.name(), "report %s says %s, but in the ledger: %s", c.report.at, c.report.outcome(), c.ledgerState())
	case c.report.reason != c.verdict:
		f.add(LedgerDisagrees, c.name(), "report %s says %s, the ledger's reason is %s", c.report.at, c.report.outcome(), reasonText(c.verdict))
	}
}

func (f *Follower) comparePayment(c *course, settled bool) {
	f.disagrees(c, settled)
	as := c.heldAs
	if c.receipt {
		as = c.refusedAs
	}
	same := as != nil && (c.report.content == as.content || c.receipt && c.report.conHash == as.hash)
	if !same || !c.report.accounts || c.report.original != "" {
		f.add(ReportedContent, c.name(), "report %s names another payer, payee or amount than the order", c.report.at)
	}
}

func (f *Follower) compareReturn(c *course, settled, unseen bool) {
	f.disagrees(c, settled)
	as := c.refusedAs
	if as == nil || as.back == nil || c.report.original != as.back.original.String() || c.report.content.centavos != as.back.centavos {
		f.add(ReportedContent, c.name(), "report %s names another original or amount than the order", c.report.at)
		return
	}
	if !settled {
		if c.report.accounts {
			f.add(BadReport, c.name(), "report %s says rejected, but names accounts", c.report.at)
		}
		return
	}
	if unseen {
		return
	}
	paid := as.original
	if c.report.content != backwards(paid.content, as.back.centavos) {
		f.add(ReportedContent, c.name(), "report %s does not name the original's payee and payer", c.report.at)
	}
	psp, err := packISPB(string(c.order.id[1:9]))
	switch {
	case paid.settledAt >= c.decidedAt:
		f.add(WrongReturn, c.name(), "its original %s had not settled before", as.back.original)
	case err != nil || paid.content.payee.high&ispbMask != psp<<ispbShift:
		f.add(WrongReturn, c.name(), "its RtrId is not from the PSP that received the original")
	case as.back.centavos == 0 || as.back.centavos > paid.content.centavos:
		f.add(ReturnedTooMuch, c.name(), "%d centavos of %d are returned", as.back.centavos, paid.content.centavos)
	case c.slotIndex > 0:
		f.sumReturns(c.name(), as, c.slotIndex)
	}
}

// sumReturns adds up what has been returned of a payment. Returns of lower slots were judged against it
// before, so it asks about these only.
func (f *Follower) sumReturns(name string, as *variant, slot int) {
	var ids []number128
	for below := range slot {
		ids = append(ids, returnKey(as.back.original, as.back.minutes, below).role(resolutionRole))
	}
	f.ask(ids, func(found map[number128]tb.Transfer) {
		sum := moneyOf(as.back.centavos)
		for _, id := range ids {
			if t := found[id]; t.TransferFlags().PostPendingTransfer && t.Code == codeReturnLeg1 {
				sum = sum.plus(moneyIn(t.Amount))
			}
		}
		if moneyOf(as.original.content.centavos).less(sum) {
			f.add(ReturnedTooMuch, name, "%d centavos were paid with %s and %v returned", as.original.content.centavos, as.back.original, sum)
		}
	})
}
