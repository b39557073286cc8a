package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"

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
	Unit      string   `json:"unit"`
	Total     float64  `json:"total"`
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
	name, path, sample string
	functions          int
}{
	{"CPU", "profile?seconds=10", "cpu", 25},
	{"objects allocated", "allocs?seconds=4", "alloc_objects", 15},
	{"waiting for locks", "mutex?seconds=4", "delay", 8},
	{"blocked", "block?seconds=4", "delay", 8},
}

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
		if err := fetch(ctx, url+"/debug/pprof/"+wanted.path, file); err != nil {
			return fmt.Errorf("cannot profile the engine: %w", err)
		}
		taken, err := os.Open(file)
		if err != nil {
			return err
		}
		parsed, err := profile.Parse(taken)
		taken.Close()
		if err != nil {
			return fmt.Errorf("cannot read the profile %s: %w", file, err)
		}
		top, collecting := topOf(parsed, wanted.sample)
		top.Profile, top.Functions = wanted.name, top.Functions[:min(wanted.functions, len(top.Functions))]
		p.Tops = append(p.Tops, top)
		if wanted.sample == "cpu" {
			p.GCShare = collecting
		}
	}
	return nil
}

func fetch(ctx context.Context, url, file string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s responds %s", url, response.Status)
	}
	to, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, response.Body)
	return errors.Join(err, to.Close())
}

// collectors are the functions under which the garbage collector works.
var collectors = []string{"runtime.gcBgMarkWorker", "runtime.gcAssistAlloc", "runtime.bgsweep", "runtime.bgscavenge", "runtime.gcStart"}

// topOf adds up a profile by function, the largest first, and the garbage collector's share.
func topOf(p *profile.Profile, sample string) (top Top, collecting float64) {
	index := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == sample })
	if index < 0 {
		return top, 0
	}
	top.Unit = p.SampleType[index].Unit
	byName := map[string]*Shared{}
	for _, s := range p.Sample {
		value := float64(s.Value[index])
		top.Total += value
		seen, collects, self := map[string]bool{}, false, selfOf(s, sample)
		for _, location := range s.Location {
			for _, line := range location.Line { // inlined callees come first
				name := line.Function.Name
				if byName[name] == nil {
					byName[name] = &Shared{Name: name}
				}
				if name == self {
					byName[name].Self += value
					self = ""
				}
				if !seen[name] {
					byName[name].All += value
				}
				seen[name] = true
				collects = collects || slices.Contains(collectors, name)
			}
		}
		if collects {
			collecting += value
		}
	}
	for _, function := range byName {
		if function.Name == "" {
			function.Name = "(without a name: the kernel's vDSO)"
		}
		function.Self, function.All = function.Self/max(top.Total, 1), function.All/max(top.Total, 1)
		if function.Self > 0 {
			top.Functions = append(top.Functions, *function)
		}
	}
	slices.SortFunc(top.Functions, func(a, b Shared) int { return cmp.Or(cmp.Compare(b.Self, a.Self), strings.Compare(a.Name, b.Name)) })
	return top, collecting / max(top.Total, 1)
}

// selfOf is the function that a sample counts for: where it was taken, or for a wait the
// function that waited, not the lock or channel itself.
func selfOf(s *profile.Sample, sample string) string {
	for _, location := range s.Location {
		for _, line := range location.Line {
			name := line.Function.Name
			if sample != "delay" || !strings.HasPrefix(name, "runtime.") && !strings.HasPrefix(name, "sync.") && !strings.HasPrefix(name, "internal/") {
				return name
			}
		}
	}
	return ""
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
