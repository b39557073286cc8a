package bench

import (
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"

	"github.com/liquida/liquida/loadtest/report"
)

// compared are the figures that are compared: ratios, which hold on another machine. noise is how far two good medians
// may differ by chance: a tail varies more than a mean.
var compared = []struct {
	figure
	title string
	more  bool // more is better
	noise float64
}{
	{ofCeiling, "of the ledger alone", true, 0.05},
	{figure{bareFigures, "p50"}, "p50, times bare", false, 0.15},
	{figure{bareFigures, "p99"}, "p99, times bare", false, 0.30},
	{figure{bareFigures, allProcesses}, "CPU, times bare", false, 0.05},
	{figure{runFigures, "cpu_to_ledger"}, "CPU, times the ledger's", false, 0.05},
}

// CompareRule says when a figure has changed.
const CompareRule = "Ratios are compared, which hold on another machine: payments/s to those of the ledger\n" +
	"alone, latencies and CPU to those of the bare pipeline, CPU to the ledger's, each in one pass.\n" +
	"One has changed if its medians differ by more than noise (payments/s and CPU 5 %, p50 15 %,\n" +
	"p99 30 %) and the ranges of the two results do not overlap. Exit code 1: worse by more than 15 %.\n" +
	"On a machine whose ledger alone is slower by that much, only CPU at a maximum counts. Nothing\n" +
	"counts of a bare pipeline, or at a rate that takes more than 85 % of the processors."

// worseMax is the share by which a figure may be worse, busyShare that of the processors which a rate may take.
const worseMax, busyShare = 0.15, 0.85

// WriteComparison prints what changed since an earlier result, in rows of both. It returns an error if a figure is
// worse by more than worseMax.
func (r *Result) WriteComparison(w io.Writer, earlier *Result) error {
	table := report.Table{Note: CompareRule, Head: []string{"", "figure", "before", "now", ""}}
	if earlier.Hardware != r.Hardware || earlier.Settings != r.Settings {
		table.Note += "\nHARDWARE OR SETTINGS DIFFER. Before: " + earlier.Hardware + "; " + earlier.Settings
	}
	rows, failed, slower := 0, 0, false

	for _, row := range r.Rows {
		for _, other := range earlier.Rows {
			if row.Name == other.Name && len(row.Verdicts) > 0 && len(other.Verdicts) > 0 {
				rows++
				slower = slower ||
					row.Name == gateCeiling && row.median(perSecond) < (1-worseMax)*other.median(perSecond)
				failed += row.compare(other, &table, slower)
			}
		}
	}

	if slower {
		table.Note += "\nTHIS MACHINE IS SLOWER: only CPU at a maximum counts."
	}

	if rows == 0 {
		return errors.New("the two results have no row in common")
	}
	table.Title = fmt.Sprintf("Against the result of %s, %d rows",
		earlier.StartedAt.UTC().Format("2006-01-02 15:04 UTC"), rows)
	table.Write(w)

	if len(table.Rows) == 0 {
		fmt.Fprintln(w, "nothing has changed")
	}

	if failed > 0 {
		return fmt.Errorf("%d figures are worse by more than %g %%", failed, 100*worseMax)
	}

	return nil
}

// compare adds what changed in a row to a table, and returns how many figures are worse by more than worseMax.
func (r Row) compare(earlier Row, table *report.Table, slower bool) (failed int) {
	rate := r.median(offered)
	ours := !strings.Contains(r.Name, "bare pipeline")
	full := rate*r.median(cpu)/1e6 > busyShare*float64(runtime.NumCPU()) // what has no room tells of the machine

	for _, c := range compared {
		now, before := r.spread(c.figure), earlier.spread(c.figure)
		if before.median == 0 || now.median == 0 {
			continue
		}

		worse := now.median/before.median - 1 // below 0: better
		if c.more {
			worse = -worse
		}

		overlap := now.min <= before.max && before.min <= now.max
		if math.Abs(worse) <= c.noise || overlap {
			continue
		}

		verdict := fmt.Sprintf("%s by %.0f %%", map[bool]string{true: "WORSE", false: "better"}[worse > 0],
			100*math.Abs(worse))

		if worse > worseMax && ours && !full && (!slower || rate == 0 && strings.HasPrefix(c.title, "CPU")) {
			failed++
		}
		table.Add(r.Name, c.title, fmt.Sprintf("%.2f", before.median), fmt.Sprintf("%.2f", now.median), verdict)
	}

	return failed
}
