package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/parquet-go/parquet-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"

	"github.com/liquida/liquida/loadtest/audit/spec"
)

// Whatever an archive has too little, too much, or otherwise than the ledger is found.
func TestAnArchiveHasARowForEachVerdict(t *testing.T) {
	payer := spec.Number{High: 2<<59 | 7}.TigerBeetle()
	transfers, payments, records := []tb.Transfer{}, []archivedPayment{}, []archivedRecord{}
	at := uint64(0)
	write := func(transfer tb.Transfer, flags tb.TransferFlags) *tb.Transfer {
		at++
		transfer.Timestamp, transfer.Flags, transfer.ID = at, flags.ToUint16(), tb.ToUint128(1000+at)
		transfers = append(transfers, transfer)

		return &transfers[len(transfers)-1]
	}

	for i := range 4 { // held and ended, two legs each
		leg := tb.Transfer{Code: 1, Amount: tb.ToUint128(5), UserData64: 0x3130303030303031, DebitAccountID: payer}
		leg.UserData128 = spec.Number{High: uint64(3_000_000+i)<<24 | 0x303030, Low: 0x3030303030303030}.TigerBeetle()
		write(leg, tb.TransferFlags{Pending: true, Linked: true})
		leg.Code = 3
		write(leg, tb.TransferFlags{Pending: true})
		post := i%2 == 0
		leg.Code, leg.PendingID = 1, tb.ToUint128(1)
		first := write(leg, tb.TransferFlags{PostPendingTransfer: post, VoidPendingTransfer: !post, Linked: true})
		payments = append(payments,
			archivedPayment{textOf('E', *first), map[bool]string{true: "settled", false: "rejected"}[post],
				5, int64(at)})
		leg.Code = 3
		write(leg, tb.TransferFlags{PostPendingTransfer: post, VoidPendingTransfer: !post})
		write(tb.Transfer{Code: spec.CodeClockProbe}, tb.TransferFlags{})
		act := write(tb.Transfer{Code: 40}, tb.TransferFlags{})
		records = append(records, archivedRecord{act.ID.String(), int64(at), 40})
	}
	back := tb.Transfer{Code: spec.CodeReturnLeg1, Amount: tb.ToUint128(3),
		UserData128: spec.Number{High: 3_000_000<<24 | 0x303030, Low: 0x3030303030303030}.TigerBeetle(),
		UserData64:  0x3130303030303032, DebitAccountID: payer}
	write(back, tb.TransferFlags{Pending: true})
	write(tb.Transfer{Code: spec.CodeReturn}, tb.TransferFlags{Linked: true})
	payments = append(payments, archivedPayment{textOf('D', back), "settled", 3, int64(at)})
	back.PendingID = tb.ToUint128(1)
	write(back, tb.TransferFlags{PostPendingTransfer: true})
	files := func(payments []archivedPayment, records []archivedRecord, merged bool) fs.FS {
		file := func(rows any) *fstest.MapFile {
			var content bytes.Buffer
			var err error

			switch rows := rows.(type) {
			case []archivedPayment:
				err = parquet.Write(&content, rows)
			case []archivedRecord:
				err = parquet.Write(&content, rows)
			}
			kit.Must(t, err)

			return &fstest.MapFile{Data: content.Bytes()}
		}
		folder, lines := fstest.MapFS{}, []byte(nil)

		for i, half := range [][2]int{{0, 2}, {2, len(payments)}} {
			name, of := fmt.Sprintf("day=2026-11-24/%d", i), []archivedRecord(nil)
			if i == 1 {
				of = records
			}
			manifest := fmt.Appendf(nil, `{"to": %d, "payments": %d, "records": %d}`, at, half[1]-half[0], len(of))
			lines = append(slices.Clone(manifest), lines...)
			folder["manifests/"+name+".json"] = &fstest.MapFile{Data: manifest}
			folder["payments/"+name+".parquet"] = file(payments[half[0]:half[1]])
			folder["records/"+name+".parquet"] = file(of)
		}

		if merged { // what is left of the segments' files does not count
			folder["manifests/day=2026-11-24/day.json"] = &fstest.MapFile{Data: lines}
			folder["payments/day=2026-11-24/day.parquet"] = file(payments)
			folder["records/day=2026-11-24/day.parquet"] = file(records)
			delete(folder, "payments/day=2026-11-24/0.parquet")
		}

		return folder
	}
	judge := func(folder fs.FS) (found []string) {
		a, err := openArchive(folder)
		kit.Must(t, err)

		for _, transfer := range transfers {
			if wrong := a.see(transfer); wrong != "" {
				found = append(found, wrong)
			}
		}

		if wrong := a.rest(); wrong != "" {
			found = append(found, wrong)
		}

		return found
	}
	// The records of the first half stand in the second segment, so only the second half may have some.
	records, transfers = records[2:], slices.DeleteFunc(transfers, func(t tb.Transfer) bool {
		return t.Code == 40 && t.Timestamp <= uint64(payments[1].At)+4
	})
	for _, merged := range []bool{false, true} {
		if found := judge(files(payments, records, merged)); len(found) > 0 {
			t.Fatal(found)
		}
	}

	for want, change := range map[string]func(p *[]archivedPayment, r *[]archivedRecord){
		"it has no row of the transfer with code 1": func(p *[]archivedPayment, _ *[]archivedRecord) {
			*p = slices.Delete(*p, 2, 3)
		},
		"it has no row of the transfer with code 40": func(_ *[]archivedPayment, r *[]archivedRecord) { *r = (*r)[:1] },
		"the ledger has nothing there": func(p *[]archivedPayment, _ *[]archivedRecord) {
			extra := (*p)[2]
			extra.At++
			*p = slices.Insert(*p, 3, extra)
		},
		"it says {at:15 id:E10000001": func(p *[]archivedPayment, _ *[]archivedRecord) { (*p)[2].Centavos++ },
		"centavos:4":                  func(p *[]archivedPayment, _ *[]archivedRecord) { (*p)[4].Centavos++ },
		"status:rejected":             func(p *[]archivedPayment, _ *[]archivedRecord) { (*p)[2].Status = "rejected" },
	} {
		p, r := slices.Clone(payments), slices.Clone(records)
		change(&p, &r)

		for _, merged := range []bool{false, true} {
			if found := judge(files(p, r, merged)); len(found) != 1 || !strings.Contains(found[0], want) {
				t.Errorf("%s: %q", want, found)
			}
		}
	}
}

// How the ledger says that a day ends must be how the archive's day ends.
func TestTheEndOfADayIsThatOfItsArchive(t *testing.T) {
	hash := sha256.Sum256([]byte("the last segment"))
	to := time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC).UnixNano() // the end of the day after
	manifest := fmt.Sprintf(`{"to": %d, "day": "2026-11-24", "chain": %q}`, to,
		base64.StdEncoding.EncodeToString(hash[:]))
	a, err := openArchive(fstest.MapFS{"manifests/day=2026-11-24/0.json": {Data: []byte(manifest)}})
	kit.Must(t, err)

	day := pix.DayOf(time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC))
	if wrong := a.see(ledger.Archived(day, hash)); wrong != "" {
		t.Error(wrong)
	}

	for what, said := range map[string]tb.Transfer{"another chain": ledger.Archived(day, sha256.Sum256(nil)),
		"a day that is not there": ledger.Archived(day.Next(), hash)} {
		if a.see(said) == "" {
			t.Errorf("%s is not found", what)
		}
	}

	if wrong := a.see(ledger.Archived(day.Next().Next(), hash)); wrong != "" {
		t.Errorf("the day is after the end of this copy: %s", wrong)
	}
}
