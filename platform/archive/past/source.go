package past

import (
	"cmp"
	"container/heap"
	"context"
	"io/fs"
	"iter"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/archive"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/rebuild"
)

// Source is the past that an archive knows, for a rebuild. It verifies each segment that it reads.
type Source struct {
	Folder fs.FS
}

// End returns the time up to which the archive knows the ledger.
func (a Source) End(context.Context) (time.Time, error) {
	days, err := archive.DayEnds(a.Folder)
	if err != nil || len(days) == 0 {
		return time.Time{}, cmp.Or(err, archive.ErrEmpty)
	}

	return archive.Time(int64(days[len(days)-1].To)), nil
}

// segments yields the segments of which some may be after a time, verified.
func (a Source) segments(ctx context.Context, after uint64) iter.Seq2[*archive.Segment, error] {
	return func(yield func(*archive.Segment, error) bool) {
		for s, err := range archive.Segments(a.Folder, after) {
			if err = cmp.Or(ctx.Err(), err); !yield(s, err) || err != nil {
				return
			}
		}
	}
}

// Accounts yields the accounts that were made after a time.
func (a Source) Accounts(ctx context.Context, after uint64) iter.Seq2[tb.Account, error] {
	return func(yield func(tb.Account, error) bool) {
		for s, err := range a.segments(ctx, after) {
			if err != nil {
				yield(tb.Account{}, err)
				return
			}

			for i := range s.AccountRows {
				account, err := ledgerAccountOf(&s.AccountRows[i])
				if err == nil && account.Timestamp <= after {
					continue
				}

				if !yield(account, err) || err != nil {
					return
				}
			}
		}
	}
}

// chains is what is known of the next transfers, the first chain first.
type chains [][]tb.Transfer

func (c chains) Len() int           { return len(c) }
func (c chains) Less(i, j int) bool { return c[i][0].Timestamp < c[j][0].Timestamp }
func (c chains) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }
func (c *chains) Push(chain any)    { *c = append(*c, chain.([]tb.Transfer)) }
func (c *chains) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

// Chains yields what is brought of each chain after a time, in the ledger's order. The row of a hold is in the segment
// of its end, so a chain waits until no later segment can have an older one.
func (a Source) Chains(ctx context.Context, after uint64) iter.Seq2[[]tb.Transfer, error] {
	return func(yield func([]tb.Transfer, error) bool) {
		var waiting chains
		add := func(chain []tb.Transfer) {
			if len(chain) > 0 && chain[0].Timestamp > after {
				heap.Push(&waiting, chain)
			}
		}
		flush := func(before uint64) bool {
			for len(waiting) > 0 && waiting[0][0].Timestamp < before {
				if !yield(heap.Pop(&waiting).([]tb.Transfer), nil) {
					return false
				}
			}

			return true
		}

		for s, err := range a.segments(ctx, after) {
			if err == nil {
				err = chainsOf(s, add)
			}

			if err != nil {
				yield(nil, err)
				return
			}

			before := s.To + 1
			if s.OpenSince > 0 {
				before = s.OpenSince
			}

			if !flush(before) {
				return
			}
		}
		flush(forever)
	}
}

// chainsOf calls add with what is brought of each chain of a segment, and of those that held what it has ended.
func chainsOf(s *archive.Segment, add func([]tb.Transfer)) error {
	for i := range s.PaymentRows {
		p := &s.PaymentRows[i]
		if p.Status == archive.Expired {
			continue
		}

		hold, end, err := TransfersOf(p)
		if err != nil {
			return err
		}

		ended := make(map[tb.Uint128]tb.Transfer, len(end))
		for _, t := range end {
			ended[t.PendingID] = t
		}
		add(rebuild.Kept(hold, ended))
		add(rebuild.Kept(end, nil))
	}

	return eachChain(s, func(chain []tb.Transfer) {
		if brought(chain) {
			add(rebuild.Kept(chain, nil))
		}
	})
}

// brought reports whether a rebuild brings a chain of records. Not if it frees a leg 4 of what no verdict has ended.
func brought(chain []tb.Transfer) bool {
	return chain[0].PendingID == (tb.Uint128{}) && len(rebuild.Kept(chain, nil)) > 0
}

// eachChain calls take with the chains of the records.
func eachChain(s *archive.Segment, take func([]tb.Transfer)) error {
	var chain []tb.Transfer

	for i := range s.RecordRows {
		t, err := transferOf(&s.RecordRows[i])
		if err != nil {
			return err
		}

		if chain = append(chain, t); !t.TransferFlags().Linked {
			take(chain)
			chain = nil
		}
	}

	return nil
}

// Allowances yields the legs 4 of payments that have settled whose window has not passed.
func (a Source) Allowances(ctx context.Context, now time.Time) iter.Seq2[tb.Transfer, error] {
	longest := now.Add(-ledger.WindowSecondsMax * time.Second).UnixNano()

	return func(yield func(tb.Transfer, error) bool) {
		for s, err := range a.segments(ctx, uint64(longest)) {
			var legs []tb.Transfer
			if err == nil {
				legs, err = legs4(s, now)
			}

			if err != nil {
				yield(tb.Transfer{}, err)
				return
			}

			for _, leg := range legs {
				if !yield(leg, nil) {
					return
				}
			}
		}
	}
}

func legs4(s *archive.Segment, now time.Time) (legs []tb.Transfer, err error) {
	add := func(leg tb.Transfer) {
		if archive.Time(int64(leg.Timestamp)).Add(time.Duration(leg.Timeout) * time.Second).After(now) {
			legs = append(legs, leg)
		}
	}

	for i := range s.PaymentRows {
		p := &s.PaymentRows[i]
		if p.CapWindow == "" || p.Status != archive.Settled {
			continue
		}

		hold, _, err := TransfersOf(p)
		if err != nil {
			return nil, err
		}
		add(hold[len(hold)-1])
	}
	err = eachChain(s, func(chain []tb.Transfer) { // those that an earlier rebuild has held again
		if chain[0].Code == ledger.CodeLeg4 && chain[0].TransferFlags().Pending {
			add(chain[0])
		}
	})

	return legs, err
}
