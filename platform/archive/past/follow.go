package past

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/liquida/liquida/platform/archive"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// Archiver follows a ledger and stores segments.
type Archiver struct {
	client    tigerbeetle.Client
	eventsMax int
	store     archive.Store
	cutter    *cutter
	last      archive.Manifest // the last segment
	identity  string
	next      uint64 // the time of the next transfer
	ended     []archive.Manifest
}

// New opens an archive, and goes on where it ends. It is an error if the ledger is not the one of which the
// archive is, or an older copy of it.
func New(ctx context.Context, client tigerbeetle.Client, eventsMax int, store archive.Store,
	rowsMax int) (*Archiver, error) {
	a := &Archiver{client: client, eventsMax: eventsMax, store: store}

	days, err := archive.DayEnds(store)
	if err != nil {
		return nil, err
	}

	if len(days) > 0 {
		a.last = days[len(days)-1]
		days = days[:len(days)-1] // its day is not over
	}

	if a.identity, err = a.identify(ctx); err != nil {
		return nil, err
	}
	a.cutter = newCutter(a.last, rowsMax)
	a.next = a.cutter.from()

	return a, a.endDays(ctx, days)
}

// endDays writes into the ledger how days end of which these are the last segments, unless it says so. If it says
// something else, another archive was the first.
func (a *Archiver) endDays(ctx context.Context, last []archive.Manifest) error {
	for part := range slices.Chunk(last, a.eventsMax) {
		ends := make([]tb.Transfer, len(part))

		ids := make([]tb.Uint128, len(part))
		for i, m := range part {
			day, wrongDay := pix.ParseDay(m.Day)

			chain, wrongChain := tlog.ParseHash(m.Chain)
			if err := errors.Join(wrongDay, wrongChain); err != nil {
				return wrong("the manifest of the segment %s: %w", m.Name, err)
			}
			ends[i] = ledger.Archived(day, chain)
			ids[i] = ends[i].ID
		}

		if _, err := ledger.Ask(ctx, func() ([]tb.TransferEventResult, error) {
			return a.client.CreateTransfers(ends)
		}); err != nil {
			return err
		}

		found, err := ledger.Ask(ctx, func() ([]tb.Transfer, error) { return a.client.LookupTransfers(ids) })
		if err != nil {
			return err
		}

		if len(found) != len(ids) {
			return fmt.Errorf("the ledger took %d of %d ends of days", len(found), len(ids))
		}

		for i, t := range found {
			if t.UserData128 != ends[i].UserData128 || t.UserData64 != ends[i].UserData64 {
				return wrong("the ledger says since %v that the archive of %s ends with another chain than %s, which that in %v has: two archives of one ledger, or a file was changed",
					archive.Time(int64(t.Timestamp)), part[i].Day, part[i].Chain, a.store)
			}
		}
	}
	a.ended = append(a.ended, last...)

	return nil
}

// identify returns which ledger the archive is of: the identity that its marker began. Later ones are of the same
// history.
func (a *Archiver) identify(ctx context.Context) (string, error) {
	last, err := tb.HexStringToUint128(a.last.LastID)
	if err != nil {
		return "", wrong("last_id of the segment %s: %w", a.last.Name, err)
	}

	found, err := ledger.Ask(ctx, func() ([]tb.Transfer, error) {
		return a.client.LookupTransfers([]tb.Uint128{ledger.MarkerID, last})
	})
	if err != nil {
		return "", err
	}

	is, _ := ledger.IdentityIn(found)
	switch {
	case is == (ledger.Identity{}):
		return "", ErrNoLedger
	case a.last.Name == "":
		return is.String(), nil
	case a.last.LastID == "", slices.ContainsFunc(found, func(t tb.Transfer) bool {
		return t.ID == last && t.Timestamp == a.last.LastAt
	}):
		return a.last.Ledger, nil // also if it was rebuilt from this archive
	}

	return "", wrong("the archive in %v ends with the transfer %s of %v, and the ledger %v does not have it: this is another ledger, or an older copy; each ledger has a folder of its own",
		a.store, a.last.LastID, archive.Time(int64(a.last.LastAt)), is)
}

// ErrNoLedger means that the ledger has no marker yet.
var ErrNoLedger = errors.New("the ledger has no marker: bootstrap has not finished")

// Wrong is an error that no other try mends: a person has to look.
type Wrong struct{ Err error }

func (w *Wrong) Error() string { return w.Err.Error() }
func (w *Wrong) Unwrap() error { return w.Err }

func wrong(format string, values ...any) error { return &Wrong{fmt.Errorf(format, values...)} }

// Progress is what a step has done.
type Progress struct {
	Read    int                // transfers
	Asked   time.Duration      // how long the ledger's answer took
	Stored  []archive.Manifest // segments
	Waiting int                // rows in no segment
	// the ledger's time of the first of these, or of what is read next; 0: all is in segments
	Since uint64
	Last  archive.Manifest // the last segment
	// the last segments of days whose end the ledger knows since the step before: archive.Merge takes them
	Ended []archive.Manifest
}

// Step reads the next transfers, and stores the segments that have ended. All is false if the ledger may have more.
func (a *Archiver) Step(ctx context.Context) (p Progress, all bool, err error) {
	began := time.Now()

	page, err := ledger.Ask(ctx, func() ([]tb.Transfer, error) {
		return a.client.QueryTransfers(tb.QueryFilter{TimestampMin: a.next, Limit: uint32(a.eventsMax)})
	})
	if err != nil {
		return p, false, err
	}
	p.Asked = time.Since(began)

	for i := range page {
		segment, err := a.cutter.add(page[i])
		if err != nil {
			return p, false, &Wrong{err}
		}

		if segment != nil {
			if err := a.keep(ctx, segment); err != nil {
				return p, false, err
			}
			p.Stored = append(p.Stored, a.last)
		}
	}

	if len(page) > 0 {
		a.next = page[len(page)-1].Timestamp + 1
	}
	p.Read, p.Last = len(page), a.last
	p.Ended, a.ended = a.ended, nil

	all = len(page) < a.eventsMax
	if p.Waiting, p.Since = a.cutter.waiting(); p.Since == 0 && !all {
		p.Since = a.next
	}

	return p, all, nil
}

// keep stores a segment. Another archiver of the ledger may have written it: then it says the same.
func (a *Archiver) keep(ctx context.Context, s *archive.Segment) error {
	s.Ledger = a.identity
	for from := s.From + 1; ; {
		page, err := ledger.Ask(ctx, func() ([]tb.Account, error) {
			return a.client.QueryAccounts(
				tb.QueryFilter{TimestampMin: from, TimestampMax: s.To, Limit: uint32(a.eventsMax)})
		})
		if err != nil {
			return err
		}

		for i := range page {
			s.AccountRows = append(s.AccountRows, accountOf(&page[i]))
		}

		if len(page) < a.eventsMax {
			break
		}
		from = page[len(page)-1].Timestamp + 1
	}

	if err := s.Seal(a.last.Chain); err != nil {
		return err
	}

	there, err := s.Store(ctx, a.store)
	if errors.Is(err, archive.ErrInTheWay) {
		return &Wrong{err}
	}

	if err != nil {
		return err
	}

	if there != s.Manifest {
		return wrong("the segment %s in %v has the chain %s, and that of this ledger is %s: two ledgers have one folder, or a file was changed; nothing was written",
			s.Name, a.store, there.Chain, s.Chain)
	}
	before := a.last
	a.last = s.Manifest
	a.cutter.stored(a.last)

	if before.Day != "" && before.Day != a.last.Day {
		return a.endDays(ctx, []archive.Manifest{before})
	}

	return nil
}
