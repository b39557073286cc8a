package audit

import (
	"fmt"
	"strconv"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/loadtest/audit/spec"

	"github.com/liquida/liquida/loadtest/audit/source"
)

// payment is what a judge keeps about a payment, or about a return. It is known by the key of its verdict.
// Its order is the one that is the payment: others under the same id conflict with it.
type payment struct {
	key spec.Number
	spec.Order
	others    []claim
	reported  outcome
	verdict   uint32 // reason in the ledger; none if it settled
	decidedAt uint64 // by the ledger's clock; 0: no verdict
	heldAt    uint64
	slot      spec.Number // of a return: the key of its legs
	held      spec.Legs   // pending transfers seen
	foreign   spec.Legs   // those for a conflicting order: of a payment they are in held, too
	posted    spec.Legs
	voided    spec.Legs
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
	spec.Order
	at     source.Coordinates
	letter string // the reason of its dead letter; empty: it has none, or it is not read yet
}

// sending is what the records of pix.payments with one id and content have in common.
type sending struct {
	first       source.Coordinates
	copies      int   // records, the first among them
	spread      bool  // records with the id are in several partitions, and so may be what is about it
	sentMs      int64 // Unix time of the earliest record, by its writer's clock
	reportCount int
	report      delivery
	takenOver   []delivery // by other producers than that of report
}

// each calls visit with each order under the id.
func (p *payment) each(visit func(*spec.Order)) {
	visit(&p.Order)

	for i := range p.others {
		visit(&p.others[i].Order)
	}
}

// claim returns the first conflicting order that fits, or nil.
func (p *payment) claim(fits func(*spec.Order) bool) *spec.Order {
	for i := range p.others {
		if fits(&p.others[i].Order) {
			return &p.others[i].Order
		}
	}

	return nil
}

// take takes a transfer of a payment or return. Its orders are known.
func (j *Judge) take(p *payment, t tb.Transfer) {
	switch t.Code {
	case spec.CodeCapLeg:
		j.takeCapLeg(p, t)
	case spec.CodeReceipt, spec.CodeReturn:
		j.takeVerdict(p, t)
	default:
		j.takeLeg(p, t)
	}
}

func (j *Judge) takeLeg(p *payment, t tb.Transfer) {
	key, role := spec.Split(spec.NumberOf(t.ID))
	flags, leg := t.TransferFlags(), spec.LegOf(t)
	bit := spec.FirstLeg << (leg - 1)
	wrong := j.blame(WrongTransfer, p.ID.String(), "leg "+strconv.Itoa(leg)+": ")

	of, foreign := &p.Order, false
	if !of.Asks(t) {
		if other := p.claim(func(o *spec.Order) bool { return o.Asks(t) }); other != nil && flags.Pending {
			of, foreign = other, true
		} else if p.Back != nil {
			wrong("%s centavos with reason %s: not what the order gives back, or not in a slot of its original",
				spec.Decimal(t.Amount), spec.ReasonText(t.UserData32))
			return
		}
	}

	if of.Content == (spec.Content{}) && of.Back != nil {
		wrong("no record of %s is its original %s", source.Payments, of.Back.Original)
		return
	}
	amount, ok := spec.Centavos(t.Amount)

	debit, credit := of.Content.Leg(leg)
	if spec.NumberOf(t.DebitAccountID) != debit || spec.NumberOf(t.CreditAccountID) != credit || !ok ||
		amount != of.Content.Centavos {
		wrong("%s; its order moves %v", spec.MovedBy(t), of.Content)
	}

	switch {
	case flags.Pending:
		j.takeHold(p, foreign, t, wrong)
		return
	case flags.PostPendingTransfer:
		p.posted |= bit
	case flags.VoidPendingTransfer:
		p.voided |= bit
	default:
		wrong("it is neither held nor resolved: flags %#x", t.Flags)
		return
	}

	if role != spec.ResolutionRole+leg-1 || p.Back == nil && key != p.key ||
		spec.NumberOf(t.PendingID) != key.Role(leg-1) {
		wrong("its resolution has role %d and resolves %x", role, t.PendingID.Bytes())
	}

	if leg == 1 && p.Back == nil {
		p.verdict, p.decidedAt = t.UserData32, t.Timestamp
	}
}

// takeHold takes a pending leg, held for an order.
func (j *Judge) takeHold(p *payment, foreign bool, t tb.Transfer, wrong blame) {
	key, role := spec.Split(spec.NumberOf(t.ID))
	leg := spec.LegOf(t)

	bit := spec.FirstLeg << (leg - 1)
	if names, ispb := spec.UserData(p.ID, p.Minutes); role != leg-1 || spec.NumberOf(t.UserData128) != names ||
		t.UserData64 != ispb {
		wrong("it is held with role %d, or its user_data does not name the payment", role)
	}

	if j.whole && !j.rebuild.imported {
		j.judgeHold(t, wrong)
	}

	if leg == 1 {
		j.holdTimeout = t.Timeout

		if j.whole && p.Back != nil {
			j.givenBack(p.Back.Key()).used++
		}
	}

	if foreign {
		p.foreign |= bit
		if p.Back != nil { // it is in a slot of its own
			return
		}
	}

	if p.Back != nil && p.held != 0 && p.slot != key {
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
	what, payersBank := "receipt", spec.BankNamed(p.ID)
	if p.Back != nil {
		what, payersBank = "verdict", spec.BankNamed(p.Back.Original)
	}
	wrong := j.blame(WrongTransfer, p.ID.String(), what+": ")
	p.receipt, p.verdict, p.decidedAt = true, t.UserData32, t.Timestamp
	debit, credit := spec.NumberOf(t.DebitAccountID), spec.NumberOf(t.CreditAccountID)
	elsewhere := (debit != spec.TransitOf(payersBank) || credit != spec.ReserveOf(payersBank)) &&
		(debit != spec.Issuance || credit != spec.Refusals)

	_, role := spec.Split(spec.NumberOf(t.ID))
	if elsewhere || t.Amount != (tb.Uint128{}) || t.Flags&^spec.LinkedFlag != 0 || role != spec.ResolutionRole {
		wrong("%s with the role %d, it must move nothing from the payer's bank to its reserve", spec.MovedBy(t), role)
	}

	if !p.Refused(t) || p.Back == nil && t.UserData32 == 0 {
		wrong("its user_data does not name the payment, or it is about other content, or has no reason")
	}

	if j.whole && !p.again && (p.Back == nil || p.held == 0) { // else a bank may give any code
		j.judgeAge(t, p.AcceptedMs, wrong)
	}
}

// ended reports how a payment or return ended in the ledger. all are its legs.
func (p *payment) ended(all spec.Legs) (settled, rejected bool) {
	complete := all != 0 && p.held == all
	if p.Back != nil {
		return p.verdict == 0 && complete && p.posted == all && p.voided == 0,
			p.verdict != 0 && p.posted == 0 && (p.voided == 0 || complete && p.voided == all)
	}

	return complete && p.posted == all && p.voided == 0 && !p.receipt,
		p.posted == 0 && (complete && p.voided == all && !p.receipt || p.voided == 0 && p.receipt)
}

// settledAt returns when a payment settled, by the ledger's clock; 0: it did not.
func (p *payment) settledAt() uint64 {
	if settled, _ := p.ended(p.Content.Legs()); !settled || p.Back != nil {
		return 0
	}

	return p.decidedAt
}

// judge compares what is known about a payment or return: orders, legs, verdict and report.
func (j *Judge) judge(p *payment) {
	subject, isReturn := p.ID.String(), p.Back != nil

	all := spec.Legs(0)
	if p.Content != (spec.Content{}) || !isReturn {
		all = p.Content.Legs()
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
			disagree("the legs %03b are held for a conflicting message; they must be complete and beside a verdict",
				p.foreign)
		}
	}

	if p.held != 0 && p.held != all && (p.foreign == 0 || isReturn) {
		disagree("all legs %03b or none must be held", all)
	}

	if j.whole {
		j.judgeSlot(p)

		if p.reportCount == 0 {
			j.add(NoOutcome, subject, "no report and no dead letter of %v; in the ledger: %s", p.first,
				p.ledgerState())
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
			spec.ReasonText(p.reported.reason), spec.ReasonText(p.verdict))
	}
}

// judgeDecided checks why a payment or return ended as it did.
func (j *Judge) judgeDecided(p *payment) {
	if p.Content != (spec.Content{}) {
		j.judgeAsked(p)
		j.judgeAnswer(p)
	}

	switch {
	case p.again: // it was begun before, when the register may have said something else
	case p.Back == nil:
		j.judgeTerms(p)
	case p.held != 0:
		j.judgeBegun(p.ID.String(), p.heldAt, spec.BankNamed(p.ID))
	}

	if p.receipt && (p.Back == nil && p.posted|p.voided == 0 || p.Back != nil && p.held == 0) {
		j.judgeRefusal(p)
	}
}

func (p *payment) ledgerState() string {
	state := fmt.Sprintf("legs held %03b, posted %03b, voided %03b", p.held, p.posted, p.voided)
	switch {
	case p.decidedAt == 0:
		return state + ", no verdict"
	case p.receipt:
		state += ", a receipt"
	}

	return state + ", reason " + spec.ReasonText(p.verdict)
}

// name returns the EndToEndId or RtrId of a payment, as well as it is known.
func (p *payment) name() string {
	if p.ID != (spec.ID{}) {
		return p.ID.String()
	}

	for _, t := range p.fresh {
		if id := spec.NameIn128(t); id != "" {
			return id
		}
	}

	return fmt.Sprintf("transfer %016x%016x", p.key.High, p.key.Low)
}

const (
	silent       = 'A'<<24 | 'B'<<16 | '0'<<8 | '3'
	pastDeadline = 'L'<<24 | 'Q'<<16 | '1'<<8 | '3'
	unspecified  = 'L'<<24 | 'Q'<<16 | '0'<<8 | '3' // a rejection whose code is not the bank's to give
)
