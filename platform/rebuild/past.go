// Package rebuild makes an empty ledger what a lost one was: it brings the past there, accounts and transfers with
// their ids and the ledger's times, and then what was reported since.
package rebuild

import (
	"context"
	"fmt"
	"iter"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
)

// Source is a past. Both come in the ledger's order, with the ledger's times, after one of them.
type Source interface {
	Accounts(ctx context.Context, after uint64) iter.Seq2[tb.Account, error]
	// Chains are what is brought, as it was written. Engines' probes, what begins an identity ends a rebuild or an
	// archived day, holds that no verdict ended and legs 4 of what has settled are left out: see Kept.
	Chains(ctx context.Context, after uint64) iter.Seq2[[]tb.Transfer, error]
	// End is the time up to which the past is known.
	End(ctx context.Context) (time.Time, error)
	// Allowances are the legs 4 of payments that have settled whose window of time has not passed.
	Allowances(ctx context.Context, now time.Time) iter.Seq2[tb.Transfer, error]
}

// Ledger is a source: a ledger that is there, and that nobody writes to any more. It is the way to another version
// or size of the ledger.
type Ledger struct {
	Client    tigerbeetle.Client
	EventsMax int // in one request
}

// End returns the time of the ledger's last transfer: nobody writes to it any more.
func (l Ledger) End(ctx context.Context) (time.Time, error) {
	last, err := newestTransfer(ctx, l.Client)
	return timeOf(last.Timestamp), err
}

// pages calls ask with the time of the last event that was read, until there are no more.
func pages[E any](ctx context.Context, after uint64, ask func(from uint64) ([]E, error),
	timeOf func(*E) uint64) iter.Seq2[[]E, error] {
	return func(yield func([]E, error) bool) {
		for {
			page, err := ledger.Ask(ctx, func() ([]E, error) { return ask(after + 1) })
			if err != nil {
				yield(nil, fmt.Errorf("cannot read the ledger: %w", err))
				return
			}

			if len(page) == 0 || !yield(page, nil) {
				return
			}
			after = timeOf(&page[len(page)-1])
		}
	}
}

// Accounts yields all accounts, as they were created.
func (l Ledger) Accounts(ctx context.Context, after uint64) iter.Seq2[tb.Account, error] {
	return func(yield func(tb.Account, error) bool) {
		for page, err := range pages(ctx, after, func(from uint64) ([]tb.Account, error) {
			return l.Client.QueryAccounts(tb.QueryFilter{TimestampMin: from, Limit: uint32(l.EventsMax)})
		}, func(a *tb.Account) uint64 { return a.Timestamp }) {
			if err != nil {
				yield(tb.Account{}, err)
				return
			}

			for _, a := range page {
				a.DebitsPending, a.DebitsPosted, a.CreditsPending, a.CreditsPosted = tb.Uint128{}, tb.Uint128{},
					tb.Uint128{}, tb.Uint128{}
				if !yield(a, nil) {
					return
				}
			}
		}
	}
}

func (l Ledger) transfers(ctx context.Context, filter tb.QueryFilter, after uint64) iter.Seq2[[]tb.Transfer, error] {
	return pages(ctx, after, func(from uint64) ([]tb.Transfer, error) {
		filter.TimestampMin, filter.Limit = from, uint32(l.EventsMax)
		return l.Client.QueryTransfers(filter)
	}, func(t *tb.Transfer) uint64 { return t.Timestamp })
}

// Chains yields what is brought of each chain.
func (l Ledger) Chains(ctx context.Context, after uint64) iter.Seq2[[]tb.Transfer, error] {
	return func(yield func([]tb.Transfer, error) bool) {
		var open []tb.Transfer // the begin of a chain that a page has cut

		for page, err := range l.transfers(ctx, tb.QueryFilter{}, after) {
			if err != nil {
				yield(nil, err)
				return
			}
			page = append(open, page...)

			whole := len(page)
			for whole > 0 && page[whole-1].TransferFlags().Linked {
				whole--
			}
			open = append([]tb.Transfer(nil), page[whole:]...)

			ended, err := l.ends(ctx, page[:whole])
			if err != nil {
				yield(nil, err)
				return
			}

			for begin, i := 0, 0; i < whole; i++ {
				if page[i].TransferFlags().Linked {
					continue
				}

				if chain := Kept(page[begin:i+1], ended); len(chain) > 0 && !yield(chain, nil) {
					return
				}
				begin = i + 1
			}
		}
	}
}

// ends returns what ended the holds among transfers, by the hold's id.
func (l Ledger) ends(ctx context.Context, transfers []tb.Transfer) (map[tb.Uint128]tb.Transfer, error) {
	var ids []tb.Uint128

	for i := range transfers {
		if transfers[i].TransferFlags().Pending && transfers[i].Code != ledger.CodeClockProbe {
			ids = append(ids, ledger.EndOf(transfers[i].ID))
		}
	}

	ended := make(map[tb.Uint128]tb.Transfer, len(ids))
	if len(ids) == 0 {
		return ended, nil
	}

	var err error
	for len(ids) > 0 && err == nil {
		n := min(len(ids), l.EventsMax)
		var found []tb.Transfer

		found, err = ledger.Ask(ctx, func() ([]tb.Transfer, error) { return l.Client.LookupTransfers(ids[:n]) })
		for _, t := range found {
			if t.PendingID != (tb.Uint128{}) {
				ended[t.PendingID] = t
			}
		}
		ids = ids[n:]
	}

	return ended, err
}

// Allowances yields the legs 4 of payments that have settled whose window has not passed.
func (l Ledger) Allowances(ctx context.Context, now time.Time) iter.Seq2[tb.Transfer, error] {
	return func(yield func(tb.Transfer, error) bool) {
		longest := uint64(now.Add(-ledger.WindowSecondsMax * time.Second).UnixNano())
		for page, err := range l.transfers(ctx,
			tb.QueryFilter{Ledger: ledger.Allowances, Code: ledger.CodeLeg4}, longest) {
			var decided map[tb.Uint128]tb.Transfer
			if err == nil {
				decided, err = l.verdicts(ctx, page)
			}

			if err != nil {
				yield(tb.Transfer{}, err)
				return
			}

			for _, t := range page {
				ends := time.Unix(0, int64(t.Timestamp)).Add(time.Duration(t.Timeout) * time.Second)

				verdict := decided[ledger.VerdictOf(t.ID)]
				if t.TransferFlags().Pending && ends.After(now) && verdict.TransferFlags().PostPendingTransfer &&
					!yield(t, nil) {
					return
				}
			}
		}
	}
}

// verdicts returns the verdicts of the payments of legs 4, by their ids.
func (l Ledger) verdicts(ctx context.Context, legs []tb.Transfer) (map[tb.Uint128]tb.Transfer, error) {
	var ids []tb.Uint128
	for i := range legs {
		ids = append(ids, ledger.VerdictOf(legs[i].ID))
	}
	found, err := ledger.Ask(ctx, func() ([]tb.Transfer, error) { return l.Client.LookupTransfers(ids) })

	decided := make(map[tb.Uint128]tb.Transfer, len(found))
	for _, t := range found {
		decided[t.ID] = t
	}

	return decided, err
}

// Kept returns what is brought of a chain, given what has ended its holds. An imported hold has no timeout. So one that
// nothing has ended would hold its money for ever: the ledger's timeout has ended it, or its order comes from the log
// again. Leg 4 of what has settled is never ended, see Source.Allowances.
func Kept(chain []tb.Transfer, ended map[tb.Uint128]tb.Transfer) []tb.Transfer {
	var kept []tb.Transfer

	for _, t := range chain {
		switch flags := t.TransferFlags(); {
		case t.Code == ledger.CodeClockProbe, t.Code == ledger.CodeMarker, t.Code == ledger.CodeIdentity,
			t.Code == ledger.CodeRebuilt, t.Code == ledger.CodeConfirmed, t.Code == ledger.CodeArchived:
			// they are of the lost ledger. This one gets its own: it does not have all that an archive of that one has
			continue
		case flags.Pending:
			if _, end := ended[t.ID]; !end {
				continue
			}
			t.Timeout = 0
		}
		kept = append(kept, t)
	}

	for i := range kept {
		flags := kept[i].TransferFlags()
		flags.Imported, flags.Linked = true, i < len(kept)-1
		kept[i].Flags = flags.ToUint16()
	}

	return kept
}
