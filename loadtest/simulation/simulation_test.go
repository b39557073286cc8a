package simulation

import (
	"context"
	"encoding/json"
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
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var (
	firstSeed   = flag.Uint64("seed", 3, "the first seed") // a dense world, and then a sparse one
	seeds       = flag.Int("seeds", 2, "how many worlds")
	repeat      = flag.Int("repeat", 0, "how often the first seed that failed runs again")
	shrinkFor   = flag.Duration("shrink", 0, "how long to look for a smaller world that fails like the first one; 0: not at all")
	tries       = flag.Int("tries", 6, "how often a smaller world runs until it counts as one that does not fail")
	paymentsMax = flag.Int("payments", 0, "only so many payments of each world, its first; 0: all")
	chosen      = numbers{all: true}
	resultFile  = flag.String("result", "", "of one world: where its result goes; it runs in this process")
	logFile     = flag.String("log", "", "of one world: where the services log")
)

func init() {
	flag.Var(&chosen, "faults", "only these faults of each world, like 3,17; or all, or none")
}

// realTimeMax bounds a world: a goroutine that blocks outside of the bubble stops its time. A world
// takes seconds, but a machine may be busy.
const realTimeMax = 5 * time.Minute

// TestWorld is one world, in the process that TestWorlds starts for it.
func TestWorld(t *testing.T) {
	if *resultFile == "" {
		t.Skip("TestWorlds runs it")
	}
	setWorldEnvironment(t)
	log := openLog(t)
	tell := func(r result) {
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(*resultFile, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GOMAXPROCS(coresOf(*firstSeed))
	blockFinalizers()
	debug.SetGCPercent(garbagePercent)
	synctest.Test(t, func(t *testing.T) {
		tell(live(t, *firstSeed, log, tell))
		if !t.Failed() {
			// A service that died in this world may still wait for its broker: its process would be
			// gone. A bubble ends only when nobody waits.
			pprof.StopCPUProfile() // of -test.cpuprofile
			os.Exit(0)
		}
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

// openLog returns where the services of a world log.
func openLog(t *testing.T) io.Writer {
	if *logFile == "" {
		return io.Discard
	}
	file, err := os.Create(*logFile)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}

func setWorldEnvironment(t *testing.T) {
	t.Setenv("KAFKA_BROKERS", brokerAddress)
	t.Setenv("KAFKA_BATCH_BYTES_MAX", strconv.Itoa(batchBytesMax))
	t.Setenv("TELEMETRY_ADDRESS", banksTelemetry)
	t.Setenv("HTTP_ADDRESS", banksAddress)
}

// TestWorlds runs a world for each seed and stops at the first that fails. Each is a process,
// because a deadlock in a bubble ends its process.
func TestWorlds(t *testing.T) {
	if *resultFile != "" {
		t.Skip("TestWorld runs")
	}
	r := newRunner(t)
	if failed := r.run(); failed != nil {
		r.explain(failed)
	}
}

// runner runs worlds, each in a process.
type runner struct {
	t       *testing.T
	program string // of one world
	logs    string // a folder that stays if a world fails
	began   time.Time

	mu           sync.Mutex
	next         int
	all          tally
	byKind       map[string]*tally
	faults       map[string]int
	parts        map[string]time.Duration // CPU time by part of a life
	failed       *outcome                 // of the lowest seed
	lastProgress time.Time
}

// tally counts what happened in worlds.
type tally struct {
	worlds, payments, faults int
	active, cpu              time.Duration
}

func (a *tally) add(o *outcome) {
	a.worlds++
	a.active, a.cpu, a.payments = a.active+o.Active, a.cpu+o.cpu, a.payments+o.Payments+o.Calm
	for _, n := range o.Faults {
		a.faults += n
	}
}

func (a *tally) String() string {
	minutes := a.cpu.Minutes()
	return fmt.Sprintf("%.2f virtual hours with load or faults, %.1f an hour of CPU; %d payments and %d faults, %.0f and %.0f a minute of CPU",
		a.active.Hours(), a.active.Hours()/minutes*60, a.payments, a.faults, float64(a.payments)/minutes, float64(a.faults)/minutes)
}

func newRunner(t *testing.T) *runner {
	logs, err := os.MkdirTemp("", "simulation-") //nolint:usetesting // the logs of a world that fails must stay
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(logs) }) // if it is empty
	now := time.Now()
	return &runner{t: t, program: builtOnce(t), logs: logs, began: now, lastProgress: now, faults: map[string]int{}, byKind: map[string]*tally{}, parts: map[string]time.Duration{}}
}

// run runs all seeds until one fails. It returns the lowest that failed.
func (r *runner) run() *outcome {
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				r.mu.Lock()
				if r.next == *seeds || r.failed != nil {
					r.mu.Unlock()
					return
				}
				seed := *firstSeed + uint64(r.next) //nolint:gosec // not negative
				r.next++
				r.mu.Unlock()
				log := filepath.Join(r.logs, fmt.Sprintf("seed-%d.log", seed))
				if *seeds == 1 && *logFile != "" {
					log = *logFile
				}
				o := r.process(r.t.Context(), seed, part{*paymentsMax, chosen}, log)
				if !o.failed && log != *logFile {
					_ = os.Remove(log)
				}
				r.count(&o)
			}
		})
	}
	workers.Wait()
	r.progress()
	for _, kind := range slices.Sorted(maps.Keys(r.byKind)) {
		fmt.Printf("simulation: %d %s worlds: %v\n", r.byKind[kind].worlds, kind, r.byKind[kind])
	}
	if r.all.cpu > 0 {
		var parts []string
		for _, part := range slices.Sorted(maps.Keys(r.parts)) {
			parts = append(parts, fmt.Sprintf("%s %.0f %%", part, 100*r.parts[part].Seconds()/r.all.cpu.Seconds()))
		}
		fmt.Printf("simulation: of the CPU, %s\n", strings.Join(parts, ", "))
	}
	for _, kind := range slices.Sorted(maps.Keys(r.faults)) {
		fmt.Printf("simulation: %6d  %s\n", r.faults[kind], kind)
	}
	return r.failed
}

func (r *runner) count(o *outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all.add(o)
	if r.byKind[o.Kind] == nil {
		r.byKind[o.Kind] = &tally{}
	}
	r.byKind[o.Kind].add(o)
	for kind, n := range o.Faults {
		r.faults[kind] += n
	}
	for part, cpu := range o.CPU {
		r.parts[part] += cpu
	}
	if o.failed && (r.failed == nil || o.seed < r.failed.seed) {
		r.failed = o
	}
	if time.Since(r.lastProgress) > 10*time.Second {
		r.lastProgress = time.Now()
		r.progress()
	}
}

func (r *runner) progress() {
	elapsed := time.Since(r.began)
	fmt.Printf("simulation: %d of %d worlds in %v; %v; %.2f virtual hours a real minute\n",
		r.all.worlds, *seeds, elapsed.Round(time.Second), &r.all, r.all.active.Hours()/elapsed.Minutes())
}

// explain prints what failed, how often it fails, and a smaller world that fails, too.
func (r *runner) explain(failed *outcome) {
	r.t.Errorf("seed %d fails\n%s\nthe services' log: %s\nto run it again: %s",
		failed.seed, failed.text(), failed.log, part{*paymentsMax, chosen}.command(failed.seed))
	if *repeat > 0 {
		fails := r.fails(r.t.Context(), failed.seed, part{*paymentsMax, chosen}, *repeat, *repeat)
		r.t.Errorf("seed %d fails in %d of %d more runs: the seed decides load and faults, the scheduler decides who is first", failed.seed, fails, *repeat)
	}
	if *shrinkFor > 0 {
		r.shrink(failed)
	}
}

// outcome is how the process of a world ended.
type outcome struct {
	result
	seed   uint64
	failed bool
	err    error // with which it ended
	output string
	log    string // file
	cpu    time.Duration
}

// process runs a world, or a part of it.
func (r *runner) process(ctx context.Context, seed uint64, p part, log string) outcome {
	folder, err := os.MkdirTemp(r.t.TempDir(), "")
	if err != nil {
		r.t.Error(err)
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "result")
	arguments := append([]string{"-test.run=^TestWorld$", "-test.timeout=0", "-seed=" + strconv.FormatUint(seed, 10), "-result=" + file, "-log=" + log}, p.flags()...)
	command := exec.Command(r.program, arguments...)
	command.Env = append(os.Environ(), "TMPDIR="+folder) // it may end without removing its files
	output, err := runProgram(ctx, command, realTimeMax)
	o := outcome{seed: seed, failed: err != nil, output: string(output), log: log, err: err}
	if command.ProcessState != nil {
		o.cpu = command.ProcessState.UserTime() + command.ProcessState.SystemTime()
	}
	if text, err := os.ReadFile(file); err == nil {
		if err := json.Unmarshal(text, &o.result); err != nil {
			r.t.Error(err)
		}
	}
	o.failed = o.failed || len(o.Problems) > 0
	if !o.Ended && log != "" { // all that its goroutines did is in the output
		if err := os.WriteFile(log+".output", output, 0o600); err != nil {
			r.t.Error(err)
		}
	}
	return o
}

// outputMax is how many lines of a process that ended by itself are printed.
const outputMax = 100

func (o *outcome) text() string {
	text := strings.Join(o.Problems, "\n")
	if len(o.Problems) == 0 || !o.Ended {
		text += fmt.Sprintf("\nits process: %v", o.err)
		lines := strings.SplitAfterN(o.output, "\n", outputMax+1)
		text += "\n" + strings.Join(lines[:min(len(lines), outputMax)], "")
	}
	return text + "\nwhat happened, in virtual time:\n" + strings.Join(o.Trace, "\n")
}

// chance returns the random numbers of one part of a world. No part changes those of another.
func chance(seed, part uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, part)) }
