package rivals

import (
	"fmt"
	"io"
	"math"
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
	fmt.Fprintln(w, "\nlatency in ms, of both phases of a payment; CPU, bytes and flushes of one payment, the warm-up included:")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "system\tclients\tbatch\tpayments/s\tp50\tp99\tmax\tserver CPU µs\tclient CPU µs\twritten\tstored\tflushes\t")
	for _, run := range r.Runs {
		fmt.Fprintf(table, "%s\t%d\t%d\t%.0f\t%.2f\t%.2f\t%.2f\t%.0f\t%.0f\t%s\t%.0f\t%s\t\n",
			run.System, run.Clients, run.Batch, run.PaymentsPerSecond, run.P50, run.P99, run.Max,
			run.ServerCPU, run.ClientCPU, known("%.0f", run.DeviceBytes), run.StoredBytes, known("%.4f", run.DeviceFlushes))
	}
	table.Flush()
	fmt.Fprintln(w, `
written   bytes written by the whole device, so nothing else may write; for PostgreSQL with the checkpoint at the end
stored    growth of TigerBeetle's data file, or of PostgreSQL's tables and indexes without its log, which it recycles
flushes   cache flushes of the whole device
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

func known(format string, value float64) string {
	if value < 0 {
		return "-"
	}
	return fmt.Sprintf(format, value)
}

// figures are compared. Those that are better if they are less have the sign -1.
var figures = []struct {
	name string
	sign float64
	of   func(Run) float64
}{
	{"payments/s", 1, func(run Run) float64 { return run.PaymentsPerSecond }},
	{"p50 ms", -1, func(run Run) float64 { return run.P50 }},
	{"p99 ms", -1, func(run Run) float64 { return run.P99 }},
	{"server CPU µs", -1, func(run Run) float64 { return run.ServerCPU }},
	{"bytes written", -1, func(run Run) float64 { return run.DeviceBytes }},
	{"bytes stored", -1, func(run Run) float64 { return run.StoredBytes }},
	{"device flushes", -1, func(run Run) float64 { return run.DeviceFlushes }},
}

// writeWinners says for each figure which system wins, each at its best.
func (r *Result) writeWinners(w io.Writer) {
	for _, batched := range []bool{false, true} {
		head := fmt.Sprintf("\n%s, each system at its best for the figure:\n", map[bool]string{false: "one by one", true: "in batches"}[batched])
		for _, figure := range figures {
			best := map[bool]Run{} // by whether it is TigerBeetle
			for _, run := range r.Runs {
				of := run.System == OnTigerBeetle
				if have, some := best[of]; (run.Batch > 1) == batched && figure.of(run) >= 0 && (!some || figure.sign*figure.of(run) > figure.sign*figure.of(have)) {
					best[of] = run
				}
			}
			if len(best) < 2 {
				continue
			}
			beetle, elephant := best[true], best[false]
			winner, ratio := OnTigerBeetle, math.Pow(figure.of(beetle)/figure.of(elephant), figure.sign)
			if ratio < 1 {
				winner, ratio = elephant.System, 1/ratio
			}
			fmt.Fprintf(w, "%s  %-15s %s wins, %.1f times: TigerBeetle %s (%d clients, batches of %d), PostgreSQL %s (%d, %d)\n", head, figure.name, winner, ratio,
				figureText(figure.of(beetle)), beetle.Clients, beetle.Batch, figureText(figure.of(elephant)), elephant.Clients, elephant.Batch)
			head = ""
		}
	}
}

func figureText(value float64) string {
	if value < 100 {
		return fmt.Sprintf("%.3g", value)
	}
	return fmt.Sprintf("%.0f", value)
}
