package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/meter"
)

// Result is what a bench measured: a few figures of each run, not its course.
type Result struct {
	StartedAt time.Time `json:"started_at"`
	Seconds   float64   `json:"seconds"`
	Hardware  string    `json:"hardware"`
	Settings  string    `json:"settings"`
	Passes    int       `json:"passes"`
	Rows      []Row     `json:"rows"`
}

// Row holds the figures of the valid runs of one row.
type Row struct {
	Part     string   `json:"part"`
	Name     string   `json:"name"`
	Differs  string   `json:"differs,omitempty"` // from the settings as shipped
	Door     *Door    `json:"front_door,omitempty"`
	Figures  Figures  `json:"figures"`
	Curve    *Curve   `json:"latency_by_percentile,omitempty"` // of the first run
	Profile  *Profile `json:"profile,omitempty"`               // of the first run
	Verdicts []string `json:"verdicts"`                        // one for each valid run
	Invalid  []string `json:"invalid,omitempty"`               // why a run gives no figure

	course []load.Second // of the first run: drawn by the bench that measured it, and not kept
}

// Figures hold one value for each valid run, by group and name. A figure that a run does
// not have is left out.
type Figures map[string]map[string][]float64

// The groups of figures. Those of costs and hops have a value for each process and hop.
const (
	runFigures      = "run"
	latencyFigures  = "latency_ms"
	readFigures     = "read_latency_ms"
	cpuFigures      = "cpu_us"
	networkFigures  = "network_bytes"
	diskFigures     = "disk_bytes"
	memoryFigures   = "memory_mib"
	overloadFigures = "overload"
	roomFigures     = "room"
	hopMeanFigures  = "hop_mean_ms"
	hopP99Figures   = "hop_p99_ms"
)

// stageFigures is the group of a stage of a growth, counted from 0. Its costs are in
// groups of that name and theirs.
func stageFigures(stage int) string { return fmt.Sprintf("stage_%d", stage+1) }

// Curve is a latency in ms at each of a list of percentiles.
type Curve struct {
	Percentiles []float64 `json:"percentiles"`
	Ms          []float64 `json:"ms"`
}

// add appends a value, rounded to seven digits.
func (f Figures) add(group, name string, value float64) {
	if f[group] == nil {
		f[group] = map[string][]float64{}
	}
	f[group][name] = append(f[group][name], rounded(value, 7))
}

// at returns the value of one run, or 0.
func (f Figures) at(run int, group, name string) float64 {
	if values := f[group][name]; run < len(values) {
		return values[run]
	}
	return 0
}

func rounded(v float64, digits int) float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	if err != nil {
		return v
	}
	return short
}

func (f Figures) addLatency(group string, l *load.Latency) {
	if l == nil {
		return
	}
	f.add(group, "count", float64(l.Count))
	for name, ms := range map[string]float64{"p50": l.P50, "p90": l.P90, "p95": l.P95, "p99": l.P99, "p99.9": l.P999, "max": l.Max} {
		f.add(group, name, ms)
	}
}

// addCosts adds up the costs of the processes that share a column, and appends the sums.
func (f Figures) addCosts(prefix string, costs []meter.Cost) {
	sums := map[string]map[string]float64{cpuFigures: {}, networkFigures: {}, diskFigures: {}, memoryFigures: {}}
	for _, cost := range costs {
		column := columnOf(cost.Process)
		sums[cpuFigures][column] += cost.CPUMicroseconds
		sums[cpuFigures][allProcesses] += cost.CPUMicroseconds
		sums[networkFigures][column] += cost.NetworkBytes
		sums[diskFigures][column] += cost.DiskBytes
		sums[memoryFigures][column] += float64(cost.MemoryBytes) / (1 << 20)
	}
	for group, byColumn := range sums {
		for column, sum := range byColumn {
			f.add(prefix+group, column, sum)
		}
	}
}

// allProcesses is the name of a sum over all columns.
const allProcesses = "all"

// columns are the processes for which costs are shown, all engines together.
var columns = []string{"load generator", "ledger", "broker", "banks", "engines", "producer"}

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
func (r *Row) add(run Run) {
	if r.Figures == nil {
		r.Figures = Figures{}
	}
	f := r.Figures
	for name, value := range map[string]float64{
		"payments": float64(run.Payments), "offered_per_second": float64(run.OfferedPerSecond), "per_second": run.PerSecond,
		"ratio_to_ceiling": run.Ratio, "stored_bytes": run.StoredBytes, "transfers_per_request": run.Ledger.TransfersPerRequest,
		"request_ms": run.Ledger.MeanMs, "busy_share_before": run.BusyBefore,
	} {
		if value != 0 { // 0 stands for what this run does not have
			f.add(runFigures, name, value)
		}
	}
	if run.InFlight != nil {
		f.add(runFigures, "in_flight", run.InFlight.Payments)
		f.add(runFigures, "in_flight_heap_bytes", run.InFlight.Bytes)
	}
	if run.WakeUp != nil {
		f.add(runFigures, "wake_up_same_processor_us", run.WakeUp.SameProcessor)
		f.add(runFigures, "wake_up_other_processor_us", run.WakeUp.OtherProcessor)
	}
	f.addLatency(latencyFigures, run.Latency)
	f.addLatency(readFigures, run.Reads)
	f.addCosts("", run.Costs)
	for _, hop := range run.Hops {
		f.add(hopMeanFigures, hop.Name, hop.MeanMs)
		f.add(hopP99Figures, hop.Name, hop.P99Ms)
	}
	for i, stage := range run.Stages {
		name := stageFigures(i)
		f.add(name, "payments", float64(stage.Payments))
		f.add(name, "per_second", stage.PerSecond)
		f.add(name, "stored_bytes", stage.StoredBytes)
		f.addCosts(name+"_", stage.Costs)
	}
	if o := run.Overload; o != nil {
		for name, value := range map[string]float64{"maximum": o.Maximum, "offered": o.Offered, "accepted": float64(o.Accepted), "settled": float64(o.Settled),
			"refused": o.RefusedEach, "refusal_us": o.RefusalMicros, "normal_after": o.NormalAfter, "generator_processors": o.GeneratorProcessors, "settled_beside_refusals": o.SettledBesideRefusals} {
			f.add(overloadFigures, name, value)
		}
	}
	if seen := run.Room; seen != nil {
		for name, value := range map[string]float64{"pictures": float64(seen.Pictures), "lag_p50_s": seen.LagMedian, "lag_max_s": seen.LagMost, "caught_up_after_s": seen.CaughtUpAfter,
			"checked_share": float64(seen.Checked) / float64(max(run.Payments, 1)), "began_again": float64(seen.BeganAgain), "cpu_us_until_caught_up": seen.CPUMicros} {
			f.add(roomFigures, name, value)
		}
	}
	if len(r.Verdicts) == 0 {
		r.Door, r.Profile, r.course = run.Door, run.Profile, run.Course
		if run.Load != nil {
			r.course = run.Load.PerSecond
			r.Curve = curveOf(run.Load.Curve)
		}
	}
	r.Verdicts = append(r.Verdicts, run.verdict())
}

func curveOf(points []load.Point) *Curve {
	if len(points) == 0 {
		return nil
	}
	c := &Curve{}
	for _, p := range points {
		c.Percentiles, c.Ms = append(c.Percentiles, rounded(p.Percentile, 10)), append(c.Ms, rounded(p.Ms, 7))
	}
	return c
}

func (c Curve) points() (points []load.Point) {
	for i, percentile := range c.Percentiles {
		points = append(points, load.Point{Percentile: percentile, Ms: c.Ms[i]})
	}
	return points
}

// verdict says why the figures of a run count.
func (r Run) verdict() string {
	text := "the ledger refused no transfer; not audited"
	switch {
	case r.Load != nil:
		text = r.Load.Verdict() + ". " + r.Audit
	case r.Course != nil:
		text = "every order was settled or refused. " + r.Audit
	case r.Audit != "":
		text = "every response was right. " + r.Audit
	}
	return fmt.Sprintf("%s; other programs used %.0f %% of the machine before it", text, 100*r.BusyBefore)
}

// spread is the least, the median and the most of the runs of a row; all 0 without any.
type spread struct{ min, median, max float64 }

func (r Row) spread(group, name string) spread {
	values := slices.Sorted(slices.Values(r.Figures[group][name]))
	n := len(values)
	if n == 0 {
		return spread{}
	}
	return spread{values[0], (values[(n-1)/2] + values[n/2]) / 2, values[n-1]}
}

// offersRate reports whether payments came at a fixed rate, and not as fast as possible.
func (r Row) offersRate() bool { return r.spread(runFigures, "offered_per_second").max > 0 }

// Read reads results that report.WriteJSON wrote. It joins several into one, as if they were
// passes of one bench.
func Read(paths []string) (*Result, error) {
	joined := &Result{}
	for i, path := range paths {
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
		if i == 0 {
			joined = r
		} else if err := joined.join(r); err != nil {
			return nil, fmt.Errorf("%s cannot be joined with %s: %w", path, paths[0], err)
		}
	}
	return joined, nil
}

// join adds the figures of another result, of the same machine and settings.
func (r *Result) join(other *Result) error {
	if r.Hardware != other.Hardware {
		return fmt.Errorf("it was measured on %q, not on %q", other.Hardware, r.Hardware)
	}
	if r.Settings != other.Settings {
		return fmt.Errorf("it was measured with %q, not with %q", other.Settings, r.Settings)
	}
	r.Passes += other.Passes
	r.Seconds += other.Seconds
	for _, row := range other.Rows {
		i := slices.IndexFunc(r.Rows, func(have Row) bool { return have.Name == row.Name })
		if i < 0 {
			r.Rows = append(r.Rows, row)
			continue
		}
		have := &r.Rows[i]
		if have.Figures == nil {
			have.Figures = Figures{}
		}
		for group, figures := range row.Figures {
			if have.Figures[group] == nil {
				have.Figures[group] = map[string][]float64{}
			}
			for name, values := range figures {
				have.Figures[group][name] = append(have.Figures[group][name], values...)
			}
		}
		have.Verdicts = append(have.Verdicts, row.Verdicts...)
		have.Invalid = append(have.Invalid, row.Invalid...)
	}
	return nil
}
