package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/deploy/ledgertest"
	"github.com/liquida/liquida/platform/archive"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

func TestMain(m *testing.M) { kit.Main(m, main) }

// An archiver waits for its ledger and for its disk, says how much is not archived meanwhile, and goes on by itself.
func TestAnArchiverWaitsForItsDisk(t *testing.T) {
	server, err := ledgertest.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	client, err := ledger.Connect(server.Config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	folder := t.TempDir()
	inTheWay := filepath.Join(folder, "records") // where a folder must be
	if err := os.WriteFile(inTheWay, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := kit.Start(t, "TIGERBEETLE_ADDRESSES="+server.Config.Addresses[0], "ARCHIVE_DIR="+folder, "ARCHIVE_SEGMENT_ROWS_MAX=1000", "ARCHIVE_INTERVAL=100ms")
	p.AwaitNeed("ledger", true)

	written := []tb.Transfer{ledger.Marker{}.Transfer()}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // no secret
	for range 1500 {
		id := pix.NewEndToEndID("99999999", time.Now(), random)
		written = ledger.AppendReceipt(written, id, pix.Content{}, pix.ReasonPayerMissing, false)
	}
	if results, err := client.CreateAccounts([]tb.Account{ledger.NewAccount(ledger.IssuanceAccount), ledger.NewAccount(ledger.RefusalsAccount)}); err != nil || len(results) > 0 {
		t.Fatal(results, err)
	}
	if results, err := client.CreateTransfers(written); err != nil || len(results) > 0 {
		t.Fatal(results, err)
	}
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
		return metric(t, p, "pix_archive_segments_total") == 1 && metric(t, p, "pix_archive_rows_waiting") == 501, p.Log()
	})
	totals, err := archive.Verify(os.DirFS(folder), func(archive.Manifest) {}, func(archive.DayEnd) {})
	if err != nil || totals.Records != 1000 || totals.Accounts != 2 {
		t.Errorf("%+v %v", totals, err)
	}
	p.End(syscall.SIGTERM)
	if p.ExitCode() != 0 {
		t.Errorf("it ended with %d", p.ExitCode())
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
