package bench

import (
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/meter"
	"github.com/liquida/liquida/loadtest/report"
)

// spread is the least, the middle and the most of the runs of a row.
type spread struct{ min, median, max float64 }

func (r Row) spread(of func(Run) float64) spread {
	var values []float64
	for _, run := range r.Runs {
		values = append(values, of(run))
	}
	if len(values) == 0 {
		return spread{}
	}
	slices.Sort(values)
	n := len(values)
	return spread{values[0], (values[(n-1)/2] + values[n/2]) / 2, values[n-1]}
}

// figure is a column: what it takes from a run, and how it is written.
type figure struct {
	name   string
	format string
	of     func(Run) float64 // 0: there is none
}

var (
	perSecond = figure{"payments/s", "%.0f", func(r Run) float64 { return r.PerSecond }}
	p50       = settled("p50", func(r Run) float64 { return r.Latency.P50 })
	p99       = settled("p99", func(r Run) float64 { return r.Latency.P99 })
	slowest   = settled("max", func(r Run) float64 { return r.Latency.Max })
	cpu       = figure{"CPU µs", "%.1f", func(r Run) float64 {
		return sum(r.Costs, "", func(c meter.Cost) float64 { return c.CPUMicroseconds })
	}}
	figures = []figure{
		perSecond,
		{"of ceiling", "%.2f", func(r Run) float64 { return r.Ratio }},
		p50,
		settled("p95", func(r Run) float64 { return r.Latency.P95 }),
		p99,
		settled("p99.9", func(r Run) float64 { return r.Latency.P999 }),
		slowest,
		cpu,
		{"ledger writes", "%.0f", func(r Run) float64 {
			return sum(r.Costs, "ledger", func(c meter.Cost) float64 { return c.DiskBytes })
		}},
		{"stored", "%.0f", func(r Run) float64 { return r.StoredBytes }},
		{"per request", "%.0f", func(r Run) float64 { return r.Ledger.TransfersPerRequest }},
	}
)

func settled(name string, of func(Run) float64) figure {
	return figure{name, "%.1f", func(r Run) float64 {
		if r.Latency == nil {
			return 0
		}
		return of(r)
	}}
}

func (f figure) text(value float64) string {
	if value == 0 {
		return ""
	}
	return fmt.Sprintf(f.format, value)
}

// columns are the processes as costs are told, engines together.
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

// sum adds up the costs of the processes in a column; empty: of all.
func sum(costs []meter.Cost, column string, of func(meter.Cost) float64) (total float64) {
	for _, cost := range costs {
		if column == "" || columnOf(cost.Process) == column {
			total += of(cost)
		}
	}
	return total
}

// kinds of costs, each with a table of its own.
var kinds = []struct {
	title, format string
	of            func(meter.Cost) float64
}{
	{"CPU of a payment, µs", "%.1f", func(c meter.Cost) float64 { return c.CPUMicroseconds }},
	{"Network of a payment, bytes sent and received over TCP (on one machine both ends count)", "%.0f", func(c meter.Cost) float64 { return c.NetworkBytes }},
	{"Disk of a payment, bytes written", "%.0f", func(c meter.Cost) float64 { return c.DiskBytes }},
	{"Memory at the end, MiB", "%.0f", func(c meter.Cost) float64 { return float64(c.MemoryBytes) / (1 << 20) }},
}

// Tables returns everything that was measured.
func (r *Result) Tables() (tables []report.Table) {
	main := report.Table{Title: "Everything measured", Head: []string{""},
		Note: "latency in ms, from the intended send to the settlement report (at a maximum: from the send); bytes and CPU µs for each payment"}
	for _, f := range figures {
		main.Head = append(main.Head, f.name)
	}
	for _, row := range r.Rows {
		if row.Part == doorPart {
			continue // its figures are of other things
		}
		row.addTo(&main, figures)
	}
	tables = append(tables, main, r.readsTable(), r.doorTable(), r.doorCostTable())
	for _, kind := range kinds {
		table := report.Table{Title: kind.title, Head: append([]string{""}, columns...)}
		for _, row := range r.Rows {
			if len(row.Runs) == 0 || row.Part == doorPart {
				continue
			}
			cells := []string{row.Name}
			for _, column := range columns {
				middle := row.spread(func(run Run) float64 { return sum(run.Costs, column, kind.of) }).median
				cells = append(cells, fmt.Sprintf(kind.format, middle))
			}
			table.Add(cells...)
		}
		tables = append(tables, table)
	}
	tables = append(tables, r.hopsTable())
	tables = append(tables, r.growthTables()...)
	tables = append(tables, r.profileTables()...)
	return slices.DeleteFunc(tables, func(t report.Table) bool { return len(t.Rows) == 0 })
}

func (r *Result) readsTable() report.Table {
	table := report.Table{Title: "Payments and balance reads at once, through the front door", Note: "ms, from the intended send to the settlement report, and to the answer",
		Head: []string{"", "count", "p50", "p90", "p99", "max"}}
	for _, row := range r.Rows {
		for _, run := range row.Runs {
			if run.Reads == nil {
				continue
			}
			l := run.Latency
			table.Add("payments", thousands(int(l.Count)), ms(l.P50), ms(l.P90), ms(l.P99), ms(l.Max))
			l = run.Reads
			table.Add("balance reads", thousands(int(l.Count)), ms(l.P50), ms(l.P90), ms(l.P99), ms(l.Max))
		}
	}
	return table
}

// doorTable tells what the front door takes and answers.
func (r *Result) doorTable() report.Table {
	table := report.Table{Title: "The front door, as fast as its connections go", Head: []string{"", "counted", "at once", "count", "a second", "p50", "p99", "max"},
		Note: "ms, from a request to the end of its answer (of a batch: all its lines). Each connection sends its next request then. A run counts when every answer was right, every payment settled and the audit is clean"}
	for _, row := range r.Rows {
		if row.Part != doorPart {
			continue
		}
		var of []string
		if len(row.Runs) > 0 {
			door := row.Runs[0].Door
			of = []string{string(door.Operation), fmt.Sprint(door.Connections), thousands(door.Count)}
		}
		row.addTo(&table, []figure{perSecond, p50, p99, slowest}, of...)
	}
	return table
}

// addTo adds the medians of a row, the spread of more than one run, and what gives no figure.
func (r Row) addTo(table *report.Table, figures []figure, of ...string) {
	line := func(name string, pick func(spread) float64) {
		cells := append([]string{name}, of...)
		for _, f := range figures {
			cells = append(cells, f.text(pick(r.spread(f.of))))
		}
		table.Add(cells...)
	}
	if len(r.Runs) > 0 {
		line(r.Name, func(s spread) float64 { return s.median })
	}
	if len(r.Runs) > 1 {
		line("    least", func(s spread) float64 { return s.min })
		line("    most", func(s spread) float64 { return s.max })
	}
	for range r.Invalid {
		table.Add(r.Name + ": INVALID, no figure")
	}
}

func (r *Result) doorCostTable() report.Table {
	table := report.Table{Title: "CPU of what the front door was asked for, µs each", Head: append([]string{""}, columns...),
		Note: "with all that became of it until the payments had settled; of balances with the payments that settled meanwhile"}
	for _, row := range r.Rows {
		if row.Part != doorPart || len(row.Runs) == 0 {
			continue
		}
		cells := []string{row.Name}
		for _, column := range columns {
			cells = append(cells, ms(row.spread(func(run Run) float64 {
				return sum(run.Costs, column, func(c meter.Cost) float64 { return c.CPUMicroseconds })
			}).median))
		}
		table.Add(cells...)
	}
	return table
}

// hopsTable says where the time goes, of the first run of each row.
func (r *Result) hopsTable() report.Table {
	table := report.Table{Title: "Where the time of a payment goes in the engine, ms: mean (99th percentile)", Head: append([]string{""}, meter.HopNames...)}
	for _, row := range r.Rows {
		if len(row.Runs) == 0 || len(row.Runs[0].Hops) == 0 {
			continue
		}
		cells := []string{row.Name}
		for _, hop := range row.Runs[0].Hops {
			cells = append(cells, fmt.Sprintf("%.1f (%.0f)", hop.MeanMs, hop.P99Ms))
		}
		table.Add(cells...)
	}
	return table
}

func (r *Result) growthTables() (tables []report.Table) {
	for _, row := range r.Rows {
		for _, run := range row.Runs {
			table := report.Table{Title: "As the data grows: " + row.Name, Head: []string{"settled until then", "settled/s", "stored", "ledger CPU µs", "engine CPU µs", "ledger writes"}}
			for _, column := range columns {
				table.Head = append(table.Head, column+" MiB")
			}
			for _, stage := range run.Stages {
				cpu := func(c meter.Cost) float64 { return c.CPUMicroseconds }
				cells := []string{thousands(stage.Payments), fmt.Sprintf("%.0f", stage.PerSecond), fmt.Sprintf("%.0f", stage.StoredBytes),
					ms(sum(stage.Costs, "ledger", cpu)), ms(sum(stage.Costs, "engines", cpu)),
					fmt.Sprintf("%.0f", sum(stage.Costs, "ledger", func(c meter.Cost) float64 { return c.DiskBytes }))}
				for _, column := range columns {
					cells = append(cells, fmt.Sprintf("%.0f", sum(stage.Costs, column, func(c meter.Cost) float64 { return float64(c.MemoryBytes) / (1 << 20) })))
				}
				table.Add(cells...)
			}
			tables = append(tables, table)
		}
	}
	return tables
}

func (r *Result) profileTables() (tables []report.Table) {
	for _, row := range r.Rows {
		for _, run := range row.Runs {
			p := run.Profile
			if p == nil {
				continue
			}
			engine := report.Table{Title: "The engine at its maximum, for each payment (profiles in " + p.Folder + ", for go tool pprof)", Head: []string{"", "figure"}}
			engine.Add("transfers in a request to the ledger", fmt.Sprintf("%.0f", run.Ledger.TransfersPerRequest))
			engine.Add("a request to the ledger, mean ms", ms(run.Ledger.MeanMs))
			engine.Add("allocations", ms(p.Allocations))
			engine.Add("bytes allocated", fmt.Sprintf("%.0f", p.AllocatedBytes))
			engine.Add("garbage collector, share of CPU", percent(p.GCShare))
			engine.Add("system calls of read and write", fmt.Sprintf("%.2f", p.Syscalls))
			engine.Add("voluntary context switches", fmt.Sprintf("%.2f", p.Waits))
			tables = append(tables, engine)
			for _, top := range p.Tops {
				table := report.Table{Title: fmt.Sprintf("Profile: %s, %.4g %s in all", top.Profile, top.Total, top.Unit), Head: []string{"function", "itself", "with all it calls"}}
				for _, f := range top.Functions {
					table.Add(shortName(f.Name), percent(f.Self), percent(f.All))
				}
				tables = append(tables, table)
			}
		}
	}
	return tables
}

var typeArguments = regexp.MustCompile(`\[.*\]`)

// shortName leaves of a function's name what tells it from others: package, type, name.
func shortName(function string) string {
	return path.Base(typeArguments.ReplaceAllString(function, "[…]"))
}

func ms(v float64) string      { return fmt.Sprintf("%.1f", v) }
func percent(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }

// wakeUps tells what the machine took to wake a thread before the runs; empty when that was not measured.
func (r *Result) wakeUps() string {
	var same, other []float64
	for _, row := range r.Rows {
		for _, run := range row.Runs {
			if run.WakeUp != nil {
				same, other = append(same, run.WakeUp.SameProcessor), append(other, run.WakeUp.OtherProcessor)
			}
		}
	}
	if len(same) == 0 {
		return ""
	}
	return fmt.Sprintf("before the runs a thread woke another in %.1f to %.1f µs on its own processor, in %.1f to %.1f µs on another: the slower, the dearer low rates",
		slices.Min(same), slices.Max(same), slices.Min(other), slices.Max(other))
}

// Write prints the result for people.
func (r *Result) Write(w io.Writer) {
	fmt.Fprintf(w, "\nhardware  %s\nsettings  %s\n", r.Hardware, r.Settings)
	for _, row := range r.Rows {
		if row.Differs != "" {
			fmt.Fprintf(w, "          %s: %s\n", row.Name, row.Differs)
		}
	}
	if text := r.wakeUps(); text != "" {
		fmt.Fprintf(w, "machine   %s\n", text)
	}
	for _, table := range r.Tables() {
		table.Write(w)
	}
	for _, row := range r.Rows {
		for _, why := range row.Invalid {
			fmt.Fprintf(w, "INVALID %s\n", why)
		}
		for _, run := range row.Runs {
			if run.BusyBefore > busyMax {
				fmt.Fprintf(w, "NOT QUIET %s: others used %.0f %% of the machine before it\n", row.Name, 100*run.BusyBefore)
			}
		}
	}
}
