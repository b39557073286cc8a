package audit

import (
	"fmt"
	"strconv"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// payment is what a judge keeps about a payment, or about a return. It is known by the key of its verdict.
// Its order is the one that is the payment: others under the same id conflict with it.
type payment struct {
	key number128
	order
	others    []claim
	reported  outcome
	verdict   uint32 // reason in the ledger; none if it settled
	decidedAt uint64 // by the ledger's clock; 0: no verdict
	heldAt    uint64
	slot      number128 // of a return: the key of its legs
	held      legs      // pending transfers seen
	foreign   legs      // those for a conflicting order: of a payment they are in held, too
	posted    legs
	voided    legs
	receipt   bool
	asked     bool // its bank was asked about it
	old       bool // of a ledger that was lost: leg 4 is only there if its window ran on
	again     bool // decided by a rebuild, as it was reported: when and why the lost ledger knew
	capLeg
	sending
	unsettled
}

// claim is another order under the id of a payment.
type claim struct {
	order
	at     coordinates
	letter string // the reason of its dead letter; empty: it has none, or it is not read yet
}

// sending is what the records of pix.payments with one id and content have in common.
type sending struct {
	first  coordinates
	copies int   // records, the first among them
	sentMs int64 // Unix time of the earliest record, by its writer's clock
	// reportCount is how many reports there are, report the first.
	reportCount int
	report      delivery
}

// each calls visit with each order under the id.
func (p *payment) each(visit func(*order)) {
	visit(&p.order)

	for i := range p.others {
		visit(&p.others[i].order)
	}
}

// claim returns the first conflicting order that fits, or nil.
func (p *payment) claim(fits func(*order) bool) *order {
	for i := range p.others {
		if fits(&p.others[i].order) {
			return &p.others[i].order
		}
	}

	return nil
}

// take takes a transfer of a payment or return. Its orders are known.
func (j *Judge) take(p *payment, t tb.Transfer) {
	switch t.Code {
	case codeCapLeg:
		j.takeCapLeg(p, t)
	case codeReceipt, codeReturn:
		j.takeVerdict(p, t)
	default:
		j.takeLeg(p, t)
	}
}

func (j *Judge) takeLeg(p *payment, t tb.Transfer) {
	key, role := split(fromTigerBeetle(t.ID))
	flags, leg := t.TransferFlags(), legOf(t)
	bit := firstLeg << (leg - 1)
	wrong := j.blame(WrongTransfer, p.id.String(), "leg "+strconv.Itoa(leg)+": ")

	of, foreign := &p.order, false
	if !of.asks(t) {
		if other := p.claim(func(o *order) bool { return o.asks(t) }); other != nil && flags.Pending {
			of, foreign = other, true
		} else if p.back != nil {
			wrong("%s centavos with reason %s: not what the order gives back, or not in a slot of its original",
				decimal(t.Amount), reasonText(t.UserData32))
			return
		}
	}

	if of.content == (content{}) && of.back != nil {
		wrong("no record of %s is its original %s", paymentsTopic, of.back.original)
		return
	}
	amount, ok := centavos(t.Amount)

	debit, credit := of.content.leg(leg)
	if fromTigerBeetle(t.DebitAccountID) != debit || fromTigerBeetle(t.CreditAccountID) != credit || !ok ||
		amount != of.content.centavos {
		wrong("%s; its order moves %v", movedBy(t), of.content)
	}

	switch {
	case flags.Pending:
		j.takeHold(p, of, foreign, t, wrong)
		return
	case flags.PostPendingTransfer:
		p.posted |= bit
	case flags.VoidPendingTransfer:
		p.voided |= bit
	default:
		wrong("it is neither held nor resolved: flags %#x", t.Flags)
		return
	}

	if role != resolutionRole+leg-1 || p.back == nil && key != p.key ||
		fromTigerBeetle(t.PendingID) != key.role(leg-1) {
		wrong("its resolution has role %d and resolves %x", role, t.PendingID.Bytes())
	}

	if leg == 1 {
		j.answered(of.content.payee, fromTigerBeetle(t.PendingID), t.Timestamp)

		if p.back == nil {
			p.verdict, p.decidedAt = t.UserData32, t.Timestamp
		}
	}
}

// takeHold takes a pending leg, held for an order.
func (j *Judge) takeHold(p *payment, of *order, foreign bool, t tb.Transfer, wrong blame) {
	key, role := split(fromTigerBeetle(t.ID))
	leg := legOf(t)

	bit := firstLeg << (leg - 1)
	if names, ispb := userData(p.id, p.minutes); role != leg-1 || fromTigerBeetle(t.UserData128) != names ||
		t.UserData64 != ispb {
		wrong("it is held with role %d, or its user_data does not name the payment", role)
	}

	if j.whole && !j.rebuild.imported {
		j.judgeHold(t, wrong)
	}

	if leg == 1 {
		j.holdTimeout = t.Timeout
		j.ask(of.content.payee, t)
	}

	if foreign {
		p.foreign |= bit
		if p.back != nil { // it is in a slot of its own
			return
		}
	}

	if p.back != nil && p.held != 0 && p.slot != key {
		wrong("it is in two slots")
	}
	p.held |= bit

	p.slot = key
	if leg == 1 {
		p.heldAt = t.Timestamp
	}
}

// takeVerdict takes a receipt, or the verdict of a return.
func (j *Judge) takeVerdict(p *payment, t tb.Transfer) {
	what, payersBank := "receipt", bankNamed(p.id)

	busy := p.content.payee
	if p.back != nil {
		what, payersBank = "verdict", bankNamed(p.back.original)
		busy = payersBank
	}
	wrong := j.blame(WrongTransfer, p.id.String(), what+": ")
	p.receipt, p.verdict, p.decidedAt = true, t.UserData32, t.Timestamp
	j.answered(busy, p.slot, t.Timestamp) // also if its hold has expired
	debit, credit := fromTigerBeetle(t.DebitAccountID), fromTigerBeetle(t.CreditAccountID)
	elsewhere := (debit != transitOf(payersBank) || credit != reserveOf(payersBank)) &&
		(debit != issuance || credit != refusals)

	_, role := split(fromTigerBeetle(t.ID))
	if elsewhere || t.Amount != (tb.Uint128{}) || t.Flags&^linkedFlag != 0 || role != resolutionRole {
		wrong("%s with the role %d, it must move nothing from the payer's bank to its reserve", movedBy(t), role)
	}

	if !p.refused(t) || p.back == nil && t.UserData32 == 0 {
		wrong("its user_data does not name the payment, or it is about other content, or has no reason")
	}

	if j.whole && !p.again && (p.back == nil || p.held == 0) { // else a bank may give any code
		j.judgeAge(t, p.acceptedMs, wrong)
		j.checkBusy(t, busy, p.since(), wrong)
	}
}

// ended reports how a payment or return ended in the ledger. all are its legs.
func (p *payment) ended(all legs) (settled, rejected bool) {
	complete := all != 0 && p.held == all
	if p.back != nil {
		return p.verdict == 0 && complete && p.posted == all && p.voided == 0,
			p.verdict != 0 && p.posted == 0 && (p.voided == 0 || complete && p.voided == all)
	}

	return complete && p.posted == all && p.voided == 0 && !p.receipt,
		p.posted == 0 && (complete && p.voided == all && !p.receipt || p.voided == 0 && p.receipt)
}

// settledAt returns when a payment settled, by the ledger's clock; 0: it did not.
func (p *payment) settledAt() uint64 {
	if settled, _ := p.ended(p.content.legs()); !settled || p.back != nil {
		return 0
	}

	return p.decidedAt
}

// judge compares what is known about a payment or return: orders, legs, verdict and report.
func (j *Judge) judge(p *payment) {
	subject, isReturn := p.id.String(), p.back != nil

	all := legs(0)
	if p.content != (content{}) || !isReturn {
		all = p.content.legs()
	}
	disagree := func(format string, arguments ...any) {
		if !p.flagged {
			p.flagged = !j.whole
			j.add(LegsDisagree, subject, "%s: %s", fmt.Sprintf(format, arguments...), p.ledgerState())
		}
	}

	if p.foreign != 0 {
		// A conflicting message came after the receipt, which phase 1 does not see. It may hold
		// money until its timeout; the receipt proves that it was never posted.
		theirs := p.held
		if isReturn {
			theirs = p.foreign
		}

		if !p.receipt || theirs != 0b101 && theirs != 0b111 {
			disagree("the legs %v are held for a conflicting message; they must be complete and beside a verdict",
				p.foreign)
		}
	}

	if p.held != 0 && p.held != all && (p.foreign == 0 || isReturn) {
		disagree("all legs %v or none must be held", all)
	}

	if j.whole {
		j.judgeSlot(p)

		if p.reportCount == 0 {
			j.add(NoOutcome, subject, "no report and no dead letter of %v (%s); in the ledger: %s", p.first,
				j.progress(p.first), p.ledgerState())
		}
	}

	if p.decidedAt == 0 {
		if p.posted|p.voided != 0 {
			disagree("legs are resolved without a verdict")
		}

		if p.reportCount > 0 && !p.flagged {
			p.flagged = !j.whole
			j.add(NoVerdict, subject, "reported as %s, and the ledger has decided nothing: %s", p.reported.outcome(),
				p.ledgerState())
		}

		return
	}
	settled, rejected := p.ended(all)

	unseen := isReturn && p.recalled && p.held == 0 // its slot is not known, nor where its legs are
	if unseen {
		settled, rejected = p.verdict == 0, p.verdict != 0
	}

	if !settled && !rejected {
		disagree("posted legs and verdict disagree")
	}

	if j.whole {
		j.judgeDecided(p)
	}

	if p.counted || p.reportCount == 0 && !j.whole {
		return
	}
	p.counted = true
	j.judgeCapEnd(p, settled)

	if settled && isReturn && !unseen {
		j.judgeSettledReturn(p)
	}

	switch {
	case p.reportCount == 0 || !settled && !rejected:
	case p.reported.settled != settled:
		j.add(LedgerDisagrees, subject, "reported as %s, but %s", p.reported.outcome(), p.ledgerState())
	case p.reported.reason != p.verdict:
		j.add(LedgerDisagrees, subject, "reported with the reason %s, the ledger's is %s",
			reasonText(p.reported.reason), reasonText(p.verdict))
	}
}

// judgeDecided checks why a payment or return ended as it did.
func (j *Judge) judgeDecided(p *payment) {
	if p.content != (content{}) {
		j.judgeAsked(p)
		j.judgeAnswer(p)
	}

	switch {
	case p.again: // it was begun before, when the register may have said something else
	case p.back == nil:
		j.judgeTerms(p)
	case p.held != 0:
		j.judgeBegun(p.id.String(), p.heldAt, bankNamed(p.id))
	}

	if p.receipt && (p.back == nil && p.posted|p.voided == 0 || p.back != nil && p.held == 0) {
		j.judgeRefusal(p)
	}
}

func (p *payment) ledgerState() string {
	state := fmt.Sprintf("legs held %v, posted %v, voided %v", p.held, p.posted, p.voided)
	switch {
	case p.decidedAt == 0:
		return state + ", no verdict"
	case p.receipt:
		state += ", a receipt"
	}

	return state + ", reason " + reasonText(p.verdict)
}

// name returns the EndToEndId or RtrId of a payment, as well as it is known.
func (p *payment) name() string {
	if p.id != (endToEndID{}) {
		return p.id.String()
	}

	for _, t := range p.fresh {
		if id := nameIn128(t); id != "" {
			return id
		}
	}

	return fmt.Sprintf("transfer %016x%016x", p.key.high, p.key.low)
}

const (
	silent      = 'A'<<24 | 'B'<<16 | '0'<<8 | '3'
	unspecified = 'L'<<24 | 'Q'<<16 | '0'<<8 | '3' // a rejection whose code is not the bank's to give
)
