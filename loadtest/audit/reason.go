package audit

import (
	"container/heap"
	"fmt"
	"math"
	"slices"
	"sort"
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
func (j *Judge) ask(payee accountID, leg tb.Transfer) {
	if !j.whole {
		return
	}
	bank := transitOf(payee)
	q := j.questions[bank]
	if q == nil {
		q = &openQuestions{ends: map[number128]uint64{}}
		j.questions[bank] = q
	}
	ends := uint64(math.MaxUint64)
	if leg.Timeout > 0 {
		ends = leg.Timestamp + uint64(leg.Timeout)*uint64(time.Second) + expiryMargin
	}
	q.ends[fromTigerBeetle(leg.ID)] = ends
}

// answered ends the question of a hold.
func (j *Judge) answered(payee accountID, hold number128, at uint64) {
	if q := j.questions[transitOf(payee)]; q != nil {
		if _, open := q.ends[hold]; open {
			delete(q.ends, hold)
			q.last = max(q.last, at)
		}
	}
}

// wasAsked reports whether a payment waited for a bank at some time after from.
func (j *Judge) wasAsked(payee accountID, from uint64) bool {
	q := j.questions[transitOf(payee)]
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
func (p *payment) since() uint64 {
	return uint64(max(0, min(p.acceptedMs, p.sentMs)*int64(time.Millisecond)-int64(clockSkewMax)))
}

// followAccounts follows the accounts that reports say were short.
func (j *Judge) followAccounts() {
	for _, p := range j.all {
		switch p.reported.reason {
		case payerShort:
			j.shortages.follow(p.content.payer, p.content.centavos)
		case reserveShort:
			j.shortages.follow(reserveOf(p.content.payer), p.content.centavos)
		case outflowCapped:
			j.shortages.follow(allowanceOf(p.content.payer, 0), p.content.centavos)
			j.shortages.follow(allowanceOf(p.content.payer, 1), p.content.centavos)
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

// forHolds are the reasons that holds can cause.
var forHolds = []string{"LQ01", "AM04", "AM09", "LQ06", "LQ12"}

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

// judgeRefusal checks the reason of what was refused without its bank. The verdict and the accounts are known.
func (j *Judge) judgeRefusal(p *payment) {
	var r refusal
	switch reason := reasonText(p.verdict); reason {
	case "AB03", tooLateReason: // judgeDeadlines, judgeAge
		r.unchecked = j.clockWasWrong(p.acceptedMs, p.decidedAt)
	case "LQ02": // checkBusy
	case "AM01":
		r = unless(p.amount() == 0, "its amount is %d centavos", p.amount())
	default:
		if r.unchecked = p.again; r.unchecked {
			break
		}
		if p.back == nil {
			r = j.judgePaymentRefusal(p, reason)
		} else {
			r = j.judgeReturnRefusal(p, reason)
		}
		// A ledger that was built again does not have the holds of before that nothing ended.
		r.unchecked = r.unchecked || r.wrong != "" && p.old && slices.Contains(forHolds, reason)
	}
	switch {
	case r.unchecked:
		j.summary.ReasonsUnchecked[reasonText(p.verdict)]++
	case r.wrong != "":
		j.add(WrongReason, p.id.String(), "refused with %s, but %s", reasonText(p.verdict), r.wrong)
	default:
		j.summary.ReasonsChecked[reasonText(p.verdict)]++
	}
}

func (j *Judge) judgePaymentRefusal(p *payment, reason string) refusal {
	c := p.content
	exists := func(id accountID) bool { _, known := j.books.accounts[id]; return known }
	bank := func(role string, of accountID) refusal {
		return unless(!exists(transitOf(of)), "the ledger has the %s's bank %s", role, ispbOf(of))
	}
	account := func(role string, id accountID) refusal {
		return unless(!exists(id) && exists(transitOf(id)), "the %s's account %s is there (%t), its bank is (%t)", role, nameOf(id), exists(id), exists(transitOf(id)))
	}
	switch reason {
	case "RC09":
		return bank("payer", c.payer)
	case "RC10":
		return bank("payee", c.payee)
	case "AC02":
		return account("payer", c.payer)
	case "AC03":
		return account("payee", c.payee)
	case "LQ01", "AM04":
		return j.judgeShort(p, reason)
	case "DS27":
		return j.judgeSuspended(p.decidedAt, c.payer, c.payee)
	case "AM13":
		return j.judgePaymentCap(p)
	case "LQ12":
		return j.judgeOutflow(p, p.since())
	}
	return refusal{wrong: "no order is refused with this reason without its bank"}
}

func (j *Judge) judgeReturnRefusal(p *payment, reason string) refusal {
	o, settledAt := j.original(p.back.key()), p.original.when()
	missing := p.content == (content{})
	switch reason {
	case "LQ04":
		return unless(settledAt == 0 || settledAt >= p.since(), "its original %s had settled before it was sent", p.back.original)
	case "LQ05":
		return unless(!missing && p.content.payer.high&ispbMask != bankNamed(p.id).high&ispbMask, "its RtrId is of the bank that received the original")
	case "DT05":
		return unless(settledAt != 0 && uint64(p.acceptedMs)*uint64(time.Millisecond) > settledAt+returnDaysMax*nanosecondsDay,
			"it was accepted within %d days after its original settled", returnDaysMax)
	case "AM09", "LQ01", "AM04":
		switch {
		case missing:
			return refusal{wrong: "no record is its original"}
		case reason == "AM09":
			return o.judgeExceeds(p)
		}
		return j.judgeShort(p, reason)
	case "LQ06":
		used := j.usedSlots(p, o)
		return unless(used >= returnSlots, "only %d slots of its original are used", used)
	case "DS27":
		return j.judgeSuspended(p.decidedAt, bankNamed(p.id)) // one to a suspended bank is taken
	case "LQ11":
		return refusal{unchecked: true}
	}
	return refusal{wrong: "no return is refused with this reason without its bank"}
}

// judgeShort checks a refusal because an account had too little money: the payer's, or its bank's reserve.
func (j *Judge) judgeShort(p *payment, reason string) refusal {
	account := p.content.payer
	if _, known := j.books.accounts[account]; !known && reason == "LQ01" {
		return refusal{wrong: "the payer's account is not in the ledger"}
	}
	if reason == "AM04" {
		if p.content.sameBank() {
			return refusal{wrong: "it does not move reserves"}
		}
		account = reserveOf(account)
	}
	return j.judgeShortOf(account, p.content.centavos, p.since(), p.decidedAt)
}

func (j *Judge) judgeShortOf(account accountID, centavos, from, to uint64) refusal {
	short, followed := j.shortages.wasShort(account, centavos, from, to)
	if !followed { // the report says another reason, which is a finding
		return refusal{unchecked: true}
	}
	return unless(short, "%s had %d centavos and more all the time", nameOf(account), centavos)
}

// judgeExceeds checks that the returns which were held or had settled left less than one wants.
func (o *original) judgeExceeds(p *payment) refusal {
	var given money
	for _, other := range o.returns {
		if other.foreign != 0 || len(other.others) > 0 { // a conflicting message may hold money, too
			return refusal{unchecked: true}
		}
		rejected := other.verdict != 0 && other.decidedAt != 0 && other.decidedAt < p.since()
		if other != p && other.heldAt != 0 && other.heldAt <= p.decidedAt && !rejected {
			given = given.plus(moneyOf(other.back.centavos))
		}
	}
	paid := p.original.content.centavos
	return unless(moneyOf(paid).less(given.plus(moneyOf(p.back.centavos))), "%d centavos were paid, and %v of them were held or given back", paid, given)
}

// usedSlots returns the slots of an original in which returns are or were held, or that are burnt.
func (j *Judge) usedSlots(p *payment, o *original) (used int) {
	held := map[number128]bool{}
	for _, other := range o.returns {
		held[other.slot] = other.held != 0
		if other.foreign != 0 {
			used++
		}
	}
	for slot := range returnSlots {
		key := returnKey(p.back.original, p.back.minutes, slot)
		if _, burnt := j.burnt[key]; burnt || held[key] {
			used++
		}
	}
	return used
}

// checkBusy reports a verdict that says that a bank had too many questions, while it had none.
func (j *Judge) checkBusy(t tb.Transfer, payee accountID, from uint64, wrong blame) {
	if t.UserData32 == bankBusy && !j.wasAsked(payee, from) {
		wrong("it says %s, but no payment waited for the bank %s", reasonText(bankBusy), ispbOf(payee))
	}
}

// A refusal for lack of money is justified if the account was short of it at some time between
// the order and its verdict. The ledger keeps no refused transfer. So the audit follows the
// balances of the accounts that are said to have been short, through all transfers.

// shortages follows accounts. What it follows must be known before the first transfer.
type shortages struct {
	followed map[accountID]*followed
	open     map[number128]openHold
	ending   endings
}

// followed is an account that was said to be short of some amounts.
type followed struct {
	amounts   []uint64 // ascending, without repeats
	limit     money    // of an allowance: its cap
	available money    // credits less debits, posted and pending
	levels    []level
}

// level says that from a time on the account was short of all amounts from an index on.
type level struct {
	at   uint64 // by the ledger's clock, ns
	from int
}

type openHold struct {
	account  accountID
	centavos uint64
}

// holdEnd is when a hold has ended at the latest, by the ledger's clock, ns.
type holdEnd struct {
	id   number128
	ends uint64
}

// endings is a heap: the first hold ends first. Windows of caps are longer than other holds.
type endings []holdEnd

func (e endings) Len() int           { return len(e) }
func (e endings) Less(i, j int) bool { return e[i].ends < e[j].ends }
func (e endings) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *endings) Push(hold any)     { *e = append(*e, hold.(holdEnd)) }
func (e *endings) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// expiryMargin is how long after its timeout a hold's money may come back.
const expiryMargin = uint64(time.Minute)

// follow makes an account followed because of an amount that it was said to be short of.
func (s *shortages) follow(account accountID, centavos uint64) {
	if s.followed == nil {
		s.followed, s.open = map[accountID]*followed{}, map[number128]openHold{}
	}
	f := s.followed[account]
	if f == nil {
		f = &followed{levels: []level{{}}}
		s.followed[account] = f
	}
	if i, known := slices.BinarySearch(f.amounts, centavos); !known {
		f.amounts = slices.Insert(f.amounts, i, centavos)
	}
}

// limit takes note of the cap of an allowance: it counts, and not the adjustments.
func (s *shortages) limit(allowance accountID, centavos, at uint64) {
	if f := s.followed[allowance]; f != nil {
		f.move(moneyOf(centavos).minus(f.limit), at)
		f.limit = moneyOf(centavos)
	}
}

// take takes a transfer, in the order of the ledger.
func (s *shortages) take(t tb.Transfer) {
	if s.followed == nil {
		return
	}
	for len(s.ending) > 0 && s.ending[0].ends <= t.Timestamp {
		ended := heap.Pop(&s.ending).(holdEnd)
		s.release(ended.id, 0, ended.ends)
	}
	amount, ok := centavos(t.Amount)
	if !ok {
		return // a finding elsewhere
	}
	none := money{}
	debit, credit := fromTigerBeetle(t.DebitAccountID), fromTigerBeetle(t.CreditAccountID)
	switch flags := t.TransferFlags(); {
	case flags.Pending:
		if f := s.followed[debit]; f != nil {
			id := fromTigerBeetle(t.ID)
			s.open[id] = openHold{debit, amount}
			if t.Timeout > 0 {
				heap.Push(&s.ending, holdEnd{id, t.Timestamp + uint64(t.Timeout)*uint64(time.Second) + expiryMargin})
			}
			f.move(none.minus(moneyOf(amount)), t.Timestamp)
		}
		return
	case flags.VoidPendingTransfer:
		s.release(fromTigerBeetle(t.PendingID), 0, t.Timestamp)
		return
	case flags.PostPendingTransfer:
		s.release(fromTigerBeetle(t.PendingID), amount, t.Timestamp)
	case t.Ledger == allowanceLedger:
		return
	default:
		if f := s.followed[debit]; f != nil {
			f.move(none.minus(moneyOf(amount)), t.Timestamp)
		}
	}
	if f := s.followed[credit]; f != nil {
		f.move(moneyOf(amount), t.Timestamp)
	}
}

// release ends a hold of which some centavos were posted.
func (s *shortages) release(id number128, posted, at uint64) {
	hold, known := s.open[id]
	if known {
		delete(s.open, id)
		s.followed[hold.account].move(moneyOf(hold.centavos).minus(moneyOf(posted)), at)
	}
}

// move changes what is available. Only a change that matters to an amount is kept.
func (f *followed) move(by money, at uint64) {
	f.available = f.available.plus(by)
	from := sort.Search(len(f.amounts), func(i int) bool { return f.available.less(moneyOf(f.amounts[i])) })
	if from != f.levels[len(f.levels)-1].from {
		f.levels = append(f.levels, level{at, from})
	}
}

// wasShort reports whether an account was short of an amount at some time from one time of the
// ledger to another. known is false for an account that was not followed.
func (s *shortages) wasShort(account accountID, centavos, from, to uint64) (short, known bool) {
	f := s.followed[account]
	if f == nil {
		return false, false
	}
	wanted, known := slices.BinarySearch(f.amounts, centavos)
	if !known {
		return false, false
	}
	// The level at the first time, and those that follow until the last.
	i := sort.Search(len(f.levels), func(i int) bool { return f.levels[i].at > from }) - 1
	for ; i < len(f.levels) && f.levels[i].at <= to; i++ {
		if f.levels[i].from <= wanted {
			return true, true
		}
	}
	return false, true
}
