package bench

import (
	"fmt"

	"github.com/liquida/liquida/loadtest/meter"
	"github.com/liquida/liquida/loadtest/plot"
	"github.com/liquida/liquida/loadtest/report"
)

// Page draws medians, but courses and curves of the first valid run of each row.
func (r *Result) Page() report.Page {
	p := report.Page{
		Title: "Liquida bench", StartedAt: r.StartedAt, Passed: true, Tables: r.Tables(),
		Facts:      []report.Fact{{Name: "hardware", Value: r.Hardware}, {Name: "settings", Value: r.Settings}},
		CourseNote: report.CourseNote,
		CheckNote:  "A run gives figures only if every payment ended as it must, no send was dropped, and the audit of topics and ledger is clean.",
	}
	runs := 0

	for _, row := range r.Rows {
		if row.Differs != "" {
			p.Facts = append(p.Facts, report.Fact{Name: row.Name, Value: row.Differs})
		}

		for _, why := range row.Invalid {
			p.Problems = append(p.Problems, why)
			p.Checks = append(p.Checks, report.Check{Name: row.Name, Text: why})
		}

		runs += len(row.Verdicts)
		for _, text := range row.Verdicts {
			p.Checks = append(p.Checks, report.Check{Name: row.Name, Passed: true, Text: text})
		}
	}

	p.Verdict = fmt.Sprintf(
		"%d runs are valid. In each run of the pipeline every payment ended as it must and the audit is clean; the ledger alone refused no transfer.",
		runs)
	if len(p.Problems) > 0 || runs == 0 {
		p.Passed, p.Verdict = false,
			fmt.Sprintf("%d runs are valid, %d are not and give no figure.", runs, len(p.Problems))
	}
	r.draw(&p)

	return p
}

func (r *Result) draw(p *report.Page) {
	var throughput, costs, hops []plot.Bar
	var curves []report.Curve

	for _, row := range r.Rows {
		if len(row.Verdicts) == 0 || row.Part == gatePart { // those are short
			continue
		}

		p.Figures = append(p.Figures, row.headline()...)
		if row.Part == doorPart {
			continue // the other drawings are of payments that settle
		}

		costs = append(costs, row.bar(cpuFigures, columns...))
		if has(hopMeanFigures)(row) {
			hops = append(hops, row.bar(hopMeanFigures, meter.HopNames...))
		}

		if row.course != nil {
			p.Courses = append(p.Courses,
				report.DrawRun(row.Name, plot.HalfWidth, row.median(offered),
					report.Course{PerSecond: row.course}, nil))
		}

		if !row.offersRate() {
			throughput = append(throughput, row.bar(perSecond.group, perSecond.name))
		} else if row.Curve != nil {
			curve := *row.Curve
			curve.Name = row.Name
			curves = append(curves, curve)
		}
	}
	p.Draw("throughput", "Payments a second: of the ledger alone, and settled by the whole pipeline in the steady window.",
		plot.Bars("As fast as it goes", "/s", false, []string{"payments"}, throughput))
	p.Draw("latency", "From the intended send to the settlement report. Both axes are logarithmic; a curve ends at the slowest payment.",
		report.DrawCurves("Latency by percentile, at fixed rates", curves))
	p.Draw("budget", "Mean of each hop: queue (from the topic until fetched), reserve (until the money is held), authorize (the bank's response), resolve (until posted or voided), report (until Kafka stored it).",
		plot.Bars("Where the time of a payment goes in the engine", "ms", true, meter.HopNames, hops))
	p.Draw("cpu", "Of each process, with the load generator. Small requests cost more.",
		plot.Bars("CPU of a payment", "µs", false, columns, costs))
}

// bar holds the medians of figures of a group.
func (r Row) bar(group string, names ...string) plot.Bar {
	bar := plot.Bar{Name: r.Name}
	for _, name := range names {
		bar.Values = append(bar.Values, r.median(figure{group, name}))
	}

	return bar
}

// headline is what the report shows of a row in large.
func (r Row) headline() []report.Fact {
	rate := plot.Amount(r.median(perSecond)) + "/s"
	switch {
	case r.Part == doorPart && r.Door != nil:
		return []report.Fact{{Name: string(r.Door.Operation), Value: rate}}
	case r.offersRate():
		return []report.Fact{{Name: "p50 / p99, " + r.Name,
			Value: plot.Amount(r.median(p50)) + " / " + plot.Amount(r.median(p99)) + " ms"}}
	}

	facts := []report.Fact{{Name: r.Name, Value: rate}}
	if ratio := r.median(ofCeiling); ratio > 0 && r.Name == "maximum" {
		facts = append(facts, report.Fact{Name: "of the ledger's ceiling in the same pass",
			Value: fmt.Sprintf("%.2f", ratio)})
	}

	return facts
}
