package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/deploy/ledgertest"
	"github.com/liquida/liquida/platform/archive"
	"github.com/liquida/liquida/platform/archive/store"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

func TestMain(m *testing.M) { kit.Main(m, main) }

// An archiver waits for its ledger and for its disk, says how much is not archived meanwhile, and goes on by itself.
func TestAnArchiverWaitsForItsDisk(t *testing.T) {
	server, client := openLedger(t)
	folder := t.TempDir()

	inTheWay := filepath.Join(folder, "records") // where a folder must be
	if err := os.WriteFile(inTheWay, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := kit.Start(t, "TIGERBEETLE_ADDRESSES="+server.Config.Addresses[0], "ARCHIVE_DIR="+folder,
		"ARCHIVE_SEGMENT_ROWS_MAX=1000", "ARCHIVE_INTERVAL=100ms")
	p.AwaitNeed("ledger", true)

	begin(t, client)
	refuse(t, client, 1500)
	kit.Await(t, "an archiver that misses its disk", func() (bool, string) {
		return strings.Contains(p.Problems()["archive"], "not a directory"), fmt.Sprint(p.Problems())
	})
	kit.Await(t, "a lag that grows", func() (bool, string) {
		lag := metric(t, p, "pix_archive_lag_seconds")
		return lag > 1, fmt.Sprint(lag)
	})

	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	p.AwaitReady()
	kit.Await(t, "a segment", func() (bool, string) {
		return metric(t, p, "pix_archive_segments_total") == 1 &&
			metric(t, p, "pix_archive_rows_waiting") == 501, p.Log()
	})

	totals, err := archive.Verify(store.Folder(folder), func(archive.Manifest) {}, func(archive.DayEnd) {})
	if err != nil || totals.Records != 1000 || totals.Accounts != 2 {
		t.Errorf("%+v %v", totals, err)
	}
	p.End(syscall.SIGTERM)

	if p.ExitCode() != 0 {
		t.Errorf("it ended with %d", p.ExitCode())
	}
}

// An archiver waits for its bucket, and goes on by itself; another one at the same time writes the same. Programs read
// what they wrote.
func TestTwoArchiversWaitForTheirBucket(t *testing.T) {
	bucket := kit.StartS3(t)
	server, client := openLedger(t)
	begin(t, client)
	refuse(t, client, 1500)
	archiver := func(place string) *kit.Program {
		return kit.Start(t, "TIGERBEETLE_ADDRESSES="+server.Config.Addresses[0], "ARCHIVE_DIR="+place,
			"ARCHIVE_SEGMENT_ROWS_MAX=1000", "ARCHIVE_INTERVAL=100ms")
	}
	place := bucket.URL("archives/one")
	folder := t.TempDir()
	all := []*kit.Program{archiver(place), archiver(place), archiver(folder)}

	in, err := store.Open(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	archived := func(in archive.Store) (archive.Totals, string) {
		totals, err := archive.Verify(in, func(archive.Manifest) {}, func(archive.DayEnd) {})
		return totals, fmt.Sprint(totals, err)
	}
	bothHave := func(records int) {
		t.Helper()
		kit.Await(t, "the same in bucket and folder", func() (bool, string) {
			want, said := archived(store.Folder(folder))
			totals, says := archived(in)
			return totals.Records >= records && totals.Last == want.Last, says + said
		})
	}
	bothHave(1000)

	bucket.Kill()
	refuse(t, client, 2000)

	for _, p := range all[:2] {
		p.AwaitNeed("archive", true)
	}
	bucket.Start()
	bothHave(3000)
	totals, _ := archived(in)

	for _, p := range all {
		p.AwaitReady()
		kit.Await(t, "its archive's end", func() (bool, string) {
			end := metric(t, p, "pix_archive_end_seconds")
			return math.Abs(end-float64(totals.Last.To)/1e9) < 0.001, fmt.Sprint(end)
		})
	}
	kit.RunCommand(t, nil, "go", "run", "../../client/liquida", "archive", "verify", place).Is(t, 0, "whole: ",
		totals.Last.Chain)

	for _, p := range all {
		p.End(syscall.SIGTERM)

		if p.ExitCode() != 0 {
			t.Errorf("it ended with %d", p.ExitCode())
		}
	}
}

// An archiver merges the days that are over. Those of the ledger are imported: its clock cannot be set.
func TestAnArchiverMergesFinishedDays(t *testing.T) {
	server, client := openLedger(t)
	const day = 24 * time.Hour
	at := uint64(time.Now().Add(-5 * day).UnixNano())

	accounts := []tb.Account{ledger.NewAccount(ledger.IssuanceAccount), ledger.NewAccount(ledger.RefusalsAccount)}
	for i := range accounts {
		flags := accounts[i].AccountFlags()
		flags.Imported = true
		accounts[i].Flags, accounts[i].Timestamp = flags.ToUint16(), at+uint64(i)
	}

	if results, err := client.CreateAccounts(accounts); err != nil || len(results) > 0 {
		t.Fatal(results, err)
	}
	transfers := []tb.Transfer{ledger.Marker{}.Transfer()}

	for range 4 {
		id := pix.NewEndToEndID("99999999", time.Now(), rand.New(rand.NewPCG(at, 2))) //nolint:gosec // no secret
		at += uint64(day)
		transfers = ledger.AppendReceipt(transfers, id, pix.Content{}, pix.ReasonPayerMissing, false)
		last := &transfers[len(transfers)-1]
		last.Timestamp = at
	}

	transfers[0].Timestamp = transfers[1].Timestamp - 1
	for i := range transfers {
		flags := transfers[i].TransferFlags()
		flags.Imported = true
		transfers[i].Flags = flags.ToUint16()
	}
	write(t, client, transfers)

	in := store.Folder(t.TempDir())
	p := kit.Start(t, "TIGERBEETLE_ADDRESSES="+server.Config.Addresses[0], "ARCHIVE_DIR="+in.String(),
		"ARCHIVE_INTERVAL=100ms")
	// What it writes of the ends of days is of today, and ends the last of these four: but for that one, all are over.
	for _, transfer := range transfers[1:4] {
		day := pix.DayOf(archive.Time(int64(transfer.Timestamp))).String() //nolint:gosec // after 1970
		kit.Await(t, "one file of each kind of "+day, func() (bool, string) {
			files, err := filepath.Glob(filepath.Join(in.String(), "*", "day="+day, "*"))
			merged := func(file string) bool { return strings.HasPrefix(filepath.Base(file), "day.") }

			return err == nil && len(files) >= 2 && !slices.ContainsFunc(files, func(file string) bool {
				return !merged(file)
			}), fmt.Sprint(files)
		})
	}
	p.AwaitReady()

	totals, err := archive.Verify(in, func(archive.Manifest) {}, func(archive.DayEnd) {})
	if err != nil || totals.Records < 5 {
		t.Errorf("%+v %v", totals, err)
	}
}

func openLedger(t *testing.T) (*ledgertest.Server, tigerbeetle.Client) {
	server, err := ledgertest.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)

	client, err := ledger.Connect(server.Config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)

	return server, client
}

// begin makes the accounts and the marker of a ledger.
func begin(t *testing.T, client tigerbeetle.Client) {
	t.Helper()

	if results, err := client.CreateAccounts(
		[]tb.Account{ledger.NewAccount(ledger.IssuanceAccount),
			ledger.NewAccount(ledger.RefusalsAccount)}); err != nil || len(results) > 0 {
		t.Fatal(results, err)
	}
	write(t, client, []tb.Transfer{ledger.Marker{}.Transfer()})
}

// refuse writes refused payments of an unknown sender.
func refuse(t *testing.T, client tigerbeetle.Client, payments int) {
	t.Helper()
	var written []tb.Transfer

	random := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano()))) //nolint:gosec // no secret
	for range payments {
		id := pix.NewEndToEndID("99999999", time.Now(), random)
		written = ledger.AppendReceipt(written, id, pix.Content{}, pix.ReasonPayerMissing, false)
	}
	write(t, client, written)
}

func write(t *testing.T, client tigerbeetle.Client, transfers []tb.Transfer) {
	t.Helper()

	if results, err := client.CreateTransfers(transfers); err != nil || len(results) > 0 {
		t.Fatal(results, err)
	}
}

func metric(t *testing.T, p *kit.Program, name string) (value float64) {
	t.Helper()

	response, err := http.Get("http://" + p.Telemetry + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()

	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}

	for line := range strings.Lines(string(text)) {
		if rest, is := strings.CutPrefix(line, name+" "); is {
			if _, err := fmt.Sscan(rest, &value); err != nil {
				t.Fatal(err)
			}
		}
	}

	return value
}
