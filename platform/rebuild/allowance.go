package rebuild

import (
	"context"
	"fmt"
	"slices"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// allowances writes legs 4 of windows that run: holds of now, with the time that is left. Imported they would never
// end, and without them a bank could spend its cap twice.
type allowances struct {
	*Target
	now   time.Time
	batch []tb.Transfer
	held  int
}

// HoldAllowances holds what counts against a cap: of the past, and of what was told. uncapped are payments that a cap
// in force should count, and that are more than is left of it. It comes after everything that is imported, and may run
// again.
func (t *Target) HoldAllowances(ctx context.Context, from Source, told []Told,
	now time.Time) (held int, uncapped []string, err error) {
	a := &allowances{Target: t, now: now}
	for leg, err := range from.Allowances(ctx, now) {
		if err != nil {
			return a.held, nil, err
		}
		leg.Timeout, leg.Timestamp = secondsLeft(timeOf(leg.Timestamp), leg.Timeout, now), 0

		leg.Flags = tb.TransferFlags{Pending: true}.ToUint16()
		if err := a.add(ctx, leg); err != nil {
			return a.held, nil, err
		}
	}

	if err := a.flush(ctx); err != nil {
		return a.held, nil, err
	}
	uncapped, err = a.ofTold(ctx, told)

	return a.held, uncapped, err
}

// secondsLeft returns how much is left of a window that began with a payment.
func secondsLeft(began time.Time, seconds uint32, now time.Time) uint32 {
	left := began.Add(time.Duration(seconds) * time.Second).Sub(now)
	return uint32(max(0, left+time.Second-1) / time.Second)
}

// ofTold holds settled payments that were told against the cap in force, if its window has not passed since.
func (a *allowances) ofTold(ctx context.Context, told []Told) (uncapped []string, err error) {
	caps, err := a.caps(ctx)
	if err != nil || len(caps) == 0 {
		return nil, err
	}
	accounts := map[ledger.AccountID]*tb.Account{}

	var ids []tb.Uint128
	for limit := range caps {
		ids = append(ids, ledger.AllowanceAccount(limit.bank, limit.window))
	}

	if err := a.look(ctx, ids, accounts); err != nil {
		return nil, err
	}
	var legs []tb.Transfer

	for i := range told {
		t := &told[i]
		limit := capped{t.Content.Payer.ISPB, ledger.WindowAt(t.At)}
		act, set := caps[limit]

		left := secondsLeft(t.At, act.WindowSeconds, a.now)
		if set && t.Settled && !t.Return && !t.Content.SameBank() && left > 0 {
			legs = append(legs, ledger.AppendCap(nil, t.ID, t.Content, limit.window, left)...)
		}
	}

	for part := range slices.Chunk(legs, a.EventsMax) {
		there, err := a.written(ctx, part)
		if err != nil {
			return nil, err
		}

		for _, leg := range part {
			account := accounts[leg.DebitAccountID]
			if there[leg.ID] { // by an earlier run
				continue
			}

			if account == nil || free(account) < ledger.Centavos(leg.Amount) {
				id, err := ledger.EndToEndIDOf(leg)
				uncapped = append(uncapped, id.String())

				if err != nil {
					return nil, err
				}

				continue
			}

			account.DebitsPending = ledger.Sum(account.DebitsPending, leg.Amount)
			if err := a.add(ctx, leg); err != nil {
				return nil, err
			}
		}
	}

	return uncapped, a.flush(ctx)
}

// written finds those that an earlier run has written.
func (a *allowances) written(ctx context.Context, legs []tb.Transfer) (map[tb.Uint128]bool, error) {
	var ids []tb.Uint128
	for i := range legs {
		ids = append(ids, legs[i].ID)
	}
	found, err := ledger.Ask(ctx, func() ([]tb.Transfer, error) { return a.Client.LookupTransfers(ids) })

	there := map[tb.Uint128]bool{}
	for _, leg := range found {
		there[leg.ID] = true
	}

	return there, err
}

// capped is whose outflow a cap limits, and when.
type capped struct {
	bank   pix.ISPB
	window ledger.Window
}

// caps reads the caps on outflow in force, of all acts the last ones.
func (t *Target) caps(ctx context.Context) (map[capped]ledger.Act, error) {
	caps := map[capped]ledger.Act{}

	filter := tb.AccountFilter{AccountID: ledger.RegisterAccount, Limit: uint32(t.EventsMax),
		Flags: tb.AccountFilterFlags{Debits: true, Credits: true}.ToUint32()}
	for page, err := range pages(ctx, 0, func(from uint64) ([]tb.Transfer, error) {
		filter.TimestampMin = from
		return t.Client.GetAccountTransfers(filter)
	}, func(t *tb.Transfer) uint64 { return t.Timestamp }) {
		if err != nil {
			return nil, err
		}

		for _, record := range page {
			act, _, err := ledger.ActOf(record)
			if err != nil || act.Kind != ledger.DayCapped && act.Kind != ledger.NightCapped {
				continue
			}

			limit := capped{act.Bank, ledger.Day}
			if act.Kind == ledger.NightCapped {
				limit.window = ledger.Night
			}

			if caps[limit] = act; act.Centavos == 0 {
				delete(caps, limit)
			}
		}
	}

	return caps, nil
}

func (a *allowances) add(ctx context.Context, leg tb.Transfer) error {
	if a.batch = append(a.batch, leg); len(a.batch) < a.EventsMax {
		return nil
	}

	return a.flush(ctx)
}

func (a *allowances) flush(ctx context.Context) error {
	if len(a.batch) == 0 {
		return nil
	}

	results, err := ledger.Ask(ctx, func() ([]tb.TransferEventResult, error) {
		return a.Client.CreateTransfers(a.batch)
	})
	for _, result := range results {
		// With another timeout it was written by a run before.
		if result.Result != tb.TransferExists && result.Result != tb.TransferExistsWithDifferentTimeout {
			return fmt.Errorf("the ledger refuses to hold the allowance %v again: %s", a.batch[result.Index].ID,
				result.Result)
		}
	}
	a.held, a.batch = a.held+len(a.batch), a.batch[:0]

	return err
}
