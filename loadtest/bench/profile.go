package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/liquida/liquida/loadtest/meter"
)

// Profile sums up the profiles of an engine, taken one after another at its maximum.
type Profile struct {
	Folder         string  `json:"folder"`
	GCShare        float64 `json:"gc_share_of_cpu"`
	Allocations    float64 `json:"allocations_per_payment"`
	AllocatedBytes float64 `json:"allocated_bytes_per_payment"`
	Syscalls       float64 `json:"reads_and_writes_per_payment"`
	Waits          float64 `json:"voluntary_context_switches_per_payment"`
	Tops           []Top   `json:"tops"`
}

// Top is the top of one profile.
type Top struct {
	Profile   string   `json:"profile"`
	Functions []Shared `json:"functions"`
}

// Shared is the share of a function in a profile: itself, and with all that it calls.
type Shared struct {
	Name string  `json:"function"`
	Self float64 `json:"self"`
	All  float64 `json:"with_callees"`
}

// profiles are taken in this order, after the run has warmed up.
var profiles = []struct {
	name, path string
	options    []string // of go tool pprof
}{
	{"CPU", "profile?seconds=10", []string{"-nodecount=25"}},
	{"objects allocated", "allocs?seconds=4", []string{"-sample_index=alloc_objects", "-nodecount=15"}},
	// A wait counts for the function that waited, not for the lock or channel itself.
	{"waiting for locks", "mutex?seconds=4", []string{"-sample_index=delay", "-nodecount=8", "-hide=" + inRuntime}},
	{"blocked", "block?seconds=4", []string{"-sample_index=delay", "-nodecount=8", "-hide=" + inRuntime}},
}

const (
	inRuntime = `^(runtime|sync|internal)[./]`
	// collectors are the functions under which the garbage collector works.
	collectors = `^runtime\.(gcBgMarkWorker|gcAssistAlloc|bgsweep|bgscavenge|gcStart)`
)

const warmUp = 4 * time.Second

// startProfile takes the profiles of one engine. The function that it returns fails if they
// are not complete when the run ends.
func startProfile(ctx context.Context, url, folder string) func() (*Profile, error) {
	p := &Profile{Folder: folder}
	done := make(chan error, 1)
	go func() { done <- p.take(ctx, url) }()
	return func() (*Profile, error) {
		select {
		case err := <-done:
			return p, err
		default:
			<-done // its requests end by themselves
			return nil, errors.New("the run ended before its profiles, which take 26 s: give more --payments")
		}
	}
}

func (p *Profile) take(ctx context.Context, url string) error {
	if err := os.MkdirAll(p.Folder, 0o755); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(warmUp):
	}
	for _, wanted := range profiles {
		name, _, _ := strings.Cut(wanted.path, "?")
		file := filepath.Join(p.Folder, name+".pb.gz")
		text, err := meter.Get(ctx, url+"/debug/pprof/"+wanted.path)
		if err == nil {
			err = os.WriteFile(file, text, 0o644)
		}
		if err != nil {
			return fmt.Errorf("cannot profile the engine: %w", err)
		}
		functions, _, err := topOf(ctx, file, wanted.options...)
		if err != nil {
			return err
		}
		p.Tops = append(p.Tops, Top{wanted.name, functions})
		if wanted.name == "CPU" {
			if _, p.GCShare, err = topOf(ctx, file, "-nodecount=100000", "-nodefraction=0", "-focus="+collectors); err != nil {
				return err
			}
		}
	}
	return nil
}

// shownShare is how go tool pprof says which share of a profile it shows.
var shownShare = regexp.MustCompile(`accounting for \S+ (\S+)% of`)

// topOf returns what go tool pprof shows of a profile, and which share of the whole that is.
func topOf(ctx context.Context, file string, options ...string) (functions []Shared, shown float64, err error) {
	command := exec.CommandContext(ctx, "go", append(append([]string{"tool", "pprof", "-top"}, options...), file)...)
	command.Env = append(os.Environ(), "PPROF_TMPDIR="+filepath.Dir(file))
	text, err := command.Output()
	if err != nil {
		return nil, 0, fmt.Errorf("cannot read the profile %s: %v: %w", file, command.Args, err)
	}
	share := func(percent string) float64 {
		n, _ := strconv.ParseFloat(strings.TrimSuffix(percent, "%"), 64)
		return n / 100
	}
	head, rows, _ := strings.Cut(string(text), "cum%\n")
	if match := shownShare.FindStringSubmatch(head); match != nil {
		shown = share(match[1])
	}
	for line := range strings.Lines(rows) { // flat flat% sum% cum cum% function
		if f := strings.Fields(line); len(f) > 5 {
			functions = append(functions, Shared{strings.Join(f[5:], " "), share(f[1]), share(f[4])})
		}
	}
	return functions, shown, nil
}

// count fills in the counters of the whole run.
func (p *Profile) count(counted meter.Engines, costs []meter.Cost, payments int) {
	p.Allocations = counted.Counter("go_memstats_mallocs_total") / float64(payments)
	p.AllocatedBytes = counted.Counter("go_memstats_alloc_bytes_total") / float64(payments)
	for _, cost := range costs {
		if strings.HasPrefix(cost.Process, "engine-") {
			p.Syscalls += cost.Syscalls
			p.Waits += cost.Waits
		}
	}
}
