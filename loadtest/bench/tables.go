package bench

import (
	"fmt"
	"io"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/meter"
	"github.com/liquida/liquida/loadtest/report"
)

// values returns a value of a figure of one row: its median, its least, or its most.
type values func(figure) float64

// column shows a figure in a format. It is empty for a row that has none.
type column struct {
	title, format string
	figure
}

// inEach has a column for each name of a group.
func inEach(names []string, format, group string) (all []column) {
	for _, name := range names {
		all = append(all, column{name, format, figure{group, name}})
	}

	return all
}

// table shows the rows that it is of.
type table struct {
	title, note string
	of          func(Row) bool
	columns     []column
	spread      bool // with the least and the most of several runs
}

// has returns whether a row has figures of a group.
func has(group string) func(Row) bool { return func(r Row) bool { return r.Figures[group] != nil } }

var tables = []table{
	{title: "Everything measured", spread: true,
		note: "latency in ms, from the intended send to the settlement report (at a maximum: from the send; of the front door: from a request to the end of its response, for a batch of all its lines); bytes and CPU µs for each payment, or operation of the front door",
		of:   func(r Row) bool { return r.median(perSecond) > 0 },
		columns: []column{
			{"a second", "%.0f", figure{runFigures, "per_second"}},
			{"of ceiling", "%.2f", figure{runFigures, "ratio_to_ceiling"}},
			{"p50", "%.1f", figure{latencyFigures, "p50"}},
			{"of bare", "%.1f ×", figure{bareFigures, "p50"}},
			{"p95", "%.1f", figure{latencyFigures, "p95"}},
			{"p99", "%.1f", figure{latencyFigures, "p99"}},
			{"of bare", "%.1f ×", figure{bareFigures, "p99"}},
			{"p99.9", "%.1f", figure{latencyFigures, "p99.9"}},
			{"max", "%.1f", figure{latencyFigures, "max"}},
			{"CPU µs", "%.1f", figure{cpuFigures, allProcesses}},
			{"of bare", "%.1f ×", figure{bareFigures, allProcesses}},
			{"ledger writes", "%.0f", figure{diskFigures, "ledger"}},
			{"stored", "%.0f", figure{runFigures, "stored_bytes"}},
			{"per request", "%.0f", figure{runFigures, "transfers_per_request"}},
		}},
	{title: "CPU, µs", of: has(cpuFigures), columns: inEach(columns, "%.1f", cpuFigures),
		note: "of the front door with settling the payments; for balances with the payments that settled meanwhile"},
	{title: "Disk, bytes written", of: has(diskFigures), columns: inEach(columns, "%.0f", diskFigures)},
	{title: "Memory at the end, MiB", of: has(memoryFigures), columns: inEach(columns, "%.0f", memoryFigures)},
	{title: "As the data grows: payments a second in each fifth of the payments", of: has(growthFigures),
		columns: inEach([]string{"1", "2", "3", "4", "5"}, "%.0f", growthFigures)},
	{title: "Where the time of a payment goes in the engine, ms on average", of: has(hopMeanFigures),
		columns: inEach(meter.HopNames, "%.1f", hopMeanFigures),
		note:    "queue: from the topic until fetched; reserve: until the money is held; authorize: the bank's response; resolve: until posted or voided; report: until Kafka stored it"},
	{title: "While nobody pays: % of a processor", of: has(idleFigures),
		columns: inEach(idleColumns, "%.1f", idleFigures),
		note:    "from 10 s after all are ready"},
}

// idleColumns are the processes of a system, and what all but the ledger take together.
var idleColumns = []string{"ledger", stack.Broker, "engines", stack.Producer, "banks", stack.Room, stack.Archiver,
	withoutLedger}

// Tables returns all figures.
func (r *Result) Tables() (all []report.Table) {
	for _, t := range tables {
		shown := report.Table{Title: t.title, Note: t.note, Head: []string{""}}
		for _, c := range t.columns {
			shown.Head = append(shown.Head, c.title)
		}

		for _, row := range r.Rows {
			if t.of(row) {
				t.add(&shown, row)
			}
		}

		if len(shown.Rows) > 0 {
			all = append(all, shown)
		}
	}

	for _, row := range r.Rows {
		if has(readFigures)(row) {
			all = append(all, row.reads())
		}
	}

	return all
}

func (t table) add(shown *report.Table, r Row) {
	line := func(name string, of values) {
		cells := []string{name}

		for _, c := range t.columns {
			cell := ""
			if value := of(c.figure); value != 0 {
				cell = fmt.Sprintf(c.format, value)
			}
			cells = append(cells, cell)
		}
		shown.Add(cells...)
	}
	line(r.Name, r.median)

	if t.spread && len(r.Verdicts) > 1 {
		line("    least", func(f figure) float64 { return r.spread(f).min })
		line("    most", func(f figure) float64 { return r.spread(f).max })
	}
}

// reads has a line for each flood of reads, and says what all of them do to the maximum.
func (r Row) reads() report.Table {
	shown := report.Table{Title: "Payments of a bank while others read all they may",
		Head: []string{"what another bank reads", "p50", "times", "p99", "times", "own reads, p50", "times", "failed",
			"answers/s", "refused/s"}}
	figures := r.Figures[readFigures]
	show := func(all []float64) string {
		is := spreadOf(all)
		return fmt.Sprintf("%.2f (%.2f–%.2f)", is.median, is.min, is.max)
	}

	for _, reads := range readNames() {
		cells := []string{reads}

		for _, name := range []string{"p50", "p99", "reads p50"} {
			cells = append(cells, fmt.Sprintf("%.1f", spreadOf(figures[reads+", "+name]).median),
				show(figures[reads+", times "+name]))
		}

		for _, name := range []string{"failed", "answers", "refused"} {
			cells = append(cells, fmt.Sprintf("%.0f", spreadOf(figures[reads+", "+name]).median))
		}
		shown.Add(cells...)
	}
	shown.Note = fmt.Sprintf("ms, over HTTP at two front doors, from the instant when a payment is due to the answer that it is settled; last four banks read all of it; %d payments/s of another bank beside. times: of the mean of the quiet before and after, median of the turns of each run. The maximum beside all of it: %s of that with no reader",
		readBeside, show(figures["times maximum"]))

	return shown
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
			fmt.Fprintf(w, "INVALID, no figure: %s\n", why)
		}

		for _, share := range row.Figures[runFigures]["busy_share_before"] {
			if share > busyMax {
				fmt.Fprintf(w, "NOT QUIET %s: others used %.0f %% of the machine before it\n", row.Name, 100*share)
			}
		}
	}
}
