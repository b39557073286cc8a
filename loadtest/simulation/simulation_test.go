package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/liquida/liquida/platform/kit"
)

var (
	firstSeed = flag.Uint64("seed", 3, "the first seed") // a dense world, and then a sparse one
	seeds     = flag.Int("seeds", 2, "how many worlds")
	faultsOf  = flag.String("faults", "", "only these faults of each world, by number, like 3,17; empty: all")

	resultFile = flag.String("result", "", "of one world: where its result goes; it runs in this process")
	logFile    = flag.String("log", "", "of one world: where the services log")
)

// realTimeMax bounds a world: a goroutine that blocks outside of the bubble stops its time. A world
// takes seconds, but a machine may be busy.
const realTimeMax = 5 * time.Minute

var errStuck = fmt.Errorf("it did not end within %v of real time: it was stopped, and printed its goroutines",
	realTimeMax)

// play plays a test of this program with a seed, in a process of its own: a deadlock in a bubble ends its process. It
// returns what it printed.
func play(ctx context.Context, folder, test string, seed uint64, more ...string) (output []byte, err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, realTimeMax, errStuck)
	defer cancel()
	command := exec.CommandContext(ctx, program,
		append(more, "-test.run=^"+test+"$", "-test.v", "-test.timeout=0", fmt.Sprint("-seed=", seed))...)
	command.Env = append(os.Environ(), "TMPDIR="+folder) // it ends without removing its files
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGQUIT) } // it prints its goroutines
	command.WaitDelay = 10 * time.Second

	output, err = command.CombinedOutput()
	if err != nil && ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}

	return output, err
}

// needLocks skips a test in a program whose Kafka client has locks that stop virtual time.
func needLocks(t *testing.T) {
	t.Helper()

	if !withLocks {
		t.Skip("virtual time needs -tags synctests")
	}
}

// inBubble lets a world live in virtual time, and ends its process.
func inBubble(t *testing.T, live func(t *testing.T, log io.Writer)) {
	for name, value := range map[string]string{"KAFKA_BROKERS": brokerAddress,
		"KAFKA_BATCH_BYTES_MAX": strconv.Itoa(batchBytesMax), "TELEMETRY_ADDRESS": banksTelemetry,
		"HTTP_ADDRESS": banksAddress} {
		t.Setenv(name, value)
	}
	log := io.Discard

	if *logFile != "" {
		file, err := os.Create(*logFile)
		kit.Must(t, err)
		log = file
	}
	runtime.GOMAXPROCS(coresOf(*firstSeed))
	blockFinalizers()
	debug.SetGCPercent(garbagePercent)
	synctest.Test(t, func(t *testing.T) {
		// A service that died may still wait for its broker: its process would be gone. A bubble ends
		// only when nobody waits, so the process ends here, also after a Fatal.
		defer func() {
			if reason := recover(); reason != nil {
				panic(reason)
			}

			if t.Failed() {
				os.Exit(1)
			}
			os.Exit(0)
		}()
		live(t, log)
	})
}

// garbagePercent lets a world that lives for long grow to some hundred megabytes. Collections more often
// cost CPU, and less often the kernel clears as much new memory.
const garbagePercent = 800

// blockFinalizers keeps all finalizers from running. The Kafka client's codecs have some, which would
// touch the channels of a bubble from outside: that ends the process. One goroutine runs all finalizers.
func blockFinalizers() {
	blocked := make(chan struct{})
	runtime.SetFinalizer(new(string), func(*string) {
		close(blocked)

		select {}
	})
	runtime.GC()
	<-blocked
}

// coresOf returns how many cores the world of a seed runs on. Most worlds have one: the runner has a
// world for each core, and waking goroutines on another one cost a third of all CPU. The others have all,
// because goroutines that run at the same time come in more orders.
func coresOf(seed uint64) int {
	if chance(seed, 1<<32+3).IntN(8) == 0 {
		return runtime.GOMAXPROCS(0)
	}

	return 1
}

// chance returns the random numbers of one part of a world. No part changes those of another.
func chance(seed, part uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, part)) }

// TestWorld is one world, in the process that TestWorlds starts for it.
func TestWorld(t *testing.T) {
	if *resultFile == "" {
		t.Skip("TestWorlds runs it")
	}
	inBubble(t, func(t *testing.T, log io.Writer) {
		text, err := json.Marshal(live(t, *firstSeed, log))
		if err = errors.Join(err, os.WriteFile(*resultFile, text, 0o600)); err != nil {
			t.Fatal(err)
		}
	})
}

// TestWorlds runs a world for each seed and stops at the first that fails.
func TestWorlds(t *testing.T) {
	needLocks(t)

	logs, err := os.MkdirTemp("", "simulation-") //nolint:usetesting // the logs of a world that fails must stay
	kit.Must(t, err)
	t.Cleanup(func() { _ = os.Remove(logs) }) // if it is empty
	now := time.Now()
	r := &runner{t: t, logs: logs, began: now, lastProgress: now, faults: map[string]int{}}

	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for r.next() { //nolint:revive // it does all
			}
		})
	}
	all.Wait()
	r.progress()

	for _, kind := range slices.Sorted(maps.Keys(r.faults)) {
		fmt.Printf("simulation: %6d  %s\n", r.faults[kind], kind)
	}

	if failed := r.failed; failed != nil {
		t.Errorf("seed %d fails\n%s\nthe services' log: %s\nto run it again: make simulate SEEDS=1 SEED=%[1]d; with some of its faults: ARGS='-faults 3,17'",
			failed.seed, failed.text(), failed.log)
	}
}

// runner runs worlds, each in a process.
type runner struct {
	t     *testing.T
	logs  string // a folder that stays if a world fails
	began time.Time

	mu           sync.Mutex
	begun        int
	worlds       int // that have ended
	payments     int
	active       time.Duration
	faults       map[string]int
	failed       *outcome // of the lowest seed
	lastProgress time.Time
}

// next runs the world of the next seed. It returns false if there is none, or one has failed.
func (r *runner) next() bool {
	r.mu.Lock()
	seed, over := *firstSeed+uint64(r.begun), r.begun >= *seeds || r.failed != nil //nolint:gosec // not negative
	r.begun++
	r.mu.Unlock()

	if over {
		return false
	}

	log := filepath.Join(r.logs, fmt.Sprintf("seed-%d.log", seed))
	if *seeds == 1 && *logFile != "" {
		log = *logFile
	}

	o := r.process(seed, log)
	if !o.failed && log != *logFile {
		_ = os.Remove(log)
	}
	r.mu.Lock()
	defer r.mu.Unlock()

	r.worlds, r.active, r.payments = r.worlds+1, r.active+o.Active, r.payments+o.Payments
	for kind, n := range o.Faults {
		r.faults[kind] += n
	}

	if o.failed && (r.failed == nil || o.seed < r.failed.seed) {
		r.failed = &o
	}

	if time.Since(r.lastProgress) > 10*time.Second {
		r.lastProgress = time.Now()
		r.progress()
	}

	return true
}

func (r *runner) progress() {
	faults := 0
	for _, n := range r.faults {
		faults += n
	}
	fmt.Printf("simulation: %d of %d worlds in %v; %.2f virtual hours, %d payments and %d faults\n",
		r.worlds, *seeds, time.Since(r.began).Round(time.Second), r.active.Hours(), r.payments, faults)
}

// outcome is how the process of a world ended.
type outcome struct {
	result
	seed   uint64
	failed bool
	err    error // with which it ended
	output string
	log    string // file
}

// process runs a world.
func (r *runner) process(seed uint64, log string) outcome {
	folder, err := os.MkdirTemp(r.t.TempDir(), "")
	if err != nil {
		r.t.Error(err)
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "result")
	output, err := play(r.t.Context(), folder, "TestWorld", seed, "-result="+file, "-log="+log, "-faults="+*faultsOf)

	o := outcome{seed: seed, output: string(output), log: log, err: err}
	if text, err := os.ReadFile(file); err == nil {
		if err := json.Unmarshal(text, &o.result); err != nil {
			r.t.Error(err)
		}
	}

	o.failed = err != nil || len(o.Problems) > 0 || !o.Ended
	if !o.Ended && log != "" { // all that its goroutines did is in the output
		if err := os.WriteFile(log+".output", output, 0o600); err != nil {
			r.t.Error(err)
		}
	}

	return o
}

func (o *outcome) text() string {
	text := strings.Join(o.Problems, "\n")
	if len(o.Problems) == 0 || !o.Ended {
		lines := strings.SplitAfterN(o.output, "\n", 101) // of a process that ended by itself
		text += fmt.Sprintf("\nits process: %v\n%s", o.err, strings.Join(lines[:min(len(lines), 100)], ""))
	}

	return text + "\nwhat happened, in virtual time:\n" + strings.Join(o.Trace, "\n")
}
