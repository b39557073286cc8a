package bootstrap

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/liquida/liquida/deploy/ledgermodel"
	"github.com/liquida/liquida/platform/archive"
	"github.com/liquida/liquida/platform/archive/past"
	"github.com/liquida/liquida/platform/archive/store"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/rebuild"
)

// archived archives a ledger into a folder, and begins anew after each so many steps, as after kill -9. Finished days are
// merged.
func archived(t *testing.T, client tigerbeetle.Client, folder string, eventsMax, stepsOfALife int) archive.Manifest {
	t.Helper()
	for {
		a, err := past.New(t.Context(), client, eventsMax, store.Folder(folder), 7)
		kit.Must(t, err)
		for range stepsOfALife {
			p, all, err := a.Step(t.Context())
			for _, end := range p.Ended {
				err = errors.Join(err, archive.Merge(t.Context(), store.Folder(folder), end))
			}
			kit.Must(t, err)
			if all {
				return p.Last
			}
		}
	}
}

// An archive of a real ledger has all that ended, whoever wrote it and however often it was killed, and brings it back.
func TestAnArchiveBringsALedgerBack(t *testing.T) {
	t.Parallel()
	from, into := openLedger(t), openLedger(t)
	h := live(t, from)
	random := rand.New(rand.NewPCG(3, 4))
	for range 7 { // so that a segment ends behind the hold that expired, also if a minute has ended
		id := pix.NewEndToEndID(h.content.Payer.ISPB, time.Now(), random)
		write(t, from, ledger.AppendReceipt(nil, id, h.content, pix.ReasonPayeePSPSilent, true))
	}
	folder, other := t.TempDir(), t.TempDir()
	end := archived(t, from, folder, 100, 1<<30)
	second := make(chan archive.Manifest, 1)
	go func() { // killed after every few steps, beside another in the same folder
		defer close(second) // also if it fails
		second <- archived(t, from, other, 150, 4)
	}()
	if again := archived(t, from, other, 200, 3); again != end || <-second != end {
		t.Fatalf("a second archive ends with %+v, the first with %+v", again, end)
	}
	totals, err := archive.Verify(os.DirFS(folder), func(archive.Manifest) {}, func(archive.DayEnd) {})
	kit.Must(t, err)
	if totals.Expired != 1 || totals.Settled < 80 || totals.Rejected < 55 || totals.Refused < 29 {
		t.Errorf("the archive has %+v", totals)
	}

	aDamagedArchiveIsFound(t, other)

	source := past.Source{Folder: os.DirFS(folder)}
	killedOften(t, into, func(client tigerbeetle.Client) error {
		target := rebuild.Target{Client: client, EventsMax: 100, Progress: func(int, int, time.Time) {}}
		return target.Import(t.Context(), source)
	})
	want := map[tb.Uint128]tb.Transfer{}
	for chain, err := range (rebuild.Ledger{Client: from, EventsMax: eventsMax}).Chains(t.Context(), 0) {
		kit.Must(t, err)
		for _, transfer := range chain {
			want[transfer.ID] = transfer
		}
	}
	got := all(t, into)
	for _, transfer := range got.transfers {
		before, known := want[transfer.ID]
		if transfer.Flags, before.Flags = transfer.Flags&^1, before.Flags&^1; !known || transfer != before { // linked
			t.Fatalf("brought as %+v, want %+v", transfer, before)
		}
		delete(want, transfer.ID)
	}
	for _, transfer := range want { // what is in no segment, and leg 4 of what had expired, which frees nothing any more
		if transfer.Timestamp <= end.To && transfer.Code != ledger.CodeLeg4 && !openAt(want, transfer, end.To) {
			t.Errorf("was not brought: %+v", transfer)
		}
	}
	for _, account := range all(t, from).accounts {
		found := false
		for _, is := range got.accounts {
			found = found || is.ID == account.ID && is.Timestamp == account.Timestamp && is.UserData128 == account.UserData128
		}
		if !found && account.Timestamp <= end.To {
			t.Fatalf("%s was not brought", ledger.AccountName(account.ID))
		}
	}
	legs, wantLegs := 0, 0
	for _, err := range source.Allowances(t.Context(), time.Now()) {
		kit.Must(t, err)
		legs++
	}
	for leg, err := range (rebuild.Ledger{Client: from, EventsMax: eventsMax}).Allowances(t.Context(), time.Now()) {
		kit.Must(t, err)
		if leg.Timestamp < end.To {
			wantLegs++
		}
	}
	if legs == 0 || legs > wantLegs || legs < wantLegs-1 {
		t.Errorf("%d legs 4 hold again, want %d", legs, wantLegs)
	}

	proofs, err := archive.Prove(os.DirFS(folder), h.capped)
	if err != nil || len(proofs) != 1 {
		t.Fatal(proofs, err)
	}
	if row, err := proofs[0].Check(); err != nil || row.ID != h.capped.String() || row.CapWindow == "" {
		t.Errorf("proved %+v, %v", row, err)
	}
	proofs[0].Row = strings.Replace(proofs[0].Row, "amount_centavos=100", "amount_centavos=101", 1)
	if _, err := proofs[0].Check(); err == nil {
		t.Error("a changed row is proved")
	}

	if _, err := past.New(t.Context(), into, 100, store.Folder(folder), 7); !errors.Is(err, past.ErrNoLedger) {
		t.Errorf("an archiver at a ledger without a marker: %v", err)
	}
	foreign := openLedger(t)
	live(t, foreign)
	if _, err := past.New(t.Context(), foreign, 100, store.Folder(folder), 7); err == nil || !strings.Contains(err.Error(), "another ledger, or an older copy") {
		t.Errorf("an archiver at another ledger: %v", err)
	}
}

// aDamagedArchiveIsFound changes an archive of segments. Damage to merged days is in platform/archive.
func aDamagedArchiveIsFound(t *testing.T, folder string) {
	t.Helper()
	whole := map[string][]byte{}
	var payments, manifests []string
	for kind, names := range map[string]*[]string{"payments": &payments, "manifests": &manifests} {
		found, err := filepath.Glob(filepath.Join(folder, kind, "day=*", "*"))
		if err != nil || len(found) < 5 {
			t.Fatal(found, err)
		}
		*names = found
		for _, name := range found[:5] {
			whole[name], err = os.ReadFile(name)
			kit.Must(t, err)
		}
	}
	a, b, manifest := payments[2], payments[3], manifests[3]
	manifestSays := func(old, now string) map[string][]byte {
		return map[string][]byte{manifest: []byte(strings.Replace(string(whole[manifest]), old, now, 1))}
	}
	for what, files := range map[string]map[string][]byte{
		"nothing is done":          {},
		"a file is gone":           {a: nil},
		"a file is cut":            {a: whole[a][:len(whole[a])/2]},
		"two files change places":  {a: whole[b], b: whole[a]},
		"a segment is gone":        {manifest: nil},
		"a manifest says less":     manifestSays(`"payments": `, `"payments": 1`),
		"a manifest says more":     manifestSays(`"open_since": `, `"open_since": 1`),
		"a manifest has no ending": {manifest: whole[manifest][:20]},
	} {
		for name, content := range files {
			kit.Must(t, os.Remove(name))
			if content != nil {
				kit.Must(t, os.WriteFile(name, content, 0o600))
			}
		}
		if _, err := archive.Verify(os.DirFS(folder), func(archive.Manifest) {}, func(archive.DayEnd) {}); (err != nil) != (len(files) > 0) {
			t.Errorf("%s: found %v", what, err)
		}
		for name := range files {
			kit.Must(t, os.WriteFile(name, whole[name], 0o600))
		}
	}
}

// openAt reports whether a transfer belongs to a hold that a verdict after a time has ended.
func openAt(all map[tb.Uint128]tb.Transfer, hold tb.Transfer, at uint64) bool {
	end, known := all[ledger.EndOf(hold.ID)]
	return hold.TransferFlags().Pending && known && end.Timestamp > at
}

// The questions of docs/archive.md have the answers that the rows have, asked with the real DuckDB and pandas.
func TestProgramsOfOthersReadAnArchive(t *testing.T) {
	python := os.Getenv("STATEMENT_READERS")
	if python == "" {
		t.Skip("STATEMENT_READERS names no python with duckdb: make test-readers")
	}
	client := openLedger(t)
	h := live(t, client)
	folder := t.TempDir()
	end := archived(t, client, filepath.Join(folder, "archive"), 8189, 1<<30)
	document, err := filepath.Abs("../../docs/archive.md")
	kit.Must(t, err)
	said := kit.RunCommand(t, nil, python, "-c", askArchive, document, folder, h.capped.String())
	if said.Code != 0 {
		t.Fatal(said.Err)
	}
	// The day is over: one file has all.
	kit.Must(t, os.Mkdir(filepath.Join(folder, "archive", "manifests", "day=9999-12-31"), 0o700))
	kit.Must(t, archive.Merge(t.Context(), store.Folder(filepath.Join(folder, "archive")), end))
	if again := kit.RunCommand(t, nil, python, "-c", askArchive, document, folder, h.capped.String()); again.Out != said.Out {
		t.Errorf("of a merged day they say %s%s", again.Out, again.Err)
	}
	var answers struct {
		Queries [][][]any
		Pandas  string
	}
	if err := json.Unmarshal([]byte(said.Out), &answers); err != nil || len(answers.Queries) != 5 {
		t.Fatal(said.Out, err)
	}
	totals, err := archive.Verify(os.DirFS(filepath.Join(folder, "archive")), func(archive.Manifest) {}, func(archive.DayEnd) {})
	kit.Must(t, err)
	sum := func(rows [][]any, column int) (sum float64) {
		for _, row := range rows {
			sum += row[column].(float64)
		}
		return sum
	}
	settled, reais := float64(totals.Settled), float64(totals.SettledCentavos)/100
	hours, reasons, slowest, pairs, one := answers.Queries[0], answers.Queries[1], answers.Queries[2], answers.Queries[3], answers.Queries[4]
	if sum(hours, 2) != settled || math.Abs(sum(hours, 3)-reais) > 0.001 || sum(pairs, 2) != settled || math.Abs(sum(pairs, 3)-reais) > 0.001 {
		t.Errorf("%v and %v: want %v settled with %v", hours, pairs, settled, reais)
	}
	if sum(reasons, 2) != float64(totals.Rejected+totals.Refused) {
		t.Errorf("%v: want %d and %d", reasons, totals.Rejected, totals.Refused)
	}
	for i := range slowest {
		if i > 0 && slowest[i][1].(float64) > slowest[i-1][1].(float64) || slowest[i][1].(float64) < 0 || slowest[i][1].(float64) > 60_000 {
			t.Errorf("the slowest are %v", slowest)
		}
	}
	if len(slowest) != 10 || len(one) != 1 || one[0][1] != h.capped.String() {
		t.Errorf("%d slowest, and one is %v", len(slowest), one)
	}
	if count := fmt.Sprint(int(pairs[0][2].(float64))); !strings.Contains(answers.Pandas, count) {
		t.Errorf("pandas says %s, want a pair with %s", answers.Pandas, count)
	}
}

// askArchive runs what a document asks, in the folder of an archive, for one payment.
const askArchive = `
import contextlib, io, json, os, re, sys
import duckdb
text = open(sys.argv[1]).read()
os.chdir(sys.argv[2])
queries = re.findall("\x60\x60\x60sql\n(.*?)\x60\x60\x60", text, re.S)
queries[4] = re.sub("id = '.*?'", "id = '" + sys.argv[3] + "'", re.sub("'2026-11-24' AND '2026-11-26'", "'2020-01-01' AND '2099-12-31'", queries[4]))
answers = [duckdb.sql(query).fetchall() for query in queries]
said = io.StringIO()
with contextlib.redirect_stdout(said):
    exec(re.search("\x60\x60\x60python\n(.*?)\x60\x60\x60", text, re.S)[1])
print(json.dumps({"Queries": answers, "Pandas": said.getvalue()}, default=str))
`

// Days are those of São Paulo. The ledger says how the archive of each ends: who writes another one must stop.
func TestAnArchiveKnowsDays(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 2, 50, 0, 0, time.UTC) // ten minutes before midnight there
	client := ledgermodel.New().ConnectAt(func() time.Time { return now })
	population := populated(t, client, 0)
	random := rand.New(rand.NewPCG(1, 2))
	content := pix.Content{Payer: population.Customer(0), Payee: population.Customer(1), AmountCentavos: 100}
	settle := func(held, settled time.Duration) {
		id := pix.NewEndToEndID(content.Payer.ISPB, now, random)
		now = now.Add(held)
		write(t, client, ledger.AppendReserve(nil, id, content, 60))
		now = now.Add(settled)
		write(t, client, ledger.AppendPost(nil, id, false))
	}
	for range 3 {
		settle(time.Second, time.Second)
	}
	killed := t.TempDir()
	now = time.Date(2026, 3, 1, 2, 59, 40, 0, time.UTC)
	id := pix.NewEndToEndID(content.Payer.ISPB, now, random)
	write(t, client, ledger.AppendReserve(nil, id, content, 60)) // it is held from day to day
	settle(time.Second, time.Second)
	now = now.Add(20 * time.Second)
	settle(0, time.Second)
	archived(t, client, killed, 100, 1<<30)
	write(t, client, ledger.AppendPost(nil, id, false))
	now = now.Add(24 * time.Hour)
	settle(0, time.Second)
	now = now.Add(time.Hour)
	settle(0, time.Second)
	folder := t.TempDir()
	end := archived(t, client, folder, 100, 1<<30)
	if again := archived(t, client, killed, 100, 1<<30); again != end || again.Name == "" {
		t.Fatalf("one that was killed while money was held ends with %+v, want %+v", again, end)
	}
	all, err := archive.Manifests(os.DirFS(folder))
	kit.Must(t, err)
	days := map[string]int{}
	ends := map[string]string{}
	for _, m := range all {
		days[m.Day] += m.Payments
		ends[m.Day] = m.Chain
	}
	if want := map[string]int{"2026-02-28": 4, "2026-03-01": 2, "2026-03-02": 1}; !maps.Equal(days, want) {
		t.Fatalf("payments by day are %v, want %v", days, want)
	}
	if merged, err := filepath.Glob(filepath.Join(folder, "payments", "day=*", "day.parquet")); err != nil || len(merged) != 2 || !strings.Contains(merged[1], "2026-03-01") {
		t.Errorf("the days that are over are not in one file each: %v", merged)
	}
	said := func(text string) (tb.Transfer, bool) {
		day, err := pix.ParseDay(text)
		kit.Must(t, err)
		found, err := client.LookupTransfers([]tb.Uint128{ledger.ArchivedID(day)})
		kit.Must(t, err)
		return append(found, tb.Transfer{})[0], len(found) > 0
	}
	for _, day := range []string{"2026-02-28", "2026-03-01"} {
		chain, err := tlog.ParseHash(ends[day])
		parsed, _ := pix.ParseDay(day)
		if is, told := said(day); err != nil || !told || is.UserData128 != ledger.Archived(parsed, chain).UserData128 {
			t.Errorf("of %s the ledger says %+v", day, is)
		}
	}
	if is, told := said("2026-03-02"); told {
		t.Errorf("of a day that is not over the ledger says %+v", is)
	}

	// Its ledger is given up and gets another identity. That changes nothing, and no rebuild would bring it: an archive does not
	// end with it.
	now = now.Add(time.Hour)
	if is, err := ledger.ReadIdentity(t.Context(), client); err != nil {
		t.Fatal(err)
	} else {
		write(t, client, []tb.Transfer{ledger.Renewal(2, is)})
	}
	now = now.Add(time.Hour)
	settle(0, time.Second)
	end = archived(t, client, folder, 100, 1<<30)
	if again := archived(t, client, t.TempDir(), 8189, 3); again != end {
		t.Errorf("a new archive ends with %+v, want %+v", again, end)
	}
	brings := false
	for chain, err := range (past.Source{Folder: os.DirFS(folder)}).Chains(t.Context(), 0) {
		kit.Must(t, err)
		for _, transfer := range chain {
			brings = brings || transfer.ID.String() == end.LastID
		}
	}
	if !brings {
		t.Errorf("the archive ends with %s, and a rebuild does not bring that", end.LastID)
	}
	a, err := past.New(t.Context(), client, 100, store.Folder(t.TempDir()), 3) // cut otherwise
	for range 100 {
		if err == nil {
			_, _, err = a.Step(t.Context())
		}
	}
	if !errors.As(err, new(*past.Wrong)) || !strings.Contains(err.Error(), "another chain") {
		t.Errorf("an archive with other segments: %v", err)
	}
}
