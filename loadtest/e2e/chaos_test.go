package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/deploy/kafka"
	"github.com/liquida/liquida/loadtest/chaos"
	"github.com/liquida/liquida/platform/sandbox"
)

// Faults of every kind. The seed decides their order and times.
func TestChaos(t *testing.T) {
	names, err := chaos.ParseKinds("all")
	if err != nil {
		t.Fatal(err)
	}
	const duration = time.Minute
	breakIt(t, 300, duration, chaos.Plan(1, duration, names))
}

// An engine is frozen for longer than its session, so that the other takes over. Then it
// continues as a zombie, which believes that it still owns its partitions.
func TestZombieEngine(t *testing.T) {
	r := script(t, 300, 38*time.Second, "5s pause-engine, 15s pause-engine, 25s pause-engine")
	for _, event := range r.Events {
		if event.Lasted() < 3.5 {
			t.Errorf("%s was stopped for %.1f s: not past its session, so no zombie", event.Target, event.Lasted())
		}
		if len(event.Partitions) == 0 {
			t.Errorf("%s owned nothing when it was stopped", event.Target)
		}
	}
}

// The network between an engine and Kafka is cut, held in one and in both directions, and
// slowed.
func TestNetworkToKafka(t *testing.T) {
	script(t, 300, 40*time.Second, "5s cut-kafka, 12s stall-kafka, 19s half-open-kafka, 26s slow-kafka, 33s cut-kafka")
}

// The network between an engine and the ledger breaks in the same ways.
func TestNetworkToLedger(t *testing.T) {
	script(t, 300, 40*time.Second, "5s cut-ledger, 12s stall-ledger, 19s half-open-ledger, 26s slow-ledger, 33s cut-ledger")
}

// A transaction that nobody ends, and an engine that meets another log.
func TestForeignLogAndHangingTransaction(t *testing.T) {
	script(t, 200, 45*time.Second, "5s hanging-transaction, 16s topic-recreated, 28s hanging-transaction")
}

// Banks are silent, late and slow, respond twice and reject; others forge their responses.
func TestBanksMisbehave(t *testing.T) {
	r := script(t, 300, 52*time.Second, "5s bank-silent, 7s bank-late, 15s bank-slow, 20s bank-duplicate, 25s bank-rejecting, 30s forge-answers, 40s forge-answers")
	for what, count := range map[string]float64{
		"late answers": r.Counters.AnswersLate, "answers about unknown payments": r.Counters.AnswersOdd, "answers of banks not asked": r.Counters.AnswersForged,
	} {
		if count == 0 {
			t.Errorf("the engines saw no %s: the test is not what it says", what)
		}
	}
}

// The producer's clock is wrong, either way: it takes nothing, and takes back nothing that it said.
func TestTheProducersClockIsWrong(t *testing.T) {
	script(t, 300, 50*time.Second, "5s skewed-producer, 18s skewed-producer, 31s skewed-producer")
}

// Batches that no client can read, and some that unpack to 900 MB, while engines come and go.
func TestHostileBatchesWhileEnginesRestart(t *testing.T) {
	r := script(t, 300, 40*time.Second, "5s unreadable-batch, 7s bomb, 10s kill-engine, 12s unreadable-batch, 14s unreadable-batch, 20s pause-engine, 22s bomb, 24s unreadable-batch, 30s kill-broker, 33s unreadable-batch")
	if s := r.Audit.Summary; s.AnswersUnread != "" || s.Answered == 0 {
		t.Errorf("a bank that writes what cannot be read keeps the audit from checking seals: %d outcomes checked, %s", s.Answered, s.AnswersUnread)
	}
}

// Engines join and leave, in order and by force.
func TestEnginesComeAndGo(t *testing.T) {
	script(t, 300, 52*time.Second, "5s add-engine, 8s remove-engine, 20s kill-engine-takeover, 24s add-engine, 38s restart-engines, 40s add-engine")
}

func script(t *testing.T, rate float64, duration time.Duration, text string) *chaos.Result {
	t.Helper()
	plan, err := chaos.ParseScript(text, 1)
	if err != nil {
		t.Fatal(err)
	}
	return breakIt(t, rate, duration, plan)
}

// breakIt runs a plan, and fails the test unless the run passes.
func breakIt(t *testing.T, rate float64, duration time.Duration, plan []chaos.PlannedFault) *chaos.Result {
	t.Helper()
	folder, err := os.MkdirTemp("", "liquida-e2e-chaos-") //nolint:usetesting // the logs of a failed test must stay
	if err != nil {
		t.Fatal(err)
	}
	live, err := os.Create(filepath.Join(folder, "live.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	r, err := chaos.Run(t.Context(), chaos.Config{
		Dir: folder, BinDir: binaries, Kafka: os.Getenv("E2E_KAFKA"), Engines: 2, Population: population,
		Seed: 1, Rate: rate, Duration: duration, MixName: "demo", Plan: plan, Deadline: 12 * time.Second, Live: live,
	})
	if errors.Is(err, kafka.ErrMissing) {
		_ = os.RemoveAll(folder)
		t.Skip(err)
	}
	if err != nil {
		t.Fatalf("%v\n(logs in %s)", err, folder)
	}
	var text strings.Builder
	r.Write(&text)
	t.Log(text.String())
	if !r.Passed {
		t.Errorf("the run failed; data, logs and live.txt are in %s", folder)
		return r
	}
	if len(r.Events) != len(plan) {
		t.Errorf("%d faults of %d were injected", len(r.Events), len(plan))
	}
	_ = os.RemoveAll(folder)
	return r
}

// population is the default population of the sandbox.
var population = sandbox.Population{Banks: 5, Customers: 5000, DepositCentavos: 100_000_000, ReserveCentavos: 1_000_000_000_000}
