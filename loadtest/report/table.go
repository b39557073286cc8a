// Package report shows people the results of loads and measurements: as text, and as one
// HTML file that needs nothing else.
package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/liquida/liquida/loadtest/load"
)

// Table is shown as text and as HTML. The first column is text, the others are figures.
type Table struct {
	Title       string
	Note        string // how to read it
	TextColumns int    // after the first
	Head        []string
	Rows        [][]string
}

// Add appends a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// OutcomesTable shows how the payments of a load ended.
func OutcomesTable(r *load.Result) Table {
	table := Table{Title: "How payments ended", TextColumns: 1,
		Head: []string{"case", "must end", "sent", "as expected", "excused", "wrong", "missing"}}
	add := func(name, expected string, c load.Count) {
		table.Add(name, expected, fmt.Sprint(c.Sent), fmt.Sprint(c.AsExpected), fmt.Sprint(c.Excused),
			fmt.Sprint(c.Wrong), fmt.Sprint(c.Missing))
	}
	var all load.Count

	for _, o := range r.Outcomes {
		add(o.Case, o.Expected, o.Count)
		all = load.Count{Sent: all.Sent + o.Sent, AsExpected: all.AsExpected + o.AsExpected,
			Excused: all.Excused + o.Excused, Wrong: all.Wrong + o.Wrong, Missing: all.Missing + o.Missing}
	}
	add("all", "", all)

	return table
}

// LatenciesTable shows the latencies of a load.
func LatenciesTable(r *load.Result) Table {
	table := Table{Title: "Latency in ms, from the intended send",
		Head: []string{"", "count", "p50", "p90", "p95", "p99", "p99.9", "max"}}

	for _, l := range r.Latencies {
		cells := []string{l.Kind, fmt.Sprint(l.Count)}
		for _, v := range []float64{l.P50, l.P90, l.P95, l.P99, l.P999, l.Max} {
			cells = append(cells, fmt.Sprintf("%.1f", v))
		}
		table.Add(cells...)
	}

	return table
}

// WriteLoad prints the result of a load for people.
func WriteLoad(w io.Writer, r *load.Result) {
	OutcomesTable(r).Write(w)
	LatenciesTable(r).Write(w)
	fmt.Fprintf(w, "\nsettled %d (%.0f/s", r.Settled, r.SettledPerSecond)

	if r.SteadyPerSecond > 0 {
		fmt.Fprintf(w, ", %.0f/s in the steady window", r.SteadyPerSecond)
	}
	fmt.Fprintf(w, "), rejected %d, dead letters %d\n", r.Rejected, r.DeadLetters)

	if r.Returned+r.ReturnsRejected > 0 {
		fmt.Fprintf(w, "returns settled %d, rejected %d\n", r.Returned, r.ReturnsRejected)
	}
	fmt.Fprintf(w, "sends: %d dropped, %d late by more than %v (the latest by %.1f ms)\n", r.Dropped, r.Late,
		load.LateAfter, r.LateMaxMs)
	WriteInterrupted(w, r)
}

// WriteInterrupted prints how far an interrupted load came, and what was wrong until then.
func WriteInterrupted(w io.Writer, r *load.Result) {
	writeFailures(w, r)
	fmt.Fprintln(w, r.Verdict())
}

func writeFailures(w io.Writer, r *load.Result) {
	rest := r.FailureCount
	for _, f := range r.Failures {
		writeFailure(w, f)
		rest -= f.Count
	}

	if rest > 0 {
		fmt.Fprintf(w, "WRONG … and %d more\n", rest)
	}
}

// writeFailure prints a failure, with what may explain it.
func writeFailure(w io.Writer, f load.Failure) {
	fmt.Fprintf(w, "WRONG %q (%s, record %s): %s\n", f.EndToEndID, f.Case, f.Record, f.Problem)

	if f.Count > 1 {
		fmt.Fprintf(w, "      %d payments of this case fail in this way, also %s\n", f.Count,
			strings.Join(f.Also, ", "))
	}
}

// Write prints the table for people.
func (t Table) Write(w io.Writer) {
	widths := make([]int, len(t.Head))
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	fmt.Fprintf(w, "\n%s\n", t.Title)

	if t.Note != "" {
		fmt.Fprintln(w, t.Note)
	}

	for _, row := range append([][]string{t.Head}, t.Rows...) {
		var line strings.Builder

		for i, cell := range row {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				line.WriteString(cell + gap)
			} else {
				line.WriteString("  " + gap + cell)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}
