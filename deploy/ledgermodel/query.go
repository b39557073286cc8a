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

// within reports whether a time is of a query.
func within(from, to, at uint64) bool { return from <= at && (at <= to || to == 0) }

func (l *Ledger) accountTransfers(filter tb.AccountFilter) []tb.Transfer {
	flags := filter.AccountFilterFlags()
	if filter.UserData128 != (tb.Uint128{}) || filter.UserData64 != 0 || filter.UserData32 != 0 || !flags.Debits &&
		!flags.Credits {
		neverSent("such a filter", filter)
	}

	return l.collect(l.byAccount[filter.AccountID], flags.Reversed, filter.Limit, func(t *tb.Transfer) bool {
		return within(filter.TimestampMin, filter.TimestampMax, t.Timestamp) && asked(filter.Code, t.Code) &&
			(flags.Debits && t.DebitAccountID == filter.AccountID || flags.Credits &&
				t.CreditAccountID == filter.AccountID)
	})
}

// accountBalances returns the balances of an account with history after each of the transfers that
// accountTransfers returns.
func (l *Ledger) accountBalances(filter tb.AccountFilter) []tb.AccountBalance {
	balances := []tb.AccountBalance{}
	if account := l.accounts[filter.AccountID]; account == nil || !account.AccountFlags().History {
		return balances
	}

	for _, found := range l.accountTransfers(filter) {
		t := &l.transfers[l.places[found.ID]]
		if t.DebitAccountID == filter.AccountID {
			balances = append(balances, *t.debitAfter)
		} else {
			balances = append(balances, *t.creditAfter)
		}
	}

	return balances
}

func (l *Ledger) queryTransfers(filter tb.QueryFilter) []tb.Transfer {
	var places []int

	switch {
	case filter.UserData128 != tb.Uint128{}:
		places = l.byUserData[filter.UserData128]
	case filter.Code != 0:
		places = l.byCode[filter.Code]
	default:
		for place := l.transfersFrom(filter.TimestampMin); place < len(l.transfers); place++ {
			places = append(places, place)
		}
	}

	return l.collect(places, filter.QueryFilterFlags().Reversed, filter.Limit, func(t *tb.Transfer) bool {
		return fits(&filter, t.Timestamp, t.UserData128, t.UserData64, t.Ledger, t.Code)
	})
}

// fits reports whether a query wants what has these fields.
func fits(filter *tb.QueryFilter, at uint64, data128 tb.Uint128, data64 uint64, number uint32, code uint16) bool {
	if filter.UserData32 != 0 {
		neverSent("such a filter", *filter)
	}

	return within(filter.TimestampMin, filter.TimestampMax, at) && asked(filter.UserData128, data128) &&
		asked(filter.UserData64, data64) && asked(filter.Ledger, number) && asked(filter.Code, code)
}

// collect returns the transfers at places, in the order of time or reversed, that a query wants.
func (l *Ledger) collect(places []int, reversed bool, limit uint32, wanted func(*tb.Transfer) bool) []tb.Transfer {
	found := []tb.Transfer{}
	for i := range places {
		if len(found) == int(min(limit, EventsMax)) {
			break
		}

		if reversed {
			i = len(places) - 1 - i
		}

		if t := &l.transfers[places[i]].Transfer; wanted(t) {
			found = append(found, *t)
		}
	}

	return found
}

func (l *Ledger) queryAccounts(filter tb.QueryFilter) []tb.Account {
	found := []tb.Account{}
	for i := range l.created {
		if len(found) == int(min(filter.Limit, EventsMax)) {
			break
		}

		if filter.QueryFilterFlags().Reversed {
			i = len(l.created) - 1 - i
		}

		if a := l.created[i]; fits(&filter, a.Timestamp, a.UserData128, a.UserData64, a.Ledger, a.Code) {
			found = append(found, *a)
		}
	}

	return found
}

// asked says whether a field is what a filter asks for; zero asks for anything.
func asked[T comparable](want, is T) bool {
	var whatever T
	return want == whatever || want == is
}
