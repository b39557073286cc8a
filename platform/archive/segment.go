package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/liquida/liquida/platform/pix"
)

// Manifest says what a segment holds. It is written last: a segment without it is none.
type Manifest struct {
	Format int    `json:"format"`
	Ledger string `json:"ledger"` // the identity of the ledger
	Name   string `json:"name"`   // the minute of the ledger's clock, in UTC, and the segment's place in it
	Day    string `json:"day"`    // in São Paulo
	// The segment has what ended after From and until To, by the ledger's clock in nanoseconds, and the accounts of
	// this time.
	From     uint64 `json:"from"`
	To       uint64 `json:"to"`
	Payments int    `json:"payments"`
	Records  int    `json:"records"`
	Accounts int    `json:"accounts"`
	// Root is the Merkle tree hash (RFC 6962, SHA-256) of the rows: payments, records, accounts, each in the order of
	// its file.
	Root string `json:"root"`
	// OpenSince is the time of the oldest hold that is open at To; 0: none is. Who goes on reads from there.
	OpenSince uint64 `json:"open_since"`
	// The last transfer up to To that a rebuild brings: a ledger that does not have it is not the archive's.
	LastID string `json:"last_id"`
	LastAt uint64 `json:"last_at"`
	// Chain is a hash of all above and of Previous, the one of the segment before.
	Previous string `json:"previous"`
	Chain    string `json:"chain"`
}

const format = 1

// link returns what Chain must be.
func (m *Manifest) link() string {
	return tlog.RecordHash([]byte(fmt.Sprintf("segment\t%d\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%d\t%s\t%d\t%s",
		m.Format, m.Ledger, m.Name, m.Day, m.From, m.To, m.Payments, m.Records, m.Accounts, m.Root, m.OpenSince,
		m.LastID, m.LastAt, m.Previous))).String()
}

// rows is how many rows the segment has.
func (m *Manifest) rows() int { return m.Payments + m.Records + m.Accounts }

const minuteLayout = "20060102T1504Z"

// NameOf returns the name of a segment that begins in the minute of an instant.
func NameOf(at uint64, part int) string {
	return fmt.Sprintf("%s-%03d", Time(int64(at)).Format(minuteLayout), part)
}

// Segment is the rows of a time.
type Segment struct {
	Manifest
	PaymentRows []Payment
	RecordRows  []Record
	AccountRows []Account
}

// Seal computes the root, and links the segment to the one before.
func (s *Segment) Seal(previous string) error {
	s.Format, s.Payments, s.Records, s.Accounts, s.Previous = format, len(s.PaymentRows), len(s.RecordRows),
		len(s.AccountRows), previous
	s.Day = pix.DayOf(Time(int64(s.To - 1))).String()

	root, err := treeOf(s).root()
	if err != nil {
		return err
	}
	s.Root = root.String()
	s.Chain = s.link()

	return nil
}

// The folders, and the files in them: day=2026-11-24/20261124T1200Z-000.parquet.
const (
	paymentsFolder  = "payments"
	recordsFolder   = "records"
	accountsFolder  = "accounts"
	ManifestsFolder = "manifests"
)

// The kinds of rows: each has a folder.
const (
	payments = iota
	records
	accounts
)

var folders = [...]string{payments: paymentsFolder, records: recordsFolder, accounts: accountsFolder}

// counts returns how many rows of each kind the segment has.
func (m *Manifest) counts() [len(folders)]int {
	return [...]int{payments: m.Payments, records: m.Records, accounts: m.Accounts}
}

// File returns the file of a segment in one of the folders.
func (m *Manifest) File(folder string) string { return fileOf(folder, m.Day, m.Name) }

func fileOf(folder, day, name string) string {
	ending := ".parquet"
	if folder == ManifestsFolder {
		ending = ".json"
	}

	return folder + "/day=" + day + "/" + name + ending
}

// Store is where an archive is written.
type Store interface {
	// Its files are io.ReaderAt.
	fs.ReadFileFS
	fs.ReadDirFS
	fs.StatFS
	fmt.Stringer
	// Put writes a file that is there whole or not at all, also after a power cut. It overwrites none: it reports
	// whether this one is there now, and not another.
	Put(ctx context.Context, name string, write func(io.Writer) error) (created bool, err error)
	// Remove removes a file, if it is there.
	Remove(ctx context.Context, name string) error
}

// ErrInTheWay means that a file without a manifest has other rows than the ledger.
var ErrInTheWay = errors.New(
	"another archiver wrote it with other settings, or of another ledger; nothing says that it is valid: if no other one writes here, remove it")

// Store writes the files of a segment, its manifest last. What is there already is not changed: another archiver may
// have written it. It returns the manifest that is there.
func (s *Segment) Store(ctx context.Context, store Store) (Manifest, error) {
	if there, err := lookUp(store, &s.Manifest); err != nil || there.Name != "" {
		return there, err
	}
	found := false // a file without a manifest

	for kind, count := range s.counts() {
		if count == 0 {
			continue
		}

		created, err := store.Put(ctx, s.File(folders[kind]), func(file io.Writer) error { return s.write(file, kind) })
		if err != nil {
			return Manifest{}, err
		}
		found = found || !created
	}

	if found {
		own := Archive{folder: store, places: []place{{Manifest: s.Manifest}}}
		defer own.close()

		if _, wrong := own.verified(0); wrong != nil {
			if there, err := lookUp(store, &s.Manifest); err != nil || there.Name != "" { // the other one has finished
				return there, err
			}

			return Manifest{}, fmt.Errorf("%w: %w", wrong, ErrInTheWay)
		}
	}

	created, err := store.Put(ctx, s.File(ManifestsFolder), func(file io.Writer) error {
		text := json.NewEncoder(file)
		text.SetIndent("", "  ")
		return text.Encode(&s.Manifest)
	})
	if err != nil || created {
		return s.Manifest, err
	}

	return lookUp(store, &s.Manifest)
}

func (s *Segment) write(file io.Writer, kind int) error {
	switch kind {
	case payments:
		return writeRows(file, kind, slices.Values([][]Payment{s.PaymentRows}))
	case records:
		return writeRows(file, kind, slices.Values([][]Record{s.RecordRows}))
	default:
		return writeRows(file, kind, slices.Values([][]Account{s.AccountRows}))
	}
}
