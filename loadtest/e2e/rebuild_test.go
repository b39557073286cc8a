package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"

	"github.com/liquida/liquida/deploy/ledgertest"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/deploy/tigerbeetle"
	"github.com/liquida/liquida/platform/archive"
	"github.com/liquida/liquida/platform/archive/past"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/origin"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// answers asks the front door everything about what was paid up to a time.
func (b *books) answers(payments []string, until time.Time) map[string]string {
	b.t.Helper()
	said := map[string]string{}
	paths := []string{"/v1/participants/10000001/acts", "/v1/accounts/10000001/0001/1/statement?limit=1000", b.day(until) + "&format=csv"}
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
	return fmt.Sprintf("/v1/participants/10000001/statements/%v?until=%s", pix.DayOf(until), url.QueryEscape(until.UTC().Format(time.RFC3339Nano)))
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
	b := openArchived(t)
	var payments []string
	for range 5 {
		payments = append(payments, b.pay())
	}
	until := time.Now()
	before := b.answers(payments, until)
	past := b.copyUnderLoad()
	told := []string{b.pay(), b.pay()}
	second := b.load(60, 300)
	second.wait()
	loss := time.Now()
	after := map[string]string{}
	for _, path := range []string{"/v1/participants/10000001", "/v1/accounts/10000001/0001/1", b.day(loss), "/v1/payments/" + told[0], "/v1/payments/" + told[1]} {
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
	b.same(before, b.answers(payments, until))
	// Balances, what is left of the cap, the sums of the day and how payments ended are as they were told. Times are of the
	// reports, a moment later.
	times := regexp.MustCompile(`(?s)"(reserved|decided|expires)_at":"[^"]*",?|"lines":\[.*?\],`)
	for path, was := range after {
		_, is := b.ask("GET", path, "")
		if times.ReplaceAllString(is, "") != times.ReplaceAllString(was, "") {
			t.Errorf("GET %s\nis  %s\nwas %s", path, is, was)
		}
	}
	for _, id := range told {
		if at := b.decided(id); !at.Before(loss) {
			t.Errorf("%s was told before %v, and is of %v", id, loss, at)
		}
	}
	b.pay()
	b.eventually("another archive", func() bool { return b.archived() > 100 })
	verdict, err := b.tryAudit("--archive", b.ArchiveFolder())
	if err != nil || !verdict.Clean {
		t.Errorf("the audit of the rebuilt ledger: %v %+v", err, verdict.Findings)
	}
}

// decided returns when the verdict of a payment was written.
func (b *books) decided(id string) (at time.Time) {
	b.t.Helper()
	code, text := b.ask("GET", "/v1/payments/"+id, "")
	var state struct {
		Status    string    `json:"status"`
		DecidedAt time.Time `json:"decided_at"`
	}
	if err := json.Unmarshal([]byte(text), &state); err != nil || code != http.StatusOK || state.Status != "settled" {
		b.t.Errorf("payment %s: %d %s", id, code, text)
	}
	return state.DecidedAt
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
	b.eventually("a load that is archived after a kill", func() bool { return b.archived() > 1500 && b.archiveEnds().After(until) })
	var toldByAPI []string
	for range 20 {
		toldByAPI = append(toldByAPI, b.pay())
	}
	b.must(b.Kill(stack.TigerBeetle))
	b.must(b.Kill(stack.EngineName(0)))
	loss := time.Now()
	cancel()
	<-ended
	reported := b.reported()
	t.Logf("%d orders, %d reports when the ledger was destroyed; its archive ends %v before", b.ends(stream.Payments), len(reported), loss.Sub(b.archiveEnds()).Round(time.Millisecond))
	b.stop()
	began := time.Now()
	b.rebuild("archive", b.ArchiveFolder())
	t.Logf("the clearing house is back after %v", time.Since(began).Round(time.Second))
	b.same(before, b.answers(payments, until))
	id := b.pay()
	b.eventually("everything is cleared", func() bool { return b.lag() == 0 })
	again := 0
	for _, id := range toldByAPI {
		if !b.decided(id).After(loss) {
			continue
		}
		if again++; reported[id] {
			t.Errorf("payment %s was reported before the loss, and was cleared again", id)
		}
	}
	t.Logf("of %d verdicts that the API told before the loss, %d were in no report, and were cleared again", len(toldByAPI), again)
	verdict, err := b.tryAudit()
	if err != nil || !verdict.Clean {
		t.Errorf("the audit of the rebuilt ledger: %v %+v", err, verdict.Findings)
	}
	rows := b.archived()
	b.load(150, 1500).wait()
	b.eventually("the archive goes on", func() bool { return b.archived() > rows })
	if verdict, err := b.tryAudit("--archive", b.ArchiveFolder()); err != nil || !verdict.Clean {
		t.Errorf("the audit of the archive: %v %+v", err, verdict.Findings)
	}
	verified := b.liquida("", "")("archive", "verify", b.ArchiveFolder())
	verified.Is(t, exitDone, "whole: ")
	said := regexp.MustCompile(`10000001  BRL ([0-9,.]+)`).FindStringSubmatch(verified.Out)
	_, statement := b.ask("GET", b.day(b.archiveEnds().Add(1)), "")
	if len(said) != 2 || !strings.Contains(statement, `"closing_centavos":`+strings.NewReplacer(",", "", ".", "").Replace(said[1])+`,`) {
		t.Errorf("of the archive's rows follow the reserves %s, and the statement up to its end says %.300s", said, statement)
	}
	proof := b.liquida("", "")("archive", "proof", id, b.ArchiveFolder())
	proof.Is(t, exitDone, `"row":"Payment`)
	file := filepath.Join(t.TempDir(), "proof.json")
	b.must(os.WriteFile(file, []byte(proof.Out), 0o600))
	b.liquida("", "")("archive", "check", file).Is(t, exitDone, "payment "+id+" settled")
}

// openArchived opens books with an archiver, whose segments are small, and caps a bank.
func openArchived(t *testing.T) *books {
	t.Helper()
	b := openBooks(t, func(c *stack.Config) {
		c.Archive = true
		c.Env[stack.Archiver] = []string{"ARCHIVE_SEGMENT_ROWS_MAX=1000"}
	})
	for _, window := range []string{"day", "night"} {
		b.liquida(b.ProducerURL(), "central-bank")("participant", "cap", "10000001", window, "1000000.00", "--window", "1h").Is(t, exitDone, "books agree")
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

// reported returns the ids of which there is a report.
func (b *books) reported() map[string]bool {
	b.t.Helper()
	kafka, err := b.Kafka().Client()
	b.must(err)
	defer kafka.Close()
	bounds, err := stream.BoundsOf(b.t.Context(), kafka, stream.Settlements)
	b.must(err)
	ids := map[string]bool{}
	for partition, of := range bounds {
		b.must(stream.ReadRange(b.t.Context(), b.Kafka(), host.System().Dial, stream.Settlements, partition, of.Start, of.Stable, func(record *kgo.Record) {
			var report pixv1.SettlementReport
			b.must(proto.Unmarshal(record.Value, &report))
			ids[report.EndToEndId] = true
		}))
	}
	return ids
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
