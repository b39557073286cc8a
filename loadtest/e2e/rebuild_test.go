package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/deploy/ledgertest"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/deploy/tigerbeetle"
	"github.com/liquida/liquida/platform/archive"
	"github.com/liquida/liquida/platform/origin"
	"github.com/liquida/liquida/platform/stream"
)

// answers asks the front door everything about what was paid up to a time.
func (b *books) answers(payments []string) map[string]string {
	b.t.Helper()
	said := map[string]string{}
	paths := []string{"/v1/participants/10000001/acts", "/v1/accounts/10000001/0001/1/statement"}
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

// copyUnderLoad copies the ledger's files at an instant of a load: holds are open, and their banks are asked.
func (b *books) copyUnderLoad() (past string) {
	b.t.Helper()
	first := b.load(60, 600)
	b.eventually("half of the load", func() bool { return b.ends(stream.Settlements) > 250 })
	b.must(b.Kill(stack.TigerBeetle))
	past = b.keep()
	b.must(b.StartProcess(stack.TigerBeetle))
	b.ready(stack.TigerBeetle)
	<-first.ended
	return past
}

// serve starts a server on a copy of a ledger's file, until the test ends, and returns what rebuild calls it.
func (b *books) serve(past string) []string {
	b.t.Helper()
	kept := b.t.TempDir()
	b.must(os.Rename(past, filepath.Join(kept, "ledger")))
	old, err := ledgertest.Start(kept)
	b.must(err)
	b.t.Cleanup(old.Stop)
	return old.Config.Addresses[:1]
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
	b.eventually("the sessions of killed engines have ended", func() bool { return !strings.Contains(b.bootstrap([]string{"rebuild", "accept"}).Err, "members") })
	run(1, "no rebuild of this ledger has come to its end", "accept") // an empty ledger
	run(0, "the past is there, up to ", past...)
	run(0, "0 settled and 0 rejected", past...)
	run(0, "the topics take it", "accept")
	b.stop()
	b.config = whole
	b.config.ReadyWithin = 20 * time.Second
	b.refuses("acts that nobody has confirmed", "bootstrap rebuild confirm")
	b.config.InfrastructureOnly = true
	b.must(b.start())
	run(0, "", "confirm")
	b.stop()
	b.config = whole
	b.must(b.start())
}

// A ledger is lost, and its past is known up to some time before. The past comes back as it was, what was reported
// since has its reported verdict, and the clearing house goes on with a ledger that is clean.
func TestALostLedgerIsRebuilt(t *testing.T) {
	b := openBooks(t, archiving)
	for _, window := range []string{"day", "night"} {
		b.liquida(b.ProducerURL(), "central-bank")("participant", "cap", "10000001", window, "1000000.00", "--window", "1h").Is(t, exitDone, "books agree")
	}
	var payments []string
	for range 5 {
		payments = append(payments, b.pay())
	}
	before := b.answers(payments)
	past := b.copyUnderLoad()
	told := []string{b.pay(), b.pay()}
	second := b.load(60, 300)
	second.wait()
	after := map[string]string{}
	for _, path := range []string{"/v1/participants/10000001", "/v1/accounts/10000001/0001/1", "/v1/payments/" + told[0], "/v1/payments/" + told[1]} {
		_, after[path] = b.ask("GET", path, "")
	}
	b.audit()
	lost := b.identity()
	b.stop()

	b.must(os.Rename(b.ArchiveFolder(), filepath.Join(t.TempDir(), "of-the-lost-ledger"))) // it knows what was after the copy
	b.rebuild(b.serve(past)...)
	if is := b.identity(); is == lost {
		t.Errorf("the rebuilt ledger has the identity of the lost one, %v", is)
	}
	expires := regexp.MustCompile(`"expires_at":"[^"]*",`) // an imported hold has no timeout
	is := b.answers(payments)
	for path, was := range before {
		was = expires.ReplaceAllString(was, "")
		if lines, cut := strings.CutPrefix(was, `200 {"lines":[`); cut { // newer ones stand before these
			if was = lines; !strings.HasSuffix(is[path], was) {
				t.Errorf("GET %s\nis  %s\nwas %s", path, is[path], was)
			}
		} else if is[path] != was {
			t.Errorf("GET %s\nis  %s\nwas %s", path, is[path], was)
		}
	}
	for path, was := range after { // balances, what is left of the cap, and how payments ended
		if _, is := b.ask("GET", path, ""); is != was && !strings.Contains(was, `"settled"`) || strings.Contains(was, `"settled"`) && !strings.Contains(is, `"settled"`) {
			t.Errorf("GET %s\nis  %s\nwas %s", path, is, was)
		}
	}
	b.pay()
	b.eventually("another archive", func() bool { return b.archived() > 100 })
	verdict, err := b.tryAudit("--archive", b.ArchiveFolder())
	if err != nil || !verdict.Clean {
		t.Errorf("the audit of the rebuilt ledger: %v %+v", err, verdict.Findings)
	}
}

// TestRebuild is the show: a ledger is destroyed under load. Its archive and the log bring it back, what waits is
// cleared, the books are clean, and the archive goes on.
func TestRebuild(t *testing.T) {
	b := openBooks(t, archiving)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- b.Run(ctx, io.Discard, io.Discard, "loadtest", "run", "--rate", "150", "--payments", "100000")
	}()
	b.eventually("a load that is archived", func() bool { return b.archived() > 500 })
	b.must(b.Kill(stack.Archiver))
	b.must(b.StartProcess(stack.Archiver))
	b.eventually("a load that is archived after a kill", func() bool { return b.archived() > 1500 })
	b.must(b.Kill(stack.TigerBeetle))
	b.must(b.Kill(stack.EngineName(0)))
	cancel()
	<-ended
	t.Logf("%d orders, %d reports when the ledger was destroyed", b.ends(stream.Payments), b.ends(stream.Settlements))
	b.stop()
	began := time.Now()
	b.rebuild("archive", b.ArchiveFolder())
	t.Logf("the clearing house is back after %v", time.Since(began).Round(time.Second))
	id := b.pay()
	b.eventually("everything is cleared", func() bool { return b.lag() == 0 })
	verdict, err := b.tryAudit()
	if err != nil || !verdict.Clean {
		t.Errorf("the audit of the rebuilt ledger: %v %+v", err, verdict.Findings)
	}
	before := b.archived()
	b.load(150, 1500).wait()
	b.eventually("the archive goes on", func() bool { return b.archived() > before })
	if verdict, err := b.tryAudit("--archive", b.ArchiveFolder()); err != nil || !verdict.Clean {
		t.Errorf("the audit of the archive: %v %+v", err, verdict.Findings)
	}
	b.liquida("", "")("archive", "verify", b.ArchiveFolder()).Is(t, exitDone, "whole: ")
	proof := b.liquida("", "")("archive", "proof", id, b.ArchiveFolder())
	proof.Is(t, exitDone, `"row":"Payment`)
	file := filepath.Join(t.TempDir(), "proof.json")
	b.must(os.WriteFile(file, []byte(proof.Out), 0o600))
	b.liquida("", "")("archive", "check", file).Is(t, exitDone, "payment "+id+" settled")
}

// archiving starts an archiver, whose segments are small.
func archiving(c *stack.Config) {
	c.Archive = true
	c.Env[stack.Archiver] = []string{"ARCHIVE_SEGMENT_ROWS_MAX=1000"}
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

// lag returns how many orders engines have not finished.
func (b *books) lag() (open int64) {
	b.t.Helper()
	kafka, err := b.Kafka().Client()
	b.must(err)
	defer kafka.Close()
	commits, err := origin.Commits(b.t.Context(), kafka)
	b.must(err)
	bounds, err := stream.BoundsOf(b.t.Context(), kafka, stream.Payments)
	b.must(err)
	for partition, of := range bounds {
		open += of.End - max(of.Start, commits[partition].At)
	}
	return open
}
