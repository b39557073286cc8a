package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
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

// returnContent decides whether two orders are the same return. acceptedMs is not part of it.
type returnContent struct {
	original   endToEndID
	minutes    uint64 // in the original's id
	centavos   uint64
	reason     uint32
	acceptedMs int64 // of the first record
}

func (c returnContent) same(other returnContent) bool {
	return c.original == other.original && c.centavos == other.centavos && c.reason == other.reason
}

// slot returns the slot of the original whose transfers have this key.
func (c returnContent) slot(key number128) (int, bool) {
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
func idIn(letter byte, t tb.Transfer) (endToEndID, error) {
	n := fromTigerBeetle(t.UserData128)
	minutes := n.high >> 24
	if minutes > minutesMax {
		return endToEndID{}, fmt.Errorf("%d minutes since 2020 are too many", minutes)
	}
	text := append([]byte{letter}, binary.BigEndian.AppendUint64(nil, t.UserData64)...)
	text = epoch.Add(time.Duration(minutes)*time.Minute).AppendFormat(text, "200601021504")
	text = append(text, byte(n.high>>16), byte(n.high>>8), byte(n.high))
	id, _, err := parseIDOf(letter, string(binary.BigEndian.AppendUint64(text, n.low)))
	return id, err
}

// readReturn judges a return. One with flaws must have a dead letter.
func readReturn(message *pixv1.PaymentOrder, recordTime time.Time) (order, flaws) {
	m := message.ReturnOrder
	var found flaws
	if message.EndToEndId != "" || message.Payer.SizeVT()+message.Payee.SizeVT() > 0 || message.AmountCentavos != 0 || message.AcceptedAtUnixMs != 0 || message.RemittanceInformation != "" {
		found.note(errors.New("it is a return, but has fields of a payment"), codeMalformed, "return_order", "")
	}
	id, minutes, idErr := parseIDOf('D', m.ReturnId)
	found.note(idErr, codeBadID, "return_id", m.ReturnId)
	original, originalMinutes, err := parseEndToEndID(m.OriginalEndToEndId)
	found.note(err, codeBadID, "original_end_to_end_id", m.OriginalEndToEndId)
	if !slices.Contains(returnReasons, m.ReasonCode) {
		found.note(fmt.Errorf("%.64q is not a reason for a return", m.ReasonCode), codeMalformed, "reason_code", m.ReasonCode)
	}
	found.note(checkCentavos(m.AmountCentavos), codeMalformed, "amount_centavos", fmt.Sprint(m.AmountCentavos))
	found.noteAcceptance(m.AcceptedAtUnixMs, minutes, idErr == nil, recordTime, "return_id", m.ReturnId)
	if found != nil {
		return order{}, found
	}
	text := append(append(original[:], '/'), m.ReasonCode+"/"...)
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(text, m.AmountCentavos))
	reason, _ := reasonNumber(m.ReasonCode) // it is one of returnReasons
	return order{id: id, minutes: minutes, hash: binary.BigEndian.Uint64(sum[:]), acceptedMs: m.AcceptedAtUnixMs, back: &returnContent{
		original: original, minutes: originalMinutes, centavos: m.AmountCentavos, reason: reason, acceptedMs: m.AcceptedAtUnixMs,
	}}, nil
}

// paymentReturn is what the audit keeps about a return.
type paymentReturn struct {
	id          endToEndID
	key         number128 // of its verdict
	content     returnContent
	contentHash uint64
	reportHash  uint64
	reason      uint32 // of the report
	verdict     uint32 // reason in the ledger; none if it settled
	decidedAt   uint64 // the ledger's time of the verdict; 0: none
	slotKey     number128
	reported    bool
	settled     bool // by the report
	held        legs
	foreign     legs // held for a conflicting message
	posted      legs
	voided      legs
	conflicts   []returnContent
	heldAt      uint64
	asked       bool // the payer's bank of the original was asked about it
	sending
}

// original is what is kept about a payment for its returns.
type original struct {
	settledAt uint64 // by the ledger's clock; 0: it did not settle
	returned  money  // in the ledger
	marked    bool   // as a payment with returns
	returns   []*paymentReturn
}

type returnConflict struct {
	id      endToEndID
	content returnContent
	record  coordinates
	reason  string // of its dead letter
}

func (a *Auditor) addReturn(o order, r Record) {
	before := a.returns[o.id]
	switch {
	case before == nil:
		g := &paymentReturn{id: o.id, key: paymentKey(o.id, o.minutes), content: *o.back, contentHash: o.hash, sending: sendingOf(r)}
		a.returns[o.id] = g
		key := paymentKey(o.back.original, o.back.minutes)
		if a.originals[key] == nil {
			a.originals[key] = &original{}
		}
		a.originals[key].returns = append(a.originals[key].returns, g)
	case !before.content.same(*o.back):
		a.add(TwoContents, o.id.String(), "%v has another content than an earlier record, and neither has a dead letter", coordinates{r.Partition, r.Offset})
	default:
		// Equal copies may have different acceptance times. The earliest is the most lenient.
		before.content.acceptedMs = min(before.content.acceptedMs, o.back.acceptedMs)
		a.sentAgain(before.key, &before.sending, r)
		a.summary.RepeatedOrders++
	}
}

func (a *Auditor) endOfReturns() {
	a.summary.Returns = len(a.returns)
	for _, c := range a.returnConflicts {
		g := a.returns[c.id]
		if g == nil {
			a.add(WrongDeadLetter, c.record.String(), "its dead letter says %s, but no other record with its RtrId is a return", c.reason)
			continue
		}
		a.inPartition(g.key, &g.sending, c.record.partition)
		switch {
		case g.content.same(c.content) && c.reason == tooManyReason:
			g.copies++ // at another delivery it may have had a report
		case g.content.same(c.content):
			a.add(WrongDeadLetter, g.id.String(), "the dead letter of %v says %s, but its content is that of the return", c.record, c.reason)
		default:
			g.conflicts = append(g.conflicts, c.content)
		}
	}
}

// originalOf returns the payment of a return, or nil if no record is that payment.
func (a *Auditor) originalOf(c returnContent) *payment {
	if p := a.find(paymentKey(c.original, c.minutes)); p != nil && p.id == c.original {
		return p
	}
	return nil
}

// backwards returns the content of a return of this many centavos.
func (p *payment) backwards(centavos uint64) content {
	return content{payer: p.content.payee, payee: p.content.payer, centavos: centavos}
}

// returnReport takes a record of pix.settlements that is about a return.
func (a *Auditor) returnReport(r Record, message *pixv1.SettlementReport) {
	id, _, err := parseIDOf('D', message.EndToEndId)
	if err != nil {
		a.add(BadReport, "report "+r.String(), "%v", err)
		return
	}
	g := a.returns[id]
	if g == nil {
		a.add(ReportWithoutOrder, id.String(), "report %v: no record of %s is its order", r, paymentsTopic)
		return
	}
	if err := a.place(g.key, &g.sending, r, g.content.original); err != nil {
		a.add(WrongPlace, id.String(), "report %v: %v", r, err)
	}
	a.repeats.saw(g.key, &g.sending, r)
	hash := maphash.Bytes(a.seed, r.Value)
	if g.reported {
		a.summary.RepeatedReports++
		if hash != g.reportHash {
			a.add(ReportsDiffer, id.String(), "report %v is not equal to an earlier one", r)
		}
		return
	}
	g.reported, g.reportHash = true, hash
	if message.OriginalEndToEndId != g.content.original.String() || message.AmountCentavos != g.content.centavos {
		a.add(ReportedContent, id.String(), "report %v names another original or amount than the order", r)
	}
	if g.reason, err = reasonNumber(message.ReasonCode); err != nil {
		a.add(BadReport, id.String(), "report %v: %v", r, err)
	}
	switch message.Status {
	case pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC:
		g.settled = true
		a.summary.Returned++
		a.summary.ReturnedCentavos = a.summary.ReturnedCentavos.plus(moneyOf(g.content.centavos))
		if g.reason != 0 {
			a.add(BadReport, id.String(), "report %v says settled, with the reason %s", r, message.ReasonCode)
		}
		p := a.originalOf(g.content)
		if p == nil {
			a.add(WrongReturn, id.String(), "it settled, but no record of %s is its original %s", paymentsTopic, g.content.original)
			return
		}
		back := p.backwards(g.content.centavos)
		if moved, err := readContent(message.Payer, message.Payee, message.AmountCentavos); err != nil || moved != back {
			a.add(ReportedContent, id.String(), "report %v does not name the original's payee and payer", r)
		}
		a.expectSettled(&payment{id: id, content: back})
	case pixv1.SettlementStatus_SETTLEMENT_STATUS_RJCT:
		a.summary.ReturnsRejected[message.ReasonCode]++
		if g.reason == 0 {
			a.add(BadReport, id.String(), "report %v says rejected, without a reason", r)
		}
		if message.Payer != nil || message.Payee != nil {
			a.add(BadReport, id.String(), "report %v says rejected, but names accounts", r)
		}
	default:
		a.add(BadReport, id.String(), "report %v has the status %v", r, message.Status)
	}
}

func (a *Auditor) takeReturnLeg(t tb.Transfer) {
	id, err := idIn('D', t)
	g := a.returns[id]
	if err != nil || g == nil {
		a.add(UnexplainedMoney, transferName(t), "leg %d of a return that is in no record of %s", t.Code-codeReturnLeg1+1, paymentsTopic)
		return
	}
	leg := int(t.Code) - codeReturnLeg1 + 1
	bit := firstLeg << (leg - 1)
	key, low := split(fromTigerBeetle(t.ID))
	flags := t.TransferFlags()
	wrong := func(format string, arguments ...any) {
		a.add(WrongTransfer, g.id.String(), "leg %d: %s", leg, fmt.Sprintf(format, arguments...))
	}
	amount, ok := centavos(t.Amount)
	matches := func(c returnContent) bool {
		_, inSlot := c.slot(key)
		return ok && inSlot && amount == c.centavos && (!flags.Pending || t.UserData32 == c.reason)
	}
	of, foreign := g.content, false
	if !matches(of) {
		i := slices.IndexFunc(g.conflicts, matches)
		if i < 0 || !flags.Pending {
			wrong("%s centavos with reason %s: not what the order gives back, or not in a slot of its original", decimal(t.Amount), reasonText(t.UserData32))
			return
		}
		of, foreign = g.conflicts[i], true
	}
	p := a.originalOf(of)
	if p == nil {
		wrong("no record of %s is its original %s", paymentsTopic, of.original)
		return
	}
	from, to := fromTigerBeetle(t.DebitAccountID), fromTigerBeetle(t.CreditAccountID)
	if debit, credit := p.backwards(of.centavos).leg(leg); from != debit || to != credit {
		cause := a.add(WrongTransfer, g.id.String(), "leg %d: it moves money from %s to %s", leg, nameOf(from), nameOf(to))
		if cause != nil && flags.PostPendingTransfer {
			a.mislead(cause, from, to, amount, p.backwards(of.centavos), leg)
		}
	}
	if p.legs()&bit == 0 {
		wrong("the original has no such leg")
	}
	switch {
	case flags.Pending && foreign:
		g.foreign |= bit
	case flags.Pending:
		if g.held != 0 && g.slotKey != key {
			wrong("it is in two slots")
		}
		g.held |= bit
		g.slotKey = key
		if leg == 1 {
			g.heldAt = t.Timestamp
			a.ask(p.content.payer, t)
		}
	case flags.PostPendingTransfer:
		g.posted |= bit
	case flags.VoidPendingTransfer:
		g.voided |= bit
	default:
		wrong("it is neither held nor resolved: flags %#x", t.Flags)
		return
	}
	if leg == 1 && !flags.Pending {
		a.answered(p.content.payer, fromTigerBeetle(t.PendingID), t.Timestamp)
	}
	if flags.Pending {
		a.judgeHold(t, wrong)
		if low != leg-1 {
			wrong("it is held with role %d", low)
		}
	} else if low != resolutionRole+leg-1 || fromTigerBeetle(t.PendingID) != key.role(leg-1) {
		wrong("its resolution has role %d and resolves %x", low, t.PendingID.Bytes())
	}
}

func (a *Auditor) takeReturnVerdict(t tb.Transfer) {
	g := a.byVerdict()[fromTigerBeetle(t.ID)]
	if g == nil {
		a.add(UnexplainedMoney, transferName(t), "the verdict of a return that is in no record of %s", paymentsTopic)
		return
	}
	g.verdict, g.decidedAt = t.UserData32, t.Timestamp
	wrong := func(format string, arguments ...any) {
		a.add(WrongTransfer, g.id.String(), "verdict: %s", fmt.Sprintf(format, arguments...))
	}
	ofPayer := bankNamed(g.content.original)
	debit, credit := fromTigerBeetle(t.DebitAccountID), fromTigerBeetle(t.CreditAccountID)
	if (debit != transitOf(ofPayer) || credit != reserveOf(ofPayer)) && (debit != issuance || credit != refusals) {
		wrong("it stands between %s and %s", nameOf(debit), nameOf(credit))
	}
	if t.Amount != (tb.Uint128{}) || t.Flags&^linkedFlag != 0 {
		wrong("it moves %s centavos with flags %#x, it must move none", decimal(t.Amount), t.Flags)
	}
	if names, _ := userData(g.content.original, g.content.minutes); fromTigerBeetle(t.UserData128) != names {
		wrong("its user_data does not name the original")
	}
	if t.UserData64 != g.contentHash {
		wrong("it is about other content")
	}
	p := a.originalOf(g.content)
	if g.held != 0 {
		if p != nil {
			a.answered(p.content.payer, g.slotKey, t.Timestamp) // also if its hold has expired
		}
		return // a bank may give any code
	}
	a.judgeAge(t, g.content.acceptedMs, wrong)
	a.checkBusy(t, ofPayer, g.since(g.content.acceptedMs), wrong)
}

// takeReturnedMark takes the mark of a payment. Without a mark nobody looks for its returns.
func (a *Auditor) takeReturnedMark(t tb.Transfer) {
	key, role := split(fromTigerBeetle(t.ID))
	p := a.find(key)
	if p == nil || !a.hasReturns(key) {
		a.add(UnexplainedMoney, transferName(t), "the mark of a payment of which %s holds no return", paymentsTopic)
		return
	}
	a.checkMark(t, p, role == returnMarkRole)
	if o := a.originals[key]; o != nil {
		o.marked = true
	}
}

// takeBurntMark takes the mark of a burnt slot. Nobody holds a return there any more.
func (a *Auditor) takeBurntMark(t tb.Transfer) {
	id, err := idIn('E', t)
	var p *payment
	if err == nil {
		if _, minutes, err := parseEndToEndID(id.String()); err == nil {
			p = a.find(paymentKey(id, minutes))
		}
	}
	if p == nil || p.id != id || !a.hasReturns(paymentKey(p.id, uint64(p.minutes))) {
		a.add(UnexplainedMoney, transferName(t), "the mark of a slot of a payment of which %s holds no return", paymentsTopic)
		return
	}
	key, role := split(fromTigerBeetle(t.ID))
	_, isSlot := returnContent{original: p.id, minutes: uint64(p.minutes)}.slot(key)
	a.checkMark(t, p, role == burntMarkRole && isSlot)
	a.burnt[key] = struct{}{}
}

// hasReturns reports whether a record is a return of a payment, also one that conflicts with another.
func (a *Auditor) hasReturns(key number128) bool {
	return a.originals[key] != nil || slices.ContainsFunc(a.returnConflicts, func(c returnConflict) bool { return paymentKey(c.content.original, c.content.minutes) == key })
}

// checkMark checks a mark that is about a payment.
func (a *Auditor) checkMark(t tb.Transfer, p *payment, idIsRight bool) {
	debit, credit := fromTigerBeetle(t.DebitAccountID), fromTigerBeetle(t.CreditAccountID)
	names, ispb := userData(p.id, uint64(p.minutes))
	if !idIsRight || t.Amount != (tb.Uint128{}) || t.Flags != 0 || debit != transitOf(p.content.payer) || credit != reserveOf(p.content.payer) ||
		fromTigerBeetle(t.UserData128) != names || t.UserData64 != ispb {
		a.add(WrongTransfer, p.id.String(), "its mark with code %d has the wrong id %x, moves %s centavos from %s to %s with flags %#x, or names another payment", t.Code, t.ID.Bytes(), decimal(t.Amount), nameOf(debit), nameOf(credit), t.Flags)
	}
}

// byVerdict returns the returns by the id of their verdict.
func (a *Auditor) byVerdict() map[number128]*paymentReturn {
	if a.verdicts == nil {
		a.verdicts = make(map[number128]*paymentReturn, len(a.returns))
		for _, g := range a.returns {
			a.verdicts[g.key.role(resolutionRole)] = g
		}
	}
	return a.verdicts
}

func (a *Auditor) judgeReturns() {
	for _, g := range a.returns {
		a.judgeReturn(g)
	}
	for key, o := range a.originals {
		if p := a.find(key); p != nil && moneyOf(p.content.centavos).less(o.returned) {
			a.add(ReturnedTooMuch, p.id.String(), "%d centavos were paid and %v returned", p.content.centavos, o.returned)
		}
	}
}

func (a *Auditor) judgeReturn(g *paymentReturn) {
	subject := g.id.String()
	p := a.originalOf(g.content)
	all := legs(0)
	if p != nil {
		all = p.legs()
	}
	if g.foreign != 0 && (g.decidedAt == 0 || g.foreign != 0b101 && g.foreign != 0b111) {
		a.add(LegsDisagree, subject, "the legs %v are held for a conflicting message; they must be complete and beside a verdict: %s", g.foreign, g.ledgerState())
	}
	if g.held != 0 && g.held != all {
		a.add(LegsDisagree, subject, "all legs %v or none must be held: %s", all, g.ledgerState())
	}
	if o := a.originals[paymentKey(g.content.original, g.content.minutes)]; g.held != 0 && !o.marked {
		a.add(NoMark, subject, "it is held, but its original %s has no mark, so nobody looks for its returns", g.content.original)
	}
	if _, burnt := a.burnt[g.slotKey]; burnt && g.held != 0 {
		a.add(WrongTransfer, subject, "it is held in a slot of %s that is marked as burnt", g.content.original)
	}
	if !g.reported {
		a.add(NoOutcome, subject, "no report and no dead letter of %v (%s); in the ledger: %s", g.first, a.progress(g.first), g.ledgerState())
	}
	if g.decidedAt == 0 {
		if g.reported {
			a.add(NoVerdict, subject, "%s", g.ledgerState())
		}
		if g.posted|g.voided != 0 {
			a.add(LegsDisagree, subject, "%s", g.ledgerState())
		}
		return
	}
	if g.held == 0 {
		a.judgeReturnRefusal(g, p)
	} else {
		a.judgeBegun(subject, g.heldAt, bankNamed(g.id))
	}
	if p != nil {
		a.judgeAsked(g.id, g.asked, g.posted&firstLeg != 0, g.voided&firstLeg != 0, g.verdict, g.heldAt)
		a.judgeAnswer(g.id, p.content.payer, g.posted&firstLeg != 0, g.voided&firstLeg != 0, g.verdict, g.decidedAt)
	}
	settled := g.verdict == 0 && all != 0 && g.held == all && g.posted == all && g.voided == 0
	rejected := g.verdict != 0 && g.posted == 0 && (g.voided == 0 || g.voided == all && g.held == all)
	switch {
	case !settled && !rejected:
		a.add(LegsDisagree, subject, "posted legs and verdict disagree: %s", g.ledgerState())
	case g.reported && g.settled != settled:
		a.add(LedgerDisagrees, subject, "the report disagrees: %s", g.ledgerState())
	case g.reported && g.reason != g.verdict:
		a.add(LedgerDisagrees, subject, "reported with the reason %s, the ledger's is %s", reasonText(g.reason), reasonText(g.verdict))
	}
	if settled {
		a.judgeSettledReturn(g, p)
	}
}

// judgeSettledReturn checks that a settled return was allowed to settle.
func (a *Auditor) judgeSettledReturn(g *paymentReturn, p *payment) {
	o := a.originals[paymentKey(p.id, uint64(p.minutes))]
	o.returned = o.returned.plus(moneyOf(g.content.centavos))
	wrong := func(format string, arguments ...any) {
		a.add(WrongReturn, g.id.String(), format, arguments...)
	}
	switch {
	case !p.settledInLedger() || o.settledAt == 0 || o.settledAt >= g.decidedAt:
		wrong("its original %s had not settled before", p.id)
	case g.content.acceptedMs > 0 && uint64(g.content.acceptedMs)*uint64(time.Millisecond) > o.settledAt+returnDaysMax*nanosecondsDay:
		wrong("it was accepted more than %d days after its original settled", returnDaysMax)
	}
	if psp, err := packISPB(string(g.id[1:9])); err != nil || p.content.payee.high&ispbMask != psp<<ispbShift {
		wrong("its RtrId is not from the PSP that received the original")
	}
	if g.content.centavos == 0 {
		wrong("it gives nothing back")
	}
}

func (g *paymentReturn) ledgerState() string {
	verdict := "no verdict"
	switch {
	case g.decidedAt != 0 && g.verdict == 0:
		verdict = "the verdict settled"
	case g.decidedAt != 0:
		verdict = "the verdict " + reasonText(g.verdict)
	}
	return fmt.Sprintf("legs held %v, posted %v, voided %v, %s", g.held, g.posted, g.voided, verdict)
}
