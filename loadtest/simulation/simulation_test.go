package simulation

import (
	"bytes"
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
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

var (
	firstSeed  = flag.Uint64("seed", 1, "the first seed")
	seeds      = flag.Int("seeds", 4, "how many worlds")
	repeat     = flag.Int("repeat", 0, "how often the first seed that failed runs again")
	resultFile = flag.String("result", "", "of one world: where its result goes; it runs in this process")
	logFile    = flag.String("log", "", "of one world: where the services log")
)

// realTimeMax bounds a world: a goroutine that blocks outside of the bubble stops its time.
const realTimeMax = 2 * time.Minute

// TestWorld is one world, in the process that TestWorlds starts for it.
func TestWorld(t *testing.T) {
	if *resultFile == "" {
		t.Skip("TestWorlds runs it")
	}
	t.Setenv("KAFKA_BROKERS", brokerAddress)
	t.Setenv("TELEMETRY_ADDRESS", "127.0.0.1:9102")
	t.Setenv("HTTP_ADDRESS", banksAddress)
	log := io.Discard
	if *logFile != "" {
		file, err := os.Create(*logFile)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		log = file
	}
	var r result
	synctest.Test(t, func(t *testing.T) { r = live(t, *firstSeed, log) })
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*resultFile, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestWorlds runs a world for each seed and stops at the first that fails. Each is a process,
// because a deadlock in a bubble ends its process.
func TestWorlds(t *testing.T) {
	if *resultFile != "" {
		t.Skip("TestWorld runs")
	}
	world := build(t)
	began := time.Now()
	var mu sync.Mutex
	var next, done, payments int
	var virtual, cpu time.Duration
	faults := map[string]int{}
	var failed *outcome
	progress := func() {
		n := 0
		for _, count := range faults {
			n += count
		}
		elapsed := time.Since(began)
		fmt.Printf("simulation: %d of %d worlds, %.2f virtual hours, %d payments, %d faults; %.2f virtual hours per real minute, %.2f per minute of CPU; %.0f payments and %.0f faults per minute of CPU\n",
			done, *seeds, virtual.Hours(), payments, n, virtual.Hours()/elapsed.Minutes(), virtual.Hours()/cpu.Minutes(), float64(payments)/cpu.Minutes(), float64(n)/cpu.Minutes())
	}
	told := began
	var workers sync.WaitGroup
	for range runtime.NumCPU() {
		workers.Go(func() {
			for {
				mu.Lock()
				if next == *seeds || failed != nil {
					mu.Unlock()
					return
				}
				seed := *firstSeed + uint64(next)
				next++
				mu.Unlock()
				o := process(t, world, seed)
				mu.Lock()
				done++
				virtual, cpu, payments = virtual+o.Virtual, cpu+o.cpu, payments+o.Payments
				for kind, n := range o.Faults {
					faults[kind] += n
				}
				if o.failed && (failed == nil || o.seed < failed.seed) {
					failed = &o
				}
				if time.Since(told) > 10*time.Second {
					told = time.Now()
					progress()
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	progress()
	for _, kind := range slices.Sorted(maps.Keys(faults)) {
		fmt.Printf("simulation: %6d  %s\n", faults[kind], kind)
	}
	if failed == nil {
		return
	}
	t.Errorf("seed %d fails\n%s\nto run it again: make simulate SEEDS=1 SEED=%d", failed.seed, failed.text(), failed.seed)
	if *repeat > 0 {
		fails := 0
		for range *repeat {
			if process(t, world, failed.seed).failed {
				fails++
			}
		}
		t.Errorf("seed %d fails in %d of %d more runs: the seed decides load and faults, the scheduler decides who is first", failed.seed, fails, *repeat)
	}
}

// outcome is how the process of a world ended.
type outcome struct {
	result
	seed   uint64
	failed bool
	output string
	cpu    time.Duration
}

// build returns the program of one world. With its tag synctests, the Kafka client has locks
// that let virtual time pass for those who wait.
func build(t *testing.T) (program string) {
	program = filepath.Join(t.TempDir(), "world")
	if output, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags", "synctests", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("cannot build a world: %v\n%s", err, output)
	}
	return program
}

func process(t *testing.T, program string, seed uint64) outcome {
	file := filepath.Join(t.TempDir(), "result")
	arguments := []string{"-test.run=^TestWorld$", "-test.timeout=0", "-seed=" + strconv.FormatUint(seed, 10), "-result=" + file}
	if *seeds == 1 && *logFile != "" {
		arguments = append(arguments, "-log="+*logFile)
	}
	ctx, cancel := context.WithTimeout(t.Context(), realTimeMax)
	defer cancel()
	command := exec.CommandContext(ctx, program, arguments...)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGQUIT) } // it prints its goroutines
	command.WaitDelay = 10 * time.Second
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	err := command.Run()
	o := outcome{seed: seed, failed: err != nil, output: output.String()}
	if command.ProcessState != nil {
		o.cpu = command.ProcessState.UserTime() + command.ProcessState.SystemTime()
	}
	if text, err := os.ReadFile(file); err == nil {
		if err := json.Unmarshal(text, &o.result); err != nil {
			t.Error(err)
		}
	}
	o.failed = o.failed || len(o.Problems) > 0
	return o
}

func (o outcome) text() string {
	if len(o.Problems) == 0 { // the process ended before it could say what happened
		return o.output
	}
	return strings.Join(o.Problems, "\n") + "\nwhat happened, in virtual time:\n" + strings.Join(o.Trace, "\n")
}

// chance returns the random numbers of one part of a world. No part changes those of another.
func chance(seed, part uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, part)) }
