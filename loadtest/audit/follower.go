package audit

import (
	"fmt"
	"hash/maphash"
	"maps"
	"time"

	"google.golang.org/protobuf/proto"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// Follower judges payments while they happen, without I/O and in bounded memory. It takes the ledger's
// transfers in their order and the records of each partition in theirs. These streams may be ahead of each
// other: what one of them does not explain yet is a doubt. A mark says how far all of them must be read
// until a doubt is judged, and Passed that they are.
//
// It keeps a payment until it has ended and the engines have committed its records. What comes later
// about it, such as a return or one more report, asks the ledger (Questions).
type Follower struct {
	// others judges what is of no payment (fundings, acts, names of logs), and collects all findings.
	others    *Auditor
	since     uint64 // the ledger's time before which nothing is judged
	courses   map[number128]*course
	records   map[int32]*unfinished
	touched   []*course // by the chain that is not complete
	doubts    []doubt
	mark      int
	questions []question
	found     func(Finding)
	checked   int64
	repeated  int64
	position  uint64
}

// course is how one payment or return goes. It is known by the key of its verdict.
type course struct {
	key       number128
	order     variant    // the first that was read
	variants  []*variant // others under the same id, which conflict with it
	ordered   bool
	adopted   bool // no order was read: the ledger says what it is, since before the follower began
	before    bool // a record of it may have ended before the follower began
	counted   bool
	doubted   bool
	asked     bool // the ledger was asked how it ended
	heldAsked bool // the ledger was asked for its holds
	waits     int  // questions about it that are open
	inChain   bool // its chain is not complete
	flagged   bool // its legs disagree, and a finding says so
	allRead   bool // no other order can explain its transfers
	recalled  bool // a look-up says how it ended
	capVoided bool // leg 4
	records   int  // that are not committed
	passed    bool // all of them were committed without a report: it was before the beginning, or is missing
	early     []tb.Transfer
	held      legs
	posted    legs
	voided    legs
	heldAs    *variant
	holds     []tb.Transfer // of a payment
	refusedAs *variant
	receipt   bool
	decidedAt uint64 // by the ledger's clock; 0: no verdict
	verdict   uint32 // reason
	slot      number128
	slotIndex int // of a return
	report    *reportRead
}

// variant is what one order asks for.
type variant struct {
	id       endToEndID
	minutes  uint64
	content  content
	hash     uint64
	back     *returnContent   // of a return
	original *settledOriginal // of a return, once the ledger was asked
}

type settledOriginal struct {
	content   content
	settledAt uint64 // by the ledger's clock; 0: it did not settle
}

type reportRead struct {
	at       string // of the record
	hash     uint64
	settled  bool
	reason   uint32
	content  content
	accounts bool // it names both
	original string
	conHash  uint64
}

// unfinished is the records of a partition that the engines have not committed.
type unfinished struct {
	from      int64 // records below may have ended before the follower began
	committed int64 // records below are
	records   []unfinishedRecord
	letters   map[int64]string // reasons, by offset of the record
}

type unfinishedRecord struct {
	offset int64
	course *course // nil: it needs a dead letter
	before bool
}

type doubt struct {
	course *course
	mark   int
}

type question struct {
	ids    []number128
	answer func(map[number128]tb.Transfer)
}

// variantsMax bounds the orders with different contents that are kept of one id: the last ones.
const variantsMax = 1000

// coursesEarlyMax bounds the transfers that a course keeps until its order is read. An honest one has 9.
const coursesEarlyMax = 32

// NewFollower returns a follower that judges what the ledger does after a time of the ledger. found is
// called with each finding.
func NewFollower(issuance *tb.Account, since uint64, found func(Finding)) *Follower {
	f := &Follower{
		others: NewAuditor(0), since: since, position: since, found: found,
		courses: map[number128]*course{}, records: map[int32]*unfinished{},
	}
	if issuance != nil {
		f.others.Account(*issuance)
	}
	return f
}

// History takes a transfer of the register from before the beginning: it is known, and not judged.
func (f *Follower) History(t tb.Transfer) {
	if t.Ledger == booksLedger {
		f.others.takeAct(t)
	}
}

// Begin ends the history.
func (f *Follower) Begin() { f.others.told = f.found }

// Checked returns how many payments and returns had one outcome that agrees with the ledger.
func (f *Follower) Checked() int64 { return f.checked }

// Repeated returns how many reports came again, equal to the first one: after a redelivery.
func (f *Follower) Repeated() int64 { return f.repeated }

// Kept returns how many records and payments it keeps.
func (f *Follower) Kept() int {
	n := len(f.courses)
	for _, u := range f.records {
		n += len(u.records) + len(u.letters)
	}
	return n
}

func (f *Follower) add(kind, subject, format string, arguments ...any) {
	f.others.add(kind, subject, format, arguments...)
}

func (f *Follower) unfinished(partition int32) *unfinished {
	if f.records[partition] == nil {
		f.records[partition] = &unfinished{letters: map[int64]string{}}
	}
	return f.records[partition]
}

// From says that records of a partition below an offset may have ended before the beginning.
func (f *Follower) From(partition int32, offset int64) { f.unfinished(partition).from = offset }

func (f *Follower) course(key number128) *course {
	c := f.courses[key]
	if c == nil {
		c = &course{key: key}
		f.courses[key] = c
	}
	return c
}

// Order takes a record of pix.payments.
func (f *Follower) Order(r Record) {
	u := f.unfinished(r.Partition)
	before := r.Offset < u.from
	o, flaws := readOrder(r.Value, r.Time)
	if flaws != nil {
		u.records = append(u.records, unfinishedRecord{r.Offset, nil, before})
		return
	}
	c := f.course(paymentKey(o.id, o.minutes))
	c.records++
	c.passed = false
	c.before = c.before || before
	u.records = append(u.records, unfinishedRecord{r.Offset, c, before})
	v := variant{id: o.id, minutes: o.minutes, content: o.content, hash: o.hash, back: o.back}
	switch {
	case !c.ordered || c.adopted:
		c.order, c.ordered, c.adopted = v, true, false
	case c.find(v.same) == nil:
		if len(c.variants) == variantsMax { // an id may be sent again and again
			c.variants = c.variants[1:]
		}
		c.variants = append(c.variants, &v)
	default:
		return
	}
	f.again(c)
}

func (v *variant) same(other *variant) bool {
	if v.id != other.id || (v.back == nil) != (other.back == nil) {
		return false
	}
	if v.back != nil {
		return v.back.same(*other.back)
	}
	return v.content == other.content
}

// find returns the first order of a course that fits.
func (c *course) find(fits func(*variant) bool) *variant {
	if c.ordered && fits(&c.order) {
		return &c.order
	}
	for i := range c.variants {
		if fits(c.variants[i]) {
			return c.variants[i]
		}
	}
	return nil
}

// again takes what came before its order, and judges.
func (f *Follower) again(c *course) {
	early := c.early
	c.early = nil
	for _, t := range early {
		f.take(c, t)
	}
	f.judge(c)
}

// DeadLetter takes a record of pix.dead-letters.
func (f *Follower) DeadLetter(r Record) {
	var message pixv1.DeadLetter
	if err := proto.Unmarshal(r.Value, &message); err != nil {
		f.add(WrongDeadLetter, "dead letter "+r.String(), "undecodable: %v", err)
		return
	}
	if message.Topic != paymentsTopic {
		return
	}
	u := f.unfinished(message.Partition)
	if message.Offset >= u.committed { // else its record has ended: a redelivery
		u.letters[message.Offset] = message.ReasonCode
	}
}

// Report takes a record of pix.settlements.
func (f *Follower) Report(r Record) {
	var message pixv1.SettlementReport
	if err := proto.Unmarshal(r.Value, &message); err != nil {
		f.add(BadReport, "report "+r.String(), "undecodable: %v", err)
		return
	}
	letter := byte('E')
	if len(message.EndToEndId) > 0 && message.EndToEndId[0] == 'D' {
		letter = 'D'
	}
	id, minutes, err := parseIDOf(letter, message.EndToEndId)
	if err != nil {
		f.add(BadReport, "report "+r.String(), "%v", err)
		return
	}
	read := &reportRead{at: r.String(), hash: maphash.Bytes(f.others.seed, r.Value), original: message.OriginalEndToEndId}
	read.content.centavos = message.AmountCentavos
	read.accounts = message.Payer != nil || message.Payee != nil
	if read.accounts {
		if read.content, err = readContent(message.Payer, message.Payee, message.AmountCentavos); err != nil {
			f.add(BadReport, id.String(), "report %v: %v", r, err)
			return
		}
		read.conHash = contentHash(&pixv1.PaymentOrder{Payer: message.Payer, Payee: message.Payee, AmountCentavos: message.AmountCentavos})
	}
	if read.reason, err = reasonNumber(message.ReasonCode); err != nil {
		f.add(BadReport, id.String(), "report %v: %v", r, err)
		return
	}
	read.settled = message.Status == pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC
	if read.settled != (read.reason == 0) || !read.settled && message.Status != pixv1.SettlementStatus_SETTLEMENT_STATUS_RJCT {
		f.add(BadReport, id.String(), "report %v has the status %v and the reason %q", r, message.Status, message.ReasonCode)
		return
	}
	c := f.course(paymentKey(id, minutes))
	if c.report != nil {
		f.repeated++
		if c.report.hash != read.hash {
			f.add(ReportsDiffer, id.String(), "report %s is not equal to an earlier one, %s", read.at, c.report.at)
		}
		return
	}
	c.report = read
	if !c.ordered { // what the doubt is about
		c.order.id, c.order.minutes = id, minutes
	}
	f.judge(c)
}

// Mark returns a number. All doubts until now are judged once Passed is called with it.
func (f *Follower) Mark() int {
	f.mark++
	return f.mark - 1
}

func (f *Follower) doubt(c *course) {
	if !c.doubted {
		c.doubted = true
		f.doubts = append(f.doubts, doubt{c, f.mark})
	}
}

// Passed says that since a mark all topics were read to their ends of after it, and the ledger too.
// committed are the engines' offsets of between the mark and those ends.
func (f *Follower) Passed(mark int, committed map[int32]int64) {
	old := f.doubts
	f.doubts = nil
	for _, d := range old {
		if d.mark > mark {
			f.doubts = append(f.doubts, d)
			continue
		}
		d.course.doubted = false
		f.conclude(d.course)
	}
	for partition, offset := range committed {
		f.commit(partition, offset)
	}
	f.others.judgeMoneyWithoutAct(f.position)
}

// commit ends what the engines have committed: it must have an outcome.
func (f *Follower) commit(partition int32, committed int64) {
	u := f.unfinished(partition)
	n := 0
	for ; n < len(u.records) && u.records[n].offset < committed; n++ {
		record := u.records[n]
		at := coordinates{partition, record.offset}
		reason, hasLetter := u.letters[record.offset]
		c := record.course
		switch {
		case c == nil && !hasLetter && !record.before:
			f.add(NoDeadLetter, at.String(), "the engines have finished it, it is no payment, and it has no dead letter")
		case c != nil && hasLetter && reason != conflictReason && reason != tooManyReason && reason != idTakenReason:
			f.add(WrongDeadLetter, c.order.id.String(), "%v is a valid payment, but it has a dead letter %s", at, reason)
		case c != nil && !hasLetter && !record.before && c.report == nil:
			f.add(NoOutcome, c.order.id.String(), "the engines have finished %v, and there is neither a report nor a dead letter of it", at)
		}
		if c != nil {
			c.records--
			c.passed = c.records == 0 && c.report == nil
			f.release(c)
		}
	}
	if u.committed = max(u.committed, committed); len(u.letters) > 0 {
		maps.DeleteFunc(u.letters, func(offset int64, _ string) bool { return offset < committed })
	}
	u.records = u.records[n:]
	if len(u.records) == 0 {
		u.records = nil // the array would keep what has ended
	}
}

// release forgets a course that has ended. What has not waits for the ledger's side.
func (f *Follower) release(c *course) {
	ended := (c.decidedAt != 0) == (c.report != nil) || c.passed
	if c.records <= 0 && ended && !c.doubted && c.waits == 0 && len(c.early) == 0 && f.courses[c.key] == c {
		delete(f.courses, c.key)
	}
}

// Questions returns ids of transfers to look up, at most this many unless one question has more, and
// what takes what the ledger has of them. No ids: nothing is asked.
func (f *Follower) Questions(idsMax int) (ids []tb.Uint128, answer func([]tb.Transfer)) {
	n := 0
	for ; n < len(f.questions) && (n == 0 || len(ids)+len(f.questions[n].ids) <= idsMax); n++ {
		for _, id := range f.questions[n].ids {
			ids = append(ids, id.toTigerBeetle())
		}
	}
	asked := f.questions[:n:n]
	f.questions = f.questions[n:]
	return ids, func(transfers []tb.Transfer) {
		byID := make(map[number128]tb.Transfer, len(transfers))
		for _, t := range transfers {
			byID[fromTigerBeetle(t.ID)] = t
		}
		for _, q := range asked {
			q.answer(byID)
		}
	}
}

func (f *Follower) ask(ids []number128, answer func(map[number128]tb.Transfer)) {
	f.questions = append(f.questions, question{ids, answer})
}

// ownIDs returns the ids of all transfers of a payment but leg 4, or of a return's slot and verdict.
func (c *course) ownIDs() (ids []number128) {
	legs, verdict := c.key, c.key.role(resolutionRole)
	if c.order.id[0] == 'D' {
		legs = c.slot
		ids = append(ids, verdict)
		if legs == (number128{}) {
			return ids
		}
	}
	for leg := range 3 { // holds first: what resolves them is compared with them
		ids = append(ids, legs.role(leg))
	}
	for leg := range 3 {
		ids = append(ids, legs.role(resolutionRole+leg))
	}
	return ids
}

// conclude judges a doubt: all that could explain it has been read.
func (f *Follower) conclude(c *course) {
	if f.courses[c.key] != c || c.ordered && !c.adopted && len(c.early) == 0 && (c.report == nil || c.decidedAt != 0) {
		f.release(c)
		return
	}
	if c.waits > 0 { // for an answer that says more
		f.doubt(c)
		return
	}
	if c.ordered && len(c.early) > 0 {
		c.allRead = true
		f.again(c)
		c.allRead = false
		return
	}
	if !c.ordered {
		for _, t := range c.early {
			if begins(t) && t.Timestamp > f.since {
				f.askWhoseMoney(c, t)
				return
			}
		}
	}
	if c.asked {
		f.end(c)
		return
	}
	c.asked = true
	c.waits++
	f.ask(c.ownIDs(), func(found map[number128]tb.Transfer) {
		c.waits--
		f.adopt(c, found)
		f.end(c)
	})
}

// askWhoseMoney judges a transfer that no order explains: the payment may have ended before it, and be forgotten.
func (f *Follower) askWhoseMoney(c *course, t tb.Transfer) {
	c.waits++
	id := c.key.role(resolutionRole)
	f.ask([]number128{id}, func(found map[number128]tb.Transfer) {
		delete(f.courses, c.key)
		if verdict, has := found[id]; has && verdict.Timestamp < t.Timestamp {
			f.wrong(c, whatIs(t), "it comes after the verdict")
			return
		}
		f.add(UnexplainedMoney, c.name(), "%s: no record of %s is its order", whatIs(t), paymentsTopic)
	})
}

// begins reports whether a transfer is the first of a payment or return, for which there must be an order.
func begins(t tb.Transfer) bool {
	flags := t.TransferFlags()
	return t.Code == codeReceipt || t.Code == codeReturn || t.Code == codeCapLeg || flags.Pending || !flags.PostPendingTransfer && !flags.VoidPendingTransfer
}

// adopt takes what the ledger has of a payment that was decided before, or whose course is forgotten.
func (f *Follower) adopt(c *course, found map[number128]tb.Transfer) {
	first, last := found[c.key.role(0)], found[c.key.role(2)]
	receipt, hasReceipt := found[c.key.role(resolutionRole)]
	if c.ordered && !c.adopted && c.held == 0 && c.decidedAt == 0 && f.forgotOrder(c, found) {
		c.ordered, c.variants = false, nil
	}
	if !c.ordered && c.order.id[0] == 'E' {
		amount, _ := centavos(first.Amount)
		v := variant{id: c.order.id, minutes: c.order.minutes, content: content{fromTigerBeetle(first.DebitAccountID), fromTigerBeetle(last.CreditAccountID), amount}}
		hasReceipt = hasReceipt && receipt.Code == codeReceipt
		if hasReceipt {
			v.hash = receipt.UserData64
		}
		switch {
		case first.Code == 1 && last.Code == 3:
			c.order, c.ordered, c.adopted = v, true, true
		case hasReceipt:
			if c.report != nil && c.report.conHash == v.hash {
				v.content = c.report.content
			}
			c.order, c.ordered, c.adopted = v, true, true
		}
	}
	verdict, hasVerdict := found[c.key.role(resolutionRole)]
	switch {
	case c.ordered:
		c.recalled = c.decidedAt == 0
		for _, id := range c.ownIDs() {
			if t, has := found[id]; has {
				f.take(c, t)
			}
		}
	case c.report == nil:
	case !hasVerdict || c.order.id[0] == 'E':
		f.add(ReportWithoutOrder, c.name(), "report %s: no record of %s is its order, and the ledger knows nothing of it", c.report.at, paymentsTopic)
	case c.report.reason != verdict.UserData32: // a return of before
		f.add(LedgerDisagrees, c.name(), "report %s says %s, the ledger's reason is %s", c.report.at, c.report.outcome(), reasonText(verdict.UserData32))
	}
}

// forgotOrder reports whether the ledger's transfers, which were judged when they were read, are of an order that
// is forgotten: those that came since under its id conflict with it.
func (f *Follower) forgotOrder(c *course, found map[number128]tb.Transfer) bool {
	for _, t := range found {
		if t.Timestamp <= f.position && !c.explains(t) {
			return true
		}
	}
	return false
}

// end judges a doubt for good.
func (f *Follower) end(c *course) {
	if c.ordered && c.report != nil && c.decidedAt == 0 && c.waits == 0 && len(c.early) == 0 && !c.flagged {
		c.flagged = true
		f.add(NoVerdict, c.name(), "reported as %s, and the ledger has decided nothing: %s", c.report.outcome(), c.ledgerState())
	}
	if c.ordered {
		f.again(c)
	}
	if c.adopted || !c.ordered {
		c.records = 0
		if f.courses[c.key] == c {
			delete(f.courses, c.key)
		}
	}
}

func (r *reportRead) outcome() string {
	if r.settled {
		return "settled"
	}
	return "rejected " + reasonText(r.reason)
}

// name returns the EndToEndId or RtrId of a course, as well as it is known.
func (c *course) name() string {
	if c.order.id != (endToEndID{}) {
		return c.order.id.String()
	}
	for _, t := range c.early {
		if id := nameIn128(t); id != "" {
			return id
		}
	}
	return fmt.Sprintf("transfer %016x%016x", c.key.high, c.key.low)
}

// nameIn128 returns the EndToEndId or RtrId that a transfer names, or "".
func nameIn128(t tb.Transfer) string {
	letter := byte('E')
	switch t.Code {
	case codeReturnLeg1, codeReturnLeg1 + 1, codeReturnLeg1 + 2:
		letter = 'D'
	case codeReceipt, codeReturn: // user_data_64 is a hash; the accounts are of the payer's bank
		t.UserData64 = 0
		for _, c := range []byte(ispbOf(fromTigerBeetle(t.DebitAccountID))) {
			t.UserData64 = t.UserData64<<8 | uint64(c)
		}
	}
	id, err := idIn(letter, t)
	if err != nil {
		return ""
	}
	return id.String()
}

func whatIs(t tb.Transfer) string {
	amount := decimal(t.Amount)
	switch {
	case t.Code == codeReceipt:
		return "a receipt"
	case t.Code == codeReturn:
		return "the verdict of a return"
	case t.Code >= codeReturnLeg1:
		return fmt.Sprintf("leg %d of a return, %s centavos", t.Code-codeReturnLeg1+1, amount)
	}
	return fmt.Sprintf("leg %d of a payment, %s centavos", t.Code, amount)
}

func (c *course) ledgerState() string {
	state := fmt.Sprintf("legs held %v, posted %v, voided %v", c.held, c.posted, c.voided)
	if c.decidedAt == 0 {
		return state + ", no verdict"
	}
	return fmt.Sprintf("%s, reason %s at %s", state, reasonText(c.verdict), time.Unix(0, int64(c.decidedAt)).UTC().Format("15:04:05.000"))
}
