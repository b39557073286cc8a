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

	mu      sync.Mutex
	changed sync.Cond
	// Messages wait while it is so, and end when the client is closed.
	isBusy, requestsCut, repliesCut bool
	isClosed                        bool
}

var _ tigerbeetle.Client = (*Client)(nil)

// Connect returns a client. Each request takes twice delay: once on the way to the ledger, once on
// the way back. A nil delay is none.
func (l *Ledger) Connect(delay func() time.Duration) *Client {
	if delay == nil {
		delay = func() time.Duration { return 0 }
	}
	c := &Client{ledger: l, delay: delay, clock: time.Now}
	c.changed.L = &c.mu

	return c
}

// Cut stops requests on their way to the ledger, replies on their way back, or both. What was cut
// waits for Heal; it is not lost, as TigerBeetle's client and server repeat it.
func (c *Client) Cut(requests, replies bool) {
	c.change(func() { c.requestsCut, c.repliesCut = c.requestsCut || requests, c.repliesCut || replies })
}

// Heal ends a Cut.
func (c *Client) Heal() { c.change(func() { c.requestsCut, c.repliesCut = false, false }) }

// Close ends the client. Requests that wait end with an error; what has reached the ledger stays.
func (c *Client) Close() { c.change(func() { c.isClosed = true }) }

func (c *Client) change(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
	c.changed.Broadcast()
}

// await waits until something is not so, and then sets it.
func (c *Client) await(not *bool, then bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()

	for *not && !c.isClosed {
		c.changed.Wait()
	}

	if c.isClosed { // a dead program sends nothing
		return errors.ErrClientClosed{}
	}
	*not = then

	return nil
}

// pass waits until messages pass in one direction, whose cut the caller names.
func (c *Client) pass(isCut *bool) error {
	if delay := c.delay(); delay > 0 {
		time.Sleep(delay)
	}

	return c.await(isCut, false)
}

// request carries out one request on the ledger.
func request[R any](c *Client, creates, looksUp int, apply func(timestamp uint64) R) (reply R, err error) {
	if max(creates, looksUp) > EventsMax {
		return reply, errors.ErrMaximumBatchSizeExceeded{}
	}

	if err := c.await(&c.isBusy, true); err != nil {
		return reply, err
	}
	defer c.change(func() { c.isBusy = false })

	if err := c.pass(&c.requestsCut); err != nil {
		return reply, err
	}

	result := c.ledger.request(uint64(c.clock().UnixNano()), creates, func(timestamp uint64) any {
		return apply(timestamp)
	})
	if err := c.pass(&c.repliesCut); err != nil {
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
