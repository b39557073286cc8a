package source

import (
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"context"
	"fmt"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
)

// Youngest returns the time of the ledger's last transfer.
func Youngest(ctx context.Context, client tigerbeetle.Client) (last uint64, err error) {
	filter := tb.QueryFilter{Limit: 1, Flags: tb.QueryFilterFlags{Reversed: true}.ToUint32()}

	found, err := within(ctx, func() ([]tb.Transfer, error) { return client.QueryTransfers(filter) })
	for _, t := range found {
		last = t.Timestamp
	}

	return last, wrapped("cannot read the last transfer of the ledger", err)
}

// pageMax is the most objects that a query returns. Some servers return fewer.
const pageMax = 8189

const ledgerAnswersWithin = time.Minute

// ReadAccounts calls take with every account of a code, or with all for code 0.
func ReadAccounts(ctx context.Context, client tigerbeetle.Client, code uint16, take func(tb.Account)) error {
	return ReadPages(ctx, "accounts", &tb.QueryFilter{Code: code}, client.QueryAccounts, func(a tb.Account) uint64 {
		take(a)
		return a.Timestamp
	})
}

// ReadPages reads objects in the order of their timestamps, one page a query. It moves the filter behind what it
// has read.
func ReadPages[O any](ctx context.Context, what string, filter *tb.QueryFilter, query func(tb.QueryFilter) ([]O, error),
	take func(O) uint64) error {
	filter.Limit = pageMax

	for {
		objects, err := within(ctx, func() ([]O, error) { return query(*filter) })
		if err != nil || len(objects) == 0 {
			return wrapped("cannot read the "+what+" of the ledger", err)
		}

		for _, object := range objects {
			filter.TimestampMin = take(object) + 1
		}
	}
}

// wrapped says what an error is about; nil stays nil.
func wrapped(about string, err error) error {
	if err == nil {
		return nil
	}

	return fmt.Errorf("%s: %w", about, err)
}

// within bounds the wait for the client.
func within[T any](ctx context.Context, request func() (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, ledgerAnswersWithin,
		fmt.Errorf("no answer for %v: is TigerBeetle up at TIGERBEETLE_ADDRESSES, and is TIGERBEETLE_CLUSTER_ID right?",
			ledgerAnswersWithin))
	defer cancel()

	return Ask(ctx, request)
}

// Ask sends a request to the ledger and waits for it, or until ctx ends: the client itself waits forever.
func Ask[T any](ctx context.Context, request func() (T, error)) (T, error) {
	type reply struct {
		value T
		err   error
	}
	replies := make(chan reply, 1)
	go func() {
		value, err := request()
		replies <- reply{value, err}
	}()

	select {
	case r := <-replies:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}
