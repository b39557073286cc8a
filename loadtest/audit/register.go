package audit

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// The register says who takes part, and on which terms. It is a series of acts. Each is one transfer
// between the register and the books of a bank: its record. An act on money is a chain of two: the
// money, then the record. This file replays them in the order of the ledger.

// The acts, by the code of their record.
const (
	codeJoined          = 32
	codeSuspended       = 33
	codeResumed         = 34
	codePaymentCap      = 35
	codeDayCap          = 36
	codeNightCap        = 37
	codeLiquidityIn     = 38
	codeLiquidityOut    = 39
	codeAccountOpened   = 40
	codeAccountBlocked  = 41
	codeAccountClosed   = 42
	codeAccountReopened = 43
	codeDeposit         = 44
	codeWithdrawal      = 45
	codeKeyNamed        = 46
	codeKeyRevoked      = 47
	codeSealNamed       = 48
	codeSealRevoked     = 49
	codeOpening         = 50
)

// The roles of an act's transfers.
const (
	recordRole = 10
	moneyRole  = 11
)

const (
	actCentavosMax   = 1_000_000_000_000_000
	windowSecondsMin = 120
	windowSecondsMax = 86_400
)

// acts is the register, replayed.
type acts struct {
	banks  map[accountID]*bankTerms // by the books account
	capped map[accountID]uint64     // allowances: the time of a cap's record without its adjustment
	moved  map[number128]tb.Transfer
	opened map[accountID]struct{} // books with an opening
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

func newActs() acts {
	return acts{map[accountID]*bankTerms{}, map[accountID]uint64{}, map[number128]tb.Transfer{}, map[accountID]struct{}{}}
}

func (r *acts) of(books accountID) *bankTerms {
	if r.banks[books] == nil {
		r.banks[books] = &bankTerms{}
	}
	return r.banks[books]
}

// moneyOfAct returns the accounts between which the money of an act moves. customer is user_data_128.
func moneyOfAct(code uint16, books, customer accountID) (debit, credit accountID, moves bool) {
	switch code {
	case codeLiquidityIn:
		return issuance, reserveOf(books), true
	case codeLiquidityOut:
		return reserveOf(books), issuance, true
	case codeDeposit:
		return transitOf(books), customer, true
	case codeWithdrawal:
		return customer, transitOf(books), true
	}
	return debit, credit, false
}

// fromBooks reports whether the record of an act debits the books: it takes from reserve and transit.
func fromBooks(code uint16) bool { return code == codeLiquidityOut || code == codeDeposit }

// takeActMoney takes the money of an act. Its record comes right behind it.
func (j *Judge) takeActMoney(t tb.Transfer) {
	debit, credit := fromTigerBeetle(t.DebitAccountID), fromTigerBeetle(t.CreditAccountID)
	amount, ok := centavos(t.Amount)
	bank := credit
	if t.Code == codeLiquidityOut || t.Code == codeWithdrawal {
		bank = debit
	}
	wantDebit, wantCredit, _ := moneyOfAct(t.Code, booksOf(bank), fromTigerBeetle(t.UserData128))
	isCustomer := t.Code == codeLiquidityIn || t.Code == codeLiquidityOut || kindOf(bank) == kindCustomer
	if !ok || debit != wantDebit || credit != wantCredit || !isCustomer || t.Flags != linkedFlag {
		j.add(UnexplainedMoney, transferName(t), "%s: %s centavos from %s to %s with the flags %#x", actName(t.Code), decimal(t.Amount), nameOf(debit), nameOf(credit), t.Flags)
		return
	}
	j.books.expect(debit, credit, amount)
	j.acts.of(booksOf(bank))
	transit := transitOf(bank)
	f := j.books.banks[transit]
	switch moved := moneyOf(amount); t.Code {
	case codeLiquidityIn:
		f.reserve, j.books.issued = f.reserve.plus(moved), j.books.issued.plus(moved)
	case codeLiquidityOut:
		f.reserve, j.books.issued = f.reserve.minus(moved), j.books.issued.minus(moved)
	case codeDeposit:
		f.deposits = f.deposits.plus(moved)
	case codeWithdrawal:
		f.deposits = f.deposits.minus(moved)
	}
	j.books.banks[transit] = f
	key, _ := split(fromTigerBeetle(t.ID))
	j.acts.moved[key] = t
}

// takeAct takes a transfer of the ledger of the books: an act's record, or an opening.
func (j *Judge) takeAct(t tb.Transfer) {
	debit, credit := fromTigerBeetle(t.DebitAccountID), fromTigerBeetle(t.CreditAccountID)
	books := credit
	if credit == register {
		books = debit
	}
	amount, ok := centavos(t.Amount)
	if !ok || debit != register && credit != register || kindOf(books) != kindBooks || t.Flags&^linkedFlag != 0 {
		j.add(WrongAct, transferName(t), "%s centavos with code %d from %s to %s with the flags %#x: an act stands between the register and books", decimal(t.Amount), t.Code, nameOf(debit), nameOf(credit), t.Flags)
		return
	}
	// It counts also if it is wrong, so a forged act is one finding.
	j.books.expect(debit, credit, amount)
	if t.Code == codeOpening {
		j.takeOpening(t, books, amount)
		return
	}
	name := fmt.Sprintf("%s, %s", actName(t.Code), nameOf(books))
	wrong := func(format string, arguments ...any) {
		j.add(WrongAct, transferName(t), "%s: %s", name, fmt.Sprintf(format, arguments...))
	}
	if t.Code < codeJoined || t.Code > codeOpening {
		wrong("no act has this code")
		return
	}
	terms := j.acts.of(books)
	key, role := split(fromTigerBeetle(t.ID))
	if role != recordRole {
		wrong("its record has the role %d", role)
	}
	if (debit == books) != fromBooks(t.Code) {
		wrong("its record goes from %s to %s", nameOf(debit), nameOf(credit))
	}
	if problem := dataOfAct(t, books); problem != "" {
		wrong("%s", problem)
	}
	j.summary.Acts[actName(t.Code)]++
	if _, _, moves := moneyOfAct(t.Code, books, accountID{}); moves {
		j.pairAct(t, key, amount, wrong)
	} else if amount != 0 {
		wrong("it says %d centavos, and moves none", amount)
	}
	if t.Code == codeJoined {
		terms.joined = cmp.Or(terms.joined, t.Timestamp)
	} else if terms.joined == 0 {
		wrong("the bank has not joined")
	}
	switch t.Code {
	case codeSuspended, codeResumed:
		terms.suspended.set(t.Code == codeSuspended, t.Timestamp)
	case codePaymentCap:
		terms.paymentCap.set(t.UserData64, t.Timestamp)
	case codeDayCap, codeNightCap:
		window := int(t.Code - codeDayCap)
		terms.outflow[window].set(outflowCap{t.UserData64, t.UserData32}, t.Timestamp)
		j.capActed(allowanceOf(books, window), t)
	}
}

// pairAct compares the record of an act on money with the money before it.
func (j *Judge) pairAct(t tb.Transfer, key number128, amount uint64, wrong func(format string, arguments ...any)) {
	moved, found := j.acts.moved[key]
	delete(j.acts.moved, key)
	switch _, role := split(fromTigerBeetle(moved.ID)); {
	case !found:
		wrong("its record says %d centavos, and no money has its id", amount)
	case role != moneyRole:
		wrong("its money has the role %d", role)
	case moved.Timestamp+1 != t.Timestamp:
		wrong("its money is not of the same chain")
	case moved.Code != t.Code || moved.Amount != t.Amount || moved.UserData128 != t.UserData128 || moved.UserData64 != t.UserData64 || moved.UserData32 != t.UserData32:
		wrong("its money is %s centavos of %s, and its record says %d", decimal(moved.Amount), actName(moved.Code), amount)
	case amount == 0 || amount > actCentavosMax:
		wrong("it moves %d centavos, it must be 1 to %d", amount, uint64(actCentavosMax))
	}
}

// dataOfAct returns what is wrong with what an act's record says, or "".
func dataOfAct(t tb.Transfer, books accountID) string {
	about, more, data := fromTigerBeetle(t.UserData128), t.UserData64, t.UserData32
	switch t.Code {
	case codePaymentCap:
		if about != (number128{}) || more > actCentavosMax {
			return fmt.Sprintf("it is about %x and caps at %d centavos, it must be about nothing and cap at %d at most", about, more, uint64(actCentavosMax))
		}
	case codeDayCap, codeNightCap:
		if about != (number128{}) || more > actCentavosMax || data < windowSecondsMin || data > windowSecondsMax {
			return fmt.Sprintf("it caps at %d centavos in %d s, it must be %d at most, in %d to %d", more, data, uint64(actCentavosMax), windowSecondsMin, windowSecondsMax)
		}
		return ""
	case codeAccountOpened, codeAccountBlocked, codeAccountClosed, codeAccountReopened, codeDeposit, codeWithdrawal:
		if kindOf(about) != kindCustomer || booksOf(about) != books || more != 0 {
			return fmt.Sprintf("it is about %s, which is no customer's account at the bank", nameOf(about))
		}
	case codeKeyNamed, codeKeyRevoked, codeSealNamed, codeSealRevoked:
		if about == (number128{}) {
			return "it names no digest"
		}
	default:
		if about != (number128{}) || more != 0 {
			return "it says more than it can"
		}
	}
	if data > 1 || data == 0 && t.Code <= codeLiquidityOut {
		return fmt.Sprintf("it is by %d: 0 is the bank, 1 the central bank, who alone may do what is not about accounts, keys and seals", data)
	}
	return ""
}

// takeOpening takes the mirror of what the marker says of a bank.
func (j *Judge) takeOpening(t tb.Transfer, books accountID, amount uint64) {
	j.acts.of(books)
	j.acts.opened[books] = struct{}{}
	says := moneyOf(amount)
	if fromTigerBeetle(t.DebitAccountID) == books {
		says = money{}.minus(says)
	}
	bank, known := j.books.population.bank(books)
	switch {
	case fromTigerBeetle(t.ID) != books:
		j.add(WrongFunding, transferName(t), "an opening of %s; the one opening has the id of the books", nameOf(books))
	case !known:
		j.add(WrongFunding, transferName(t), "an opening of %s, but bootstrap did not fund this bank: %v", nameOf(books), j.books.population)
	case says != j.books.population.opening(bank):
		j.add(WrongFunding, transferName(t), "the opening of %s says %v centavos, but bootstrap funded the bank with %v: %v", nameOf(books), says, j.books.population.opening(bank), j.books.population)
	}
}

// judgeMoneyWithoutAct finds money of acts whose record did not come right behind it. The ledger was read
// to a time.
func (j *Judge) judgeMoneyWithoutAct(readTo uint64) {
	for _, key := range slices.SortedFunc(maps.Keys(j.acts.moved), func(x, y number128) int { return cmp.Compare(x.low, y.low) }) {
		t := j.acts.moved[key]
		if t.Timestamp >= readTo {
			continue
		}
		delete(j.acts.moved, key)
		j.add(MoneyWithoutAct, transferName(t), "%s of %s centavos from %s to %s has no record", actName(t.Code), decimal(t.Amount), nameOf(fromTigerBeetle(t.DebitAccountID)), nameOf(fromTigerBeetle(t.CreditAccountID)))
	}
}

// judgeActs finds what is missing from the acts.
func (j *Judge) judgeActs() {
	j.judgeMoneyWithoutAct(math.MaxUint64)
	if _, has := j.books.accounts[register]; !has {
		return // a ledger from before the register
	}
	// A forged population may be huge: the loop ends at the first opening that is missing.
	for bank := uint64(0); bank < j.books.population.banks; bank++ {
		reserve, _ := j.books.population.funding(bank)
		if _, found := j.acts.opened[booksOf(reserve)]; !found {
			j.add(WrongFunding, "opening", "the opening of %s is missing: %v", nameOf(booksOf(reserve)), j.books.population)
			return
		}
	}
}

// actName names an act, for people.
func actName(code uint16) string {
	names := [...]string{"join", "suspension", "resumption", "cap on a payment", "cap by day", "cap by night", "liquidity in", "liquidity out",
		"account opened", "account blocked", "account closed", "account reopened", "deposit", "withdrawal", "key named", "key revoked", "seal named", "seal revoked", "opening"}
	if code < codeJoined || code > codeOpening {
		return fmt.Sprintf("code %d", code)
	}
	return names[code-codeJoined]
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

func (j *Judge) terms(bank accountID) *bankTerms { return j.acts.of(booksOf(bank)) }

// judgeSuspended checks a refusal with DS27: the register suspended one of the banks.
func (j *Judge) judgeSuspended(at uint64, banks ...accountID) refusal {
	if _, has := j.books.accounts[register]; !has {
		return refusal{unchecked: true}
	}
	for _, bank := range banks {
		if slices.Contains(j.terms(bank).suspended.during(j.lookedFrom(at), at), true) {
			return refusal{}
		}
	}
	return unless(false, "neither of %s was suspended", ispbsOf(banks))
}

func ispbsOf(banks []accountID) (all []string) {
	for _, bank := range banks {
		all = append(all, ispbOf(bank))
	}
	return all
}

// judgeBegun checks what was begun for banks, which none of them may be after its suspension.
func (j *Judge) judgeBegun(subject string, at uint64, banks ...accountID) {
	for _, bank := range banks {
		if !slices.Contains(j.terms(bank).suspended.during(j.lookedFrom(at), at), false) {
			j.add(BeyondTerms, subject, "it was begun although %s had been suspended for more than %v", ispbOf(bank), registerAge)
		}
	}
}

// judgePaymentCap checks a refusal with AM13: the payment is above the cap of its payer's bank.
func (j *Judge) judgePaymentCap(p *payment) refusal {
	caps := j.terms(p.content.payer).paymentCap.during(j.lookedFrom(p.decidedAt), p.decidedAt)
	return unless(slices.ContainsFunc(caps, func(limit uint64) bool { return limit > 0 && p.content.centavos > limit }),
		"its %d centavos are not above a cap on payments of %s: %d", p.content.centavos, ispbOf(p.content.payer), caps)
}

// judgeTerms checks what was held for a payment against the register.
func (j *Judge) judgeTerms(p *payment) {
	if p.held == 0 || p.foreign != 0 {
		return
	}
	c := p.content
	j.judgeBegun(p.id.String(), p.heldAt, c.payer, c.payee)
	terms, from := j.terms(c.payer), j.lookedFrom(p.heldAt)
	caps := terms.paymentCap.during(from, p.heldAt)
	if !slices.ContainsFunc(caps, func(limit uint64) bool { return limit == 0 || c.centavos <= limit }) {
		j.add(BeyondTerms, p.id.String(), "%d centavos were held, above the cap of %s on a payment: %d", c.centavos, ispbOf(c.payer), caps)
	}
	if p.capHeldAt == 0 && !p.old && !c.sameBank() && !j.clockWasWrong(p.acceptedMs, p.heldAt) {
		for _, window := range windowsBetween(from, p.heldAt) {
			if slices.ContainsFunc(terms.outflow[window].during(from, p.heldAt), func(limit outflowCap) bool { return limit.centavos == 0 }) {
				return
			}
		}
		j.add(WrongAllowance, p.id.String(), "it was held without leg 4, although the outflow of %s is capped", ispbOf(c.payer))
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
	windows = []int{at(int64(from) - int64(clockSkewMax))}
	// A window is longer than an hour, so none between two times is missed.
	for ns := int64(from) - int64(clockSkewMax); len(windows) < 2; ns = min(ns+int64(time.Hour), int64(to)+int64(clockSkewMax)) {
		if w := at(ns); w != windows[0] {
			windows = append(windows, w)
		}
		if ns >= int64(to)+int64(clockSkewMax) {
			break
		}
	}
	return windows
}
