package live

import (
	"context"
	"fmt"
	"time"

	"github.com/liquida/liquida/loadtest/audit/spec"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/loadtest/audit"

	"github.com/liquida/liquida/loadtest/audit/source"
)

// Pages of the ledger. A reply is at most 1 MiB.
const (
	transfersMax = 8000
	lookupsMax   = 2000
)

// ask sends a request to the ledger, and waits for it, or until ctx ends. What it brings counts for the share.
func ask[T any](ctx context.Context, a *Audit, request func() ([]T, error)) ([]T, error) {
	found, err := source.Ask(ctx, request)
	switch {
	case ctx.Err() != nil:
		return found, err
	case err != nil:
		return found, fmt.Errorf("the ledger: %w", err)
	}
	a.pace.took(len(found))
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ledgerAt = time.Now()

	return found, nil
}

// page returns transfers in the ledger's order, and whether these are all.
func (a *Audit) page(ctx context.Context, filter tb.QueryFilter) (transfers []tb.Transfer, all bool, err error) {
	filter.Limit = transfersMax
	transfers, err = ask(ctx, a, func() ([]tb.Transfer, error) { return a.config.Ledger.QueryTransfers(filter) })

	return transfers, len(transfers) < transfersMax, err
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

// history gives a follower the register of before a time.
func (a *Audit) history(ctx context.Context, follower *audit.Judge, before uint64) error {
	filter := tb.QueryFilter{Ledger: spec.BooksLedger, TimestampMax: before}

	for {
		if err := a.pace.await(ctx); err != nil {
			return err
		}

		acts, _, err := a.page(ctx, filter)
		if err != nil {
			return err
		}

		for _, t := range acts {
			follower.History(t)
			filter.TimestampMin = t.Timestamp + 1
		}

		if len(acts) == 0 || filter.TimestampMin > before { // a server may give fewer than asked for
			return nil
		}
	}
}

// banksMax is how many banks fit in one look-up of their balances.
const banksMax = 2700

// watchBalances reads the laws of balances every second.
func (a *Audit) watchBalances(ctx context.Context) {
	opened := false // without the marker nothing is judged: bootstrap breaks the laws until it is done
	a.repeat(ctx, time.Second, "the balances cannot be read", func() error {
		if !opened {
			marker, err := ask(ctx, a, func() ([]tb.Transfer, error) {
				return a.config.Ledger.LookupTransfers([]tb.Uint128{spec.MarkerID.TigerBeetle()})
			})
			if opened = len(marker) > 0; err != nil || !opened {
				return err
			}
		}

		broken, err := a.brokenLaws(ctx)
		if len(broken) > 0 {
			broken, err = a.brokenLaws(ctx) // a bank may have joined since the list was read
		}

		if err != nil {
			return err
		}

		for _, f := range broken {
			a.foundOnce(f)
		}
		a.mu.Lock()
		a.balancesAt = time.Now()
		a.mu.Unlock()

		return nil
	})
}

// brokenLaws lists the banks, and judges their balances.
func (a *Audit) brokenLaws(ctx context.Context) ([]audit.Finding, error) {
	transits, err := ask(ctx, a, func() ([]tb.Account, error) {
		return a.config.Ledger.QueryAccounts(tb.QueryFilter{Code: spec.KindTransit, Limit: banksMax + 1})
	})
	if len(transits) > banksMax {
		err = fmt.Errorf("more than %d banks do not fit in one look-up of their balances", banksMax)
	}

	if err != nil {
		return nil, err
	}

	accounts, err := ask(ctx, a, func() ([]tb.Account, error) {
		return a.config.Ledger.LookupAccounts(audit.LawAccounts(transits))
	})
	if err != nil {
		return nil, err
	}

	return audit.BrokenLaws(accounts), nil
}

// foundOnce takes a finding, unless it was taken before: a law stays broken, and is one finding.
func (a *Audit) foundOnce(f audit.Finding) {
	a.mu.Lock()
	key := f.Kind + f.Subject
	before := a.broken[key]
	a.broken[key] = true
	a.mu.Unlock()

	if !before {
		a.found(f)
	}
}
