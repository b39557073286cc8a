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
	table := Table{Title: "How payments ended", TextColumns: 1, Head: []string{"case", "must end", "sent", "as expected", "excused", "wrong", "missing"}}
	for _, o := range r.Outcomes {
		table.Add(o.Case, o.Expected, fmt.Sprint(o.Sent), fmt.Sprint(o.AsExpected), fmt.Sprint(o.Excused), fmt.Sprint(o.Wrong), fmt.Sprint(o.Missing))
	}
	return table
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
