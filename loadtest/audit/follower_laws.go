package audit

import (
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

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

// BrokenLaws returns the laws of balances that do not hold in one look-up of LawAccounts, and how many
// centavos are held on transit accounts.
func BrokenLaws(accounts []tb.Account) (broken []Finding, held uint64) {
	a := NewAuditor(0)
	a.told = func(f Finding) { broken = append(broken, f) } // a wrong account
	for _, account := range accounts {
		a.Account(account)
	}
	var reserves money
	for id, account := range a.accounts {
		switch kindOf(id) {
		case kindReserve:
			reserves = reserves.plus(account.posted.balance())
		case kindTransit:
			held += account.pending.credits.low
			own, books := a.accounts[reserveOf(id)].posted.balance().plus(account.posted.balance()), a.accounts[booksOf(id)]
			if _, has := a.accounts[booksOf(id)]; has && own != books.posted.balance() {
				a.add(BrokenLaw, nameOf(id), "reserve + transit of %s = its books: %v is not %v centavos", ispbOf(id), own, books.posted.balance())
			}
		}
	}
	if is := a.accounts[issuance].posted.balance(); is != (money{}).minus(reserves) {
		a.add(BrokenLaw, "all banks", "sum of the reserves = −issuance: %v is not %v centavos", reserves, (money{}).minus(is))
	}
	return broken, held
}
