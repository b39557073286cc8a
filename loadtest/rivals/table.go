package rivals

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Write prints the result for people.
func (r *Result) Write(w io.Writer) {
	fmt.Fprintf(w, "\nhardware  %s\nworkload  %s\n", r.Hardware, r.Workload)
	for _, settings := range r.Settings {
		fmt.Fprintf(w, "settings  %s\n", settings)
	}
	if len(r.Runs) == 0 {
		return
	}
	fmt.Fprintln(w, "\nlatency in ms, of both phases of a payment; CPU, bytes, flushes and syncs of one payment, the warm-up included:")
	writeRuns(w, r.Runs)
	fmt.Fprintln(w, "\nthe best of each:")
	writeRuns(w, r.best())
	fmt.Fprintln(w, `
written   bytes written by the whole device, so nothing else may write; for PostgreSQL with the checkpoint at the end
own       bytes that the server counts: all writes of TigerBeetle; the log of PostgreSQL without the checkpoint
stored    growth of TigerBeetle's data file, or of PostgreSQL's tables and indexes without its log, which it recycles
flushes   cache flushes of the whole device; WAL syncs are PostgreSQL's own count
load      load average of the minute before, with the processes of the run before
valid     every run: all balances as the payments must leave them, nothing pending, the three-leg invariant,
          every payment new in both phases; PostgreSQL: one verdict each, balances recomputed from its entries, no deadlock`)
	r.writeWinners(w)
}

// settings adds the settings of a system, once.
func (r *Result) settings(parts ...string) {
	if text := strings.Join(parts, ", "); !slices.Contains(r.Settings, text) {
		r.Settings = append(r.Settings, text)
	}
}

func writeRuns(w io.Writer, runs []Run) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "system\tclients\tbatch\tpayments/s\tp50\tp95\tp99\tp99.9\tmax\tserver CPU µs\tclient CPU µs\twritten\town\tstored\tflushes\tWAL syncs\tHOT %\tdeadlocks\tload before\t")
	for _, run := range runs {
		fmt.Fprintf(table, "%s\t%d\t%d\t%.0f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.0f\t%.0f\t%s\t%.0f\t%.0f\t%s\t%s\t%s\t%d\t%.1f\t\n",
			run.System, run.Clients, run.Batch, run.PaymentsPerSecond, run.P50, run.P95, run.P99, run.P999, run.Max,
			run.ServerCPU, run.ClientCPU, known("%.0f", run.DeviceBytes), run.OwnBytes, run.StoredBytes,
			known("%.4f", run.DeviceFlushes), known("%.4f", run.WALSyncs), known("%.0f", run.HOTUpdates), run.Deadlocks, run.LoadAverage)
	}
	table.Flush()
}

func known(format string, value float64) string {
	if value < 0 {
		return "-"
	}
	return fmt.Sprintf(format, value)
}

// best returns the fastest run of each system, one by one and in batches.
func (r *Result) best() (best []Run) {
	for _, batched := range []bool{false, true} {
		for _, system := range Systems {
			if run, ok := r.most(func(run Run) bool { return run.System == system && (run.Batch > 1) == batched }, rate); ok {
				best = append(best, run)
			}
		}
	}
	return best
}

func rate(run Run) float64 { return run.PaymentsPerSecond }

func (r *Result) most(of func(Run) bool, by func(Run) float64) (most Run, ok bool) {
	runs := slices.DeleteFunc(slices.Clone(r.Runs), func(run Run) bool { return !of(run) })
	if len(runs) == 0 {
		return most, false
	}
	return slices.MaxFunc(runs, func(a, b Run) int { return cmp.Compare(by(a), by(b)) }), true
}

// writeWinners says for each figure which system wins.
func (r *Result) writeWinners(w io.Writer) {
	figures := []struct {
		name string
		of   func(Run) float64
		more bool // is better
	}{
		{"payments/s", rate, true},
		{"p50 ms", func(run Run) float64 { return run.P50 }, false},
		{"p99 ms", func(run Run) float64 { return run.P99 }, false},
		{"server CPU µs", func(run Run) float64 { return run.ServerCPU }, false},
		{"bytes written", func(run Run) float64 { return run.DeviceBytes }, false},
		{"bytes stored", func(run Run) float64 { return run.StoredBytes }, false},
		{"device flushes", func(run Run) float64 { return run.DeviceFlushes }, false},
	}
	for _, batched := range []bool{false, true} {
		how := map[bool]string{false: "one by one", true: "in batches"}[batched]
		said := false
		for _, figure := range figures {
			by := func(run Run) float64 {
				if figure.more {
					return figure.of(run)
				}
				return -figure.of(run)
			}
			beetle, a := r.most(func(run Run) bool {
				return run.System == OnTigerBeetle && (run.Batch > 1) == batched && figure.of(run) >= 0
			}, by)
			elephant, b := r.most(func(run Run) bool {
				return run.System != OnTigerBeetle && (run.Batch > 1) == batched && figure.of(run) >= 0
			}, by)
			if !a || !b {
				continue
			}
			if !said {
				fmt.Fprintf(w, "\n%s, each system at its best for the figure:\n", how)
				said = true
			}
			winner, ratio := OnTigerBeetle, figure.of(beetle)/figure.of(elephant)
			if by(elephant) > by(beetle) {
				winner, ratio = elephant.System, 1/ratio
			}
			if !figure.more {
				ratio = 1 / ratio
			}
			fmt.Fprintf(w, "  %-15s %s wins, %.1f times: TigerBeetle %s (%d clients, batches of %d), PostgreSQL %s (%d, %d)\n", figure.name, winner, ratio,
				figureText(figure.of(beetle)), beetle.Clients, beetle.Batch, figureText(figure.of(elephant)), elephant.Clients, elephant.Batch)
		}
	}
}

func figureText(value float64) string {
	if value < 100 {
		return fmt.Sprintf("%.3g", value)
	}
	return fmt.Sprintf("%.0f", value)
}
