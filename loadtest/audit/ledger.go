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

// readTransfers calls take with every transfer of every ledger.
func readTransfers(ctx context.Context, client tigerbeetle.Client, take func(tb.Transfer)) error {
	return readPages(ctx, "transfers", 0, client.QueryTransfers, func(t tb.Transfer) uint64 { take(t); return t.Timestamp })
}

// readPages reads objects in the order of their timestamps, one page a query.
func readPages[O any](ctx context.Context, what string, code uint16, query func(tb.QueryFilter) ([]O, error), take func(O) uint64) error {
	filter := tb.QueryFilter{Code: code, Limit: pageMax}
	for {
		objects, err := within(ctx, func() ([]O, error) { return query(filter) })
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
