package query

import (
	"net/http"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/web"
)

// inquiry is a question to the ledger that is not a look-up by id, and what each result must be.
//
// TigerBeetle takes a zero in a filter for "no filter", and the ISPB 00000000 packs to 0. So a filter names only
// what no legal id makes zero: an account's id, which holds its kind, and a leg's user data, which holds
// characters. As a second line, each result is compared with what was asked for before anybody reads it: a
// wrong filter shows a bank nothing of another.
type inquiry[O any] struct {
	ask   func(tigerbeetle.Client) ([]O, error)
	wants func(*O) bool
	limit int // of what it finds
}

// transfersOf asks for transfers of an account.
func transfersOf(filter tb.AccountFilter) inquiry[tb.Transfer] {
	return inquiry[tb.Transfer]{
		limit: int(filter.Limit), ask: func(c tigerbeetle.Client) ([]tb.Transfer, error) {
			return c.GetAccountTransfers(filter)
		},
		wants: func(t *tb.Transfer) bool {
			return (t.DebitAccountID == filter.AccountID || t.CreditAccountID == filter.AccountID) &&
				(filter.Code == 0 || t.Code == filter.Code) &&
				isWithin(t.Timestamp, filter.TimestampMin, filter.TimestampMax)
		},
	}
}

// balancesOf asks for the history of an account. The ledger names no account in it.
func balancesOf(filter tb.AccountFilter) inquiry[tb.AccountBalance] {
	return inquiry[tb.AccountBalance]{
		limit: int(filter.Limit), ask: func(c tigerbeetle.Client) ([]tb.AccountBalance, error) {
			return c.GetAccountBalances(filter)
		},
		wants: func(b *tb.AccountBalance) bool {
			return isWithin(b.Timestamp, filter.TimestampMin, filter.TimestampMax)
		},
	}
}

// reserves asks for the reserves of all banks, in the order in which they were opened.
func reserves(from uint64, limit int) inquiry[tb.Account] {
	filter := tb.QueryFilter{Code: uint16(ledger.Reserve), Ledger: ledger.Ledger, TimestampMin: from,
		Limit: uint32(limit)}

	return inquiry[tb.Account]{
		limit: limit, ask: func(c tigerbeetle.Client) ([]tb.Account, error) { return c.QueryAccounts(filter) },
		wants: func(a *tb.Account) bool {
			kind, _ := ledger.UnpackAccount(a.ID)
			return kind == ledger.Reserve && isWithin(a.Timestamp, from, 0)
		},
	}
}

// returnLegs asks for all legs under an RtrId.
func returnLegs(id pix.ReturnID) inquiry[tb.Transfer] {
	filter := ledger.ReturnLegs(id)

	return inquiry[tb.Transfer]{
		limit: int(filter.Limit), ask: func(c tigerbeetle.Client) ([]tb.Transfer, error) {
			return c.QueryTransfers(filter)
		},
		wants: func(t *tb.Transfer) bool {
			named, err := ledger.ReturnIDOf(*t)
			return err == nil && named == id
		},
	}
}

// isWithin reports whether a timestamp is in a filter's range. A bound of 0 is none.
func isWithin(at, from, to uint64) bool { return at >= from && (to == 0 || at <= to) }

// checked returns what an inquiry found, or a problem if a part of it is not what was asked for.
func checked[O any](l *Ledger, q inquiry[O], found []O) ([]O, *web.Problem) {
	for i := range found {
		if !q.wants(&found[i]) {
			l.foreign.Inc()
			l.log.Error("a query of the ledger found what it did not ask for: none of it is told",
				zap.Any("found", found[i]))

			return nil, &web.Problem{Type: web.Kind("broken-law"), Title: "The ledger's answer is not to the question",
				Status: http.StatusInternalServerError,
				Detail: "it holds what was not asked for, so none of it is told: tell the operator; asking again does not help"}
		}
	}

	return found, nil
}
