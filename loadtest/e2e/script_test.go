package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/deploy/kafka"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/chaos"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/sandbox"
)

// Real processes die, freeze and are cut off while payments flow: what virtual time cannot show
// of kills, of a frozen engine, of torn connections and of the real ledger. make chaos has all kinds.
func TestChaos(t *testing.T) {
	script(t, 200, 34*time.Second, "2s crash-engine, 5s crash-producer, 6s suspend-bank, 8s pause-engine, 10s kill-bank, 13s kill-broker, 17s kill-engine-takeover, 20s half-open-ledger, 24s stall-kafka, 29s kill-ledger")
}

// An engine is frozen for longer than its session, so that the other takes over. Then it
// continues as a zombie, which believes that it still owns its partitions.
func TestZombieEngine(t *testing.T) {
	r := script(t, 300, 22*time.Second, "3s pause-engine, 12s pause-engine")
	owned := 0
	for _, event := range r.Events {
		if event.Lasted() < 3.5 {
			t.Errorf("%s was stopped for %.1f s: not past its session, so no zombie", event.Target, event.Lasted())
		}
		owned += len(event.Partitions)
	}
	if owned == 0 { // on a busy machine one that has just joined again may own nothing yet
		t.Error("no engine owned anything when it was stopped")
	}
}

// Each of three brokers dies or freezes, and with it the leaders of partitions. What they alone had acknowledged would
// be gone. Only Apache Kafka has several.
func TestLeadersKilled(t *testing.T) {
	if os.Getenv("E2E_KAFKA") != stack.Apache {
		t.Skip("the embedded broker is alone")
	}
	script(t, 200, 40*time.Second, "4s kill-broker, 12s kill-broker, 20s pause-broker, 28s kill-broker, 34s kill-engine", func(c *chaos.Config) { c.Brokers = 3 })
}

// script runs a script, and fails the test unless the run passes.
func script(t *testing.T, rate float64, duration time.Duration, text string, change ...func(*chaos.Config)) *chaos.Result {
	t.Helper()
	t.Parallel()
	plan, err := chaos.ParseScript(text, 1)
	kit.Must(t, err)
	folder, err := os.MkdirTemp("", "liquida-e2e-chaos-") //nolint:usetesting // the logs of a failed test must stay
	kit.Must(t, err)
	live, err := os.Create(filepath.Join(folder, "live.txt"))
	kit.Must(t, err)
	defer live.Close()
	kit.Must(t, servers.Acquire(t.Context(), 1))
	defer servers.Release(1)
	config := chaos.Config{
		Dir: folder, BinDir: binaries, Kafka: os.Getenv("E2E_KAFKA"), Engines: 2, Population: population,
		Seed: 1, Rate: rate, Duration: duration, MixName: "demo", Plan: plan, Deadline: 12 * time.Second, Live: live,
	}
	for _, change := range change {
		change(&config)
	}
	r, err := chaos.Run(t.Context(), config)
	if errors.Is(err, kafka.ErrMissing) {
		_ = os.RemoveAll(folder)
		t.Skip(err)
	}
	if err != nil {
		t.Fatalf("%v\n(logs in %s)", err, folder)
	}
	var said strings.Builder
	r.Write(&said)
	t.Log(said.String())
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
