package audit

import (
	"maps"
	"slices"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/loadtest/audit/spec"
)

// ledgerAccount is an account of the ledger, in centavos.
type ledgerAccount struct {
	posted  spec.Movement
	pending spec.Movement
}

// books are the accounts of the ledger, and what they must be by funding, acts and reports.
type books struct {
	accounts   map[spec.AccountID]ledgerAccount
	expected   map[spec.AccountID]spec.Movement // nil: not known
	population spec.Population                  // of the issuance account
	fundings   uint64                           // of bootstrap, as the population wants them
	openings   uint64                           // of books, likewise
	marked     bool                             // the marker was read
}

func newBooks() books {
	return books{
		accounts: map[spec.AccountID]ledgerAccount{}, expected: map[spec.AccountID]spec.Movement{},
	}
}

// Account takes an account of the ledger.
func (j *Judge) Account(t tb.Account) {
	id := spec.NumberOf(t.ID)

	kind := spec.KindOf(id)
	if known := spec.Chart[kind]; t.Ledger != known.Ledger || int(t.Code) != kind {
		j.add(WrongAccount, spec.AccountName(id), "it has the ledger %d and the code %d", t.Ledger, t.Code)
		return
	}
	flags := t.AccountFlags()

	guarded := spec.Chart[kind].Guarded
	if flags.DebitsMustNotExceedCredits != guarded || flags.CreditsMustNotExceedDebits || flags.Closed {
		j.add(WrongAccount, spec.AccountName(id),
			"it has the flags %#x; debits_must_not_exceed_credits must be %t, and it must not be closed",
			t.Flags, guarded)
	}

	if id == spec.Issuance {
		j.books.population = spec.PopulationIn(t.UserData128, t.UserData64)
	}
	j.books.accounts[id] = ledgerAccount{
		posted:  spec.MovementIn(t.DebitsPosted, t.CreditsPosted),
		pending: spec.MovementIn(t.DebitsPending, t.CreditsPending),
	}
}

// expect adds what must have moved.
func (b *books) expect(debit, credit spec.AccountID, amount uint64) {
	if b.expected == nil {
		return
	}
	from := b.expected[debit]
	from.Debits = from.Debits.Plus(spec.MoneyOf(amount))
	b.expected[debit] = from
	to := b.expected[credit]
	to.Credits = to.Credits.Plus(spec.MoneyOf(amount))
	b.expected[credit] = to
}

func (b *books) balance(id spec.AccountID) spec.Money { return b.accounts[id].posted.Balance() }

// judgeAccounts compares each account with the sum of funding and reports.
func (j *Judge) judgeAccounts() {
	for id, account := range j.books.accounts {
		if k := spec.KindOf(id); account.pending != (spec.Movement{}) && k != spec.KindAllowance &&
			k != spec.KindAllowanceSource {
			j.add(Pending, spec.AccountName(id), "%v centavos of debits and %v of credits are pending",
				account.pending.Debits,
				account.pending.Credits)
		}

		if want := j.books.expected[id]; account.posted != want {
			j.add(WrongBalance, spec.AccountName(id), "it has %v; by funding, acts and reports it must have %v",
				account.posted,
				want)
		}
	}

	for id, want := range j.books.expected {
		if !j.exists(id) {
			j.add(WrongBalance, spec.AccountName(id),
				"it is not in the ledger; by funding, acts and reports it has %v", want)
		}
	}
	j.judgeLaws()
}

// judgeLaws checks the laws of money in the ledger, whatever the reports say. Of one look-up at balances, which
// shows no customer, it checks those that need none.
func (j *Judge) judgeLaws() {
	balance := j.books.balance
	law := func(subject, name string, left, right spec.Money) {
		if left != right {
			j.add(BrokenLaw, subject, "%s: %v is not %v centavos", name, left, right)
		}
	}
	customers := map[spec.AccountID]spec.Money{} // by transit account
	var reserves spec.Money

	for id := range j.books.accounts {
		bank := spec.TransitOf(id)
		switch spec.KindOf(id) {
		case spec.KindCustomer:
			customers[bank] = customers[bank].Plus(balance(id))
		case spec.KindReserve:
			reserves = reserves.Plus(balance(id))
			customers[bank] = customers[bank].Plus(spec.Money{}) // a bank without customers counts, too
		case spec.KindTransit, spec.KindBooks:
			customers[bank] = customers[bank].Plus(spec.Money{})
		}
	}

	for _, transit := range slices.SortedFunc(maps.Keys(customers), spec.Number.Compare) {
		if j.whole {
			law(spec.AccountName(transit), "transit + its customers = 0", balance(transit).Plus(customers[transit]),
				spec.Money{})
		}

		if books := spec.BooksOf(transit); j.exists(books) {
			law(spec.AccountName(transit), "reserve + transit = books",
				balance(spec.ReserveOf(transit)).Plus(balance(transit)),
				balance(books))
		}
	}
	law("issuance", "issuance = −sum of the reserves", balance(spec.Issuance), spec.Money{}.Minus(reserves))
}

// LawAccounts returns the accounts that the laws of balances are about. They must be read in one look-up:
// two are two instants.
func LawAccounts(transits []tb.Account) []tb.Uint128 {
	ids := []tb.Uint128{spec.Issuance.TigerBeetle()}

	for _, t := range transits {
		id := spec.NumberOf(t.ID)
		ids = append(ids, t.ID, spec.ReserveOf(id).TigerBeetle(), spec.BooksOf(id).TigerBeetle())
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
	debit, credit := spec.NumberOf(t.DebitAccountID), spec.NumberOf(t.CreditAccountID)
	amount, ok := spec.Centavos(t.Amount)

	ofReserve := debit == spec.Issuance && spec.KindOf(credit) == spec.KindReserve
	if !ok || t.Flags&^spec.LinkedFlag != 0 || !ofReserve &&
		(spec.KindOf(credit) != spec.KindCustomer || debit != spec.TransitOf(credit)) {
		j.add(UnexplainedMoney, spec.TransferName(t), "funding of %s", spec.MovedBy(t))
		return
	}
	// It counts also if it is wrong: one forged funding is one finding, not one more for each
	// account that it touched.
	j.books.expect(debit, credit, amount)

	if want, funded := j.books.population.Funding(credit); !funded || amount != want || spec.NumberOf(t.ID) != credit {
		j.add(WrongFunding, spec.TransferName(t), "%s: the account's one funding has its id, and %d centavos: %v",
			spec.MovedBy(t), want, j.books.population)
		return
	}
	j.books.fundings++
}

// judgeFundings finds what bootstrap has not written. Each that is there was compared with the population.
func (j *Judge) judgeFundings() {
	b := &j.books
	if j.exists(spec.Issuance) && !b.marked {
		j.add(WrongFunding, "marker", "it is not in the ledger: bootstrap has not finished")
	}

	if want := b.population.Fundings(); b.fundings != want {
		j.add(WrongFunding, "fundings", "there are %d of %d: %v", b.fundings, want, b.population)
	}

	if want := b.population.Banks; b.openings != want && j.exists(spec.Register) {
		j.add(WrongFunding, "openings", "there are %d of %d: %v", b.openings, want, b.population)
	}
}
