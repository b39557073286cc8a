package bench

import (
	"fmt"
	"io"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/meter"
	"github.com/liquida/liquida/loadtest/report"
	"github.com/liquida/liquida/platform/pix"
)

// values returns a value of a figure of one row: its median, its least, or its most.
type values func(figure) float64

// column is a column of a table.
type column struct {
	title string
	cell  func(Row, values) string
}

// shows writes figures in a format.
func shows(title, format string, figures ...figure) column {
	return column{title, func(_ Row, of values) string {
		var all []any
		for _, f := range figures {
			all = append(all, of(f))
		}

		return fmt.Sprintf(format, all...)
	}}
}

// ifKnown leaves the cell empty if a figure does not exist.
func (c column) ifKnown(f figure) column {
	return column{c.title, func(r Row, of values) string {
		if of(f) == 0 {
			return ""
		}

		return c.cell(r, of)
	}}
}

func known(title, format, group, name string) column {
	f := figure{group, name}
	return shows(title, format, f).ifKnown(f)
}

// share writes part of whole, as a multiple of unit. A whole of less than least counts as that.
func share(title, format string, unit float64, part, whole figure, least float64) column {
	return column{title, func(_ Row, of values) string {
		return fmt.Sprintf(format, unit*of(part)/max(least, of(whole)))
	}}
}

// inEach writes the figure of each name, from one or more groups.
func inEach(names []string, format string, groups ...string) (all []column) {
	for _, name := range names {
		var figures []figure
		for _, group := range groups {
			figures = append(figures, figure{group, name})
		}
		all = append(all, shows(name, format, figures...))
	}

	return all
}

// ofDoor writes what the row asked the HTTP API for.
func ofDoor(title string, text func(*Door) string) column {
	return column{title, func(r Row, _ values) string {
		if r.Door == nil {
			return ""
		}

		return text(r.Door)
	}}
}

// table shows the rows that it is of.
type table struct {
	title, note string
	first       string // the title of the first column
	of          func(Row) bool
	columns     []column
	fill        func(table, *report.Table, Row) // adds a row
}

// has returns whether a row has figures of a group.
func has(group string) func(Row) bool { return func(r Row) bool { return r.Figures[group] != nil } }

var (
	figures = []column{
		known("payments/s", "%.0f", runFigures, "per_second"),
		known("of ceiling", "%.2f", runFigures, "ratio_to_ceiling"),
		known("p50", "%.1f", latencyFigures, "p50"),
		known("of bare", "%.1f ×", bareFigures, "p50"),
		known("p95", "%.1f", latencyFigures, "p95"),
		known("p99", "%.1f", latencyFigures, "p99"),
		known("of bare", "%.1f ×", bareFigures, "p99"),
		known("p99.9", "%.1f", latencyFigures, "p99.9"),
		known("max", "%.1f", latencyFigures, "max"),
		known("CPU µs", "%.1f", cpuFigures, allProcesses),
		known("of bare", "%.1f ×", bareFigures, allProcesses),
		known("ledger writes", "%.0f", diskFigures, "ledger"),
		known("stored", "%.0f", runFigures, "stored_bytes"),
		known("per request", "%.0f", runFigures, "transfers_per_request"),
	}
	doorColumns = []column{
		ofDoor("operation", func(d *Door) string { return string(d.Operation) }),
		ofDoor("connections", func(d *Door) string { return fmt.Sprint(d.Connections) }),
		ofDoor("count", func(d *Door) string { return pix.Thousands(d.Count) }),
		known("a second", "%.0f", runFigures, "per_second"),
		known("p50", "%.1f", latencyFigures, "p50"),
		known("p99", "%.1f", latencyFigures, "p99"),
		known("max", "%.1f", latencyFigures, "max"),
	}
	// Their names follow that of a flood.
	readMaximum = figure{readFigures, "maximum"}
	readColumns = []column{
		shows("p50", "%.1f", figure{readFigures, "flooded p50"}), ofQuiet("p50"),
		shows("p99", "%.1f", figure{readFigures, "flooded p99"}), ofQuiet("p99"),
		shows("own reads, p50", "%.1f", figure{readFigures, "flooded reads p50"}), ofQuiet("reads p50"),
		shows("failed", "%.0f", figure{readFigures, "failed"}),
		shows("answers/s", "%.0f", figure{readFigures, "answers"}),
		shows("refused/s", "%.0f", figure{readFigures, "refused"}),
	}
)

func ofQuiet(name string) column {
	return share("times", "%.1f", 1, figure{readFigures, "flooded " + name}, figure{readFigures, "quiet " + name}, 1e-9)
}

// tables are in the order of the report.
var tables = []table{
	{title: "Everything measured", columns: figures, fill: table.spread,
		note: "latency in ms, from the intended send to the settlement report (at a maximum: from the send); bytes and CPU µs for each payment",
		of: func(r Row) bool { // the figures of others count other things
			return r.Part != doorPart && r.Part != idlePart && !has(readFigures)(r)
		}},
	{title: "The HTTP API (front door), as fast as its connections go", of: isDoor, columns: doorColumns,
		fill: table.spread,
		note: "ms, from a request to the end of its response (for a batch: all lines). Then the connection sends its next request. A run counts if every response was right, every payment settled and the audit is clean"},
	{title: "CPU of an operation of the front door, µs", of: isDoor, columns: inEach(columns, "%.1f", cpuFigures),
		fill: table.medians,
		note: "with settling the payments; for balances with the payments that settled meanwhile"},
	{title: "CPU of a payment, µs", of: costs(cpuFigures), columns: inEach(columns, "%.1f", cpuFigures),
		fill: table.medians},
	{title: "Network of a payment, bytes sent and received over TCP (on one machine both ends count)",
		of: costs(networkFigures), columns: inEach(columns, "%.0f", networkFigures), fill: table.medians},
	{title: "Disk of a payment, bytes written", of: costs(diskFigures), columns: inEach(columns, "%.0f", diskFigures),
		fill: table.medians},
	{title: "Memory at the end, MiB", of: costs(memoryFigures), columns: inEach(columns, "%.0f", memoryFigures),
		fill: table.medians},
	{title: "As the data grows: payments a second", of: has(growthFigures), columns: growthColumns(),
		fill: table.medians,
		note: "in equal parts of the payments, one after the other"},
	{title: "Where the time of a payment goes in the engine, ms: mean (99th percentile)", of: has(hopMeanFigures),
		columns: inEach(meter.HopNames, "%.1f (%.0f)", hopMeanFigures, hopP99Figures), fill: table.medians},
	{title: "Payments of a bank while others read all they may", first: "what another bank reads", of: has(readFigures),
		columns: readColumns, fill: table.reads,
		note: fmt.Sprintf("ms, over HTTP at two front doors, from the instant when a payment is due to the answer that it is settled; last four banks read all of it; %d payments/s of all banks beside. times: of the quiet between",
			readBeside)},
	{title: "While nobody pays: % of a processor (waits a second)", of: has(idleFigures),
		columns: inEach(idleColumns, "%.1f (%.0f)", idleFigures, idleWaitFigures), fill: table.medians,
		note: "from 10 s after all are ready; a wait is a thread that goes to sleep"},
}

// idleColumns are the processes of a system, and what all but the ledger take together.
var idleColumns = []string{"ledger", stack.Broker, "engines", stack.Producer, "banks", stack.Room, stack.Archiver,
	withoutLedger}

func isDoor(r Row) bool { return r.Part == doorPart }

func costs(group string) func(Row) bool {
	return func(r Row) bool { return !isDoor(r) && has(group)(r) }
}

func growthColumns() (all []column) {
	for part := range growthTimes {
		all = append(all, shows(fmt.Sprintf("part %d", part+1), "%.0f", figure{growthFigures, fmt.Sprint(part + 1)}))
	}

	return all
}

// Tables returns all figures.
func (r *Result) Tables() (all []report.Table) {
	for _, t := range tables {
		shown := report.Table{Title: t.title, Note: t.note, Head: []string{t.first}}
		for _, c := range t.columns {
			shown.Head = append(shown.Head, c.title)
		}

		for _, row := range r.Rows {
			if t.of(row) {
				t.fill(t, &shown, row)
			}
		}

		if len(shown.Rows) > 0 {
			all = append(all, shown)
		}
	}

	return all
}

func (t table) medians(shown *report.Table, r Row) {
	if len(r.Verdicts) > 0 {
		shown.Add(t.line(r.Name, r, r.median)...)
	}
}

// spread adds the medians, the least and the most of several runs, and invalid runs.
func (t table) spread(shown *report.Table, r Row) {
	t.medians(shown, r)

	if len(r.Verdicts) > 1 {
		shown.Add(t.line("    least", r, func(f figure) float64 { return r.spread(f).min })...)
		shown.Add(t.line("    most", r, func(f figure) float64 { return r.spread(f).max })...)
	}

	for range r.Invalid {
		shown.Add(r.Name + ": INVALID, no figure")
	}
}

// reads adds a line for each flood of reads, and what all of them do to the maximum.
func (t table) reads(shown *report.Table, r Row) {
	of := func(name string) values {
		return func(f figure) float64 { return r.median(figure{f.group, name + ", " + f.name}) }
	}
	for _, flood := range floods {
		shown.Add(t.line(flood.name, r, of(flood.name))...)
	}
	shown.Add(t.line(readAll, r, of(readAll))...)
	beside, alone := of(readAll)(readMaximum), of(readQuiet)(readMaximum)
	shown.Note += fmt.Sprintf(". The maximum beside all of it: %s/s, %.2f of %s/s", pix.Thousands(int(beside)),
		beside/max(1, alone), pix.Thousands(int(alone)))
}

func (t table) line(name string, r Row, of values) []string {
	cells := []string{name}
	for _, c := range t.columns {
		cells = append(cells, c.cell(r, of))
	}

	return cells
}

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
