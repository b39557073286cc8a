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
	t *testing.T
}

// start runs a fresh clearing house until the test ends, beside those of other tests. The logs of a
// failed test stay. E2E_KAFKA chooses the broker, as stack.Config.Kafka does.
func start(t *testing.T, engines int, change ...func(*stack.Config)) *system {
	t.Helper()
	t.Parallel()
	h := begin(t, engines, change...)
	t.Cleanup(func() { h.end(t) })
	return &system{h.Stack, t}
}

// readyMax bounds the start of a process. Where memory is short, a ledger server takes a minute and more.
const readyMax = 5 * time.Minute

// servers are permits for ledger servers: each takes more than 2 GiB of memory.
var servers = semaphore.NewWeighted(stacksAtOnce)

// house is a running clearing house, with the folder of its data and logs.
type house struct {
	*stack.Stack
	folder  string
	servers int64
}

func begin(t *testing.T, engines int, change ...func(*stack.Config)) *house {
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
	h := &house{folder: folder, servers: int64(max(1, config.Replicas))}
	kit.Must(t, servers.Acquire(t.Context(), h.servers))
	h.Stack, err = stack.Start(t.Context(), config)
	if err != nil {
		servers.Release(h.servers)
	}
	if errors.Is(err, kafka.ErrMissing) {
		_ = os.RemoveAll(folder)
		t.Skip(err)
	}
	if err != nil {
		t.Fatalf("%v\n(logs in %s)", err, folder)
	}
	return h
}

// end stops the clearing house, and fails the test if a process ended unasked.
func (h *house) end(t *testing.T) {
	defer servers.Release(h.servers)
	if err := h.Stop(context.Background()); err != nil {
		t.Errorf("cannot stop in order: %v", err)
	}
	for _, crash := range h.Crashes() {
		t.Errorf("%s ended unasked (%s):\n%s", crash.Name, crash.How, crash.Log)
	}
	if t.Failed() {
		_ = os.RemoveAll(filepath.Join(h.folder, "data", "tigerbeetle")) // gigabytes
		t.Logf("logs and topics are in %s", h.folder)
		return
	}
	_ = os.RemoveAll(h.folder)
}
