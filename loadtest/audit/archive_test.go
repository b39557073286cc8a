package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/parquet-go/parquet-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/loadtest/audit/spec"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// rows returns what an archive must say of the clean history with returns.
func (h *history) rows() (payments []archivedPayment, records []archivedRecord) {
	row := func(id string, verdict spec.Number, status string, centavos int64) {
		payments = append(payments, archivedPayment{id, status, centavos, int64(h.find(verdict).Timestamp)})
	}

	for order, row0 := range map[int]archivedPayment{settledOrder: {Status: "settled", Centavos: 1000},
		sameBankOrder: {Status: "settled", Centavos: 250}, voidedOrder: {Status: "rejected", Centavos: 99},
		receiptOrder: {Status: "refused"}, unknownOrder: {Status: "refused"}, expiredOrder: {Status: "refused"}} {
		_, key := h.legsOf(h.message(order))
		row(h.message(order).EndToEndId, key.Role(spec.ResolutionRole), row0.Status, row0.Centavos)
	}

	for _, g := range []*giver{h.settled, h.sameBank, h.voided, h.refused} {
		status := "settled"
		if g == h.voided || g == h.refused {
			status = "rejected"
		}
		row(g.id.String(), spec.NumberOf(ledger.ReturnVerdict(g.id)), status, int64(g.content.AmountCentavos))
	}
	slices.SortFunc(payments, func(a, b archivedPayment) int { return int(a.At - b.At) })

	for _, t := range h.transfers {
		if t.Code == spec.CodeFunding || t.Code == spec.CodeReturned {
			records = append(records, archivedRecord{t.ID.String(), int64(t.Timestamp), int32(t.Code)})
		}
	}

	return payments, records
}

// archiveOf returns an archive with two segments, or with those of a day merged.
func archiveOf(t *testing.T, payments []archivedPayment, records []archivedRecord, merged bool) fs.FS {
	folder, lines := fstest.MapFS{}, []byte(nil)
	file := func(name string, manifest []byte, payments []archivedPayment, records []archivedRecord) {
		var written [2]bytes.Buffer
		kit.Must(t, parquet.Write(&written[0], payments))
		kit.Must(t, parquet.Write(&written[1], records))
		folder["manifests/day=2026-11-24/"+name+".json"] = &fstest.MapFile{Data: manifest}
		folder["payments/day=2026-11-24/"+name+".parquet"] = &fstest.MapFile{Data: written[0].Bytes()}
		folder["records/day=2026-11-24/"+name+".parquet"] = &fstest.MapFile{Data: written[1].Bytes()}
	}

	for i, part := range [][]archivedPayment{payments[:2], payments[2:]} {
		of := records[:i*len(records)]
		manifest := fmt.Appendf(nil, `{"to": %d, "payments": %d, "records": %d}`, int64(1)<<62+int64(i), len(part), len(of))
		lines = append(slices.Clone(manifest), lines...)
		file(fmt.Sprint(i), manifest, part, of)
	}

	if merged { // what is left of the segments' files does not count
		file("day", lines, payments, records)
		delete(folder, "payments/day=2026-11-24/0.parquet")
	}

	return folder
}

// Whatever an archive has too little, too much, or otherwise than the ledger is found.
func TestAnArchiveHasARowForEachVerdict(t *testing.T) {
	for what, change := range map[string]func(p *[]archivedPayment, r *[]archivedRecord){
		"":                     func(*[]archivedPayment, *[]archivedRecord) {},
		"no row of a payment":  func(p *[]archivedPayment, _ *[]archivedRecord) { *p = slices.Delete(*p, 3, 4) },
		"no row of a transfer": func(_ *[]archivedPayment, r *[]archivedRecord) { *r = (*r)[1:] },
		"another id":           func(_ *[]archivedPayment, r *[]archivedRecord) { (*r)[0].ID += "0" },
		"another amount":       func(p *[]archivedPayment, _ *[]archivedRecord) { (*p)[0].Centavos++ },
		"another amount of a return": func(p *[]archivedPayment, _ *[]archivedRecord) {
			(*p)[slices.IndexFunc(*p, func(p archivedPayment) bool { return p.ID[0] == 'D' })].Centavos++
		},
		"another status": func(p *[]archivedPayment, _ *[]archivedRecord) { (*p)[2].Status = "expired" },
		"a row of nothing": func(p *[]archivedPayment, _ *[]archivedRecord) {
			*p = append(*p, archivedPayment{ID: "E1", Status: "settled", At: 7})
		},
	} {
		for _, merged := range []bool{false, true} {
			h := withReturns(t)
			p, r := h.rows()
			change(&p, &r)
			h.archive = archiveOf(t, p, r, merged)
			h.finds(what, WrongArchive, min(len(what), 1))
		}
	}
}

// How the ledger says that a day ends must be how the archive's day ends.
func TestTheEndOfADayIsThatOfItsArchive(t *testing.T) {
	hash := sha256.Sum256([]byte("the last segment"))
	to := time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC) // the end of the day after
	manifest := fmt.Sprintf(`{"to": %d, "day": "2026-11-24", "chain": %q}`, to.UnixNano(),
		base64.StdEncoding.EncodeToString(hash[:]))
	day := pix.DayOf(time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC))

	for _, c := range []struct {
		what  string
		said  tb.Transfer
		found int
	}{
		{"the day's end", ledger.Archived(day, hash), 0},
		{"another chain", ledger.Archived(day, sha256.Sum256(nil)), 1},
		{"a day that is not there", ledger.Archived(day.Next(), hash), 1},
		{"a day after the end of this copy", ledger.Archived(day.Next().Next(), hash), 0},
	} {
		h := &history{t: t, archive: fstest.MapFS{"manifests/day=2026-11-24/0.json": {Data: []byte(manifest)}}}
		c.said.Timestamp = uint64(to.AddDate(0, 0, 9).UnixNano())
		h.transfers = append(h.transfers, c.said)
		h.finds(c.what, WrongArchive, c.found)
	}
}
