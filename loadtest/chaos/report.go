package chaos

import (
	"errors"
	"fmt"
	"math"

	"github.com/liquida/liquida/deploy/plot"
	"github.com/liquida/liquida/loadtest/report"
)

// WriteReport writes the result as one HTML file that needs nothing else, and its drawing as SVG
// into a folder, if one is given.
func (r *Result) WriteReport(path, drawings string) error {
	p := r.page()
	return errors.Join(p.Write(path), p.WriteDrawings(drawings))
}

func (r *Result) page() report.Page {
	p := report.Page{
		Title: fmt.Sprintf("Liquida chaos, seed %d", r.Seed), StartedAt: r.StartedAt, Passed: r.Passed, Repeat: r.Repeat,
		Verdict: "Nothing lost, nothing twice, nothing in between.",
		Facts:   []report.Fact{{Name: "system", Value: fmt.Sprintf("%d engines, Kafka: %s, TigerBeetle servers: %d, deadline %v s", r.Engines, r.Kafka, r.Replicas, r.DeadlineSeconds)}},
		Figures: []report.Fact{
			{Name: fmt.Sprintf("payments of the load, at %.0f/s", r.Load.Rate), Value: fmt.Sprint(r.Load.Sent)},
			{Name: "payments over HTTP, watched all along", Value: fmt.Sprint(r.Clients)},
			{Name: "faults", Value: fmt.Sprint(len(r.Events))},
			{Name: "longest wait of any payment", Value: fmt.Sprintf("%.1f s", r.LongestWait())},
			{Name: "good payments rejected because of a fault", Value: fmt.Sprint(r.Excused())},
			{Name: "redelivered and absorbed, at least", Value: fmt.Sprintf("%.0f", r.Counters.Redelivered)},
		},
		Checks: []report.Check{
			{Name: "load", Passed: r.Load.Passed, Text: r.Load.Verdict()},
			{Name: "audit", Passed: r.Audit.Clean, Text: r.Audit.String()},
			{Name: "history", Passed: r.History.Clean, Text: r.History.String()},
			{Name: "answers", Passed: r.Answers.Clean, Text: r.Answers.String()},
		},
		Tables: []report.Table{r.recoveryTable(), r.kindsTable(), r.eventsTable(), r.outcomesTable()},
	}
	p.Draw("faults", "Top: the faults, from beginning to end, with their numbers in the list below. "+report.CourseNote, r.draw())
	if !r.Passed {
		p.Verdict = ""
		p.Problems = r.problems()
	}
	return p
}

func (r *Result) problems() []string {
	all := r.Problems
	for _, f := range r.Load.Failures {
		all = append(all, fmt.Sprintf("%s (%s): %s", f.EndToEndID, f.Case, f.Problem))
	}
	for _, f := range r.Audit.Findings {
		all = append(all, fmt.Sprintf("%s: %s: %s", f.Subject, f.Kind, f.Detail))
	}
	for _, v := range r.History.Violations {
		all = append(all, fmt.Sprintf("%s: %s: %s", v.Subject, v.Kind, v.Detail))
	}
	for _, c := range r.Answers.Contradictions {
		all = append(all, fmt.Sprint(c))
	}
	return all
}

func (r *Result) recoveryTable() report.Table {
	table := report.Table{Title: "Recovery", TextColumns: 1, Head: []string{"", ""}}
	for _, figure := range r.Recovery() {
		table.Add(figure.What, figure.Value)
	}
	return table
}

func (r *Result) kindsTable() report.Table {
	table := report.Table{Title: "Faults by kind", TextColumns: 1, Head: []string{"fault", "problems", "times", "first settled, median", "max", "standstill, median", "max"},
		Note: "Seconds, in the partitions of the engine that was hit, else in all. First settled: from the fault's beginning to the first payment settled in any of them. Standstill: the longest time in which one of them settled nothing, during the fault or soon after."}
	for _, k := range r.Kinds() {
		problems := "none"
		if k.Problems > 0 {
			problems = fmt.Sprint(k.Problems)
		}
		table.Add(k.Kind, problems, fmt.Sprint(k.Times), orNever(k.FirstMedian), orNever(k.FirstMax), orNever(k.StandstillMedian), orNever(k.Standstill))
	}
	return table
}

func (r *Result) eventsTable() report.Table {
	table := report.Table{Title: "Every fault", Note: "Seconds; the beginning counts from the first payment.", TextColumns: 3,
		Head: []string{"", "fault", "of", "detail", "began at", "lasted", "all ready after", "first settled", "standstill"}}
	for i, e := range r.Events {
		detail := e.Detail
		if e.Problem != "" {
			detail += " PROBLEM: " + e.Problem
		}
		table.Add(fmt.Sprint(i+1), e.Kind, e.Target, detail, fmt.Sprintf("%.1f", e.Began), fmt.Sprintf("%.1f", e.Lasted()), fmt.Sprintf("%.1f", e.ReadyAfter()), orNever(e.FirstSettled), orNever(e.Standstill))
	}
	return table
}

func (r *Result) outcomesTable() report.Table {
	table := report.OutcomesTable(r.Load)
	table.Note = "Excused: rejected because of a fault, with a code that the run allows (AB03: no response in time; LQ02: too many payments wait for the bank; LQ10: too old to end in time; AG01: a bank that was made to reject)."
	return table
}

func orNever(seconds float64) string {
	if seconds < 0 {
		return "never"
	}
	return fmt.Sprintf("%.2f", seconds)
}

// draw draws the faults above the course of the run. Each fault has the first lane that is
// free at its time.
func (r *Result) draw() *plot.Drawing {
	const laneHeight, panelHeight, gap, left = 14.0, 170.0, 34.0, 56.0
	d := &plot.Drawing{Title: "Faults, settled payments and latency over time", Width: plot.FullWidth}
	until, width := float64(len(r.Seconds)), d.Width-left-24
	for _, e := range r.Events {
		until = max(until, math.Ceil(e.Ended))
	}
	settled, latency := report.Course(r.Seconds, until, 0, d.Width)
	x := func(second float64) float64 { return left + second/max(until, 1)*width }
	var freeFrom []float64
	for i, e := range r.Events {
		mark := plot.Frame{X: x(e.Began), Width: max(x(max(e.Ended, e.Began))-x(e.Began), 3), Height: 12}
		lane := 0
		for lane < len(freeFrom) && freeFrom[lane] > mark.X {
			lane++
		}
		if lane == len(freeFrom) {
			freeFrom = append(freeFrom, 0)
		}
		freeFrom[lane] = max(mark.X+mark.Width, mark.X+18) + 3 // room for the number
		mark.Y = 4 + float64(lane)*laneHeight
		class, numberAt, number := plot.Color(3), mark.X+3, "inside"
		if e.Problem != "" {
			class = "bad"
		}
		if mark.Width <= 16 {
			numberAt, number = mark.X+mark.Width+2, ""
		}
		d.Rect(mark, class, fmt.Sprintf("%d %s %s, %.1f to %.1f s", i+1, e.Kind, e.Target, e.Began, e.Ended))
		d.Text(numberAt, mark.Y+10, number, fmt.Sprint(i+1))
		band := [2]float64{e.Began, max(e.Ended, e.Began)}
		settled.Bands, latency.Bands = append(settled.Bands, band), append(latency.Bands, band)
	}
	frame := plot.Frame{X: left, Y: 4 + float64(len(freeFrom))*laneHeight + gap, Width: width, Height: panelHeight}
	d.Panel(frame, settled)
	frame.Y += panelHeight + gap
	d.Panel(frame, latency)
	d.Height = frame.Y + panelHeight + 26
	return d
}
