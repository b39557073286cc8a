package audit

import (
	"context"
	"fmt"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// pageMax is the most objects that a query returns. Some servers return fewer.
const pageMax = 8189

const ledgerAnswersWithin = time.Minute

// readAccounts calls take with every account of a code, or with all for code 0.
func readAccounts(ctx context.Context, client tigerbeetle.Client, code uint16, take func(tb.Account)) error {
	return readPages(ctx, "accounts", code, client.QueryAccounts, func(a tb.Account) uint64 { take(a); return a.Timestamp })
}

// allowancesFitWithin is how long producers may take to bring allowances to their caps.
const allowancesFitWithin = 30 * time.Second

// readLedgerToItsEnd takes every transfer of every ledger. Holds of allowances end at any time, and
// producers then lower what a lowered cap left. So it goes on until allowances and transfers are of
// one instant, and all fit.
func readLedgerToItsEnd(ctx context.Context, client tigerbeetle.Client, a *Auditor) error {
	filter := tb.QueryFilter{Limit: pageMax}
	began, before := time.Now(), -1
	for {
		err := readPagesFrom(ctx, "transfers", &filter, client.QueryTransfers, func(t tb.Transfer) uint64 { a.Transfer(t); return t.Timestamp })
		if err != nil {
			return err
		}
		unchanged := before == a.summary.Transfers
		if unchanged && len(a.unfit()) == 0 || time.Since(began) > allowancesFitWithin {
			return nil
		}
		if before = a.summary.Transfers; unchanged {
			time.Sleep(100 * time.Millisecond)
		}
		for _, kind := range []uint16{kindAllowanceSource, kindAllowance} {
			if err := readAccounts(ctx, client, kind, a.Account); err != nil {
				return err
			}
		}
	}
}

// readPages reads objects in the order of their timestamps, one page a query.
func readPages[O any](ctx context.Context, what string, code uint16, query func(tb.QueryFilter) ([]O, error), take func(O) uint64) error {
	return readPagesFrom(ctx, what, &tb.QueryFilter{Code: code, Limit: pageMax}, query, take)
}

// readPagesFrom goes on where a filter begins, and moves that behind what it has read.
func readPagesFrom[O any](ctx context.Context, what string, filter *tb.QueryFilter, query func(tb.QueryFilter) ([]O, error), take func(O) uint64) error {
	for {
		objects, err := within(ctx, func() ([]O, error) { return query(*filter) })
		if err != nil {
			return fmt.Errorf("cannot read the %s of the ledger: %w", what, err)
		}
		var last uint64
		for _, object := range objects {
			last = take(object)
		}
		if len(objects) == 0 {
			return nil
		}
		filter.TimestampMin = last + 1
	}
}

// within bounds the wait for the client, which itself waits forever.
func within[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		value, err := ask()
		answers <- answer{value, err}
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, ledgerAnswersWithin, fmt.Errorf("no answer for %v: is TigerBeetle up at TIGERBEETLE_ADDRESSES, and is TIGERBEETLE_CLUSTER_ID right?", ledgerAnswersWithin))
	defer cancel()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}
