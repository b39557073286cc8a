package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// account is an account of the ledger, in centavos.
type account struct {
	posted  movement
	pending movement
}

// movement is the debits and credits of an account, in centavos. The audit compares both, not
// their difference: money that went in and out by error must show.
type movement struct{ debits, credits money }

func (m movement) balance() money { return m.credits.minus(m.debits) }

// funding is what the central bank paid to a bank, and the bank to its customers, in centavos.
// Acts go on with both.
type funding struct{ reserve, deposits money }

// books are the accounts of the ledger, and what they must be by funding, acts and reports.
type books struct {
	accounts   map[accountID]account
	expected   map[accountID]movement // nil: not known
	banks      map[accountID]funding  // by the bank's transit account
	issued     money
	population population             // of the issuance account
	funded     map[accountID]struct{} // by the funding that the population asks for
	marked     bool                   // the marker was read
	drifts     map[accountID]drift    // by wrong legs that were posted
}

func newBooks() books {
	return books{
		accounts: map[accountID]account{}, expected: map[accountID]movement{}, banks: map[accountID]funding{},
		funded: map[accountID]struct{}{}, drifts: map[accountID]drift{},
	}
}

// Account takes an account of the ledger.
func (j *Judge) Account(t tb.Account) {
	id := fromTigerBeetle(t.ID)
	kind := kindOf(id)
	if known := chart[kind]; t.Ledger != known.ledger || int(t.Code) != kind {
		j.add(WrongAccount, nameOf(id), "it has the ledger %d and the code %d", t.Ledger, t.Code)
		return
	}
	flags := t.AccountFlags()
	guarded := chart[kind].guarded
	if flags.DebitsMustNotExceedCredits != guarded || flags.CreditsMustNotExceedDebits || flags.Closed {
		j.add(WrongAccount, nameOf(id), "it has the flags %#x; debits_must_not_exceed_credits must be %t, and it must not be closed", t.Flags, guarded)
	}
	if id == issuance {
		j.books.population = populationIn(t.UserData128, t.UserData64)
	}
	j.books.accounts[id] = account{
		posted:  movement{moneyIn(t.DebitsPosted), moneyIn(t.CreditsPosted)},
		pending: movement{moneyIn(t.DebitsPending), moneyIn(t.CreditsPending)},
	}
}

// expect adds what must have moved.
func (b *books) expect(debit, credit accountID, amount uint64) {
	if b.expected == nil {
		return
	}
	from := b.expected[debit]
	from.debits = from.debits.plus(moneyOf(amount))
	b.expected[debit] = from
	to := b.expected[credit]
	to.credits = to.credits.plus(moneyOf(amount))
	b.expected[credit] = to
}

// drift is how far wrong legs moved an account from where the reports put it, and the first of them.
type drift struct {
	movement
	cause *Finding
}

// mislead notes what a wrong leg did in place of the right one.
func (b *books) mislead(cause *Finding, debit, credit accountID, amount uint64, insteadOf content, leg int) {
	move := func(id accountID, debits, credits money) {
		d := b.drifts[id]
		if d.cause == nil {
			d.cause = cause
		}
		b.drifts[id] = drift{movement{d.debits.plus(debits), d.credits.plus(credits)}, d.cause}
	}
	fromRight, toRight := insteadOf.leg(leg)
	moved, none := moneyOf(amount), money{}
	missing := none.minus(moneyOf(insteadOf.centavos))
	move(debit, moved, none)
	move(credit, none, moved)
	move(fromRight, missing, none)
	move(toRight, none, missing)
}

// off describes how far debits or credits are from what they must be.
func off(is, want money) string {
	switch {
	case want.less(is):
		return fmt.Sprintf("%v too much", is.minus(want))
	case is.less(want):
		return fmt.Sprintf("%v too little", want.minus(is))
	}
	return "right"
}

// judgeAccounts compares each account with the sum of funding and reports.
func (j *Judge) judgeAccounts() {
	for id, account := range j.books.accounts {
		if k := kindOf(id); account.pending != (movement{}) && k != kindAllowance && k != kindAllowanceSource {
			j.add(Pending, nameOf(id), "%v centavos of debits and %v of credits are pending", account.pending.debits, account.pending.credits)
		}
		want := j.books.expected[id]
		if account.posted == want {
			continue
		}
		detail := fmt.Sprintf("debits %v (%s), credits %v centavos (%s), by funding, acts and reports",
			account.posted.debits, off(account.posted.debits, want.debits), account.posted.credits, off(account.posted.credits, want.credits))
		d := j.books.drifts[id]
		if d.cause != nil && account.posted.debits.minus(want.debits) == d.debits && account.posted.credits.minus(want.credits) == d.credits {
			d.cause.effect("balance of %s: %s", nameOf(id), detail)
			continue
		}
		j.add(WrongBalance, nameOf(id), "%s", detail)
	}
	for id, want := range j.books.expected {
		if _, known := j.books.accounts[id]; !known {
			j.add(WrongBalance, nameOf(id), "it is not in the ledger; by funding, acts and reports it has debits %v, credits %v centavos", want.debits, want.credits)
		}
	}
	j.judgeLaws()
}

// judgeLaws checks the laws of money in the ledger, whatever the reports say. A law that holds but
// for wrong legs is an effect of these.
func (j *Judge) judgeLaws() {
	var causes *Finding
	driftOf := func(id accountID) money {
		d := j.books.drifts[id]
		if causes == nil && d.cause != nil {
			causes = d.cause
		}
		return d.balance()
	}
	is := j.lawsOf(func(id accountID) money { return j.books.accounts[id].posted.balance() })
	without := j.lawsOf(func(id accountID) money { return j.books.accounts[id].posted.balance().minus(driftOf(id)) })
	for i, l := range is {
		if l.left == l.right {
			continue
		}
		detail := fmt.Sprintf("%s: %v is not %v centavos", l.name, l.left, l.right)
		if causes != nil && without[i].left == without[i].right {
			causes.effect("law of %s: %s", l.subject, detail)
			continue
		}
		j.add(BrokenLaw, l.subject, "%s", detail)
	}
}

// law is an equation that must hold.
type law struct {
	subject, name string
	left, right   money
}

// lawsOf returns the laws with their two sides, always in the same order. Of one look-up at balances, which
// shows no customer and no funding, it returns those that need none.
func (j *Judge) lawsOf(balance func(accountID) money) (laws []law) {
	customers := map[accountID]money{} // by transit account
	var banks []accountID
	bank := func(transit accountID) accountID {
		if _, known := customers[transit]; !known {
			customers[transit] = money{}
			banks = append(banks, transit)
		}
		return transit
	}
	var reserves money
	for id := range j.books.accounts {
		switch kindOf(id) {
		case kindCustomer:
			transit := bank(transitOf(id))
			customers[transit] = customers[transit].plus(balance(id))
		case kindReserve:
			reserves = reserves.plus(balance(id))
			bank(transitOf(id)) // a bank without customers counts, too
		case kindTransit, kindBooks:
			bank(transitOf(id))
		}
	}
	slices.SortFunc(banks, func(x, y accountID) int { return cmp.Or(cmp.Compare(x.high, y.high), cmp.Compare(x.low, y.low)) })
	for _, transit := range banks {
		f := j.books.banks[transit]
		own := balance(reserveOf(transit)).plus(balance(transit))
		if j.whole {
			laws = append(laws,
				law{nameOf(transit), "reserve + transit = funding − deposits", own, f.reserve.minus(f.deposits)},
				law{nameOf(transit), "transit + its customers = 0", balance(transit).plus(customers[transit]), money{}})
		}
		if _, known := j.books.accounts[booksOf(transit)]; known {
			laws = append(laws, law{nameOf(transit), "reserve + transit = books", own, balance(booksOf(transit))})
		}
	}
	if j.whole {
		laws = append(laws, law{"all banks", "sum of the reserves = sum of their funding", reserves, j.books.issued})
	}
	return append(laws, law{"issuance", "issuance = −sum of the reserves", balance(issuance), money{}.minus(reserves)})
}

// IssuanceID returns the id of the account that all money comes from.
func IssuanceID() tb.Uint128 { return issuance.toTigerBeetle() }

// MarkerID returns the id of bootstrap's last transfer.
func MarkerID() tb.Uint128 { return markerID.toTigerBeetle() }

// Codes for queries: of transit accounts, of which each bank has one; the ledger number of acts.
const (
	TransitCode = kindTransit
	BooksLedger = booksLedger
)

// LawAccounts returns the accounts that the laws of balances are about. They must be read in one look-up:
// two are two instants.
func LawAccounts(transits []tb.Account) []tb.Uint128 {
	ids := []tb.Uint128{issuance.toTigerBeetle()}
	for _, t := range transits {
		id := fromTigerBeetle(t.ID)
		ids = append(ids, t.ID, reserveOf(id).toTigerBeetle(), booksOf(id).toTigerBeetle())
	}
	return ids
}

// BrokenLaws returns the laws of balances that do not hold in one look-up of LawAccounts.
func BrokenLaws(accounts []tb.Account) (broken []Finding) {
	j := Follow(nil, 0, func(f Finding) { broken = append(broken, f) })
	j.Begin()
	for _, account := range accounts {
		j.Account(account)
	}
	j.judgeLaws()
	return broken
}

// population is the banks and customers that bootstrap funded, derived from "Identity" in
// docs/reference.md. It is in the user_data of the issuance account and of the marker, which the
// ledger never changes.
type population struct {
	banks, customers uint64
	// deposit is what each ordinary customer got, reserve what each bank got, in centavos.
	deposit, reserve uint64
}

func populationIn(userData128 tb.Uint128, userData64 uint64) population {
	money := fromTigerBeetle(userData128)
	return population{banks: userData64 >> 32, customers: userData64 & (1<<32 - 1), deposit: money.low, reserve: money.high}
}

const (
	firstBank      = 10_000_001
	ordinaryBranch = "0001"
	richBranch     = "9010" // its one customer owns twice the reserve of the bank
)

var markerID = number128{low: 15}

// fundings returns how many transfers funded the population: one for each bank, each rich and
// each ordinary customer.
func (p population) fundings() uint64 {
	if p.banks == 0 {
		return 0 // nobody to spread customers over
	}
	return 2*p.banks + p.customers
}

// funding returns the account that a funding credits, and its amount in centavos. The id of
// the transfer is that of the account. i is less than fundings().
func (p population) funding(i uint64) (credit accountID, amount uint64) {
	bank, branch, number := i%p.banks, "", uint64(1)
	switch ordinary := i - 2*p.banks; {
	case i < p.banks:
		amount = p.reserve
	case i < 2*p.banks:
		branch, amount = richBranch, 2*p.reserve
	default:
		bank, branch, number, amount = ordinary%p.banks, ordinaryBranch, ordinary/p.banks+1, p.deposit
	}
	ispb := strconv.FormatUint(firstBank+bank, 10)
	if branch == "" {
		credit, _ = customerAccount(ispb, ordinaryBranch, "1")
		return reserveOf(credit), amount
	}
	credit, _ = customerAccount(ispb, branch, strconv.FormatUint(number, 10))
	return credit, amount
}

// fundingOf returns the amount with which the population's bootstrap funded an account. It
// returns false if it did not fund it.
func (p population) fundingOf(credit accountID) (amount uint64, funded bool) {
	bank, known := p.bank(credit)
	if !known {
		return 0, false
	}
	i := bank
	if kindOf(credit) == kindCustomer {
		switch branch := branchOf(credit); {
		case branch == richBranch && credit.low == 1:
			i += p.banks
		case branch == ordinaryBranch && credit.low > 0 && credit.low <= p.customers:
			i = 2*p.banks + (credit.low-1)*p.banks + bank
		}
	}
	if i >= p.fundings() {
		return 0, false
	}
	want, amount := p.funding(i)
	return amount, want == credit
}

// bank returns the number of the bank of an account, from 0.
func (p population) bank(of accountID) (number uint64, known bool) {
	ispb, err := strconv.ParseUint(ispbOf(of), 10, 64)
	return ispb - firstBank, err == nil && ispb >= firstBank && ispb-firstBank < p.banks
}

// opening returns what the fundings bring to the reserve and the transit account of a bank together.
func (p population) opening(bank uint64) money {
	customers := p.customers / p.banks
	if bank < p.customers%p.banks {
		customers++
	}
	deposits := moneyOf(p.reserve).times(2).plus(moneyOf(p.deposit).times(customers))
	return moneyOf(p.reserve).minus(deposits)
}

// takeFunding takes a transfer that brings money in: from issuance to a reserve, or a deposit
// from a bank's transit account to its customer.
func (j *Judge) takeFunding(t tb.Transfer) {
	debit, credit := fromTigerBeetle(t.DebitAccountID), fromTigerBeetle(t.CreditAccountID)
	amount, ok := centavos(t.Amount)
	if !ok || t.Flags&^linkedFlag != 0 {
		j.add(UnexplainedMoney, transferName(t), "funding of %s centavos with the flags %#x", decimal(t.Amount), t.Flags)
		return
	}
	switch {
	case debit == issuance && kindOf(credit) == kindReserve:
		bank := transitOf(credit)
		f := j.books.banks[bank]
		f.reserve = f.reserve.plus(moneyOf(amount))
		j.books.banks[bank] = f
		j.books.issued = j.books.issued.plus(moneyOf(amount))
	case kindOf(credit) == kindCustomer && debit == transitOf(credit):
		f := j.books.banks[debit]
		f.deposits = f.deposits.plus(moneyOf(amount))
		j.books.banks[debit] = f
	default:
		j.add(UnexplainedMoney, transferName(t), "funding from %s to %s", nameOf(debit), nameOf(credit))
		return
	}
	// It counts also if it is wrong: one forged funding is one finding, not one more for each
	// account that it touched.
	j.books.expect(debit, credit, amount)
	want, funded := j.books.population.fundingOf(credit)
	if funded && fromTigerBeetle(t.ID) == credit {
		j.books.funded[credit] = struct{}{}
	}
	switch {
	case !funded:
		j.add(WrongFunding, transferName(t), "%d centavos from %s to %s, but bootstrap did not fund this account: %v", amount, nameOf(debit), nameOf(credit), j.books.population)
	case fromTigerBeetle(t.ID) != credit:
		j.add(WrongFunding, transferName(t), "%d centavos from %s to %s, but the account's one funding has the account's id", amount, nameOf(debit), nameOf(credit))
	case amount != want:
		j.add(WrongFunding, transferName(t), "%d centavos from %s to %s, but bootstrap funded the account with %d: %v", amount, nameOf(debit), nameOf(credit), want, j.books.population)
	}
}

// takeMarker takes bootstrap's last transfer.
func (j *Judge) takeMarker(t tb.Transfer) {
	debit, credit := fromTigerBeetle(t.DebitAccountID), fromTigerBeetle(t.CreditAccountID)
	if fromTigerBeetle(t.ID) != markerID || t.Amount != (tb.Uint128{}) || t.Flags != 0 || debit != issuance || credit != refusals {
		j.add(WrongFunding, transferName(t), "a marker of %s centavos with the flags %#x from %s to %s; the one marker has the id 15 and moves none from issuance to refusals",
			decimal(t.Amount), t.Flags, nameOf(debit), nameOf(credit))
		return
	}
	j.books.marked = true
	if is := populationIn(t.UserData128, t.UserData64); is != j.books.population {
		j.add(WrongFunding, transferName(t), "the marker says %v, but the issuance account says %v", is, j.books.population)
	}
}

// judgeFundings finds the fundings that are not in the ledger. Each one that is was compared
// as it came.
func (j *Judge) judgeFundings() {
	if _, opened := j.books.accounts[issuance]; !opened && !j.books.marked {
		return // bootstrap has not begun: takeFunding finds every funding
	}
	if !j.books.marked {
		j.add(WrongFunding, "marker", "it is not in the ledger: bootstrap has not finished")
	}
	// A forged population may be huge, so the loop ends at the last one that is missing, and
	// names only the first.
	missing := j.books.population.fundings() - uint64(len(j.books.funded))
	for i := uint64(0); missing > 0; i++ {
		credit, amount := j.books.population.funding(i)
		if _, found := j.books.funded[credit]; found {
			continue
		}
		j.add(WrongFunding, fmt.Sprintf("transfer %016x%016x", credit.high, credit.low), "the funding of %s with %d centavos is missing, and %d others are: %v", nameOf(credit), amount, missing-1, j.books.population)
		return
	}
}

func (p population) String() string {
	return fmt.Sprintf("%d banks with %d centavos each, %d customers with %d", p.banks, p.reserve, p.customers, p.deposit)
}
