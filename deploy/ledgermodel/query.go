package ledgermodel

import (
	"math"

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

// span is the time of a query. An invalid one finds nothing.
func span(timestampMin, timestampMax uint64, limit uint32) (from, to uint64, valid bool) {
	if timestampMax == 0 {
		timestampMax = math.MaxInt64
	}
	return timestampMin, timestampMax, limit != 0 && timestampMin <= timestampMax && timestampMax <= math.MaxInt64
}

func (l *Ledger) accountTransfers(filter tb.AccountFilter) []tb.Transfer {
	from, to, valid := span(filter.TimestampMin, filter.TimestampMax, filter.Limit)
	flags := filter.AccountFilterFlags()
	if !valid || filter.AccountID == (tb.Uint128{}) || filter.AccountID == numberMax.uint128() || !flags.Debits && !flags.Credits || filter.Flags >= 1<<3 {
		return []tb.Transfer{}
	}
	return l.collect(l.byAccount[filter.AccountID], flags.Reversed, filter.Limit, func(t *tb.Transfer) bool {
		return from <= t.Timestamp && t.Timestamp <= to &&
			(flags.Debits && t.DebitAccountID == filter.AccountID || flags.Credits && t.CreditAccountID == filter.AccountID) &&
			asked(filter.UserData128, t.UserData128) && asked(filter.UserData64, t.UserData64) && asked(filter.UserData32, t.UserData32) && asked(filter.Code, t.Code)
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
	from, to, valid := span(filter.TimestampMin, filter.TimestampMax, filter.Limit)
	if !valid || filter.Flags >= 1<<1 {
		return []tb.Transfer{}
	}
	var places []int
	switch {
	case filter.UserData128 != tb.Uint128{}:
		places = l.byUserData[filter.UserData128]
	case filter.Code != 0:
		places = l.byCode[filter.Code]
	default:
		for place := l.transfersFrom(from); place < len(l.transfers); place++ {
			places = append(places, place)
		}
	}
	return l.collect(places, filter.QueryFilterFlags().Reversed, filter.Limit, func(t *tb.Transfer) bool {
		return from <= t.Timestamp && t.Timestamp <= to && asked(filter.UserData128, t.UserData128) && asked(filter.UserData64, t.UserData64) &&
			asked(filter.UserData32, t.UserData32) && asked(filter.Ledger, t.Ledger) && asked(filter.Code, t.Code)
	})
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
	from, to, valid := span(filter.TimestampMin, filter.TimestampMax, filter.Limit)
	if !valid || filter.Flags >= 1<<1 {
		return found
	}
	for i := range l.created {
		if len(found) == int(min(filter.Limit, EventsMax)) {
			break
		}
		if filter.QueryFilterFlags().Reversed {
			i = len(l.created) - 1 - i
		}
		if a := l.created[i]; from <= a.Timestamp && a.Timestamp <= to && asked(filter.UserData128, a.UserData128) && asked(filter.UserData64, a.UserData64) &&
			asked(filter.UserData32, a.UserData32) && asked(filter.Ledger, a.Ledger) && asked(filter.Code, a.Code) {
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
