package rebuild

import (
	"context"
	"errors"
	"fmt"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
)

// Target is the ledger that gets a past.
type Target struct {
	Client    tigerbeetle.Client
	EventsMax int // in one request
	// Progress is told how many accounts and transfers this run has brought, and the ledger's time of the last one.
	Progress func(accounts, transfers int, at time.Time)

	accounts, transfers int
}

// ErrDone means that the ledger has its marker: nothing older can come into it.
var ErrDone = errors.New("the ledger has its marker, so it is whole: a past comes only into an empty one")

// Import brings a past into a ledger that is empty, or that an earlier run has begun to fill: it goes on where that one
// ended, also after kill -9. It writes no marker, so nobody else writes meanwhile.
func (t *Target) Import(ctx context.Context, from Source) error {
	found, err := ledger.Ask(ctx, func() ([]tb.Transfer, error) {
		return t.Client.LookupTransfers([]tb.Uint128{ledger.MarkerID})
	})
	if err != nil {
		return err
	}

	if len(found) > 0 {
		return ErrDone
	}

	last, err := newestTransfer(ctx, t.Client)
	if err != nil {
		return err
	}

	if last.Timestamp > 0 && !last.TransferFlags().Imported {
		if last.Code != ledger.CodeClockProbe && last.Code != ledger.CodeFunding {
			return nil // a later step was begun: nothing older is missing
		}

		return fmt.Errorf("somebody wrote the transfer %v (code %d) to this ledger at %s, and nothing older can be brought behind it: format a new cluster",
			last.ID, last.Code, timeOf(last.Timestamp))
	}

	if err := t.importAccounts(ctx, from); err != nil {
		return err
	}
	var batch []tb.Transfer

	for chain, err := range from.Chains(ctx, last.Timestamp) {
		if err != nil {
			return err
		}

		if len(batch)+len(chain) > t.EventsMax {
			if err := t.write(ctx, batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
		batch = append(batch, chain...)
	}

	return t.write(ctx, batch)
}

func (t *Target) importAccounts(ctx context.Context, from Source) error {
	newest, err := newestAccount(ctx, t.Client)
	if err != nil {
		return err
	}

	if newest.Timestamp > 0 && !newest.AccountFlags().Imported {
		return fmt.Errorf("somebody made the account %s in this ledger: format a new cluster",
			ledger.AccountName(newest.ID))
	}
	var batch []tb.Account
	flush := func() error {
		results, err := ledger.Ask(ctx, func() ([]tb.AccountEventResult, error) {
			return t.Client.CreateAccounts(batch)
		})
		if err == nil && len(results) > 0 {
			a := batch[results[0].Index]
			err = fmt.Errorf("the ledger refuses to import the account %s of %s: %s", ledger.AccountName(a.ID),
				timeOf(a.Timestamp), results[0].Result)
		}

		if err == nil {
			t.accounts += len(batch)
			t.Progress(t.accounts, t.transfers, timeOf(batch[len(batch)-1].Timestamp))
			batch = batch[:0]
		}

		return err
	}

	for account, err := range from.Accounts(ctx, newest.Timestamp) {
		if err != nil {
			return err
		}
		flags := account.AccountFlags()
		flags.Imported = true

		account.Flags = flags.ToUint16()
		if batch = append(batch, account); len(batch) == t.EventsMax {
			if err := flush(); err != nil {
				return err
			}
		}
	}

	if len(batch) == 0 {
		return nil
	}

	return flush()
}

var newestFirst = tb.QueryFilterFlags{Reversed: true}.ToUint32()

func newestTransfer(ctx context.Context, client tigerbeetle.Client) (newest tb.Transfer, err error) {
	found, err := ledger.Ask(ctx, func() ([]tb.Transfer, error) {
		return client.QueryTransfers(tb.QueryFilter{Limit: 1, Flags: newestFirst})
	})
	if len(found) > 0 {
		newest = found[0]
	}

	return newest, err
}

func newestAccount(ctx context.Context, client tigerbeetle.Client) (newest tb.Account, err error) {
	found, err := ledger.Ask(ctx, func() ([]tb.Account, error) {
		return client.QueryAccounts(tb.QueryFilter{Limit: 1, Flags: newestFirst})
	})
	if len(found) > 0 {
		newest = found[0]
	}

	return newest, err
}

// write writes transfers of the past. A request is written whole or not at all. One of a run that was killed may still
// be written after this run has looked where that one ended.
func (t *Target) write(ctx context.Context, batch []tb.Transfer) error {
	if len(batch) == 0 {
		return nil
	}

	results, err := ledger.Ask(ctx, func() ([]tb.TransferEventResult, error) { return t.Client.CreateTransfers(batch) })
	if err != nil {
		return err
	}

	for _, result := range results {
		if result.Result == tb.TransferLinkedEventFailed {
			continue
		}

		event := batch[result.Index]
		if newest, err := newestTransfer(ctx, t.Client); err == nil && result.Result == tb.TransferExists &&
			newest.Timestamp >= batch[len(batch)-1].Timestamp {
			continue
		}

		return fmt.Errorf("the ledger refuses to import the transfer %v (code %d) of %s: %s; nothing after it was brought",
			event.ID, event.Code, timeOf(event.Timestamp), result.Result)
	}
	t.transfers += len(batch)
	t.Progress(t.accounts, t.transfers, timeOf(batch[len(batch)-1].Timestamp))

	return nil
}

// End says that everything is there. lost is the ledger in whose place this one is.
func (t *Target) End(ctx context.Context, lost ledger.Identity) error {
	return t.create(ctx, ledger.Rebuilt(lost))
}

// Mark writes the marker: from then on the ledger is one that others may write to. Its time is of now, so the ledger
// has an identity of its own: if the lost one comes back, it is another's.
func (t *Target) Mark(ctx context.Context) error {
	ended, err := ledger.Ask(ctx, func() ([]tb.Transfer, error) {
		return t.Client.LookupTransfers([]tb.Uint128{ledger.RebuiltID})
	})
	if err != nil {
		return err
	}

	found, err := ledger.Ask(ctx, func() ([]tb.Account, error) {
		return t.Client.LookupAccounts([]tb.Uint128{ledger.IssuanceAccount})
	})
	if err != nil {
		return err
	}

	if len(ended) == 0 || len(found) == 0 {
		return errors.New("no rebuild of this ledger has come to its end: run it again")
	}

	return t.create(ctx, ledger.MarkerOf(found[0].UserData128, found[0].UserData64).Transfer())
}

// create creates a transfer that may be there.
func (t *Target) create(ctx context.Context, transfer tb.Transfer) error {
	results, err := ledger.Ask(ctx, func() ([]tb.TransferEventResult, error) {
		return t.Client.CreateTransfers([]tb.Transfer{transfer})
	})
	if err == nil && len(results) > 0 && results[0].Result != tb.TransferExists {
		err = fmt.Errorf("the ledger refuses the transfer with code %d: %s", transfer.Code, results[0].Result)
	}

	return err
}

func timeOf(timestamp uint64) time.Time { return time.Unix(0, int64(timestamp)).UTC() }
