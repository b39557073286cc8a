package archive

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"

	"github.com/parquet-go/parquet-go"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/liquida/liquida/platform/pix"
)

// Manifest says what a segment holds. It is written last: a segment without it is none.
type Manifest struct {
	Format int    `json:"format"`
	Ledger string `json:"ledger"` // the identity of the ledger
	Name   string `json:"name"`   // the minute of the ledger's clock, in UTC, and the segment's place in it
	Day    string `json:"day"`    // in São Paulo
	// The segment has what ended after From and until To, by the ledger's clock in nanoseconds, and the accounts of this time.
	From     uint64 `json:"from"`
	To       uint64 `json:"to"`
	Payments int    `json:"payments"`
	Records  int    `json:"records"`
	Accounts int    `json:"accounts"`
	// Root is the Merkle tree hash (RFC 6962, SHA-256) of the rows: payments, records, accounts, each in the order of its file.
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
		m.Format, m.Ledger, m.Name, m.Day, m.From, m.To, m.Payments, m.Records, m.Accounts, m.Root, m.OpenSince, m.LastID, m.LastAt, m.Previous))).String()
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
	s.Format, s.Payments, s.Records, s.Accounts, s.Previous = format, len(s.PaymentRows), len(s.RecordRows), len(s.AccountRows), previous
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

// File returns the file of a segment in one of the folders.
func (m *Manifest) File(folder string) string {
	ending := ".parquet"
	if folder == ManifestsFolder {
		ending = ".json"
	}
	return folder + "/day=" + m.Day + "/" + m.Name + ending
}

// Files returns the files of a segment, its manifest last.
func (s *Segment) Files() (names []string, contents [][]byte, err error) {
	add := func(folder string, content []byte, wrong error) {
		names, contents = append(names, s.File(folder)), append(contents, content)
		if err == nil {
			err = wrong
		}
	}
	if len(s.PaymentRows) > 0 {
		content, wrong := parquetOf(s.PaymentRows, parquet.BloomFilters(parquet.SplitBlockFilter(bitsOfID, "id")))
		add(paymentsFolder, content, wrong)
	}
	if len(s.RecordRows) > 0 {
		content, wrong := parquetOf(s.RecordRows)
		add(recordsFolder, content, wrong)
	}
	if len(s.AccountRows) > 0 {
		content, wrong := parquetOf(s.AccountRows)
		add(accountsFolder, content, wrong)
	}
	manifest, wrong := json.MarshalIndent(&s.Manifest, "", "  ")
	add(ManifestsFolder, append(manifest, '\n'), wrong)
	return names, contents, err
}

// bitsOfID is how many bits the filter for ids has for each: one in a hundred files is read in vain.
const bitsOfID = 10

func parquetOf[R any](rows []R, options ...parquet.WriterOption) ([]byte, error) {
	var file bytes.Buffer
	writer := parquet.NewGenericWriter[R](&file, append(options, parquet.Compression(&parquet.Zstd))...)
	if _, err := writer.Write(rows); err != nil {
		return nil, err
	}
	err := writer.Close()
	return file.Bytes(), err
}

// open reads a parquet file of a segment. Files are read whole: a segment has a million rows at most.
func open(folder fs.FS, name string) (*parquet.File, error) {
	content, err := fs.ReadFile(folder, name)
	if err != nil {
		return nil, err
	}
	file, err := parquet.OpenFile(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", name, err)
	}
	return file, nil
}

func rowsOf[R any](folder fs.FS, name string, want int) ([]R, error) {
	if want == 0 {
		return nil, nil
	}
	file, err := open(folder, name)
	if err != nil {
		return nil, err
	}
	if file.NumRows() != int64(want) {
		return nil, fmt.Errorf("%s has %d rows, and the manifest says %d: rows were left out or added", name, file.NumRows(), want)
	}
	rows := make([]R, want)
	reader := parquet.NewGenericReader[R](file)
	defer reader.Close()
	for read := 0; read < want; {
		n, err := reader.Read(rows[read:])
		if read += n; read < want && (err != nil || n == 0) {
			return nil, fmt.Errorf("%s is damaged: %d of %d rows can be read: %w", name, read, want, err)
		}
	}
	return rows, nil
}

// read reads the rows of a segment.
func read(folder fs.FS, m Manifest) (*Segment, error) {
	s := &Segment{Manifest: m}
	var err error
	if s.PaymentRows, err = rowsOf[Payment](folder, m.File(paymentsFolder), m.Payments); err != nil {
		return nil, err
	}
	if s.RecordRows, err = rowsOf[Record](folder, m.File(recordsFolder), m.Records); err != nil {
		return nil, err
	}
	s.AccountRows, err = rowsOf[Account](folder, m.File(accountsFolder), m.Accounts)
	return s, err
}

// Manifests returns all manifests of an archive in their order. They are not verified.
func Manifests(folder fs.FS) ([]Manifest, error) { return manifests(folder, false) }

// DayEnds returns the manifest of the last segment of each day.
func DayEnds(folder fs.FS) ([]Manifest, error) { return manifests(folder, true) }

func manifests(folder fs.FS, lastOfDay bool) ([]Manifest, error) {
	names, err := fs.Glob(folder, ManifestsFolder+"/day=*/*.json")
	if err != nil {
		return nil, err
	}
	var all []Manifest
	for i, name := range names { // sorted, as days and minutes are
		if lastOfDay && i+1 < len(names) && path.Dir(names[i+1]) == path.Dir(name) {
			continue
		}
		m, err := readManifest(folder, name)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

func readManifest(folder fs.FS, name string) (m Manifest, err error) {
	text, err := fs.ReadFile(folder, name)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%s is damaged: %w", name, err)
	}
	if m.Format != format {
		return m, fmt.Errorf("%s has format %d, and this program knows %d: a newer version may read it", name, m.Format, format)
	}
	if m.File(ManifestsFolder) != name {
		return m, fmt.Errorf("%s is the manifest of %s: files were moved", name, m.Name)
	}
	return m, nil
}
