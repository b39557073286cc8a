package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/audit"
	"github.com/liquida/liquida/loadtest/live"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/origin"
	"github.com/liquida/liquida/platform/stream"
)

// books is a clearing house that stops and starts again with other files of its ledger.
type books struct {
	*system
	config stack.Config
}

func openBooks(t *testing.T, change ...func(*stack.Config)) *books {
	t.Helper()
	t.Parallel()
	b := &books{}
	b.system = begin(t, 1, append(change, func(c *stack.Config) {
		c.Env[stack.Engine] = append(c.Env[stack.Engine], "ENGINE_PULSE_INTERVAL=1s")
		b.config = *c
	})...)
	servers.Release(b.servers)
	permits := b.servers + 1 // one for another system's
	kit.Must(t, servers.Acquire(t.Context(), permits))
	t.Cleanup(func() {
		defer servers.Release(permits)
		_ = b.Stop(context.Background())
		_ = os.RemoveAll(b.folder)
	})

	return b
}

// start starts what is stopped. It returns why it did not start.
func (b *books) start() (err error) {
	s, err := stack.Start(b.t.Context(), b.config)
	if err == nil {
		b.Stack = s
	}

	return err
}

func (b *books) stop() {
	b.t.Helper()
	b.must(b.Stop(context.Background()))
}

// ledgerFolder is where the ledger's files are.
func (b *books) ledgerFolder() string {
	found, err := filepath.Glob(filepath.Join(b.config.Dir, "data", "tigerbeetle*"))
	if err != nil || len(found) != 1 {
		b.t.Fatalf("the ledger's folders are %v, %v", found, err)
	}

	return found[0]
}

// keep copies the files of the stopped ledger. put puts a copy, or what was moved away, in their place, and returns
// where they are now.
func (b *books) keep() (copied string) {
	b.t.Helper()

	copied = filepath.Join(b.config.Dir, fmt.Sprintf("copy-%d", time.Now().UnixNano()))
	if output, err := exec.Command("cp", "-r", "--sparse=always", b.ledgerFolder(),
		copied).CombinedOutput(); err != nil {
		b.t.Fatalf("%v %s", err, output)
	}

	return copied
}

func (b *books) put(files string) (before string) {
	b.t.Helper()
	folder := b.ledgerFolder()
	before = filepath.Join(b.config.Dir, fmt.Sprintf("before-%d", time.Now().UnixNano()))
	b.must(os.Rename(folder, before))
	b.must(os.Rename(files, folder))

	return before
}

// pay returns the id of a payment that has settled.
func (b *books) pay() string {
	b.t.Helper()
	return settled(b.t, b.api("10000001"))
}

// ask asks the front door as bank 10000001.
func (b *books) ask(method, path, body string) (code int, text string) {
	b.t.Helper()
	callers := b.callers(b.ProducerURL())

	answer, err := callers.Send(b.t.Context(), method, path, "10000001", []byte(body), "Prefer", "wait=10")
	if err != nil {
		return 0, err.Error()
	}

	return answer.Status, string(answer.Body)
}

// checkpoints is what engines have said of the ledger.
func (b *books) checkpoints() map[int32]origin.Checkpoint {
	b.t.Helper()
	kafka := b.kafka()
	defer kafka.Close()
	known, err := origin.ReadCheckpoints(b.t.Context(), kafka)
	b.must(err)

	return known
}

// refuses fails the test unless the clearing house does not start, and says why.
func (b *books) refuses(what string, says ...string) {
	b.t.Helper()

	err := b.start()
	if err == nil {
		b.t.Fatalf("%s: the clearing house starts", what)
	}
	kit.Says(b.t, err, says...)
}

// An older copy of the ledger's file, made between a payment and the next pulse or payment, is never taken for the
// ledger: not at a start, not by an engine or a front door that run. With the newest copy all goes on.
func TestAnOlderLedgerIsNotTaken(t *testing.T) {
	olderLedgerIsNotTaken(openBooks(t))
}

// An older copy of all replicas' files is not taken either.
func TestAnOlderLedgerOfReplicasIsNotTaken(t *testing.T) {
	olderLedgerIsNotTaken(openBooks(t, func(c *stack.Config) { c.Replicas = 3 }))
}

func olderLedgerIsNotTaken(b *books) {
	t := b.t
	first := b.pay()
	b.stop()
	old := b.keep()

	// Between pulse and pulse: nothing was paid after the copy.
	b.must(b.start())
	since := time.Now()
	b.eventually("a pulse", func() bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(b.checkpoints())), func(c origin.Checkpoint) bool {
			return c.At.After(since)
		})
	})
	b.stop()
	newest := b.put(old)
	b.refuses("a copy from before a pulse", "the ledger is older than the topics", "LEDGER_GIVEN_UP=1-",
		"docs/backup.md")
	old = b.put(newest)

	// Between pulse and payment, under a front door and an engine that run.
	b.must(b.start())
	second := b.pay()
	b.must(b.Kill(stack.EngineName(0)))

	for _, replica := range b.Replicas() {
		b.must(b.Kill(replica))
	}

	newest = b.put(old)
	for _, replica := range b.Replicas() {
		b.must(b.StartProcess(replica))
	}
	b.ready(b.Replicas()...)

	if log := b.dies(stack.EngineName(0)); !strings.Contains(log, "the ledger is older than the topics") {
		t.Errorf("the engine ended with %s", log)
	}
	_ = b.StopProcess(t.Context(), stack.Producer) // it may have ended: the old ledger does not know its session
	b.must(b.StartProcess(stack.Producer))
	b.eventually("the front door tells nothing", func() bool {
		code, text := b.ask("GET", "/v1/payments/"+second, "")
		if code == http.StatusNotFound || code == http.StatusOK {
			t.Fatalf("it tells of a payment from an older ledger: %d %s", code, text)
		}

		return code == http.StatusServiceUnavailable && strings.Contains(text, "the ledger is older than the topics")
	})

	if code, text := b.ask("POST", "/v1/payments",
		fmt.Sprintf(`{"end_to_end_id": %q}`, second)); code != http.StatusServiceUnavailable {
		t.Errorf("an order: %d %s", code, text)
	}

	light := b.watch(b.ledgerClient())
	if red := light.turns(live.Red); !strings.Contains(red.Text, audit.WrongLedger) {
		t.Errorf("the light says %s", red.Text)
	}
	light.stop()

	if _, err := b.tryAudit(); err == nil || !strings.Contains(err.Error(), "older copy") {
		t.Errorf("the audit says %v", err)
	}
	b.stop()
	b.put(newest)
	b.must(b.start())

	for _, id := range []string{first, second} {
		if code, text := b.ask("GET", "/v1/payments/"+id, ""); code != http.StatusOK ||
			!strings.Contains(text, `"settled"`) {
			t.Errorf("%s with the newest copy: %d %s", id, code, text)
		}
	}
	b.audit()
}

// bootstrap runs it once more, with arguments and more settings.
func (s *system) bootstrap(arguments []string, env ...string) kit.Output {
	return kit.RunCommand(s.t,
		append(env, "KAFKA_BROKERS="+s.KafkaAddress(), "TIGERBEETLE_ADDRESSES="+s.TigerBeetleAddresses(),
			"TELEMETRY_ADDRESS=127.0.0.1:0"),
		filepath.Join(binaries, "bootstrap"), arguments...)
}

// What pix.settlements and pix.dead-letters kept is lost with them: nothing is begun until an operator has the
// engines write it again. Then nothing is missing.
func TestLostReportsAreWrittenAgain(t *testing.T) {
	s := start(t, 1)
	s.load(100, 600, "--mix", "demo").wait()
	kafka := s.kafka()
	defer kafka.Close()
	s.must(kit.ErrorOf(kadm.NewClient(kafka).DeleteTopics(t.Context(), stream.Settlements, stream.DeadLetters)))

	for _, name := range []string{stack.EngineName(0), stack.Producer} {
		s.eventually(name+" misses its topics", func() bool {
			err := s.Ready(t.Context(), name)
			return err != nil && strings.Contains(err.Error(), "UNKNOWN_TOPIC_OR_PARTITION")
		})
	}
	s.bootstrap(nil).Is(t, 1, "bootstrap retell", "TopicsChanged in deploy/runbook.md")
	s.bootstrap([]string{"retell"}).Is(t, 1, "stop all of them first")

	for _, name := range []string{stack.EngineName(0), stack.Producer} {
		s.must(s.StopProcess(t.Context(), name))
	}
	s.bootstrap([]string{"retell"}).Is(t, 0, "forgot what engines have finished")

	for _, name := range []string{stack.EngineName(0), stack.Producer} {
		s.bring(name)
	}
	s.settlesAgain()
	s.audit() // every payment has its report again, and every bad message its dead letter
}
