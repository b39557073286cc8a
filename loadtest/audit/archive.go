package audit

import (
	"bytes"
	"cmp"
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
)

// An archive has one row for each verdict of the time that it covers, and one for each transfer that belongs to no
// payment.

// archive is the rows of an archive that were not found in the ledger yet, by the ledger's time.
type archive struct {
	rows    map[int64]archived
	to      int64             // where it ends
	chains  map[string]string // of the last segment of each day
	within  bool              // the transfer at hand goes on with a chain
	covered bool              // that chain is of a payment
}

// archived is what a row says, of either kind.
type archived struct {
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

// segment is what a manifest says of a segment.
type segment struct {
	Payments int    `json:"payments"`
	Records  int    `json:"records"`
	To       int64  `json:"to"`
	Day      string `json:"day"`
	Chain    string `json:"chain"`
}

// ReadArchive makes the audit compare an archive with the ledger. Call it before Transfer.
func (j *Judge) ReadArchive(folder fs.FS) error {
	j.archive = &archive{rows: map[int64]archived{}, chains: map[string]string{}}

	days, err := fs.Glob(folder, "manifests/day=*")
	if err == nil && len(days) == 0 {
		return errors.New("the archive has no segment")
	}

	for _, day := range days {
		names, wrong := fs.Glob(folder, day+"/*.json")
		if merged := day + "/day.json"; slices.Contains(names, merged) {
			names = []string{merged} // of all of the day, the last segment first
		}

		err = cmp.Or(err, wrong)
		for _, name := range names {
			err = cmp.Or(err, j.archive.read(folder, name))
		}
	}

	return err
}

// read reads the rows of a manifest's segments.
func (a *archive) read(folder fs.FS, manifest string) error {
	text, err := fs.ReadFile(folder, manifest)
	file := segment{}

	for lines := json.NewDecoder(bytes.NewReader(text)); lines.More() && err == nil; {
		var of segment

		err = lines.Decode(&of)
		of.Payments, of.Records = of.Payments+file.Payments, of.Records+file.Records
		if of.To < file.To {
			of.To, of.Day, of.Chain = file.To, file.Day, file.Chain
		}
		file = of
	}
	a.to, a.chains[file.Day] = max(a.to, file.To), file.Chain

	name := strings.TrimSuffix(strings.TrimPrefix(manifest, "manifests"), ".json") + ".parquet"
	payments, wrong := archivedRows[archivedPayment](folder, "payments"+name, file.Payments)
	records, bad := archivedRows[archivedRecord](folder, "records"+name, file.Records)

	for _, p := range payments {
		if p.Status != "expired" { // no transfer says so
			a.rows[p.At] = archived{p.ID, p.Status, p.Centavos}
		}
	}

	for _, r := range records {
		if !slices.Contains(notImported, r.Code) {
			a.rows[r.At] = archived{id: r.ID}
		}
	}

	return cmp.Or(err, wrong, bad)
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

// judgeRow compares what the archive must say of an instant of the ledger.
func (j *Judge) judgeRow(at uint64, subject string, want archived) {
	if int64(at) > j.archive.to {
		return
	}

	row, known := j.archive.rows[int64(at)]
	delete(j.archive.rows, int64(at))
	if !known || row != want {
		j.add(WrongArchive, subject, "its row at %d (%t) says %+v, of what the ledger has as %+v", at, known, row, want)
	}
}

// archiveRecord compares a transfer that belongs to no payment with its row. In a chain that begins with one of a
// payment, all belongs to that.
func (j *Judge) archiveRecord(t tb.Transfer) {
	a := j.archive
	if a == nil {
		return
	}

	flags := t.TransferFlags()
	if !a.within {
		a.covered = flags.Pending || flags.PostPendingTransfer || flags.VoidPendingTransfer ||
			t.Code == spec.CodeReturn && flags.Linked
	}
	a.within = flags.Linked

	if !a.covered && t.Code != spec.CodeReceipt && t.Code != spec.CodeReturn && t.Code != spec.CodeClockProbe &&
		!slices.Contains(notImported, int32(t.Code)) {
		j.judgeRow(t.Timestamp, spec.TransferName(t), archived{id: t.ID.String()})
	}
}

// judgeArchive compares the rows of payments with their verdicts, and finds those that nothing explains.
func (j *Judge) judgeArchive() {
	if j.archive == nil {
		return
	}

	for _, p := range j.all {
		if p.decidedAt == 0 {
			continue
		}
		want := archived{p.ID.String(), "settled", int64(p.Amount())}

		switch {
		case p.receipt && p.Back == nil:
			want.status, want.centavos = "refused", 0
		case p.verdict != 0:
			want.status = "rejected"
		}
		if p.Back != nil && p.posted|p.voided == 0 { // the ledger knows neither its id nor its amount
			row := j.archive.rows[int64(p.decidedAt)]
			want.id, want.centavos = row.id, row.centavos
		}
		j.judgeRow(p.decidedAt, p.ID.String(), want)
	}

	for at, row := range j.archive.rows {
		j.add(WrongArchive, row.id, "it has a row of it at %d, and the ledger has nothing there", at)
	}
}

// judgeDayEnd compares how the ledger says that a day ends with the chain of its last segment. An older copy of an archive
// may not cover the day.
func (j *Judge) judgeDayEnd(t tb.Transfer) {
	a := j.archive
	if a == nil || dayOver(t.UserData32).UnixNano() > a.to {
		return
	}
	day := spec.Epoch.AddDate(0, 0, int(t.UserData32)).Format(time.DateOnly)
	chain, err := base64.StdEncoding.DecodeString(a.chains[day])
	said := spec.NumberOf(t.UserData128)

	has := binary.BigEndian.AppendUint64(
		binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, said.High), said.Low), t.UserData64)
	if err != nil || !bytes.HasPrefix(chain, has) {
		j.add(WrongArchive, spec.TransferName(t), "its %s ends with the chain %s, and the ledger says that one ends with %x",
			day, a.chains[day], has)
	}
}

// dayOver is midnight in São Paulo, at the end of a day.
func dayOver(day uint32) time.Time {
	return spec.Epoch.Add(time.Duration(day+1)*24*time.Hour + 3*time.Hour)
}
