package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/liquida/liquida/deploy/kafka"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/platform/kit"
)

// system is a running clearing house under test.
type system struct {
	*stack.Stack
	t       *testing.T
	folder  string // of its data and logs
	servers int64  // that it takes of servers
}

// start runs a fresh clearing house until the test ends, beside those of other tests. The logs of a
// failed test stay. E2E_KAFKA chooses the broker, as stack.Config.Kafka does.
func start(t *testing.T, engines int, change ...func(*stack.Config)) *system {
	t.Helper()
	t.Parallel()
	s := begin(t, engines, change...)
	t.Cleanup(s.end)
	return s
}

// readyMax bounds the start of a process. Where memory is short, a ledger server takes a minute and more.
const readyMax = 5 * time.Minute

// servers are permits for ledger servers: each takes more than 2 GiB of memory.
var servers = semaphore.NewWeighted(stacksAtOnce)

func begin(t *testing.T, engines int, change ...func(*stack.Config)) *system {
	t.Helper()
	folder, err := os.MkdirTemp("", "liquida-e2e-") //nolint:usetesting // the logs of a failed test must stay
	kit.Must(t, err)
	config := stack.Config{
		Dir: folder, BinDir: binaries, Ports: stack.FreePorts, Engines: engines, CacheGrid: "64MiB",
		Kafka: os.Getenv("E2E_KAFKA"), ReadyWithin: readyMax,
		Env: map[string][]string{
			stack.Engine: {
				"ENGINE_DEADLINE=" + deadline.String(), "ENGINE_PENDING_TIMEOUT=" + pendingTimeout.String(),
				// A stopping engine waits half of it for silent banks, and its partitions wait,
				// too. It must be well below the deadline.
				"SHUTDOWN_TIMEOUT=4s",
			},
			stack.Simulator: {"SIMULATOR_LATE_DELAY=" + lateDelay.String()},
		},
	}
	for _, change := range change {
		change(&config)
	}
	s := &system{t: t, folder: folder, servers: int64(max(1, config.Replicas))}
	kit.Must(t, servers.Acquire(t.Context(), s.servers))
	s.Stack, err = stack.Start(t.Context(), config)
	if err != nil {
		servers.Release(s.servers)
	}
	if errors.Is(err, kafka.ErrMissing) {
		_ = os.RemoveAll(folder)
		t.Skip(err)
	}
	if err != nil {
		t.Fatalf("%v\n(logs in %s)", err, folder)
	}
	return s
}

// end stops the clearing house, and fails the test if a process ended unasked.
func (s *system) end() {
	t := s.t
	defer servers.Release(s.servers)
	if err := s.Stop(context.Background()); err != nil {
		t.Errorf("cannot stop in order: %v", err)
	}
	for _, crash := range s.Crashes() {
		t.Errorf("%s ended unasked (%s):\n%s", crash.Name, crash.How, crash.Log)
	}
	if t.Failed() {
		_ = os.RemoveAll(filepath.Join(s.folder, "data", "tigerbeetle")) // gigabytes
		t.Logf("logs and topics are in %s", s.folder)
		return
	}
	_ = os.RemoveAll(s.folder)
}
