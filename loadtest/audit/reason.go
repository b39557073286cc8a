package audit

import (
	"fmt"
	"slices"
	"sort"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/loadtest/audit/spec"
)

// A refusal is a receipt: nothing was held, or the hold expired. No bank has a say in it, so its
// reason must follow from the order and the ledger. This file derives what can be derived, from
// docs/outcomes.md. The rest is counted as not checked.

// since returns the earliest time of the ledger at which an engine can have looked at an order.
func (p *payment) since() uint64 {
	return uint64(max(0, min(p.AcceptedMs, p.sentMs)*int64(time.Millisecond)-int64(clockSkewMax)))
}

// followAccounts follows the accounts that reports say were short.
func (j *Judge) followAccounts() {
	for _, p := range j.all {
		switch p.reported.reason {
		case payerShort:
			j.shortages.follow(p.Content.Payer, p.Content.Centavos)
		case reserveShort:
			j.shortages.follow(spec.ReserveOf(p.Content.Payer), p.Content.Centavos)
		case outflowCapped:
			j.shortages.follow(spec.AllowanceOf(p.Content.Payer, 0), p.Content.Centavos)
			j.shortages.follow(spec.AllowanceOf(p.Content.Payer, 1), p.Content.Centavos)
		}
	}
}

// The numbers of the reasons LQ01, AM04 and LQ12.
const (
	payerShort    = 'L'<<24 | 'Q'<<16 | '0'<<8 | '1'
	reserveShort  = 'A'<<24 | 'M'<<16 | '0'<<8 | '4'
	outflowCapped = 'L'<<24 | 'Q'<<16 | '1'<<8 | '2'
)

// forHolds are the reasons that holds can cause.
var forHolds = []string{"LQ01", "AM04", "AM09", "LQ06", "LQ12"}

// refusal is what is wrong with the reason of a refusal; empty: it is justified.
type refusal string

// unchecked is of a reason that only the engine's settings or queues explain.
const unchecked refusal = "unchecked"

func unless(right bool, format string, arguments ...any) refusal {
	if right {
		return ""
	}

	return refusal(fmt.Sprintf(format, arguments...))
}

func dependsOnSettings(*Judge, *payment) refusal { return unchecked }

// justifies are the rules of refusals, by the kind of order and the reason. What is in none of them is never refused
// without its bank.
var justifies = map[bool]map[string]func(*Judge, *payment) refusal{
	false: {
		"RC09": func(j *Judge, p *payment) refusal { return j.judgeNoBank(p.Content.Payer) },
		"RC10": func(j *Judge, p *payment) refusal { return j.judgeNoBank(p.Content.Payee) },
		"AC02": func(j *Judge, p *payment) refusal { return j.judgeNoAccount(p.Content.Payer) },
		"AC03": func(j *Judge, p *payment) refusal { return j.judgeNoAccount(p.Content.Payee) },
		"LQ01": (*Judge).judgePayerShort,
		"AM04": (*Judge).judgeReserveShort,
		"DS27": func(j *Judge, p *payment) refusal {
			return j.judgeSuspended(p.decidedAt, p.Content.Payer, p.Content.Payee)
		},
		"AM13": (*Judge).judgePaymentCap,
		"LQ12": (*Judge).judgeOutflow,
		"LQ02": dependsOnSettings,
	},
	true: {
		"LQ04": func(_ *Judge, p *payment) refusal {
			at := p.Original.SettledAt()
			return unless(at == 0 || at >= p.since(), "its original %s had settled before it was sent", p.Back.Original)
		},
		"LQ05": func(_ *Judge, p *payment) refusal {
			return unless(p.Content != (spec.Content{}) && !p.byReceiver(),
				"its RtrId is of the bank that received the original")
		},
		"DT05": func(_ *Judge, p *payment) refusal {
			return unless(p.Original.SettledAt() != 0 && p.tooOld(),
				"it was accepted within %d days after its original settled", returnDaysMax)
		},
		"AM09": (*Judge).judgeExceeds,
		"LQ01": (*Judge).judgePayerShort,
		"AM04": (*Judge).judgeReserveShort,
		"LQ06": func(j *Judge, p *payment) refusal {
			used := j.givenBack(p.Back.Key()).used
			return unless(used >= spec.ReturnSlots, "%d slots of its original are used", used)
		},
		"DS27": func(j *Judge, p *payment) refusal { // one to a suspended bank is taken
			return j.judgeSuspended(p.decidedAt, spec.BankNamed(p.ID))
		},
		"LQ02": dependsOnSettings,
		"LQ11": dependsOnSettings,
	},
}

// judgeRefusal checks the reason of what was refused without its bank. The verdict and the accounts are known.
func (j *Judge) judgeRefusal(p *payment) {
	var wrong refusal
	reason := spec.ReasonText(p.verdict)

	rule := justifies[p.Back != nil][reason]
	switch {
	case reason == "AB03" || reason == "LQ13" || reason == tooLateReason: // judgeDeadlines, judgeAge
		if j.clockWasWrong(p.AcceptedMs, p.decidedAt) {
			wrong = unchecked
		}
	case reason == "AM01":
		wrong = unless(p.Amount() == 0, "its amount is %d centavos", p.Amount())
	case p.again:
		wrong = unchecked
	case rule == nil:
		wrong = "nothing is refused with this reason without its bank"
	default:
		wrong = rule(j, p)
		// A ledger that was built again does not have the holds of before that nothing ended.
		if wrong != "" && p.old && slices.Contains(forHolds, reason) {
			wrong = unchecked
		}
	}

	switch wrong {
	case unchecked:
		j.summary.NotChecked[RefusalsWith+reason]++
	case "":
		j.summary.ReasonsChecked[reason]++
	default:
		j.add(WrongReason, p.ID.String(), "refused with %s, but %s", reason, wrong)
	}
}

func (j *Judge) exists(id spec.AccountID) bool {
	_, known := j.books.accounts[id]
	return known
}

func (j *Judge) judgeNoBank(of spec.AccountID) refusal {
	return unless(!j.exists(spec.TransitOf(of)), "the ledger has the bank %s", spec.ISPBOf(of))
}

func (j *Judge) judgeNoAccount(id spec.AccountID) refusal {
	return unless(!j.exists(id) && j.exists(spec.TransitOf(id)), "the account %s is there (%t), its bank is (%t)",
		spec.AccountName(id), j.exists(id), j.exists(spec.TransitOf(id)))
}

// judgePayerShort checks a refusal because the payer had too little money.
func (j *Judge) judgePayerShort(p *payment) refusal {
	switch {
	case p.Content == (spec.Content{}):
		return "no record is its original"
	case !j.exists(p.Content.Payer):
		return "the payer's account is not in the ledger"
	}

	return j.judgeShortOf(p.Content.Payer, p)
}

// judgeReserveShort checks a refusal because the reserve of the payer's bank was too small.
func (j *Judge) judgeReserveShort(p *payment) refusal {
	switch {
	case p.Content == (spec.Content{}):
		return "no record is its original"
	case p.Content.SameBank():
		return "it does not move reserves"
	}

	return j.judgeShortOf(spec.ReserveOf(p.Content.Payer), p)
}

func (j *Judge) judgeShortOf(account spec.AccountID, p *payment) refusal {
	short, followed := j.shortages.wasShort(account, p.Content.Centavos, p.since(), p.decidedAt)
	if !followed { // the report says another reason, which is a finding
		return unchecked
	}

	return unless(short, "%s had %d centavos and more all the time", spec.AccountName(account), p.Content.Centavos)
}

// judgeExceeds checks that the returns which were held or had settled left less than one wants.
func (j *Judge) judgeExceeds(p *payment) refusal {
	if p.Content == (spec.Content{}) {
		return "no record is its original"
	}
	var given spec.Money

	for _, other := range j.givenBack(p.Back.Key()).returns {
		if other.foreign != 0 || len(other.others) > 0 { // a conflicting message may hold money, too
			return unchecked
		}

		rejected := other.verdict != 0 && other.decidedAt != 0 && other.decidedAt < p.since()
		if other != p && other.heldAt != 0 && other.heldAt <= p.decidedAt && !rejected {
			given = given.Plus(spec.MoneyOf(other.Back.Centavos))
		}
	}
	paid := p.Original.Content.Centavos

	return unless(spec.MoneyOf(paid).Less(given.Plus(spec.MoneyOf(p.Back.Centavos))),
		"%d centavos were paid, and %v of them were held or given back", paid, given)
}

// A refusal for lack of money is justified if the account was short of it at some time between
// the order and its verdict. The ledger keeps no refused transfer. So the audit follows the
// balances of the accounts that are said to have been short, through all transfers.

// shortages follows accounts. What it follows must be known before the first transfer.
type shortages struct {
	followed map[spec.AccountID]*followed
	holds    openHolds
}

// followed is an account that was said to be short of some amounts.
type followed struct {
	amounts   []uint64   // ascending, without repeats
	limit     spec.Money // of an allowance: its cap
	available spec.Money // credits less debits, posted and pending
	levels    []level
}

// level says that from a time on the account was short of all amounts from an index on.
type level struct {
	at   uint64 // by the ledger's clock, ns
	from int
}

// follow makes an account followed because of an amount that it was said to be short of.
func (s *shortages) follow(account spec.AccountID, centavos uint64) {
	if s.followed == nil {
		s.followed = map[spec.AccountID]*followed{}
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
func (s *shortages) limit(allowance spec.AccountID, centavos, at uint64) {
	if f := s.followed[allowance]; f != nil {
		s.move(allowance, spec.MoneyOf(centavos).Minus(f.limit), at)
		f.limit = spec.MoneyOf(centavos)
	}
}

// take takes a transfer, in the order of the ledger.
func (s *shortages) take(t tb.Transfer) {
	if s.followed == nil {
		return
	}

	for _, h := range s.holds.expired(t.Timestamp) {
		s.move(h.account, spec.MoneyOf(h.centavos), h.ends)
	}

	amount, ok := spec.Centavos(t.Amount)
	if !ok {
		return // a finding elsewhere
	}

	debit, moved := spec.NumberOf(t.DebitAccountID), spec.MoneyOf(amount)
	flags := t.TransferFlags()

	ends := flags.PostPendingTransfer || flags.VoidPendingTransfer
	if ends {
		h := s.holds.release(spec.NumberOf(t.PendingID))
		s.move(h.account, spec.MoneyOf(h.centavos), t.Timestamp)
	}

	if flags.Pending && s.followed[debit] != nil {
		s.holds.add(spec.NumberOf(t.ID), openHold{debit, amount, endOf(t)})
	}

	if flags.VoidPendingTransfer || !flags.Pending && !ends && t.Ledger == spec.AllowanceLedger {
		return
	}
	s.move(debit, spec.Money{}.Minus(moved), t.Timestamp)

	if !flags.Pending {
		s.move(spec.NumberOf(t.CreditAccountID), moved, t.Timestamp)
	}
}

// move changes what an account has available. Only a change that matters to an amount is kept.
func (s *shortages) move(account spec.AccountID, by spec.Money, at uint64) {
	f := s.followed[account]
	if f == nil {
		return
	}
	f.available = f.available.Plus(by)

	from := sort.Search(len(f.amounts), func(i int) bool { return f.available.Less(spec.MoneyOf(f.amounts[i])) })
	if from != f.levels[len(f.levels)-1].from {
		f.levels = append(f.levels, level{at, from})
	}
}

// wasShort reports whether an account was short of an amount at some time from one time of the
// ledger to another. known is false for an account that was not followed.
func (s *shortages) wasShort(account spec.AccountID, centavos, from, to uint64) (short, known bool) {
	f := s.followed[account]
	if f == nil {
		return false, false
	}
	wanted, known := slices.BinarySearch(f.amounts, centavos)
	// The level at the first time, and those that follow until the last.
	i := sort.Search(len(f.levels), func(i int) bool { return f.levels[i].at > from }) - 1
	for ; i < len(f.levels) && f.levels[i].at <= to; i++ {
		short = short || f.levels[i].from <= wanted
	}

	return short, known
}
