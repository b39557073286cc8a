package bench

import (
	"errors"
	"fmt"

	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/meter"
	"github.com/liquida/liquida/loadtest/report"
)

// WriteReport writes the result as one HTML file, and its drawings as SVG into a folder,
// if a path and a folder are given.
func (r *Result) WriteReport(path, drawings string) error {
	p := r.page()
	return errors.Join(p.Write(path), p.WriteDrawings(drawings))
}

// page draws the first valid run of each row, and tables all of them.
func (r *Result) page() report.Page {
	p := report.Page{
		Title: "Liquida bench", StartedAt: r.StartedAt, Passed: true, Tables: r.Tables(),
		Facts: []report.Fact{{Name: "hardware", Value: r.Hardware}, {Name: "settings", Value: r.Settings}},
	}
	var throughput, costs, budgets []report.Amounts
	var curves []report.Series
	runs := 0
	if text := r.wakeUps(); text != "" {
		p.Facts = append(p.Facts, report.Fact{Name: "machine", Value: text})
	}
	for _, row := range r.Rows {
		if row.Differs != "" {
			p.Facts = append(p.Facts, report.Fact{Name: row.Name, Value: row.Differs})
		}
		for _, why := range row.Invalid {
			p.Passed, p.Problems = false, append(p.Problems, why)
			p.Gate = append(p.Gate, report.Verdict{Name: row.Name, Text: why})
		}
		for _, run := range row.Runs {
			runs++
			text := "the ledger refused no transfer; not audited"
			switch {
			case run.Load != nil:
				text = run.Load.Verdict() + ". " + run.Audit
			case run.Audit != "":
				text = "every answer was right. " + run.Audit
			}
			p.Gate = append(p.Gate, report.Verdict{Name: row.Name, Passed: true, Text: fmt.Sprintf("%s; %.0f %% of the machine was used by others before it", text, 100*run.BusyBefore)})
		}
		if len(row.Runs) == 0 {
			continue
		}
		p.Figures = append(p.Figures, row.headline()...)
		if row.Part == doorPart {
			continue // the drawings are of payments that settle
		}
		run := row.Runs[0]
		if run.OfferedPerSecond == 0 {
			throughput = append(throughput, report.Amounts{Name: row.Name, Values: []float64{row.spread(perSecond.of).median}})
		}
		cost := report.Amounts{Name: row.Name}
		for _, column := range columns {
			cost.Values = append(cost.Values, row.spread(func(run Run) float64 {
				return sum(run.Costs, column, func(c meter.Cost) float64 { return c.CPUMicroseconds })
			}).median)
		}
		costs = append(costs, cost)
		if len(run.Hops) > 0 {
			budget := report.Amounts{Name: row.Name}
			for _, hop := range run.Hops {
				budget.Values = append(budget.Values, hop.MeanMs)
			}
			budgets = append(budgets, budget)
		}
		if run.Load != nil {
			p.Courses = append(p.Courses, report.NewCourse(row.Name, report.HalfWidth, float64(run.OfferedPerSecond), run.Load.PerSecond))
			if run.OfferedPerSecond > 0 {
				curves = append(curves, report.Series{Name: row.Name, Points: run.Load.Curve})
			}
		}
	}
	p.Verdict = fmt.Sprintf("%d runs: of the pipeline each with every payment ended as it must and a clean audit, of the ledger alone with no transfer refused.", runs)
	if !p.Passed || runs == 0 {
		p.Passed, p.Verdict = false, fmt.Sprintf("%d runs are valid, %d are not and give no figure.", runs, len(p.Problems))
	}
	p.Throughput = report.NewBars("As fast as it goes", "Payments a second: of the ledger alone, and settled by the whole pipeline in the steady window.", "/s", false, []string{"payments"}, throughput)
	p.Latencies = report.NewCurves("Latency by percentile, at fixed rates", "From the intended send to the settlement report; both axes logarithmic, the right end is the slowest payment of so many.", curves)
	p.Budgets = Budget(budgets)
	p.Costs = report.NewBars("CPU of a payment", "Of each process, the load generator included; small requests cost more.", "µs", false, columns, costs)
	return p
}

// Budget draws where the time of payments goes in the engine.
func Budget(rows []report.Amounts) *report.Bars {
	return report.NewBars("Where the time of a payment goes in the engine",
		"Mean of each hop: queue (written to the topic until fetched), reserve (until the money is held), authorize (the bank's answer), resolve (until posted or voided), report (until Kafka has it).",
		"ms", true, meter.HopNames, rows)
}

// headline is what of a row stands in large on the report.
func (r Row) headline() []report.Fact {
	rate := fmt.Sprintf("%s/s", thousands(int(r.spread(perSecond.of).median)))
	latency := func(l *load.Latency) string { return report.Amount(l.P50) + " / " + report.Amount(l.P99) + " ms" }
	run := r.Runs[0]
	switch {
	case r.Part == "ceiling":
		return []report.Fact{{Name: "the ledger alone", Value: rate}}
	case r.Part == "maximum":
		facts := []report.Fact{{Name: "settled, " + r.Name, Value: rate}}
		if run.Ratio > 0 && r.Name == "maximum" {
			facts = append(facts, report.Fact{Name: "of the ledger's ceiling in the same pass", Value: fmt.Sprintf("%.2f", r.spread(func(run Run) float64 { return run.Ratio }).median)})
		}
		return facts
	case (r.Part == "latency" || r.Part == "half") && run.Latency != nil:
		return []report.Fact{{Name: "p50 / p99, " + r.Name, Value: latency(run.Latency)}}
	case r.Part == doorPart:
		return []report.Fact{{Name: string(run.Door.Operation), Value: rate}}
	case r.Part == "reads" && run.Reads != nil:
		return []report.Fact{{Name: "p50 / p99 of balance reads", Value: latency(run.Reads)}}
	}
	return nil
}
