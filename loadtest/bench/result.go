package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/meter"
)

// Result is what a bench measured: a few figures of each run, not its course.
type Result struct {
	StartedAt time.Time `json:"started_at"`
	Hardware  string    `json:"hardware"`
	Settings  string    `json:"settings"`
	Rows      []Row     `json:"rows"`
}

// Row holds the figures of the valid runs of one row.
type Row struct {
	Part     string   `json:"part"`
	Name     string   `json:"name"`
	Differs  string   `json:"differs,omitempty"` // from the settings as shipped
	Figures  Figures  `json:"figures"`
	Verdicts []string `json:"verdicts"`          // one for each valid run
	Invalid  []string `json:"invalid,omitempty"` // why a run gives no figure
}

// Figures hold one value for each valid run, by group and name. A figure that a run does
// not have is left out.
type Figures map[string]map[string][]float64

// The groups of figures. Those of costs and hops have a value for each process and hop.
const (
	runFigures     = "run"
	latencyFigures = "latency_ms"
	bareFigures    = "times_bare" // of the bare pipeline in the same pass
	cpuFigures     = "cpu_us"
	diskFigures    = "disk_bytes"
	memoryFigures  = "memory_mib"
	readFigures    = "reads_ms"
	idleFigures    = "idle_percent"
	growthFigures  = "growth" // payments/s, by part
	hopMeanFigures = "hop_mean_ms"
)

// figure names a value of a run, by its group.
type figure struct{ group, name string }

// The figures that are compared, related and drawn.
var (
	perSecond = figure{runFigures, "per_second"}
	ofCeiling = figure{runFigures, "ratio_to_ceiling"}
	offered   = figure{runFigures, "offered_per_second"}
	p50       = figure{latencyFigures, "p50"}
	p99       = figure{latencyFigures, "p99"}
	cpu       = figure{cpuFigures, allProcesses}
)

// Run is one valid run of a row.
type Run struct {
	figures map[figure]float64
	verdict string // why the figures count
}

// set takes a figure. 0 stands for what a run does not have.
func (r *Run) set(group, name string, value float64) {
	if value != 0 {
		r.figures[figure{group, name}] = value
	}
}

// sum adds to a figure.
func (r *Run) sum(group, name string, value float64) {
	r.set(group, name, r.figures[figure{group, name}]+value)
}

func (r *Run) setLatency(l *load.Latency) {
	for name, value := range map[string]float64{"p50": l.P50, "p95": l.P95, "p99": l.P99, "p99.9": l.P999,
		"max": l.Max} {
		r.set(latencyFigures, name, value)
	}
}

// setCosts adds up, for each payment, what the processes that share a column used.
func (r *Run) setCosts(uses []meter.Usage, payments int) {
	n := float64(payments)

	for _, use := range uses {
		column := columnOf(use.Name)
		r.sum(cpuFigures, column, float64(use.CPU.Microseconds())/n)
		r.sum(cpuFigures, allProcesses, float64(use.CPU.Microseconds())/n)
		r.sum(diskFigures, column, float64(use.WrittenBytes)/n)
		r.sum(memoryFigures, column, float64(use.RSSBytes)/(1<<20))
	}
}

const (
	// allProcesses is the name of a sum over all columns.
	allProcesses = "all"
	// loadGenerator is this process.
	loadGenerator = "load generator"
)

// columns are the processes for which costs are shown, all engines together.
var columns = []string{loadGenerator, "ledger", "broker", "banks", "engines", "producer"}

func columnOf(process string) string {
	switch {
	case strings.HasPrefix(process, stack.TigerBeetle):
		return "ledger"
	case strings.HasPrefix(process, "engine-"):
		return "engines"
	case process == stack.Simulator:
		return "banks"
	}

	return process
}

// add takes the figures of a valid run.
func (r *Row) add(run *Run) {
	if r.Figures == nil {
		r.Figures = Figures{}
	}

	for f, value := range run.figures {
		if r.Figures[f.group] == nil {
			r.Figures[f.group] = map[string][]float64{}
		}
		r.Figures[f.group][f.name] = append(r.Figures[f.group][f.name], value)
	}

	r.Verdicts = append(r.Verdicts, run.verdict)
}

// spread is the least, the median and the most of the runs of a row; all 0 without any.
type spread struct{ min, median, max float64 }

func (r Row) spread(f figure) spread { return spreadOf(r.Figures[f.group][f.name]) }

func spreadOf(all []float64) spread {
	values := slices.Sorted(slices.Values(all))

	n := len(values)
	if n == 0 {
		return spread{}
	}

	return spread{values[0], (values[(n-1)/2] + values[n/2]) / 2, values[n-1]}
}

func (r Row) median(f figure) float64 { return r.spread(f).median }

// Read reads a result that report.WriteJSON wrote.
func Read(path string) (*Result, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}

	r := &Result{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s is not a result of bench: %w", path, err)
	}

	if !slices.ContainsFunc(r.Rows, func(row Row) bool { return len(row.Figures) > 0 || len(row.Invalid) > 0 }) {
		return nil, fmt.Errorf("%s holds no figures: it must be a file that bench --json wrote", path)
	}

	return r, nil
}
