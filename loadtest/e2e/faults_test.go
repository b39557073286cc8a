package e2e

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liquida/liquida/deploy/kafka"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/chaos"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/sandbox"
)

// duringFaults excuses AB03, LQ10 and LQ13: an outage may last longer than the deadline, or leave too little of it.
var duringFaults = []string{"--mix", "demo", "--allow", "AB03,LQ10,LQ13"}

// The engine is killed again and again in the middle of a load. Its successor finishes what it
// began, from the ledger and redelivery alone.
func TestEngineKilledTenTimes(t *testing.T) {
	s := start(t, 1)

	load := s.load(500, 10_000, duringFaults...)
	for range 10 {
		load.progress(50)
		time.Sleep(rand.N(500 * time.Millisecond)) // at a random point of its work
		s.must(s.Kill(stack.EngineName(0)))
		s.bring(stack.EngineName(0))
	}
	load.proven()
}

// One at a time of three TigerBeetle replicas is lost and comes back: the first two are killed,
// the third freezes. Each is usually the primary at that time, because the primary moves to the
// next replica. The other two go on. On a busy machine three replicas may be slower than the
// deadline, so AB03 is excused; the audit excuses nothing.
func TestReplicaLost(t *testing.T) {
	s := start(t, 1, func(c *stack.Config) { c.Replicas = 3 })
	load := s.load(200, 6000, duringFaults...)

	replicas := s.Replicas()
	for _, replica := range replicas {
		lose, bring := s.Kill, s.StartProcess
		if replica == replicas[2] {
			lose, bring = s.Pause, s.Resume
		}
		load.progress(100)
		s.must(lose(replica))
		load.progress(100) // on two replicas
		s.ready(stack.EngineName(0))
		s.must(bring(replica))
		s.ready(replica)
	}
	load.proven()
}

// The broker's disk is full in the middle of a load. The broker stops by itself and says why.
// When there is room again, every acknowledged payment ends.
func TestBrokerDiskFull(t *testing.T) {
	s := start(t, 1)
	s.must(s.Kill(stack.Broker))
	stopped, err := s.StartToDie(stack.Broker)
	s.must(err)
	s.ready(stack.Broker, stack.EngineName(0))
	load := s.load(400, 4000, duringFaults...)
	load.progress(400)
	// The disk looks full to the process: none of its files, its log included, can grow past so many bytes. That is
	// much more than its log, and less than a topic. It needs no privileges.
	var limit unix.Rlimit
	s.must(unix.Prlimit(s.PID(stack.Broker), unix.RLIMIT_FSIZE, nil, &limit))
	limit.Cur = 64 << 10
	s.must(unix.Prlimit(s.PID(stack.Broker), unix.RLIMIT_FSIZE, &limit, nil))
	log := s.lastWords(stack.Broker, stopped)

	data := filepath.Join(filepath.Dir(filepath.Dir(s.Log(stack.Broker))), "data")
	if !strings.Contains(strings.ToLower(log), "file too large") || !strings.Contains(log, data) {
		t.Errorf("the broker did not say that its disk in %s is full:\n%s", data, log)
	}
	s.bring(stack.Broker, stack.EngineName(0))
	load.proven()
}

// Real processes die, freeze and are cut off while payments flow: what virtual time cannot show
// of kills, of a frozen engine, of torn connections and of the real ledger. make chaos has all kinds.
func TestChaos(t *testing.T) {
	script(t, 200, 10*time.Second, // the load goes on until the last fault is over
		"2s crash-engine, 5s crash-producer, 6s suspend-bank, 8s pause-engine, 10s kill-bank, 13s kill-broker, 17s kill-engine-takeover, 20s half-open-ledger, 24s stall-kafka, 29s kill-ledger")
}

// Each of three brokers dies or freezes, and with it the leaders of partitions. What they alone had acknowledged would
// be gone. Only Apache Kafka has several.
func TestLeadersKilled(t *testing.T) {
	if os.Getenv("E2E_KAFKA") != stack.Apache {
		t.Skip("the embedded broker is alone")
	}
	script(t, 120, 80*time.Second,
		"4s kill-broker, 22s kill-broker, 40s pause-broker, 55s kill-broker, 70s kill-engine", func(c *chaos.Config) {
			c.Brokers = 3
		})
}

// script runs a script, and fails the test unless the run passes.
func script(t *testing.T, rate float64, duration time.Duration, text string, change ...func(*chaos.Config)) {
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

	if !r.Passed || len(r.Events) != len(plan) || float64(r.Load.Sent) < rate*r.Events[len(plan)-1].Began {
		t.Fatalf("the run failed; %d faults of %d were injected, %d payments sent; data, logs and live.txt are in %s",
			len(r.Events), len(plan), r.Load.Sent, folder)
	}
	_ = os.RemoveAll(folder)
}

// population is the default population of the sandbox.
var population = sandbox.Population{Banks: 5, Customers: 5000, DepositCentavos: 100_000_000,
	ReserveCentavos: 1_000_000_000_000}
