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
	lookupsMax   = 2000
)

// ask sends a request to the ledger, waits for it, or until ctx ends, and returns how long it was on its way.
func ask[T any](ctx context.Context, a *Audit, request func() (T, error)) (T, time.Duration, error) {
	began := time.Now()
	value, err := audit.Ask(ctx, request)
	switch {
	case ctx.Err() != nil:
		return value, 0, err
	case err != nil:
		return value, 0, fmt.Errorf("the ledger: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ledgerAt = time.Now()
	return value, time.Since(began), nil
}

// page returns what the ledger did from a time on, in its order, and whether it is all.
func (a *Audit) page(ctx context.Context, from uint64) (transfers []tb.Transfer, all bool, err error) {
	transfers, took, err := ask(ctx, a, func() ([]tb.Transfer, error) {
		return a.config.Ledger.QueryTransfers(tb.QueryFilter{TimestampMin: from, Limit: transfersMax})
	})
	a.pace.took(took, len(transfers))
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
		a.pace.took(took, len(acts))
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
		return audit.BrokenLaws(accounts), nil
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
