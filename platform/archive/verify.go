package archive

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/liquida/liquida/platform/pix"
)

// ErrEmpty means that there is nothing to read.
var ErrEmpty = errors.New("the archive has no segment: the folder is another one, or no minute of the ledger is over")

// Follows returns what is wrong with the place of a segment behind another.
func (m *Manifest) Follows(previous Manifest) error {
	wrong := func(format string, values ...any) error {
		return fmt.Errorf("segment %s: "+format, append([]any{m.Name}, values...)...)
	}

	switch {
	case m.Chain != m.link():
		return wrong("its manifest was changed: its chain is %s, and %s follows", m.Chain, m.link())
	case m.Previous != previous.Chain:
		return wrong("the segment before it is another one: its chain is %q, and %q is expected: segments were left out, added, or changed",
			previous.Chain, m.Previous)
	case m.From != previous.To || m.To <= m.From || m.LastAt > m.To || m.LastAt < previous.LastAt:
		return wrong("it has the time from %d to %d with its last transfer at %d, and the one before ends at %d",
			m.From, m.To, m.LastAt, previous.To)
	case previous.Name != "" && m.Ledger != previous.Ledger:
		return wrong("it is of the ledger %s, and the one before of %s", m.Ledger, previous.Ledger)
	}

	return nil
}

// Totals are what a verified archive says in all.
type Totals struct {
	Segments, Rows, Records, Accounts   int
	Settled, Rejected, Refused, Expired int // payments and returns
	SettledCentavos                     int64
	Reserves                            map[pix.ISPB]int64 // centavos, as the rows add up
	Bytes                               int64              // of all files
	Last                                Manifest
}

// DayEnd is what the rows add up to at the end of a day.
type DayEnd struct {
	Day      pix.Day
	Reserves map[pix.ISPB]int64 // centavos
}

// Verify reads an archive and returns what is in it, or the first thing that is wrong: a row or a segment was left out,
// added, changed or moved, or rows do not add up. progress is called with each segment; dayEnds with each day.
func Verify(folder fs.FS, progress func(Manifest), dayEnds func(DayEnd)) (Totals, error) {
	t := Totals{Reserves: map[pix.ISPB]int64{}}

	for s, err := range Segments(folder, 0) {
		if err != nil {
			return t, err
		}

		if t.Last.Name != "" && s.Day != t.Last.Day {
			t.ends(dayEnds)
		}

		if err := t.add(s); err != nil {
			return t, fmt.Errorf("segment %s: %w", s.Name, err)
		}
		t.Last = s.Manifest
		progress(s.Manifest)
	}
	t.ends(dayEnds)

	return t, t.weigh(folder)
}

// weigh adds the sizes of the files.
func (t *Totals) weigh(folder fs.FS) error {
	for _, kind := range append(folders[:], ManifestsFolder) {
		days, err := fs.ReadDir(folder, kind)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}

		for _, day := range days {
			files, wrong := fs.ReadDir(folder, kind+"/"+day.Name())
			err = cmp.Or(err, wrong)

			for _, file := range files {
				if info, gone := file.Info(); gone == nil {
					t.Bytes += info.Size()
				}
			}
		}

		if err != nil {
			return err
		}
	}

	return nil
}

func (t *Totals) ends(dayEnds func(DayEnd)) {
	if day, err := pix.ParseDay(t.Last.Day); err == nil {
		dayEnds(DayEnd{day, maps.Clone(t.Reserves)})
	}
}

// add adds a segment, and checks each row by itself.
func (t *Totals) add(s *Segment) error {
	at := int64(s.From)
	for i := range s.PaymentRows {
		p := &s.PaymentRows[i]
		if p.DecidedAt > int64(s.To) || p.HeldAt > p.DecidedAt {
			return fmt.Errorf("%s was held at %d and decided at %d, and the segment ends at %d", p.ID, p.HeldAt,
				p.DecidedAt, s.To)
		}

		if p.Status != Expired { // those have no verdict, and stand behind all others
			if p.DecidedAt <= at {
				return fmt.Errorf("%s was decided at %d, and what stands before it at %d: rows are in another order than the ledger's",
					p.ID, p.DecidedAt, at)
			}
			at = p.DecidedAt
		}

		switch p.Status {
		case Settled:
			t.Settled++

			t.SettledCentavos += p.AmountCentavos
			if p.PayerISPB != p.PayeeISPB {
				t.Reserves[pix.ISPB(p.PayerISPB)] -= p.AmountCentavos
				t.Reserves[pix.ISPB(p.PayeeISPB)] += p.AmountCentavos
			}
		case Rejected:
			t.Rejected++
		case Refused:
			t.Refused++
		case Expired:
			t.Expired++
		default:
			return fmt.Errorf("%s has the status %q", p.ID, p.Status)
		}
	}

	at = int64(s.From)
	for i := range s.RecordRows {
		r := &s.RecordRows[i]
		if r.At <= at || r.At > int64(s.To) {
			return fmt.Errorf("the record %s is of %d, the one before it of %d, and the segment ends at %d", r.ID,
				r.At, at, s.To)
		}
		at = r.At
		t.move(r.Debit, -r.AmountCentavos)
		t.move(r.Credit, r.AmountCentavos)
	}

	t.Segments, t.Rows, t.Records, t.Accounts = t.Segments+1, t.Rows+s.rows(), t.Records+s.Records,
		t.Accounts+s.Accounts
	for psp, centavos := range t.Reserves {
		if centavos < 0 {
			return fmt.Errorf("the rows add up to %d centavos in the reserve of %s, which the ledger never lets fall below 0: rows are missing",
				centavos, psp)
		}
	}

	return nil
}

// move adds to what an account has, if it is a reserve. Nothing that records hold touches one.
func (t *Totals) move(account string, centavos int64) {
	if psp, is := strings.CutPrefix(account, "reserve/"); is {
		t.Reserves[pix.ISPB(psp)] += centavos
	}
}

// Banks returns the banks of which the archive knows a reserve.
func (t *Totals) Banks() []pix.ISPB { return slices.Sorted(maps.Keys(t.Reserves)) }
