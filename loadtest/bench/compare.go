package bench

import (
	"fmt"
	"io"
	"math"

	"github.com/liquida/liquida/loadtest/report"
)

// compared are the figures that are compared: ratios, which hold on another machine. noise is how far two good medians
// may differ by chance: a tail varies more than a mean.
var compared = []struct {
	figure
	more  bool // more is better
	noise float64
}{
	{figure{"of the ledger alone", "%.2f", runFigures, "ratio_to_ceiling"}, true, 0.05},
	{figure{"p50, times bare", "%.2f", bareFigures, "p50"}, false, 0.15},
	{figure{"p99, times bare", "%.2f", bareFigures, "p99"}, false, 0.30},
	{figure{"CPU, times bare", "%.2f", bareFigures, allProcesses}, false, 0.05},
	{figure{"CPU, times the ledger's", "%.2f", runFigures, "cpu_to_ledger"}, false, 0.05},
}

// CompareRule says when a figure has changed.
const CompareRule = "Ratios are compared, which hold on another machine: payments/s to those of the ledger\n" +
	"alone, latencies and CPU to those of the bare pipeline, CPU to the ledger's, each in one pass.\n" +
	"One has changed if its medians differ by more than noise (payments/s and CPU 5 %, p50 15 %,\n" +
	"p99 30 %) and the ranges of the two results do not overlap."

// Change is a figure that became better or worse.
type Change struct {
	Row, Figure string
	Before, Now float64
	Worse       float64 // share of the earlier figure; below 0: better
}

// Compare returns what changed since an earlier result, in rows of both.
func (r *Result) Compare(earlier *Result) (changes []Change, rows int) {
	for _, row := range r.Rows {
		for _, other := range earlier.Rows {
			if row.Name != other.Name || len(row.Verdicts) == 0 || len(other.Verdicts) == 0 {
				continue
			}
			rows++
			for _, c := range compared {
				now, before := c.spread(row), c.spread(other)
				if before.median == 0 || now.median == 0 {
					continue
				}
				worse := now.median/before.median - 1
				if c.more {
					worse = 1 - now.median/before.median
				}
				overlap := now.min <= before.max && before.min <= now.max
				if math.Abs(worse) > c.noise && !overlap {
					changes = append(changes, Change{row.Name, c.title, before.median, now.median, worse})
				}
			}
		}
	}
	return changes, rows
}

// WriteComparison prints the changes. It returns an error if a figure is worse by more than
// worseMax, a share.
func (r *Result) WriteComparison(w io.Writer, earlier *Result, worseMax float64) error {
	changes, rows := r.Compare(earlier)
	if rows == 0 {
		return fmt.Errorf("the two results have no row in common")
	}
	table := report.Table{Title: fmt.Sprintf("Against the result of %s, %d rows", earlier.StartedAt.UTC().Format("2006-01-02 15:04 UTC"), rows), Note: CompareRule,
		Head: []string{"", "figure", "before", "now", ""}}
	if earlier.Hardware != r.Hardware || earlier.Settings != r.Settings {
		table.Note += "\nHARDWARE OR SETTINGS DIFFER. Before: " + earlier.Hardware + "; " + earlier.Settings
	}
	failed := 0
	for _, c := range changes {
		verdict := fmt.Sprintf("better by %.0f %%", -100*c.Worse)
		if c.Worse > 0 {
			verdict = fmt.Sprintf("WORSE by %.0f %%", 100*c.Worse)
		}
		if c.Worse > worseMax {
			failed++
		}
		table.Add(c.Row, c.Figure, fmt.Sprintf("%.2f", c.Before), fmt.Sprintf("%.2f", c.Now), verdict)
	}
	table.Write(w)
	if len(changes) == 0 {
		fmt.Fprintln(w, "nothing has changed")
	}
	if failed > 0 {
		return fmt.Errorf("%d figures are worse by more than %.0f %%", failed, 100*worseMax)
	}
	return nil
}
