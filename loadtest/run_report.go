package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/liquida/liquida/deploy/plot"
	"github.com/liquida/liquida/loadtest/bench"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/meter"
	"github.com/liquida/liquida/loadtest/report"
)

// hopTimes is where the time of payments went in the engines, or why that is unknown.
type hopTimes struct {
	hops   []meter.Hop
	ledger meter.Ledger
	why    string
}

// startHopTimes reads the engines' metrics, if there will be a report. If that fails the load
// goes on, and the report says so.
func (f *runFlags) startHopTimes(ctx context.Context) func() hopTimes {
	if f.report == "" || len(f.engines) == 0 {
		return func() hopTimes { return hopTimes{why: "no engine was read (--engines)"} }
	}
	var urls []string
	for _, address := range f.engines {
		urls = append(urls, "http://"+address)
	}
	before, err := meter.ReadEngines(ctx, urls)
	return func() hopTimes {
		if err != nil {
			return hopTimes{why: err.Error()}
		}
		after, err := meter.ReadEngines(ctx, urls)
		if err != nil {
			return hopTimes{why: err.Error()}
		}
		counted := after.Since(before)
		return hopTimes{counted.Hops(), counted.Ledger(), ""}
	}
}

// runPage is the report of a load.
func runPage(r *load.Result, times hopTimes, environment *runEnvironment) report.Page {
	p := report.Page{
		Title: "Liquida load", StartedAt: r.StartedAt, Passed: r.Passed, Verdict: r.Verdict(),
		Facts: []report.Fact{
			{Name: "this machine", Value: meter.Hardware()},
			{Name: "load", Value: fmt.Sprintf("%d payments at %v/s, mix %s, seed %d, %d PSPs, %d customers, Kafka at %s", r.Payments, r.Rate, r.Mix, r.Seed, environment.Banks, environment.Customers, strings.Join(environment.Brokers, ", "))},
			{Name: "audit", Value: "not part of a load: run loadtest audit"},
			{Name: "sends", Value: fmt.Sprintf("%d dropped, %d late, the latest by %.1f ms", r.Dropped, r.Late, r.LateMaxMs)},
		},
		Courses: []*plot.Drawing{report.DrawCourse("", plot.FullWidth, r.Rate, r.PerSecond)}, CourseNote: report.CourseNote,
		Checks: []report.Check{{Name: "load", Passed: r.Passed, Text: r.Verdict()}},
	}
	p.Draw("latency", "Of settled payments, from the intended send to the settlement report; both axes are logarithmic.",
		report.DrawCurves("Latency by percentile", []report.Curve{{Name: "settled", Points: r.Curve}}))
	rate := r.SteadyPerSecond
	if rate == 0 {
		rate = r.SettledPerSecond
	}
	p.Figures = append(p.Figures, report.Fact{Name: "settled a second", Value: fmt.Sprintf("%.0f", rate)})
	if l := r.Latency("settled"); l != nil {
		p.Figures = append(p.Figures, report.Fact{Name: "median until settled", Value: fmt.Sprintf("%.1f ms", l.P50)}, report.Fact{Name: "99th percentile", Value: fmt.Sprintf("%.1f ms", l.P99)}, report.Fact{Name: "slowest", Value: fmt.Sprintf("%.1f ms", l.Max)})
	}
	p.Tables = []report.Table{report.LatenciesTable(r), report.OutcomesTable(r)}
	if times.why != "" {
		p.Facts = append(p.Facts, report.Fact{Name: "hops in the engine", Value: "unknown: " + times.why})
	} else if len(times.hops) > 0 {
		means, table := plot.Bar{Name: "all payments"}, report.Table{Title: "Hops in the engine, ms", Head: []string{"hop", "count", "mean", "p50", "p99"}}
		for _, hop := range times.hops {
			means.Values = append(means.Values, hop.MeanMs)
			table.Add(hop.Name, fmt.Sprint(hop.Count), fmt.Sprintf("%.1f", hop.MeanMs), fmt.Sprintf("%.1f", hop.P50Ms), fmt.Sprintf("%.1f", hop.P99Ms))
		}
		table.Note = fmt.Sprintf("Percentiles as exact as the engine's buckets. %d write requests to the ledger with %.0f transfers each, mean %.1f ms.", times.ledger.Requests, times.ledger.TransfersPerRequest, times.ledger.MeanMs)
		p.Draw("budget", bench.HopNote, bench.DrawHops([]plot.Bar{means}))
		p.Tables = append(p.Tables, table)
	}
	for _, f := range r.Failures {
		p.Problems = append(p.Problems, fmt.Sprintf("%s (%s, record %s): %s", f.EndToEndID, f.Case, f.Record, f.Problem))
	}
	return p
}
