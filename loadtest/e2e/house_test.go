package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
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

// kind is a clearing house that tests use one after the other: its start costs seconds of CPU. A test
// that passes leaves it whole, with more in its books. A failed test ends it, and keeps its logs.
type kind struct {
	engines int
	change  []func(*stack.Config)

	left int // tests that have not begun, and need none that is fresh
	idle []*house
}

var (
	plain = &kind{engines: 1}
	// pair has a broker that takes batches which no client can read.
	pair = &kind{engines: 2, change: []func(*stack.Config){func(c *stack.Config) { c.Env[stack.Broker] = []string{"BROKER_CHECK_BATCHES=false"} }}}
)

// idleMax bounds the houses that wait for their next test.
const idleMax = 1

var kinds struct {
	sync.Mutex
	idle int // houses
}

// readyMax bounds the start of a process. Where memory is short, a ledger server takes a minute and more.
const readyMax = 5 * time.Minute

// servers are permits for ledger servers: each takes more than 2 GiB of memory.
var servers = semaphore.NewWeighted(stacksAtOnce + idleMax)

// house is a running clearing house, with the folder of its data and logs.
type house struct {
	*stack.Stack
	folder  string
	servers int64
	seen    int // of its crashes
}

// start is like the function, but the clearing house may have served other tests of this kind.
func (k *kind) start(t *testing.T) *system { t.Helper(); return k.take(t, false) }

// startFresh is start for a test that counts everything in the books.
func (k *kind) startFresh(t *testing.T) *system { t.Helper(); return k.take(t, true) }

func (k *kind) take(t *testing.T, fresh bool) *system {
	t.Helper()
	k.expect(fresh, 1) // all tests pass here before the first of them goes on
	t.Parallel()
	h := k.expect(fresh, -1)
	if h == nil {
		h = begin(t, k.engines, k.change...)
	}
	t.Cleanup(func() {
		h.tell(t)
		kinds.Lock()
		stays := !t.Failed() && len(k.idle) < k.left && kinds.idle < idleMax
		if stays {
			k.idle = append(k.idle, h)
			kinds.idle++
		}
		kinds.Unlock()
		if !stays {
			h.end(t)
		}
	})
	return &system{h.Stack, t}
}

// expect counts the tests to come. If this one comes now, it returns a house that waits for it, if any.
func (k *kind) expect(fresh bool, tests int) (h *house) {
	kinds.Lock()
	defer kinds.Unlock()
	if fresh {
		return nil
	}
	k.left += tests
	if n := len(k.idle); n > 0 && tests < 0 {
		h, k.idle = k.idle[n-1], k.idle[:n-1]
		kinds.idle--
	}
	return h
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

// tell fails the test if a process ended unasked.
func (h *house) tell(t *testing.T) {
	crashes := h.Crashes()
	for _, crash := range crashes[h.seen:] {
		t.Errorf("%s ended unasked (%s):\n%s", crash.Name, crash.How, crash.Log)
	}
	h.seen = len(crashes)
}

// end stops the clearing house.
func (h *house) end(t *testing.T) {
	defer servers.Release(h.servers)
	if err := h.Stop(context.Background()); err != nil {
		t.Errorf("cannot stop in order: %v", err)
	}
	h.tell(t)
	if t.Failed() {
		_ = os.RemoveAll(filepath.Join(h.folder, "data", "tigerbeetle")) // gigabytes
		t.Logf("logs and topics are in %s", h.folder)
		return
	}
	_ = os.RemoveAll(h.folder)
}
