package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/liquida/liquida/platform/pix"
)

// Proof says that a row stands in an archive. It is enough to know the chain of the segment: from the archive, from an
// archive of later, or from whoever kept it.
type Proof struct {
	Segment Manifest    `json:"segment"`
	Index   int64       `json:"index"` // of the row among those of the segment
	Row     string      `json:"row"`   // its canonical text
	Path    []tlog.Hash `json:"path"`  // from the row to the root
}

// clocksDiffer is how long before the time in its id an order may have been decided: its sender's clock may be wrong.
const clocksDiffer = time.Hour

// Prove returns a proof of each row of a payment or return: of one that was refused after its hold had expired there
// are two.
func Prove(folder fs.FS, id pix.EndToEndID) ([]Proof, error) {
	a, err := Open(folder)
	if err != nil {
		return nil, err
	}
	defer a.close()
	var proofs []Proof
	from := uint64(id.Time().Add(-clocksDiffer).UnixNano())

	for i := range a.places {
		p := &a.places[i]
		if p.To < from || p.Payments == 0 {
			continue
		}

		has, err := a.has(p, id.String())
		if err != nil {
			return nil, err
		}

		if !has {
			continue
		}

		s, err := a.verified(i)
		if err != nil {
			return nil, err
		}

		for i := range s.PaymentRows {
			if s.PaymentRows[i].ID != id.String() {
				continue
			}
			tree := treeOf(s)

			path, err := tlog.ProveRecord(tree.rows, int64(i), tree)
			if err != nil {
				return nil, err
			}
			proofs = append(proofs, Proof{Segment: s.Manifest, Index: int64(i),
				Row: string(canonical(&s.PaymentRows[i])), Path: path})
		}
	}

	return proofs, nil
}

// has reports whether a segment has a row of a payment. The filter of a row group is wrong once in a hundred times if
// it says yes, and never if it says no.
func (a *Archive) has(p *place, id string) (bool, error) {
	file, from, err := a.find(p, payments)
	if err == nil {
		err = file.to(from)
	}

	if err != nil {
		return false, err
	}

	column, known := file.group.Schema().Lookup("id")
	if !known {
		return false, fmt.Errorf("%s has no column id", file.name)
	}

	if filter := file.group.ColumnChunks()[column.ColumnIndex].BloomFilter(); filter != nil {
		if may, err := filter.Check(parquet.ValueOf(id)); err != nil || !may {
			return false, err
		}
	}
	rows, err := rowsOf[Payment](a, p, payments)

	return slices.ContainsFunc(rows, func(row Payment) bool { return row.ID == id }), err
}

// ReadProofs returns what reads one proof after the other that Prove has made, and io.EOF after the last one.
func ReadProofs(from io.Reader) func() (Proof, error) {
	decoder := json.NewDecoder(io.LimitReader(from, 64<<20))
	decoder.DisallowUnknownFields()

	return func() (p Proof, err error) {
		if err = decoder.Decode(&p); err != nil && !errors.Is(err, io.EOF) {
			err = fmt.Errorf("this is no proof: %w", err)
		}

		return p, err
	}
}

// Check returns the row that a proof proves, or what is wrong with it. Whoever trusts the chain of the segment can then
// trust the row.
func (p *Proof) Check() (Payment, error) {
	var row Payment

	root, err := tlog.ParseHash(p.Segment.Root)
	if err != nil {
		return row, fmt.Errorf("the root of the segment %s: %w", p.Segment.Name, err)
	}

	if p.Segment.Chain != p.Segment.link() {
		return row, fmt.Errorf("the manifest of the segment %s was changed: its chain is %s, and %s follows",
			p.Segment.Name, p.Segment.Chain, p.Segment.link())
	}

	if p.Index < 0 || p.Index >= int64(p.Segment.Payments) {
		return row, fmt.Errorf("row %d: the segment has %d payments", p.Index, p.Segment.Payments)
	}

	if err := tlog.CheckRecord(p.Path, int64(p.Segment.rows()), root, p.Index,
		tlog.RecordHash([]byte(p.Row))); err != nil {
		return row, errors.New("the path does not lead from this row to the root of the segment: the row or the path was changed")
	}

	return parsePayment(p.Row)
}

// parsePayment is the inverse of canonical.
func parsePayment(text string) (p Payment, err error) {
	fields := strings.Split(text, "\t")
	v := reflect.ValueOf(&p).Elem()

	names := columnsOf(v.Type())
	if len(fields) != len(names)+1 || fields[0] != v.Type().Name() {
		return p, errors.New("the row is none of a payment")
	}

	for i, want := range names {
		name, value, _ := strings.Cut(fields[i+1], "=")

		f := v.Field(i)
		if f.Kind() == reflect.String {
			f.SetString(value)
			value = ""
		} else if n, wrong := strconv.ParseInt(value, 10, 64); wrong == nil && !f.OverflowInt(n) {
			f.SetInt(n)
			value = ""
		}

		if name != want || value != "" {
			return p, fmt.Errorf("the row has %q: it must be %s and its value", fields[i+1], want)
		}
	}

	return p, nil
}
