package audit

import (
	"fmt"
	"maps"
	"slices"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// account is an account of the ledger, in centavos.
type account struct {
	posted  movement
	pending movement
}

// funding is what the central bank paid to a bank, and the bank to its customers, in centavos.
// Acts go on with both.
type funding struct{ reserve, deposits money }

// books are the accounts of the ledger, and what they must be by funding, acts and reports.
type books struct {
	accounts   map[accountID]account
	expected   map[accountID]movement // nil: not known
	banks      map[accountID]funding  // by the bank's transit account
	issued     money
	population population           // of the issuance account
	funded     map[accountID]uint64 // centavos of bootstrap's fundings, by the account that they credit
	opened     map[accountID]money  // what openings say, by books
	marked     bool                 // the marker was read
}

func newBooks() books {
	return books{
		accounts: map[accountID]account{}, expected: map[accountID]movement{}, banks: map[accountID]funding{},
		funded: map[accountID]uint64{}, opened: map[accountID]money{},
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
		j.add(WrongAccount, nameOf(id),
			"it has the flags %#x; debits_must_not_exceed_credits must be %t, and it must not be closed",
			t.Flags, guarded)
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

// bring adds what came to a bank from the central bank, or to its customers from it.
func (b *books) bring(transit accountID, moved money, ofReserve bool) {
	f := b.banks[transit]
	if ofReserve {
		f.reserve, b.issued = f.reserve.plus(moved), b.issued.plus(moved)
	} else {
		f.deposits = f.deposits.plus(moved)
	}
	b.banks[transit] = f
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
			j.add(Pending, nameOf(id), "%v centavos of debits and %v of credits are pending", account.pending.debits,
				account.pending.credits)
		}

		want := j.books.expected[id]
		if account.posted == want {
			continue
		}
		j.add(WrongBalance, nameOf(id), "debits %v (%s), credits %v centavos (%s), by funding, acts and reports",
			account.posted.debits, off(account.posted.debits, want.debits), account.posted.credits,
			off(account.posted.credits, want.credits))
	}

	for id, want := range j.books.expected {
		if _, known := j.books.accounts[id]; !known {
			j.add(WrongBalance, nameOf(id),
				"it is not in the ledger; by funding, acts and reports it has debits %v, credits %v centavos",
				want.debits, want.credits)
		}
	}
	j.judgeLaws()
}

// judgeLaws checks the laws of money in the ledger, whatever the reports say. Of one look-up at balances, which
// shows no customer and no funding, it checks those that need none.
func (j *Judge) judgeLaws() {
	balance := func(id accountID) money { return j.books.accounts[id].posted.balance() }
	law := func(subject, name string, left, right money) {
		if left != right {
			j.add(BrokenLaw, subject, "%s: %v is not %v centavos", name, left, right)
		}
	}
	customers := map[accountID]money{} // by transit account
	var reserves money

	for id := range j.books.accounts {
		bank := transitOf(id)
		switch kindOf(id) {
		case kindCustomer:
			customers[bank] = customers[bank].plus(balance(id))
		case kindReserve:
			reserves = reserves.plus(balance(id))
			customers[bank] = customers[bank].plus(money{}) // a bank without customers counts, too
		case kindTransit, kindBooks:
			customers[bank] = customers[bank].plus(money{})
		}
	}

	for _, transit := range slices.SortedFunc(maps.Keys(customers), number128.compare) {
		f := j.books.banks[transit]

		own := balance(reserveOf(transit)).plus(balance(transit))
		if j.whole {
			law(nameOf(transit), "reserve + transit = funding − deposits", own, f.reserve.minus(f.deposits))
			law(nameOf(transit), "transit + its customers = 0", balance(transit).plus(customers[transit]), money{})
		}

		if _, known := j.books.accounts[booksOf(transit)]; known {
			law(nameOf(transit), "reserve + transit = books", own, balance(booksOf(transit)))
		}
	}

	if j.whole {
		law("all banks", "sum of the reserves = sum of their funding", reserves, j.books.issued)
	}
	law("issuance", "issuance = −sum of the reserves", balance(issuance), money{}.minus(reserves))
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

// takeFunding takes a transfer that brings money in: from issuance to a reserve, or a deposit
// from a bank's transit account to its customer.
func (j *Judge) takeFunding(t tb.Transfer) {
	debit, credit := fromTigerBeetle(t.DebitAccountID), fromTigerBeetle(t.CreditAccountID)
	amount, ok := centavos(t.Amount)

	ofReserve := debit == issuance && kindOf(credit) == kindReserve
	if !ok || t.Flags&^linkedFlag != 0 || !ofReserve && (kindOf(credit) != kindCustomer || debit != transitOf(credit)) {
		j.add(UnexplainedMoney, transferName(t), "funding of %s", movedBy(t))
		return
	}
	j.books.bring(transitOf(credit), moneyOf(amount), ofReserve)
	// It counts also if it is wrong: one forged funding is one finding, not one more for each
	// account that it touched.
	j.books.expect(debit, credit, amount)

	if _, again := j.books.funded[credit]; again || fromTigerBeetle(t.ID) != credit {
		j.add(WrongFunding, transferName(t),
			"%d centavos from %s to %s, but the account's one funding has the account's id", amount, nameOf(debit),
			nameOf(credit))

		return
	}
	j.books.funded[credit] = amount
}

// judgeFundings compares the fundings and the openings in the ledger with those of the population.
func (j *Judge) judgeFundings() {
	b := &j.books
	if j.exists(issuance) && !b.marked {
		j.add(WrongFunding, "marker", "it is not in the ledger: bootstrap has not finished")
	}
	wrong := func(id accountID, format string, arguments ...any) {
		j.add(WrongFunding, transferName(tb.Transfer{ID: id.toTigerBeetle()}), "%s: %v",
			fmt.Sprintf(format, arguments...), b.population)
	}
	// A forged population may be huge, so each loop ends at the first one that is missing.
	for i := range b.population.fundings() {
		credit, want := b.population.funding(i)

		amount, found := b.funded[credit]
		if delete(b.funded, credit); !found {
			wrong(credit, "the funding of %s with %d centavos is missing", nameOf(credit), want)
			clear(b.funded) // what is not compared is not blamed
			break
		}

		if amount != want {
			wrong(credit, "%s was funded with %d centavos, it must be %d", nameOf(credit), amount, want)
		}
	}

	for bank := range b.population.banks {
		reserve, _ := b.population.funding(bank)
		books, want := booksOf(reserve), b.population.opening(bank)

		says, found := b.opened[books]
		if delete(b.opened, books); !found {
			if j.exists(register) { // else it is a ledger from before the register
				wrong(books, "the opening of %s is missing", nameOf(books))
			}
			clear(b.opened)

			break
		}

		if says != want {
			wrong(books, "the opening of %s says %v centavos, it must say %v", nameOf(books), says, want)
		}
	}

	for id := range b.funded {
		wrong(id, "bootstrap did not fund %s", nameOf(id))
	}

	for id := range b.opened {
		wrong(id, "bootstrap did not open %s", nameOf(id))
	}
}
