package engine

// result is the result of a request to the ledger.
type result[T any] struct {
	value T
	err   error
}

// ask makes a request to the ledger in the background: the client has no time limit, and
// with an absent ledger it never returns.
func ask[T any](request func() (T, error)) <-chan result[T] {
	asked := make(chan result[T], 1)
	go func() {
		value, err := request()
		asked <- result[T]{value, err}
	}()
	return asked
}
