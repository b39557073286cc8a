package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/deploy/tigerbeetle"
	"github.com/liquida/liquida/platform/archive"
	"github.com/liquida/liquida/platform/archive/past"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
)

// answers asks the front door everything about what was paid up to a time.
func (b *books) answers(payments []string, until time.Time) map[string]string {
	b.t.Helper()
	said := map[string]string{}

	paths := []string{"/v1/participants/10000001/acts", "/v1/accounts/10000001/0001/1/statement?limit=1000",
		b.day(until) + "&format=csv"}
	for _, id := range payments {
		paths = append(paths, "/v1/payments/"+id)
	}

	for _, path := range paths {
		code, text := b.ask("GET", path, "")

		said[path] = fmt.Sprint(code, " ", text)
		if code != http.StatusOK {
			b.t.Logf("%s: %d %s", path, code, text)
		}
	}

	return said
}

// day is the statement of a bank's day up to a time.
func (b *books) day(until time.Time) string {
	return fmt.Sprintf("/v1/participants/10000001/statements/%v?until=%s", pix.DayOf(until),
		url.QueryEscape(until.UTC().Format(time.RFC3339Nano)))
}

// expires is what an imported hold has not: a timeout.
var expires = regexp.MustCompile(`"expires_at":"[^"]*",`)

// same compares what the front door said before a loss with what it says of the same now, byte for byte.
func (b *books) same(before, is map[string]string) {
	b.t.Helper()

	for path, was := range before {
		was, is := expires.ReplaceAllString(was, ""), expires.ReplaceAllString(is[path], "")

		lines, cut := strings.CutPrefix(was, `200 {"lines":[`)
		if whole := is == was; !whole && (!cut || !strings.HasSuffix(is, lines)) { // newer lines stand before these
			b.t.Errorf("GET %s\nis  %s\nwas %s", path, is, was)
		}
	}
}

// rebuild loses the stopped ledger's file, builds it again from a past and from the topics, and starts the clearing
// house.
func (b *books) rebuild(past ...string) {
	b.t.Helper()
	whole, folder := b.config, b.ledgerFolder()
	b.must(os.RemoveAll(folder))
	bin, err := tigerbeetle.Locate(b.t.Context(), os.Stderr)
	b.must(err)
	b.must(tigerbeetle.FormatCluster(b.t.Context(), bin, folder, 1, 0))
	b.config.InfrastructureOnly = true
	b.must(b.start())
	run := func(code int, says string, what ...string) {
		b.t.Helper()

		said := b.bootstrap(append([]string{"rebuild"}, what...))
		if said.Code != code || !strings.Contains(said.Err, says) {
			b.t.Fatalf("rebuild %s: %d %s", what, said.Code, said.Err)
		}
		b.t.Log(said.Err)
	}
	b.eventually("the sessions of killed engines have ended", func() bool {
		return !strings.Contains(b.bootstrap([]string{"rebuild", "accept"}).Err, "members")
	})
	run(1, "no rebuild of this ledger has come to its end", "accept") // an empty ledger
	run(0, "the past is there, up to ", past...)
	run(0, "0 settled and 0 rejected", past...)
	run(0, "the topics take it", "accept")

	ended := make(chan error, 1)
	go func() { _, err := b.AddEngine(b.t.Context()); ended <- err }()
	b.eventually("an engine says what it waits for", func() bool {
		err := b.Ready(b.t.Context(), stack.EngineName(0))
		return err != nil && strings.Contains(err.Error(), "bootstrap rebuild confirm")
	})
	run(0, "", "confirm")
	b.must(<-ended)
	b.stop()
	b.config = whole
	b.must(b.start())
}

// TestRebuild is the show: a ledger is destroyed under load. Its archive and the log bring it back, what waits is
// cleared, the books are clean, and the archive goes on. Up to the archive's end each answer is what it was.
func TestRebuild(t *testing.T) {
	b := openArchived(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- b.Run(ctx, io.Discard, io.Discard, "loadtest", "run", "--rate", "150", "--payments", "100000")
	}()

	var payments []string
	for range 5 {
		payments = append(payments, b.pay())
	}
	until := time.Now()
	before := b.answers(payments, until)
	b.eventually("a load that is archived", func() bool { return b.archived() > 500 })
	b.must(b.Kill(stack.Archiver))
	b.must(b.StartProcess(stack.Archiver))
	b.eventually("a load that is archived after a kill", func() bool {
		return b.archived() > 1500 && b.archiveEnds().After(until)
	})
	b.must(b.Kill(stack.TigerBeetle))
	b.must(b.Kill(stack.EngineName(0)))
	loss := time.Now()
	cancel()
	<-ended
	t.Logf("%d orders, %d reports when the ledger was destroyed; its archive ends %v before", b.ends(stream.Payments),
		b.ends(stream.Settlements), loss.Sub(b.archiveEnds()).Round(time.Millisecond))
	b.stop()
	began := time.Now()
	b.rebuild("archive", b.ArchiveFolder())
	t.Logf("the clearing house is back after %v", time.Since(began).Round(time.Second))
	b.same(before, b.answers(payments, until))
	b.pay()
	b.audit() // everything is cleared, and nothing again that was reported
	rows := b.archived()
	b.load(150, 1500).wait()
	b.eventually("the archive goes on", func() bool { return b.archived() > rows })
	b.liquida("", "")("archive", "verify", b.ArchiveFolder()).Is(t, 0, "whole: ")
}

// openArchived opens books with an archiver, whose segments are small, and caps a bank.
func openArchived(t *testing.T) *books {
	t.Helper()

	b := openBooks(t, func(c *stack.Config) {
		c.Archive = true
		c.Env[stack.Archiver] = []string{"ARCHIVE_SEGMENT_ROWS_MAX=1000"}
	})
	for _, window := range []string{"day", "night"} {
		b.liquida(b.ProducerURL(), "central-bank")("participant", "cap", "10000001", window, "1000000.00", "--window",
			"1h").Is(t, 0, "books agree")
	}

	return b
}

// archived returns how many payments and returns the archive has.
func (b *books) archived() (payments int) {
	b.t.Helper()
	all, err := archive.Manifests(os.DirFS(b.ArchiveFolder()))
	b.must(err)

	for _, m := range all {
		payments += m.Payments
	}

	return payments
}

// archiveEnds returns up to when the archive knows the ledger.
func (b *books) archiveEnds() time.Time {
	b.t.Helper()
	ends, err := past.Source{Folder: os.DirFS(b.ArchiveFolder())}.End(b.t.Context())
	b.must(err)

	return ends
}
