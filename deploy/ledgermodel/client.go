package ledgermodel

import (
	"sync"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	"github.com/tigerbeetle/tigerbeetle-go/pkg/errors"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// Client is one program's connection to a ledger. It makes one request at a time, and waits for
// the ledger without a limit, as TigerBeetle's own client does.
type Client struct {
	ledger *Ledger
	delay  func() time.Duration
	clock  func() time.Time
	turn   chan struct{} // holds the request under way

	mu                sync.Mutex
	requests, replies chan struct{} // closed while messages pass in this direction
	closed            chan struct{}
}

var _ tigerbeetle.Client = (*Client)(nil)

// Connect returns a client. Each request takes twice delay: once on the way to the ledger, once on
// the way back. A nil delay is none.
func (l *Ledger) Connect(delay func() time.Duration) *Client {
	if delay == nil {
		delay = func() time.Duration { return 0 }
	}
	open := make(chan struct{})
	close(open)

	return &Client{ledger: l, delay: delay, clock: time.Now, turn: make(chan struct{}, 1), requests: open,
		replies: open, closed: make(chan struct{})}
}

// Cut stops requests on their way to the ledger, replies on their way back, or both. What was cut
// waits for Heal; it is not lost, as TigerBeetle's client and server repeat it.
func (c *Client) Cut(requests, replies bool) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if requests {
		shut(&c.requests)
	}

	if replies {
		shut(&c.replies)
	}
}

// shut makes messages of a direction wait. Where they wait already, Heal must reach those, too.
func shut(direction *chan struct{}) {
	select {
	case <-*direction:
		*direction = make(chan struct{})
	default:
	}
}

// Heal ends a Cut.
func (c *Client) Heal() {
	c.mu.Lock()
	defer c.mu.Unlock()

	for _, direction := range []chan struct{}{c.requests, c.replies} {
		select {
		case <-direction:
		default:
			close(direction)
		}
	}
}

// Close ends the client. Requests that wait end with an error; what has reached the ledger stays.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()

	select {
	case <-c.closed:
	default:
		close(c.closed)
	}
}

// pass waits until messages pass in one direction, which the caller names.
func (c *Client) pass(direction *chan struct{}) error {
	if delay := c.delay(); delay > 0 {
		time.Sleep(delay)
	}
	c.mu.Lock()
	gate := *direction
	c.mu.Unlock()

	select {
	case <-c.closed: // first: a dead program sends nothing
		return errors.ErrClientClosed{}
	default:
	}

	select {
	case <-gate:
		return nil
	case <-c.closed:
		return errors.ErrClientClosed{}
	}
}

// request carries out one request on the ledger.
func request[R any](c *Client, creates, looksUp int, apply func(timestamp uint64) R) (reply R, err error) {
	if max(creates, looksUp) > EventsMax {
		return reply, errors.ErrMaximumBatchSizeExceeded{}
	}

	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-c.closed:
		return reply, errors.ErrClientClosed{}
	}

	if err := c.pass(&c.requests); err != nil {
		return reply, err
	}

	result := c.ledger.request(uint64(c.clock().UnixNano()), creates, func(timestamp uint64) any {
		return apply(timestamp)
	})
	if err := c.pass(&c.replies); err != nil {
		return reply, err
	}

	return result.(R), nil
}

// CreateAccounts is TigerBeetle's request of this name, as each of the methods below.
func (c *Client) CreateAccounts(accounts []tb.Account) ([]tb.AccountEventResult, error) {
	return request(c, len(accounts), 0, func(timestamp uint64) []tb.AccountEventResult {
		return c.ledger.createAccounts(timestamp, accounts)
	})
}

// CreateTransfers makes transfers, linked ones wholly or not at all.
func (c *Client) CreateTransfers(transfers []tb.Transfer) ([]tb.TransferEventResult, error) {
	return request(c, len(transfers), 0, func(timestamp uint64) []tb.TransferEventResult {
		return c.ledger.createTransfers(timestamp, transfers)
	})
}

// LookupAccounts returns the accounts that exist.
func (c *Client) LookupAccounts(ids []tb.Uint128) ([]tb.Account, error) {
	return request(c, 0, len(ids), func(uint64) []tb.Account { return c.ledger.lookUpAccounts(ids) })
}

// LookupTransfers returns the transfers that exist.
func (c *Client) LookupTransfers(ids []tb.Uint128) ([]tb.Transfer, error) {
	return request(c, 0, len(ids), func(uint64) []tb.Transfer { return c.ledger.lookUpTransfers(ids) })
}

// GetAccountTransfers returns the transfers of an account.
func (c *Client) GetAccountTransfers(filter tb.AccountFilter) ([]tb.Transfer, error) {
	return request(c, 0, 0, func(uint64) []tb.Transfer { return c.ledger.accountTransfers(filter) })
}

// QueryAccounts returns the accounts with what the filter names.
func (c *Client) QueryAccounts(filter tb.QueryFilter) ([]tb.Account, error) {
	return request(c, 0, 0, func(uint64) []tb.Account { return c.ledger.queryAccounts(filter) })
}

// QueryTransfers returns the transfers with what the filter names.
func (c *Client) QueryTransfers(filter tb.QueryFilter) ([]tb.Transfer, error) {
	return request(c, 0, 0, func(uint64) []tb.Transfer { return c.ledger.queryTransfers(filter) })
}

// Nop asks for nothing.
func (c *Client) Nop() error {
	_, err := request(c, 0, 0, func(uint64) struct{} { return struct{}{} })
	return err
}

// GetAccountBalances returns the balances of an account after each of its transfers.
func (c *Client) GetAccountBalances(filter tb.AccountFilter) ([]tb.AccountBalance, error) {
	return request(c, 0, 0, func(uint64) []tb.AccountBalance { return c.ledger.accountBalances(filter) })
}

// GetChangeEvents is not modelled.
func (c *Client) GetChangeEvents(tb.ChangeEventsFilter) ([]tb.ChangeEvent, error) {
	panic("ledgermodel: change events are not modelled")
}
