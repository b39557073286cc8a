package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Write prints the result for people.
func (r *Result) Write(w io.Writer) {
	fmt.Fprintf(w, "\nhardware  %s\nsettings  %s\n", r.Hardware, r.Settings)
	if len(r.Ceilings) > 0 {
		fmt.Fprintln(w, "\nthe ledger alone, full requests of held and posted legs:")
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(table, "ids\tpayments\tpayments/s\t")
		for _, c := range r.Ceilings {
			fmt.Fprintf(table, "%s\t%d\t%.0f\t\n", c.IDs, c.Payments, c.PaymentsPerSecond)
		}
		table.Flush()
	}
	if r.Pipeline != nil {
		fmt.Fprintf(w, "\nthe whole pipeline, as fast as it goes: %.0f settled payments/s in the steady window of %d", r.Pipeline.SettledPerSecond, r.Pipeline.Payments)
		if r.Pipeline.RatioToCeiling > 0 {
			fmt.Fprintf(w, ", %.2f of the ledger's ceiling", r.Pipeline.RatioToCeiling)
		}
		fmt.Fprintf(w, "\n%s\n", r.Pipeline.Audit)
	}
	runs := r.Latencies
	if r.Pipeline != nil {
		runs = append([]Run{*r.Pipeline}, runs...)
	}
	if len(runs) == 0 {
		return
	}
	fmt.Fprintln(w, "\nlatency in ms, from the intended send to the settlement report (at the maximum: from the send):")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "offered/s\tsettled/s\tp50\tp95\tp99\tp99.9\tmax\tlate sends\t")
	for _, run := range runs {
		l := run.Latency
		fmt.Fprintf(table, "%s\t%.0f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%d\t\n", run.rate(), run.SettledPerSecond, l.P50, l.P95, l.P99, l.P999, l.Max, run.LateSends)
	}
	table.Flush()

	fmt.Fprintln(w, "\ncost of a payment, CPU µs / bytes written to disk (memory at the end):")
	table = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "offered/s\t")
	for _, cost := range runs[0].Costs {
		fmt.Fprintf(table, "%s\t", cost.Process)
	}
	fmt.Fprintln(table, "CPU µs in all\t")
	for _, run := range runs {
		fmt.Fprintf(table, "%s\t", run.rate())
		all := 0.0
		for _, cost := range run.Costs {
			fmt.Fprintf(table, "%.1f / %.0f (%d MiB)\t", cost.CPUMicroseconds, cost.DiskBytes, cost.MemoryBytes>>20)
			all += cost.CPUMicroseconds
		}
		fmt.Fprintf(table, "%.1f\t\n", all)
	}
	table.Flush()
}

func (r Run) rate() string {
	if r.RatePerSecond == 0 {
		return "maximum"
	}
	return fmt.Sprint(r.RatePerSecond)
}
