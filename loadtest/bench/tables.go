package bench

import (
	"fmt"
	"io"
	"slices"

	"github.com/liquida/liquida/loadtest/meter"
	"github.com/liquida/liquida/loadtest/report"
)

// figure is a column of the main tables.
type figure struct {
	title, format string
	group, name   string
}

func (f figure) spread(r Row) spread { return r.spread(f.group, f.name) }

// text returns an empty cell for a figure that does not exist.
func (f figure) text(value float64) string {
	if value == 0 {
		return ""
	}
	return fmt.Sprintf(f.format, value)
}

var (
	perSecond = figure{"payments/s", "%.0f", runFigures, "per_second"}
	p50       = figure{"p50", "%.1f", latencyFigures, "p50"}
	p99       = figure{"p99", "%.1f", latencyFigures, "p99"}
	slowest   = figure{"max", "%.1f", latencyFigures, "max"}
	cpu       = figure{"CPU µs", "%.1f", cpuFigures, allProcesses}
	figures   = []figure{
		perSecond,
		{"of ceiling", "%.2f", runFigures, "ratio_to_ceiling"},
		p50,
		{"p95", "%.1f", latencyFigures, "p95"},
		p99,
		{"p99.9", "%.1f", latencyFigures, "p99.9"},
		slowest,
		cpu,
		{"ledger writes", "%.0f", diskFigures, "ledger"},
		{"stored", "%.0f", runFigures, "stored_bytes"},
		{"per request", "%.0f", runFigures, "transfers_per_request"},
	}
)

// costs are the groups of figures that have a table each, one column for each process.
var costs = []struct{ title, format, group string }{
	{"CPU of a payment, µs", "%.1f", cpuFigures},
	{"Network of a payment, bytes sent and received over TCP (on one machine both ends count)", "%.0f", networkFigures},
	{"Disk of a payment, bytes written", "%.0f", diskFigures},
	{"Memory at the end, MiB", "%.0f", memoryFigures},
}

// Tables returns all figures.
func (r *Result) Tables() (tables []report.Table) {
	main := report.Table{Title: "Everything measured", Head: []string{""},
		Note: "latency in ms, from the intended send to the settlement report (at a maximum: from the send); bytes and CPU µs for each payment"}
	for _, f := range figures {
		main.Head = append(main.Head, f.title)
	}
	for _, row := range r.Rows {
		if row.Part == doorPart || row.Part == overloadPart && row.way() != "" {
			continue // its figures count other things
		}
		row.addTo(&main, figures)
	}
	tables = append(tables, main, r.readsTable(), r.doorTable(), r.doorCostTable())
	for _, cost := range costs {
		table := report.Table{Title: cost.title, Head: append([]string{""}, columns...)}
		for _, row := range r.Rows {
			if row.Part != doorPart {
				row.addCostsTo(&table, cost.format, cost.group)
			}
		}
		tables = append(tables, table)
	}
	tables = append(tables, r.hopsTable(), r.slowBanksTable(), r.roomTable(), r.overloadTable())
	tables = append(tables, r.growthTables()...)
	tables = append(tables, r.profileTables()...)
	return slices.DeleteFunc(tables, func(t report.Table) bool { return len(t.Rows) == 0 })
}

// addCostsTo adds the medians of a group of costs, unless there are none.
func (r Row) addCostsTo(table *report.Table, format, group string) {
	if r.Figures[group] == nil {
		return
	}
	cells := []string{r.Name}
	for _, column := range columns {
		cells = append(cells, fmt.Sprintf(format, r.spread(group, column).median))
	}
	table.Add(cells...)
}

func (r *Result) readsTable() report.Table {
	table := report.Table{Title: "Payments and balance reads at once, over HTTP", Note: "ms, from the intended send to the settlement report, and to the response",
		Head: []string{"", "count", "p50", "p90", "p99", "max"}}
	for _, row := range r.Rows {
		if row.Figures[readFigures] == nil {
			continue
		}
		for _, kind := range []struct{ name, group string }{{"payments", latencyFigures}, {"balance reads", readFigures}} {
			cells := []string{kind.name, thousands(int(row.spread(kind.group, "count").median))}
			for _, name := range []string{"p50", "p90", "p99", "max"} {
				cells = append(cells, ms(row.spread(kind.group, name).median))
			}
			table.Add(cells...)
		}
	}
	return table
}

// doorTable shows the figures of the HTTP API.
func (r *Result) doorTable() report.Table {
	table := report.Table{Title: "The HTTP API (front door), as fast as its connections go", Head: []string{"", "operation", "connections", "count", "a second", "p50", "p99", "max"},
		Note: "ms, from a request to the end of its response (for a batch: all lines). Then the connection sends its next request. A run counts if every response was right, every payment settled and the audit is clean"}
	for _, row := range r.Rows {
		if row.Part != doorPart {
			continue
		}
		var of []string
		if door := row.Door; door != nil {
			of = []string{string(door.Operation), fmt.Sprint(door.Connections), thousands(door.Count)}
		}
		row.addTo(&table, []figure{perSecond, p50, p99, slowest}, of...)
	}
	return table
}

// addTo adds the medians of a row, the spread if there are several runs, and invalid runs.
func (r Row) addTo(table *report.Table, figures []figure, of ...string) {
	line := func(name string, pick func(spread) float64) {
		cells := append([]string{name}, of...)
		for _, f := range figures {
			cells = append(cells, f.text(pick(f.spread(r))))
		}
		table.Add(cells...)
	}
	if len(r.Verdicts) > 0 {
		line(r.Name, func(s spread) float64 { return s.median })
	}
	if len(r.Verdicts) > 1 {
		line("    least", func(s spread) float64 { return s.min })
		line("    most", func(s spread) float64 { return s.max })
	}
	for range r.Invalid {
		table.Add(r.Name + ": INVALID, no figure")
	}
}

func (r *Result) doorCostTable() report.Table {
	table := report.Table{Title: "CPU of an operation of the front door, µs", Head: append([]string{""}, columns...),
		Note: "with settling the payments; for balances with the payments that settled meanwhile"}
	for _, row := range r.Rows {
		if row.Part == doorPart {
			row.addCostsTo(&table, "%.1f", cpuFigures)
		}
	}
	return table
}

// hopsTable shows where the time goes.
func (r *Result) hopsTable() report.Table {
	table := report.Table{Title: "Where the time of a payment goes in the engine, ms: mean (99th percentile)", Head: append([]string{""}, meter.HopNames...)}
	for _, row := range r.Rows {
		if row.Figures[hopMeanFigures] == nil {
			continue
		}
		cells := []string{row.Name}
		for _, hop := range meter.HopNames {
			cells = append(cells, fmt.Sprintf("%.1f (%.0f)", row.spread(hopMeanFigures, hop).median, row.spread(hopP99Figures, hop).median))
		}
		table.Add(cells...)
	}
	return table
}

// growthTables shows each run by itself, because it is about how a run slows down.
func (r *Result) growthTables() (tables []report.Table) {
	for _, row := range r.Rows {
		for run := range row.Figures[stageFigures(0)]["payments"] {
			table := report.Table{Title: "As the data grows: " + row.Name, Head: []string{"settled until then", "settled/s", "stored", "ledger CPU µs", "engine CPU µs", "ledger writes"}}
			for _, column := range columns {
				table.Head = append(table.Head, column+" MiB")
			}
			for i := 0; row.Figures[stageFigures(i)] != nil; i++ {
				stage := stageFigures(i)
				of := func(group, name string) float64 { return row.Figures.at(run, group, name) }
				cells := []string{thousands(int(of(stage, "payments"))), fmt.Sprintf("%.0f", of(stage, "per_second")), fmt.Sprintf("%.0f", of(stage, "stored_bytes")),
					ms(of(stage+"_"+cpuFigures, "ledger")), ms(of(stage+"_"+cpuFigures, "engines")), fmt.Sprintf("%.0f", of(stage+"_"+diskFigures, "ledger"))}
				for _, column := range columns {
					cells = append(cells, fmt.Sprintf("%.0f", of(stage+"_"+memoryFigures, column)))
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
		p := row.Profile
		if p == nil {
			continue
		}
		engine := report.Table{Title: "The engine at its maximum, for each payment (profiles in " + p.Folder + ", for go tool pprof)", Head: []string{"", "figure"}}
		engine.Add("transfers in a request to the ledger", fmt.Sprintf("%.0f", row.spread(runFigures, "transfers_per_request").median))
		engine.Add("a request to the ledger, mean ms", ms(row.spread(runFigures, "request_ms").median))
		engine.Add("allocations", ms(p.Allocations))
		engine.Add("bytes allocated", fmt.Sprintf("%.0f", p.AllocatedBytes))
		engine.Add("garbage collector, share of CPU", percent(p.GCShare))
		engine.Add("system calls of read and write", fmt.Sprintf("%.2f", p.Syscalls))
		engine.Add("voluntary context switches", fmt.Sprintf("%.2f", p.Waits))
		tables = append(tables, engine)
		for _, top := range p.Tops {
			table := report.Table{Title: "Profile: " + top.Profile, Head: []string{"function", "itself", "with all it calls"}}
			for _, f := range top.Functions {
				table.Add(f.Name, percent(f.Self), percent(f.All))
			}
			tables = append(tables, table)
		}
	}
	return tables
}

func ms(v float64) string      { return fmt.Sprintf("%.1f", v) }
func percent(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }

// wakeUps says how long the machine took to wake a thread before the runs; empty when
// that was not measured.
func (r *Result) wakeUps() string {
	var same, other []float64
	for _, row := range r.Rows {
		same = append(same, row.Figures[runFigures]["wake_up_same_processor_us"]...)
		other = append(other, row.Figures[runFigures]["wake_up_other_processor_us"]...)
	}
	if len(same) == 0 || len(other) == 0 {
		return ""
	}
	return fmt.Sprintf("before the runs a thread woke another in %.1f to %.1f µs on its own processor, in %.1f to %.1f µs on another: the slower, the more CPU low rates cost",
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
		for _, share := range row.Figures[runFigures]["busy_share_before"] {
			if share > busyMax {
				fmt.Fprintf(w, "NOT QUIET %s: others used %.0f %% of the machine before it\n", row.Name, 100*share)
			}
		}
	}
}
