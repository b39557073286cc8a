package ledgermodel

import (
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

func (l *Ledger) lookUpAccounts(ids []tb.Uint128) []tb.Account {
	found := make([]tb.Account, 0, len(ids))
	for _, id := range ids {
		if account := l.accounts[id]; account != nil {
			found = append(found, *account)
		}
	}

	return found
}

func (l *Ledger) lookUpTransfers(ids []tb.Uint128) []tb.Transfer {
	found := make([]tb.Transfer, 0, len(ids))
	for _, id := range ids {
		if place, exists := l.places[id]; exists {
			found = append(found, l.transfers[place].Transfer)
		}
	}

	return found
}

func (l *Ledger) accountTransfers(filter tb.AccountFilter) []tb.Transfer {
	return ofAccount(l, filter, func(t *transfer) tb.Transfer { return t.Transfer })
}

// accountBalances returns the balances of an account with history after each of the transfers that
// accountTransfers returns.
func (l *Ledger) accountBalances(filter tb.AccountFilter) []tb.AccountBalance {
	if account := l.accounts[filter.AccountID]; account == nil || !account.AccountFlags().History {
		return []tb.AccountBalance{}
	}

	return ofAccount(l, filter, func(t *transfer) tb.AccountBalance {
		if t.DebitAccountID == filter.AccountID {
			return *t.debitAfter
		}

		return *t.creditAfter
	})
}

// ofAccount returns what of a transfer is asked for, of those that a filter wants.
func ofAccount[R any](l *Ledger, filter tb.AccountFilter, what func(*transfer) R) []R {
	flags := filter.AccountFilterFlags()
	if filter.UserData128 != (tb.Uint128{}) || filter.UserData64 != 0 || filter.UserData32 != 0 || !flags.Debits &&
		!flags.Credits {
		neverSent("such a filter", filter)
	}

	return collect(l.transfers[l.transfersFrom(filter.TimestampMin):], flags.Reversed, filter.Limit, what,
		func(t *transfer) bool {
			return (flags.Debits && t.DebitAccountID == filter.AccountID ||
				flags.Credits && t.CreditAccountID == filter.AccountID) &&
				within(filter.TimestampMin, filter.TimestampMax, t.Timestamp) && asked(filter.Code, t.Code)
		})
}

func (l *Ledger) queryTransfers(filter tb.QueryFilter) []tb.Transfer {
	return collect(l.transfers[l.transfersFrom(filter.TimestampMin):], filter.QueryFilterFlags().Reversed, filter.Limit,
		func(t *transfer) tb.Transfer { return t.Transfer },
		func(t *transfer) bool {
			return fits(&filter, t.Timestamp, t.UserData128, t.UserData64, t.Ledger, t.Code)
		})
}

func (l *Ledger) queryAccounts(filter tb.QueryFilter) []tb.Account {
	return collect(l.created, filter.QueryFilterFlags().Reversed, filter.Limit,
		func(a **tb.Account) tb.Account { return **a },
		func(at **tb.Account) bool {
			a := *at
			return fits(&filter, a.Timestamp, a.UserData128, a.UserData64, a.Ledger, a.Code)
		})
}

// collect returns what of a list is asked for, in the order of time or reversed, up to a limit.
func collect[T, R any](all []T, reversed bool, limit uint32, what func(*T) R, wanted func(*T) bool) []R {
	found := []R{}
	for i := 0; i < len(all) && len(found) < int(min(limit, EventsMax)); i++ {
		at := i
		if reversed {
			at = len(all) - 1 - i
		}

		if wanted(&all[at]) {
			found = append(found, what(&all[at]))
		}
	}

	return found
}

// fits reports whether a query wants what has these fields.
func fits(filter *tb.QueryFilter, at uint64, data128 tb.Uint128, data64 uint64, number uint32, code uint16) bool {
	if filter.UserData32 != 0 {
		neverSent("such a filter", *filter)
	}

	return within(filter.TimestampMin, filter.TimestampMax, at) && asked(filter.UserData128, data128) &&
		asked(filter.UserData64, data64) && asked(filter.Ledger, number) && asked(filter.Code, code)
}

// within reports whether a time is of a query.
func within(from, to, at uint64) bool { return from <= at && (at <= to || to == 0) }

// asked says whether a field is what a filter asks for; zero asks for anything.
func asked[T comparable](want, is T) bool {
	var whatever T
	return want == whatever || want == is
}
