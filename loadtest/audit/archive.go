package audit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/loadtest/audit/spec"

	"github.com/liquida/liquida/loadtest/audit/source"
)

// An archive has one row for each verdict of the time that it covers, and one for each transfer that belongs to no
// payment. Its rows stand in the ledger's order, so both are read side by side.

// archived is what a row says, of either kind.
type archived struct {
	at       int64
	id       string // EndToEndId or RtrId; of a record the transfer's
	status   string // empty: it is a record
	centavos int64
}

// archivedPayment and archivedRecord are the columns that are judged.
type archivedPayment struct {
	ID       string `parquet:"id"`
	Status   string `parquet:"status"`
	Centavos int64  `parquet:"amount_centavos"`
	At       int64  `parquet:"decided_at"`
}

type archivedRecord struct {
	ID   string `parquet:"id"`
	At   int64  `parquet:"at"`
	Code int32  `parquet:"code"`
}

// archive reads an archive file by file.
type archive struct {
	folder  fs.FS
	files   []archivedFile // that are not read yet
	rows    []archived     // of the last one that was
	to      int64          // where it ends
	chains  map[string]string
	within  bool      // the transfer at hand goes on with a chain
	covered bool      // that chain has its row
	back    *archived // the row of a return whose legs come next
	err     error
}

// archivedFile is what a manifest says of a segment, or those of a whole day together.
type archivedFile struct {
	name     string // without folder and ending
	Payments int    `json:"payments"`
	Records  int    `json:"records"`
	To       int64  `json:"to"`
	Day      string `json:"day"`
	Chain    string `json:"chain"` // of the last segment
}

func openArchive(folder fs.FS) (*archive, error) {
	a := &archive{folder: folder, chains: map[string]string{}}

	days, err := fs.Glob(folder, "manifests/day=*")
	for _, day := range days {
		names, wrong := fs.Glob(folder, day+"/*.json")
		if merged := day + "/day.json"; slices.Contains(names, merged) {
			names = []string{merged} // of all of the day, the last one first
		}

		err = cmp.Or(err, wrong)
		for _, name := range names {
			text, wrong := fs.ReadFile(folder, name)
			err = cmp.Or(err, wrong)
			file := archivedFile{name: strings.TrimSuffix(strings.TrimPrefix(name, "manifests/"), ".json")}

			for lines := json.NewDecoder(bytes.NewReader(text)); lines.More() && err == nil; {
				var segment archivedFile

				err = lines.Decode(&segment)
				if segment.To > file.To {
					file.To, file.Day, file.Chain = segment.To, segment.Day, segment.Chain
				}
				file.Payments, file.Records = file.Payments+segment.Payments, file.Records+segment.Records
			}
			a.files, a.to, a.chains[file.Day] = append(a.files, file), file.To, file.Chain
		}
	}

	if err != nil || len(a.files) == 0 {
		return nil, cmp.Or(err, errors.New("the archive has no segment"))
	}

	return a, nil
}

// next returns the next row, or nil at the end.
func (a *archive) next() *archived {
	for len(a.rows) == 0 && len(a.files) > 0 && a.err == nil {
		file := a.files[0]
		a.files = a.files[1:]
		payments, err := archivedRows[archivedPayment](a.folder, "payments/"+file.name+".parquet", file.Payments)
		records, wrong := archivedRows[archivedRecord](a.folder, "records/"+file.name+".parquet", file.Records)
		a.err = cmp.Or(err, wrong)

		for _, p := range payments {
			if p.Status != "expired" { // no transfer says so
				a.rows = append(a.rows, archived{p.At, p.ID, p.Status, p.Centavos})
			}
		}

		for _, r := range records {
			if !slices.Contains(notImported, r.Code) {
				a.rows = append(a.rows, archived{at: r.At, id: r.ID})
			}
		}
		slices.SortStableFunc(a.rows, func(a, b archived) int { return cmp.Compare(a.at, b.at) })
	}

	if len(a.rows) == 0 || a.err != nil {
		return nil
	}

	return &a.rows[0]
}

// notImported are the codes of records that a rebuilt ledger has not: they are not compared.
var notImported = []int32{spec.CodeMarker, spec.CodeRenewal, spec.CodeRebuilt, spec.CodeConfirmed, spec.CodeArchived, spec.CodeCapLeg}

// archivedRows returns the rows of a file.
func archivedRows[R any](folder fs.FS, name string, count int) (rows []R, err error) {
	if count == 0 {
		return nil, nil
	}

	content, err := fs.ReadFile(folder, name)
	if err == nil {
		rows, err = parquet.Read[R](bytes.NewReader(content), int64(len(content)))
	}

	if err != nil || len(rows) != count {
		return nil, fmt.Errorf("%s has %d rows, its manifest says %d: %w", name, len(rows), count,
			cmp.Or(err, io.ErrUnexpectedEOF))
	}

	return rows, nil
}

// see compares the next transfer of the ledger with the next row, and returns what is wrong, if anything.
func (a *archive) see(t tb.Transfer) (wrong string) {
	flags := t.TransferFlags()
	first := !a.within

	a.within = flags.Linked
	if t.Code == spec.CodeArchived {
		return a.ended(t)
	}

	if int64(t.Timestamp) > a.to || t.Code == spec.CodeClockProbe || slices.Contains(notImported, int32(t.Code)) {
		return ""
	}

	ends := flags.PostPendingTransfer || flags.VoidPendingTransfer
	if first {
		// of a payment or a return: one row, or none yet
		a.covered = flags.Pending || ends || t.Code == spec.CodeReturn && flags.Linked
	}

	if back := a.back; back != nil && ends && !first { // its first leg says what the verdict does not
		a.back = nil
		if want := (archived{back.at, textOf('D', t), back.status,
			int64(spec.NumberOf(t.Amount).Low)}); *back != want {
			return fmt.Sprintf("it says %+v of what the ledger has as %+v", *back, want)
		}
	}

	if flags.Pending || a.covered && !first {
		return ""
	}

	extra := ""
	for row := a.next(); row != nil && row.at < int64(t.Timestamp); row = a.next() {
		extra = cmp.Or(extra, fmt.Sprintf("it has a row of %s at %d, and the ledger has nothing there", row.id, row.at))
		a.rows = a.rows[1:]
	}

	row := a.next()
	if row == nil || row.at > int64(t.Timestamp) {
		return cmp.Or(extra, fmt.Sprintf("it has no row of the transfer with code %d at %d", t.Code, t.Timestamp))
	}
	said := *row
	a.rows = a.rows[1:]

	want := archived{at: said.at, id: t.ID.String(), status: said.status, centavos: said.centavos}
	switch { // what a row of a payment must say
	case said.status == "":
	case t.Code == spec.CodeReturn:
		a.back = &said
		want.id, want.status = said.id, map[bool]string{true: "settled", false: "rejected"}[t.UserData32 == 0]
	case t.Code == spec.CodeReceipt:
		t.UserData64 = binary.BigEndian.Uint64([]byte(spec.ISPBOf(spec.NumberOf(t.DebitAccountID))))
		want.status, want.centavos, want.id = "refused", 0, textOf('E', t)
	default:
		want.id, want.status, want.centavos = textOf('E', t),
			map[bool]string{true: "settled", false: "rejected"}[flags.PostPendingTransfer],
			int64(spec.NumberOf(t.Amount).Low)
	}

	if said != want {
		return cmp.Or(extra, fmt.Sprintf("it says %+v of what the ledger has as %+v", said, want))
	}

	return extra
}

// ended compares how the ledger says that a day ends with the chain of its last segment. An older copy of an archive
// may not cover the day.
func (a *archive) ended(t tb.Transfer) string {
	if dayOver(t.UserData32).UnixNano() > a.to {
		return ""
	}
	day := spec.Epoch.AddDate(0, 0, int(t.UserData32)).Format(time.DateOnly)
	chain, err := base64.StdEncoding.DecodeString(a.chains[day])
	said := spec.NumberOf(t.UserData128)

	has := binary.BigEndian.AppendUint64(
		binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, said.High), said.Low), t.UserData64)
	if err != nil || !bytes.HasPrefix(chain, has) {
		return fmt.Sprintf("its %s ends with the chain %s, and the ledger says that one ends with %x", day,
			a.chains[day], has)
	}

	return ""
}

// rest returns what rows there are after the last transfer.
func (a *archive) rest() string {
	if row := a.next(); row != nil {
		return fmt.Sprintf("it has a row of %s at %d, and the ledger has nothing there", row.id, row.at)
	}

	return ""
}

func textOf(letter byte, t tb.Transfer) string {
	id, _, err := spec.IdIn(letter, t)
	if err != nil {
		return err.Error()
	}

	return id.String()
}

// dayOver is midnight in São Paulo, at the end of a day.
func dayOver(day uint32) time.Time {
	return spec.Epoch.Add(time.Duration(day+1)*24*time.Hour + 3*time.Hour)
}

// judgeArchive compares an archive with the ledger.
func (j *Judge) judgeArchive(ctx context.Context) error {
	a, err := openArchive(j.config.Archive)
	if err != nil {
		return err
	}

	err = source.ReadPages(ctx, "transfers", &tb.QueryFilter{}, j.config.Ledger.QueryTransfers, func(t tb.Transfer) uint64 {
		if wrong := a.see(t); wrong != "" {
			j.add(WrongArchive, spec.TransferName(t), "%s", wrong)
		}

		return t.Timestamp
	})
	if wrong := a.rest(); err == nil && wrong != "" {
		j.add(WrongArchive, "archive", "%s", wrong)
	}

	return cmp.Or(err, a.err)
}
