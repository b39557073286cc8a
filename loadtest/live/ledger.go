package live

import (
	"context"
	"fmt"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/loadtest/audit"
)

// Pages of the ledger. A reply is at most 1 MiB.
const (
	transfersMax = 8000
	eventsMax    = 2600
	lookupsMax   = 2000
)

// ask sends a request to the ledger and waits for it, or until ctx ends: the client itself waits forever.
func ask[T any](ctx context.Context, a *Audit, request func() (T, error)) (T, time.Duration, error) {
	type reply struct {
		value T
		err   error
	}
	replies := make(chan reply, 1)
	began := time.Now()
	go func() {
		value, err := request()
		replies <- reply{value, err}
	}()
	select {
	case r := <-replies:
		if r.err != nil {
			return r.value, 0, fmt.Errorf("the ledger: %w", r.err)
		}
		a.mu.Lock()
		a.ledgerAt = time.Now()
		a.mu.Unlock()
		return r.value, time.Since(began), nil
	case <-ctx.Done():
		var none T
		return none, 0, context.Cause(ctx)
	}
}

// page returns what the ledger did from a time on, in its order, and whether it is all.
func (a *Audit) page(ctx context.Context, from uint64) (transfers []tb.Transfer, all bool, err error) {
	if a.config.ChangeEvents {
		events, took, err := ask(ctx, a, func() ([]tb.ChangeEvent, error) {
			return a.config.Ledger.GetChangeEvents(tb.ChangeEventsFilter{TimestampMin: from, Limit: eventsMax})
		})
		a.pace.took(took, len(events), eventCost)
		for _, e := range events {
			transfers = append(transfers, transferOf(e))
		}
		if len(events) < eventsMax {
			return transfers, true, err
		}
		return wholeChains(transfers), false, err
	}
	transfers, took, err := ask(ctx, a, func() ([]tb.Transfer, error) {
		return a.config.Ledger.QueryTransfers(tb.QueryFilter{TimestampMin: from, Limit: transfersMax})
	})
	a.pace.took(took, len(transfers), transferCost)
	if len(transfers) < transfersMax {
		return transfers, true, err
	}
	return wholeChains(transfers), false, err
}

// wholeChains leaves out the chain that the end of a full page has cut: a judge that met half of a verdict would
// find that the legs disagree. The next page begins with it.
func wholeChains(transfers []tb.Transfer) []tb.Transfer {
	end := len(transfers)
	for end > 0 && transfers[end-1].TransferFlags().Linked {
		end--
	}
	return transfers[:end]
}

// transferOf returns the transfer of an event. An expired hold is no transfer: its code is 0.
func transferOf(e tb.ChangeEvent) tb.Transfer {
	t := tb.Transfer{
		ID: e.TransferID, DebitAccountID: e.DebitAccountID, CreditAccountID: e.CreditAccountID, Amount: e.TransferAmount,
		PendingID: e.TransferPendingID, UserData128: e.TransferUserData128, UserData64: e.TransferUserData64, UserData32: e.TransferUserData32,
		Timeout: e.TransferTimeout, Ledger: e.Ledger, Code: e.TransferCode, Flags: e.TransferFlags, Timestamp: e.Timestamp,
	}
	if e.Type == tb.ChangeEventTwoPhaseExpired {
		t.Code = 0
	}
	return t
}

const registerPage = 8000

// history gives a follower the register of before a time.
func (a *Audit) history(ctx context.Context, follower *audit.Judge, before uint64) error {
	filter := tb.QueryFilter{Ledger: audit.BooksLedger, TimestampMax: before, Limit: registerPage}
	for {
		if err := a.pace.await(ctx); err != nil {
			return err
		}
		acts, took, err := ask(ctx, a, func() ([]tb.Transfer, error) { return a.config.Ledger.QueryTransfers(filter) })
		if err != nil {
			return err
		}
		a.pace.took(took, len(acts), transferCost)
		for _, t := range acts {
			follower.History(t)
			filter.TimestampMin = t.Timestamp + 1
		}
		if len(acts) == 0 || filter.TimestampMin > before {
			return nil
		}
	}
}

// now returns the ledger's time of its last transfer.
func (a *Audit) now(ctx context.Context) (uint64, error) {
	last, _, err := ask(ctx, a, func() ([]tb.Transfer, error) {
		return a.config.Ledger.QueryTransfers(tb.QueryFilter{Limit: 1, Flags: tb.QueryFilterFlags{Reversed: true}.ToUint32()})
	})
	if err != nil || len(last) == 0 {
		return 0, err
	}
	return last[0].Timestamp, nil
}

// banksMax is how many banks fit in one look-up of their balances.
const banksMax = 2700

// watchBalances reads the laws of balances every second.
func (a *Audit) watchBalances(ctx context.Context) {
	var transits []tb.Account
	var listed time.Time
	list := func() error {
		var err error
		transits, _, err = ask(ctx, a, func() ([]tb.Account, error) {
			return a.config.Ledger.QueryAccounts(tb.QueryFilter{Code: audit.TransitCode, Limit: banksMax + 1})
		})
		listed = time.Now()
		return err
	}
	look := func() ([]audit.Finding, error) {
		accounts, took, err := ask(ctx, a, func() ([]tb.Account, error) {
			return a.config.Ledger.LookupAccounts(audit.LawAccounts(transits))
		})
		if err != nil {
			return nil, err
		}
		a.pace.tookSmall(took)
		broken, held := audit.BrokenLaws(accounts)
		a.mu.Lock()
		a.held = held
		a.mu.Unlock()
		return broken, nil
	}
	// A round without the marker judges nothing: bootstrap breaks the laws until it is done.
	opened := false
	round := func() error {
		if !opened {
			marker, _, err := ask(ctx, a, func() ([]tb.Transfer, error) {
				return a.config.Ledger.LookupTransfers([]tb.Uint128{audit.MarkerID()})
			})
			if err != nil || len(marker) == 0 {
				return err
			}
			opened = true
		}
		if time.Since(listed) > 10*time.Second {
			if err := list(); err != nil {
				return err
			}
		}
		if len(transits) > banksMax {
			return fmt.Errorf("more than %d banks do not fit in one look-up of their balances", banksMax)
		}
		broken, err := look()
		if err != nil {
			return err
		}
		if len(broken) > 0 { // a bank may have joined since the list was read
			if err := list(); err != nil {
				return err
			}
			if broken, err = look(); err != nil {
				return err
			}
		}
		for _, f := range broken {
			if a.newlyBroken(f) {
				a.found(f)
			}
		}
		a.mu.Lock()
		a.balancesAt = time.Now()
		a.mu.Unlock()
		return nil
	}
	for ctx.Err() == nil {
		if err := round(); err != nil && ctx.Err() == nil {
			a.config.Log("the balances cannot be read: %v", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// newlyBroken reports whether a law was not broken before: it stays broken, and is one finding.
func (a *Audit) newlyBroken(f audit.Finding) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := f.Kind + f.Subject
	before := a.broken[key]
	a.broken[key] = true
	return !before
}
