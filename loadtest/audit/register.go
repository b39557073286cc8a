package audit

import (
	"cmp"
	"maps"
	"slices"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/loadtest/audit/spec"
)

// The register says who takes part, and on which terms. It is a series of acts. Each is one transfer
// between the register and the books of a bank: its record. An act on money is a chain of two: the
// money, then the record. This file replays them in the order of the ledger.

// acts is the register, replayed.
type acts struct {
	banks  map[spec.AccountID]*bankTerms // by the books account
	capped map[spec.AccountID]uint64     // allowances: the time of a cap's record without its adjustment
	moved  map[spec.Number]tb.Transfer
}

// bankTerms is what the register says about a bank, at all times.
type bankTerms struct {
	joined     uint64 // by the ledger's clock; 0: never
	suspended  inForce[bool]
	paymentCap inForce[uint64] // centavos; 0: none
	outflow    [2]inForce[outflowCap]
}

// outflowCap bounds what a bank may send to others within a window. 0 centavos: none.
type outflowCap struct {
	centavos uint64
	seconds  uint32
}

// inForce is all values of one thing, each with the ledger's time from which on it held.
type inForce[V any] []struct {
	from  uint64
	value V
}

func (f *inForce[V]) set(value V, from uint64) {
	*f = append(*f, struct {
		from  uint64
		value V
	}{from, value})
}

// during returns the values that held at some time between two times. Before the first one it is zero.
func (f inForce[V]) during(from, to uint64) []V {
	var values []V

	for i := len(f) - 1; i >= 0; i-- {
		if f[i].from <= to {
			values = append(values, f[i].value)
		}

		if f[i].from <= from {
			return values
		}
	}
	var zero V

	return append(values, zero)
}

func (r *acts) of(books spec.AccountID) *bankTerms {
	if r.banks[books] == nil {
		r.banks[books] = &bankTerms{}
	}

	return r.banks[books]
}

// takeActMoney takes the money of an act. Its record comes right behind it.
func (j *Judge) takeActMoney(t tb.Transfer) {
	debit, credit := spec.NumberOf(t.DebitAccountID), spec.NumberOf(t.CreditAccountID)
	amount, ok := spec.Centavos(t.Amount)

	bank := credit
	if t.Code == spec.CodeLiquidityOut || t.Code == spec.CodeWithdrawal {
		bank = debit
	}
	ofReserve := t.Code == spec.CodeLiquidityIn || t.Code == spec.CodeLiquidityOut

	wantDebit, wantCredit, _ := spec.MoneyOfAct(t.Code, spec.BooksOf(bank), spec.NumberOf(t.UserData128))
	if !ok || debit != wantDebit || credit != wantCredit || !ofReserve && spec.KindOf(bank) != spec.KindCustomer ||
		t.Flags != spec.LinkedFlag {
		j.add(UnexplainedMoney, spec.TransferName(t), "%s: %s", spec.ActName(t.Code), spec.MovedBy(t))
		return
	}
	j.books.expect(debit, credit, amount)
	key, _ := spec.Split(spec.NumberOf(t.ID))
	j.acts.moved[key] = t
}

// takeAct takes a transfer of the ledger of the books: an act's record, or an opening.
func (j *Judge) takeAct(t tb.Transfer) {
	debit, credit := spec.NumberOf(t.DebitAccountID), spec.NumberOf(t.CreditAccountID)

	books := credit
	if credit == spec.Register {
		books = debit
	}

	amount, ok := spec.Centavos(t.Amount)
	if !ok || debit != spec.Register && credit != spec.Register || spec.KindOf(books) != spec.KindBooks ||
		t.Flags&^spec.LinkedFlag != 0 {
		j.add(WrongAct, spec.TransferName(t), "%s: an act stands between the register and books", spec.MovedBy(t))
		return
	}
	// It counts also if it is wrong, so a forged act is one finding.
	j.books.expect(debit, credit, amount)

	if t.Code == spec.CodeOpening {
		j.takeOpening(t, books, amount)
		return
	}

	wrong := j.blame(WrongAct, spec.TransferName(t), spec.ActName(t.Code)+", "+spec.AccountName(books)+": ")
	if t.Code < spec.CodeJoined || t.Code > spec.CodeOpening {
		wrong("no act has this code")
		return
	}
	terms := j.acts.of(books)

	j.summary.Acts[spec.ActName(t.Code)]++
	if t.Code == spec.CodeJoined {
		terms.joined = cmp.Or(terms.joined, t.Timestamp)
	}

	switch _, role := spec.Split(spec.NumberOf(t.ID)); {
	case role != spec.RecordRole:
		wrong("its record has the role %d", role)
	case (debit == books) != spec.FromBooks(t.Code):
		wrong("its record goes from %s to %s", spec.AccountName(debit), spec.AccountName(credit))
	case !spec.SaysWhatItMay(t, books):
		wrong("what it says of %s with %d and %d cannot be", spec.AccountName(spec.NumberOf(t.UserData128)),
			t.UserData64,
			t.UserData32)
	case terms.joined == 0:
		wrong("the bank has not joined")
	}
	j.pairAct(t, amount, wrong)

	switch t.Code {
	case spec.CodeSuspended, spec.CodeResumed:
		terms.suspended.set(t.Code == spec.CodeSuspended, t.Timestamp)
	case spec.CodePaymentCap:
		terms.paymentCap.set(t.UserData64, t.Timestamp)
	case spec.CodeDayCap, spec.CodeNightCap:
		window := int(t.Code - spec.CodeDayCap)
		terms.outflow[window].set(outflowCap{t.UserData64, t.UserData32}, t.Timestamp)
		j.capActed(spec.AllowanceOf(books, window), t)
	}
}

// pairAct compares the record of an act with the money before it, if it moves any.
func (j *Judge) pairAct(t tb.Transfer, amount uint64, wrong blame) {
	key, _ := spec.Split(spec.NumberOf(t.ID))
	moved, found := j.acts.moved[key]
	delete(j.acts.moved, key)
	_, role := spec.Split(spec.NumberOf(moved.ID))

	if _, _, moves := spec.MoneyOfAct(t.Code, spec.AccountID{}, spec.AccountID{}); !moves {
		if amount != 0 {
			wrong("it says %d centavos, and moves none", amount)
		}

		return
	}

	switch {
	case !found || role != spec.MoneyRole || moved.Timestamp+1 != t.Timestamp:
		wrong("its record says %d centavos, and no money of its chain has its id", amount)
	case moved.Code != t.Code || moved.Amount != t.Amount || moved.UserData128 != t.UserData128 ||
		moved.UserData64 != t.UserData64 || moved.UserData32 != t.UserData32:
		wrong("its money is %s centavos of %s, and its record says %d", spec.Decimal(moved.Amount),
			spec.ActName(moved.Code), amount)
	case amount == 0 || amount > spec.ActCentavosMax:
		wrong("it moves %d centavos, it must be 1 to %d", amount, uint64(spec.ActCentavosMax))
	}
}

// takeOpening takes the mirror of what the marker says of a bank.
func (j *Judge) takeOpening(t tb.Transfer, books spec.AccountID, amount uint64) {
	j.acts.of(books)

	says := spec.MoneyOf(amount)
	if spec.NumberOf(t.DebitAccountID) == books {
		says = spec.Money{}.Minus(says)
	}

	if want, opened := j.books.population.Opening(books); !opened || says != want || spec.NumberOf(t.ID) != books {
		j.add(WrongFunding, spec.TransferName(t),
			"an opening of %s with %v centavos; the one has the id of the books, and %v",
			spec.AccountName(books), says, want)

		return
	}
	j.books.openings++
}

// judgeMoneyWithoutAct finds money of acts whose record did not come right behind it. The ledger was read
// to a time.
func (j *Judge) judgeMoneyWithoutAct(readTo uint64) {
	maps.DeleteFunc(j.acts.moved, func(_ spec.Number, t tb.Transfer) bool {
		ended := t.Timestamp < readTo
		if ended {
			j.add(MoneyWithoutAct, spec.TransferName(t), "%s, %s: it has no record", spec.ActName(t.Code),
				spec.MovedBy(t))
		}

		return ended
	})
}

// Who reads the register may be late, so a decision is judged by all that held shortly before.

// registerAge is how old the register may be at which a decision looked, when the ledger has it: 2 s
// that a reading counts as fresh, and the way to the ledger.
const (
	wayToLedger = 3 * time.Second
	registerAge = 2*time.Second + wayToLedger
)

// lookedFrom returns the earliest time, by the ledger's clock, of the register at which a decision can
// have looked that the ledger has since a time. What was on its way while an engine was frozen or cut
// off may be as old as that. It comes right after that: an engine decides no more by what it read before.
func (j *Judge) lookedFrom(at uint64) uint64 {
	from := int64(at) - int64(registerAge)
	for _, late := range j.config.LateRequests {
		if int64(at) <= late.To.UnixNano()+int64(wayToLedger) {
			from = min(from, late.From.UnixNano()-int64(registerAge))
		}
	}

	return uint64(max(0, from))
}

func (j *Judge) terms(bank spec.AccountID) *bankTerms { return j.acts.of(spec.BooksOf(bank)) }

// judgeSuspended checks a refusal with DS27: the register suspended one of the banks.
func (j *Judge) judgeSuspended(at uint64, banks ...spec.AccountID) refusal {
	if !j.exists(spec.Register) {
		return unchecked
	}
	suspended := slices.ContainsFunc(banks, func(bank spec.AccountID) bool {
		return slices.Contains(j.terms(bank).suspended.during(j.lookedFrom(at), at), true)
	})

	return unless(suspended, "no bank of it was suspended")
}

// judgeBegun checks what was begun for banks, which none of them may be after its suspension.
func (j *Judge) judgeBegun(subject string, at uint64, banks ...spec.AccountID) {
	for _, bank := range banks {
		if !slices.Contains(j.terms(bank).suspended.during(j.lookedFrom(at), at), false) {
			j.add(BeyondTerms, subject, "it was begun although %s had been suspended for more than %v",
				spec.ISPBOf(bank),
				registerAge)
		}
	}
}

// judgePaymentCap checks a refusal with AM13: the payment is above the cap of its payer's bank.
func (j *Judge) judgePaymentCap(p *payment) refusal {
	caps := j.terms(p.Content.Payer).paymentCap.during(j.lookedFrom(p.decidedAt), p.decidedAt)

	return unless(slices.ContainsFunc(caps, func(limit uint64) bool { return limit > 0 && p.Content.Centavos > limit }),
		"its %d centavos are not above a cap on payments of %s: %d", p.Content.Centavos,
		spec.ISPBOf(p.Content.Payer), caps)
}

// judgeTerms checks what was held for a payment against the register.
func (j *Judge) judgeTerms(p *payment) {
	if p.held == 0 || p.foreign != 0 {
		return
	}
	c := p.Content
	j.judgeBegun(p.ID.String(), p.heldAt, c.Payer, c.Payee)
	terms, from := j.terms(c.Payer), j.lookedFrom(p.heldAt)

	caps := terms.paymentCap.during(from, p.heldAt)
	if !slices.ContainsFunc(caps, func(limit uint64) bool { return limit == 0 || c.Centavos <= limit }) {
		j.add(BeyondTerms, p.ID.String(), "%d centavos were held, above the cap of %s on a payment: %d", c.Centavos,
			spec.ISPBOf(c.Payer), caps)
	}

	if p.capHeldAt == 0 && !p.old && !c.SameBank() && !j.clockWasWrong(p.AcceptedMs, p.heldAt) {
		for _, window := range windowsBetween(from, p.heldAt) {
			if slices.ContainsFunc(terms.outflow[window].during(from, p.heldAt), func(limit outflowCap) bool {
				return limit.centavos == 0
			}) {
				return
			}
		}
		j.add(WrongAllowance, p.ID.String(), "it was held without leg 4, although the outflow of %s is capped",
			spec.ISPBOf(c.Payer))
	}
}

// The day of caps is from 06:00 to 20:00 in São Paulo, which is 3 h behind UTC.
const (
	dayFrom, dayTo = 6 * time.Hour, 20 * time.Hour
	behindUTC      = 3 * time.Hour
)

// windowsBetween returns the windows, 0 by day and 1 by night, that were in force at some time between
// two times, as clocks say that are off by clockSkewMax.
func windowsBetween(from, to uint64) (windows []int) {
	at := func(ns int64) int {
		if clock := time.Duration((ns - int64(behindUTC)) % int64(24*time.Hour)); clock >= dayFrom && clock < dayTo {
			return 0
		}

		return 1
	}
	// A window is longer than an hour, so none between two times is missed.
	last := int64(to) + int64(clockSkewMax)
	for ns := int64(from) - int64(clockSkewMax); ; ns = min(ns+int64(time.Hour), last) {
		if w := at(ns); !slices.Contains(windows, w) {
			windows = append(windows, w)
		}

		if ns >= last {
			return windows
		}
	}
}
