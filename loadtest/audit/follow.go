package audit

import (
	"cmp"
	"maps"
	"slices"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/loadtest/audit/spec"

	"github.com/liquida/liquida/loadtest/audit/source"
)

// This file makes a judge follow payments while they happen, in bounded memory.
//
// It takes the ledger's transfers in their order and the records of each partition in theirs. These streams
// may be ahead of each other. So it only keeps what comes about a payment, and judges at a mark: Mark says how
// far all streams must be read, and Passed that they are. Nothing that explains what came before is then unread.
//
// It keeps a payment until it has ended and the engines have committed its records. What comes later about
// it, such as a return or one more report, asks the ledger (LookUps).

// following is what a judge that follows knows.
type following struct {
	since      uint64 // the ledger's time before which nothing is judged
	position   uint64 // the ledger was read to here
	partitions map[int32]*partition
	doubts     []doubt
	mark       int
	lookUps    []lookUp
	found      func(Finding)
	checked    int64
}

// unsettled is what is kept about a payment until it is judged, while it is followed.
type unsettled struct {
	fresh    []tb.Transfer // not taken yet
	said     *said         // the first report, not compared yet
	taken    uint32        // roles of the transfers that were taken; of a return's slot, 16 higher
	records  int           // that are not committed
	waits    int           // look-ups that are open
	adopted  bool          // no order was read: the ledger says what it is, since before the judge began
	doubted  bool
	lookedUp bool // the ledger was asked for its transfers
	recalled bool // a look-up says how it ended
	repeated bool // and its verdict had been read: it was counted, and an order or a report came again
	flagged  bool // its legs disagree, or it has no verdict, and a finding says so
	counted  bool // its report was compared with the ledger
	passed   bool // all records were committed without a report: it was before the beginning, or is missing
}

// partition is the records of a partition that the engines have not committed.
type partition struct {
	from      int64 // records below may have ended before the judge began
	committed int64 // records below are
	records   []sent
}

type doubt struct {
	payment *payment
	mark    int
}

type lookUp struct {
	ids    []spec.Number
	answer func(map[spec.Number]tb.Transfer)
}

const (
	// claimsMax bounds the orders with different contents that are kept of one id: the last ones.
	claimsMax = 1000
	// freshMax bounds the transfers that wait for their order. An honest payment has 9.
	freshMax = 32
)

// Follow returns a judge that judges what the ledger does after a time of the ledger. found is called with
// each finding. Between History and Begin comes the register of before.
func Follow(issuance *tb.Account, since uint64, found func(Finding)) *Judge {
	j := newJudge(Config{})
	j.whole = false
	j.books.expected = nil // balances are judged by their laws only

	j.since, j.position, j.found = since, since, found
	if issuance != nil {
		j.Account(*issuance)
	}

	return j
}

// History takes a transfer of the register from before the beginning: it is known, and not judged.
func (j *Judge) History(t tb.Transfer) {
	if t.Ledger == spec.BooksLedger {
		j.takeAct(t)
	}
}

// Begin ends the history.
func (j *Judge) Begin() { j.told = j.found }

// Checked returns how many payments and returns had one outcome that agrees with the ledger.
func (j *Judge) Checked() int64 { return j.checked }

// Kept returns how many records and payments it keeps.
func (j *Judge) Kept() int {
	n := len(j.payments) + len(j.letters)
	for _, p := range j.partitions {
		n += len(p.records)
	}

	return n
}

func (j *Judge) partition(number int32) *partition {
	if j.partitions[number] == nil {
		j.partitions[number] = &partition{}
	}

	return j.partitions[number]
}

// From says that records of a partition below an offset may have ended before the beginning.
func (j *Judge) From(partition int32, offset int64) { j.partition(partition).from = offset }

func (j *Judge) payment(key spec.Number) *payment {
	p := j.payments[key]
	if p == nil {
		p = &payment{key: key}

		j.payments[key] = p
		if j.whole {
			j.all = append(j.all, p)
		}
	}

	return p
}

// await keeps a record until the engines have committed it.
func (j *Judge) await(s sent) {
	in := j.partition(s.at.Partition)
	s.before = s.at.Offset < in.from

	in.records = append(in.records, s)
	if s.payment != nil {
		s.payment.records++
		s.payment.passed = false
	}
}

// addClaim keeps another order under the id.
func (p *payment) addClaim(c claim, all bool) {
	same := func(other claim) bool { return other.letter == c.letter && other.Same(&c.Order) }
	if !all && slices.ContainsFunc(p.others, same) {
		return
	}

	if !all && len(p.others) == claimsMax { // an id may be sent again and again
		p.others = p.others[1:]
	}
	p.others = append(p.others, c)
}

// lose takes note that an order has a dead letter: it is not the payment.
func (p *payment) lose(s *sent, reason string) {
	c := claim{Order: *s.order, at: s.at, letter: reason}
	if p.copies > 0 && p.Same(s.order) {
		p.copies--
		if p.copies == 0 {
			p.prefer(func(*spec.Order) bool { return true })
		}
	} else if i := slices.IndexFunc(p.others, func(o claim) bool { return o.letter == "" && o.Same(s.order) }); i >= 0 {
		p.others = slices.Delete(p.others, i, i+1)
	}
	p.addClaim(c, false)
}

// prefer makes the first order without a dead letter that fits the payment, unless the present one is and fits.
func (p *payment) prefer(fits func(*spec.Order) bool) {
	if p.copies > 0 && fits(&p.Order) {
		return
	}

	for i := range p.others {
		c := &p.others[i]
		if c.letter != "" || !fits(&c.Order) {
			continue
		}

		before := claim{Order: p.Order, at: p.first}
		if p.held != 0 && p.Back == nil {
			p.foreign = p.held
		}

		p.Order, p.first = c.Order, c.at
		if p.copies > 0 {
			*c = before
		} else {
			p.others, p.copies = slices.Delete(p.others, i, i+1), 1
		}

		return
	}
}

func (p *payment) ordered() bool { return p.copies > 0 || p.adopted }

// keep keeps a transfer of a payment until the next mark.
func (j *Judge) keep(p *payment, t tb.Transfer) {
	if len(p.fresh) == freshMax {
		j.add(WrongTransfer, p.name(), "it has more than %d transfers, no payment has as many", freshMax)
		return
	}
	p.fresh = append(p.fresh, t)
	j.doubt(p)
}

func (j *Judge) doubt(p *payment) {
	if !p.doubted {
		p.doubted = true
		j.doubts = append(j.doubts, doubt{p, j.mark})
	}
}

// ReadTo says that the ledger has no other transfer until a time.
func (j *Judge) ReadTo(at uint64) { j.position = max(j.position, at) }

// Mark returns a number. All doubts until now are judged once Passed is called with it.
func (j *Judge) Mark() int {
	j.mark++
	return j.mark - 1
}

// Passed says that since a mark all topics were read to their ends of after it, and the ledger too.
// committed are the engines' offsets of between the mark and those ends.
func (j *Judge) Passed(mark int, committed map[int32]int64) {
	old := j.doubts
	j.doubts = nil

	for _, d := range old {
		if d.mark > mark {
			j.doubts = append(j.doubts, d)
			continue
		}
		d.payment.doubted = false
		j.settle(d.payment)
	}

	for partition, offset := range committed {
		j.commit(partition, offset)
	}
	j.judgeMoneyWithoutAct(j.position)
}

// commit ends what the engines have committed: it must have an outcome.
func (j *Judge) commit(partition int32, committed int64) {
	in := j.partition(partition)

	n := 0
	for ; n < len(in.records) && in.records[n].at.Offset < committed; n++ {
		s := in.records[n]

		p, letter := s.payment, j.letters[s.at]
		switch {
		case letter != nil || s.before:
		case s.flaws != nil:
			j.add(NoDeadLetter, s.at.String(),
				"%v, and the engines have finished it, but it has no dead letter", s.flaws)
		case p != nil && p.reportCount == 0:
			j.add(NoOutcome, p.ID.String(),
				"the engines have finished %v, and there is neither a report nor a dead letter of it", s.at)
		}

		if p != nil {
			p.records--
			p.passed = p.records == 0 && p.reportCount == 0
			j.release(p)
		}
	}

	if in.committed = max(in.committed, committed); len(j.letters) > 0 {
		maps.DeleteFunc(j.letters, func(at source.Coordinates, _ *letter) bool {
			return at.Partition == partition && at.Offset < committed
		})
	}

	in.records = in.records[n:]
	if len(in.records) == 0 {
		in.records = nil // the array would keep what has ended
	}
}

// release forgets a payment that has ended. What has not waits for the ledger's side.
func (j *Judge) release(p *payment) {
	ended := (p.decidedAt != 0) == (p.reportCount > 0) || p.passed
	if p.records <= 0 && ended && !p.doubted && p.waits == 0 {
		j.forget(p)
	}
}

func (j *Judge) forget(p *payment) {
	if j.payments[p.key] == p {
		delete(j.payments, p.key)
	}
}

// settle judges a payment. All that could explain what came about it has been read.
func (j *Judge) settle(p *payment) {
	if j.payments[p.key] != p || p.waits > 0 {
		return
	}

	if !p.lookedUp && p.lacks() {
		j.recall(p)
		return
	}

	if !p.ordered() {
		j.judgeUnordered(p, nil)
		return
	}
	slices.SortStableFunc(p.fresh, func(x, y tb.Transfer) int { return cmp.Compare(x.Timestamp, y.Timestamp) })
	j.choose(p)

	if j.askOriginals(p); p.waits > 0 {
		return
	}

	for _, t := range p.fresh {
		p.taken |= p.roleBit(t)
		j.take(p, t)
	}

	p.fresh = nil
	if p.said != nil && p.decidedAt != 0 {
		j.judgeReport(p, p.said)
		p.said = nil
	}
	counted := p.counted
	j.judge(p)

	if p.counted && !counted && (!p.repeated || p.decidedAt <= j.since) {
		j.checked++
	}

	if p.adopted {
		j.forget(p)
	}
	j.release(p)
}

// choose finds out by the ledger which of the orders is the payment.
func (j *Judge) choose(p *payment) {
	if len(p.others) == 0 {
		return
	}

	if p.held == 0 && slices.ContainsFunc(p.fresh, spec.Holds) { // orders may agree in some legs
		p.prefer(func(o *spec.Order) bool {
			return !slices.ContainsFunc(p.fresh, func(t tb.Transfer) bool { return spec.Holds(t) && !o.Asks(t) })
		})
	}

	for _, t := range p.fresh {
		if t.Code == spec.CodeReceipt || t.Code == spec.CodeReturn {
			p.prefer(func(o *spec.Order) bool { return o.Refused(t) })
		}
	}
}

// decides reports whether a transfer is the verdict of a payment or return.
func (p *payment) decides(t tb.Transfer) bool {
	if p.ID[0] == 'D' {
		return t.Code == spec.CodeReturn
	}

	return t.Code == spec.CodeReceipt || t.Code == 1 && !spec.Begins(t)
}

// lacks reports whether the ledger must be asked for what was before the beginning, or is forgotten.
func (p *payment) lacks() bool {
	switch {
	case !p.ordered():
		return len(p.fresh) > 0 || p.said != nil
	case p.reportCount > 0 && p.decidedAt == 0 && !slices.ContainsFunc(p.fresh, p.decides):
		return true
	}

	return p.held == 0 && slices.ContainsFunc(p.fresh, func(t tb.Transfer) bool {
		return spec.IsLeg(t) && !spec.Begins(t)
	}) && !slices.ContainsFunc(p.fresh, spec.Holds)
}

// roleBit tells the transfers of a payment from each other.
func (p *payment) roleBit(t tb.Transfer) uint32 {
	key, role := spec.Split(spec.NumberOf(t.ID))
	if key != p.key {
		role += 16
	}

	return 1 << role
}

// ownIDs returns the ids of all transfers of a payment but leg 4, or of a return's slot and verdict.
func (p *payment) ownIDs() (ids []spec.Number) {
	legs := p.key
	if p.ID[0] == 'D' {
		ids = append(ids, p.key.Role(spec.ResolutionRole))
		if legs = p.slot; legs == (spec.Number{}) {
			return ids
		}
	}

	for leg := range 3 {
		ids = append(ids, legs.Role(leg), legs.Role(spec.ResolutionRole+leg))
	}

	return ids
}

// recall asks the ledger for the transfers of a payment.
func (j *Judge) recall(p *payment) {
	for _, t := range p.fresh {
		if spec.IsLeg(t) && t.Code >= spec.CodeReturnLeg1 {
			if p.slot, _ = spec.Split(spec.NumberOf(t.ID)); !spec.Begins(t) {
				p.slot, _ = spec.Split(spec.NumberOf(t.PendingID))
			}
		}
	}
	p.lookedUp = true
	p.waits++
	j.lookUp(p.ownIDs(), func(found map[spec.Number]tb.Transfer) {
		p.waits--
		for _, t := range p.fresh {
			delete(found, spec.NumberOf(t.ID))
		}

		if !p.ordered() && slices.ContainsFunc(p.fresh, func(t tb.Transfer) bool {
			return j.isUnexplained(p, t, found)
		}) {
			j.judgeUnordered(p, found)
			return
		}
		verdict, has := found[p.key.Role(spec.ResolutionRole)] // a report may be read before its verdict
		p.recalled, p.repeated = p.decidedAt == 0, has && verdict.Timestamp <= j.position
		j.adopt(p, found)

		if !p.ordered() {
			j.judgeUnordered(p, found)
			return
		}

		for _, id := range p.ownIDs() {
			if t, has := found[id]; has && p.taken&p.roleBit(t) == 0 {
				p.fresh = append(p.fresh, t)
			}
		}
		j.doubt(p)
	})
}

// adopt finds out by the ledger what a payment is about that was decided before, or is forgotten.
func (j *Judge) adopt(p *payment, found map[spec.Number]tb.Transfer) {
	if p.ordered() && (p.decidedAt != 0 || !j.forgot(p, found)) || p.ID[0] != 'E' {
		return
	}
	first, last, receipt := found[p.key.Role(0)], found[p.key.Role(2)], found[p.key.Role(spec.ResolutionRole)]
	o := spec.Order{ID: p.ID, Minutes: p.Minutes, Content: spec.ContentOf(first, last)}

	isReceipt := receipt.Code == spec.CodeReceipt
	if isReceipt {
		o.Hash = receipt.UserData64
	}

	switch {
	case o.Content != (spec.Content{}):
	case isReceipt && p.said != nil && p.said.contentHash == o.Hash:
		o.Content = p.said.content
	case !isReceipt:
		return
	}

	if p.copies > 0 { // it came after a receipt, which phase 1 does not see
		p.addClaim(claim{Order: p.Order, at: p.first, letter: conflictReason}, false)
	}
	p.Order, p.copies, p.adopted, p.foreign = o, 0, true, p.held
}

// forgot reports whether the ledger's transfers, which were judged when they were read, are of an order that
// is forgotten: those that came since under its id conflict with it.
func (j *Judge) forgot(p *payment, found map[spec.Number]tb.Transfer) bool {
	for _, t := range found {
		explained := !spec.Holds(t) && t.Code != spec.CodeReceipt
		p.each(func(o *spec.Order) { explained = explained || o.Asks(t) || o.Refused(t) })

		if t.Timestamp <= j.position && !explained {
			return true
		}
	}

	return false
}

// isUnexplained reports whether a transfer begins a payment or return without an order. One that lost against a
// receipt may have held money, which nobody posts.
func (j *Judge) isUnexplained(p *payment, t tb.Transfer, found map[spec.Number]tb.Transfer) bool {
	verdict, decided := found[p.key.Role(spec.ResolutionRole)]
	beside := decided && spec.Begins(verdict) && spec.Holds(t) && p.claim(func(o *spec.Order) bool {
		return o.Asks(t)
	}) != nil

	return spec.Begins(t) && t.Timestamp > j.since && !beside
}

// judgeUnordered judges what no order explains. The payment may have ended before it, and be forgotten.
func (j *Judge) judgeUnordered(p *payment, found map[spec.Number]tb.Transfer) {
	defer j.forget(p)

	verdict, decided := found[p.key.Role(spec.ResolutionRole)]
	for _, t := range p.fresh {
		if !j.isUnexplained(p, t, found) {
			continue
		}

		kind := UnexplainedMoney
		if decided && verdict.Timestamp < t.Timestamp || len(p.others) > 0 {
			kind = WrongTransfer
		}
		j.add(kind, p.name(), "%s: it comes after the verdict, or no record of %s without a dead letter is its order",
			spec.MovedBy(t), source.Payments)

		return
	}

	switch {
	case p.reportCount == 0:
	case !decided || p.ID[0] == 'E':
		j.add(ReportWithoutOrder, p.name(),
			"report %s: no record of %s is its order, and the ledger knows nothing of it", p.said.record,
			source.Payments)
	case p.reported.reason != verdict.UserData32: // a return of before
		j.add(LedgerDisagrees, p.name(), "reported as %s, the ledger's reason is %s", p.reported.outcome(),
			spec.ReasonText(verdict.UserData32))
	}
}

// askOriginals asks the ledger for the originals of a return that has legs. What is known already is not asked for.
func (j *Judge) askOriginals(p *payment) {
	settles := func(t tb.Transfer) bool { return spec.IsLeg(t) || t.Code == spec.CodeReturn && t.UserData32 == 0 }
	if !slices.ContainsFunc(p.fresh, settles) {
		return
	}
	p.each(func(o *spec.Order) {
		if o.Back == nil || o.Original != nil || j.recallOriginal(o) {
			return
		}
		p.waits++
		key, back := o.Back.Key(), o.Back
		j.lookUp([]spec.Number{key.Role(0), key.Role(2), key.Role(spec.ResolutionRole)},
			func(found map[spec.Number]tb.Transfer) {
				p.waits--
				j.doubt(p)
				first, last, verdict := found[key.Role(0)], found[key.Role(2)], found[key.Role(spec.ResolutionRole)]

				of := spec.Original{Content: spec.ContentOf(first, last), SettledAt: spec.Never}
				if verdict.TransferFlags().PostPendingTransfer {
					of.SettledAt = func() uint64 { return verdict.Timestamp }
				}
				p.each(func(o *spec.Order) {
					if o.Back == back {
						o.Returns(of)
					}
				})
			})
	})
}

// LookUps returns ids of transfers to look up, at most this many unless one look-up has more, and
// what takes what the ledger has of them. No ids: nothing is asked.
func (j *Judge) LookUps(idsMax int) (ids []tb.Uint128, answer func([]tb.Transfer)) {
	n := 0
	for ; n < len(j.lookUps) && (n == 0 || len(ids)+len(j.lookUps[n].ids) <= idsMax); n++ {
		for _, id := range j.lookUps[n].ids {
			ids = append(ids, id.TigerBeetle())
		}
	}
	asked := j.lookUps[:n:n]
	j.lookUps = j.lookUps[n:]

	return ids, func(transfers []tb.Transfer) {
		byID := make(map[spec.Number]tb.Transfer, len(transfers))
		for _, t := range transfers {
			byID[spec.NumberOf(t.ID)] = t
		}

		for _, q := range asked {
			q.answer(maps.Clone(byID))
		}
	}
}

func (j *Judge) lookUp(ids []spec.Number, answer func(map[spec.Number]tb.Transfer)) {
	j.lookUps = append(j.lookUps, lookUp{ids, answer})
}
