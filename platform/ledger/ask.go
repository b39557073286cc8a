package ledger

import (
	"context"
	"fmt"
	"time"
)

// Ask makes a request to the ledger, and waits for its result until ctx ends: the client has no time
// limit, and with an absent ledger it never returns.
func Ask[T any](ctx context.Context, request func() (T, error)) (T, error) {
	return AskPatiently(ctx, nil, nil, request)
}

// AskPatiently is Ask, and calls late if patience sends before the result is there.
func AskPatiently[T any](
	ctx context.Context, patience <-chan time.Time, late func(), request func() (T, error),
) (T, error) {
	type result struct {
		value T
		err   error
	}
	results := make(chan result, 1)
	go func() {
		value, err := request()
		results <- result{value, err}
	}()

	for {
		select {
		case r := <-results:
			return r.value, r.err
		case <-patience:
			late()
		case <-ctx.Done():
			var none T
			return none, fmt.Errorf("the ledger does not answer: %w", context.Cause(ctx))
		}
	}
}
