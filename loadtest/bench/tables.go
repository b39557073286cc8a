package bench

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/liquida/liquida/loadtest/meter"
	"github.com/liquida/liquida/loadtest/report"
	"github.com/liquida/liquida/platform/pix"
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
		{"of bare", "%.1f ×", bareFigures, "p50"},
		{"p95", "%.1f", latencyFigures, "p95"},
		p99,
		{"of bare", "%.1f ×", bareFigures, "p99"},
		{"p99.9", "%.1f", latencyFigures, "p99.9"},
		slowest,
		cpu,
		{"of bare", "%.1f ×", bareFigures, allProcesses},
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
		if row.Part == doorPart || row.Part == idlePart || row.Figures[overloadFigures] != nil || row.Figures[readFigures] != nil {
			continue // its figures count other things
		}
		row.addTo(&main, figures)
	}
	tables = append(tables, main, r.doorTable(), r.doorCostTable())
	for _, cost := range costs {
		table := report.Table{Title: cost.title, Head: append([]string{""}, columns...)}
		for _, row := range r.Rows {
			if row.Part != doorPart {
				row.addCostsTo(&table, cost.format, cost.group)
			}
		}
		tables = append(tables, table)
	}
	tables = append(tables, r.growthTable(), r.hopsTable(), r.overloadTable(), r.readsTable(), r.answersTable(), r.idleTable())
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
			of = []string{string(door.Operation), fmt.Sprint(door.Connections), pix.Thousands(door.Count)}
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

// growthTable shows what becomes of the rate as the ledger's file grows.
func (r *Result) growthTable() report.Table {
	table := report.Table{Title: "As the data grows: payments a second", Head: []string{""}, Note: "in equal parts of the payments, one after the other"}
	for part := range growthTimes {
		table.Head = append(table.Head, fmt.Sprintf("part %d", part+1))
	}
	for _, row := range r.Rows {
		if row.Figures[growthFigures] == nil {
			continue
		}
		cells := []string{row.Name}
		for part := range growthTimes {
			cells = append(cells, fmt.Sprintf("%.0f", row.spread(growthFigures, fmt.Sprint(part+1)).median))
		}
		table.Add(cells...)
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

// answersTable shows how long banks take to answer.
func (r *Result) answersTable() report.Table {
	table := report.Table{Title: "From the question in Kafka to the answer in Kafka, ms", Head: []string{"", "p50", "p99"},
		Note: "by the times of the records, without the first two seconds; where four banks hang, of the fifth"}
	for _, row := range r.Rows {
		if row.Figures[answerFigures] != nil {
			table.Add(row.Name, ms(row.spread(answerFigures, "p50").median), ms(row.spread(answerFigures, "p99").median))
		}
	}
	return table
}

// overloadTable shows what comes of offering too much.
func (r *Result) overloadTable() report.Table {
	table := report.Table{Title: "Overload", Head: []string{"", "maximum", "offered/s", "settled/s", "of the maximum", "refused/s", "a refusal, µs", "accepted", "of which settled", "p50", "p99", "normal after", "generator", "settled/s beside refusals"},
		Note: "The maximum is measured just before on the same stack, straight to Kafka in a closed loop. Over HTTP, refused is 429 and nothing done, and a refusal is that of a whole batch, p50. Straight to Kafka, accepted is all that was written, and refused is LQ10 or AB03, from the first refusal to the last. p50 and p99 in ms, of what settled. Normal after: seconds from the end of the load until payments settle within a second again. Generator: the CPU that the load generator takes meanwhile, in processors; the system has that much less. Settled beside refusals: straight to Kafka all orders settle until the queue is nearly as old as the deadline; this is from the first refusal to the end of the load"}
	for _, row := range r.Rows {
		if row.Figures[overloadFigures] == nil {
			continue
		}
		of := func(name string) float64 { return row.spread(overloadFigures, name).median }
		count := func(v float64) string {
			if v == 0 {
				return ""
			}
			return pix.Thousands(int64(math.RoundToEven(v)))
		}
		settled := perSecond.spread(row).median
		table.Add(row.Name, count(of("maximum")), count(of("offered")), count(settled), percent(settled/max(1, of("maximum"))), count(of("refused")), count(of("refusal_us")),
			count(of("accepted")), fmt.Sprintf("%.2f %%", 100*of("settled")/max(1, of("accepted"))), p50.text(p50.spread(row).median), p99.text(p99.spread(row).median),
			ms(of("normal_after")), fmt.Sprintf("%.2f", of("generator_processors")), count(of("settled_beside_refusals")))
	}
	return table
}

func ms(v float64) string      { return fmt.Sprintf("%.1f", v) }
func percent(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }

// Write prints the result for people.
func (r *Result) Write(w io.Writer) {
	fmt.Fprintf(w, "\nhardware  %s\nsettings  %s\n", r.Hardware, r.Settings)
	for _, row := range r.Rows {
		if row.Differs != "" {
			fmt.Fprintf(w, "          %s: %s\n", row.Name, row.Differs)
		}
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
