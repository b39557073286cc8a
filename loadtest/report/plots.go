package report

import (
	"fmt"
	"math"

	"github.com/liquida/liquida/deploy/plot"
	"github.com/liquida/liquida/loadtest/load"
)

// CourseNote explains the two panels of a course.
const CourseNote = "Above: payments settled in each second; the offered rate is dashed. Below: latency of those payments (logarithmic): median blue, 99th percentile orange, slowest dashed."

// Course returns the panels of a run over time, over so many seconds: what settled in each
// second, and how long that took. offered is the rate of sending, 0 for none.
func Course(seconds []load.Second, until, offered, width float64) (settled, latency plot.Panel) {
	most, least, slowest := offered, math.Inf(1), 1.0
	for _, s := range seconds {
		most, slowest = max(most, float64(s.Settled)), max(slowest, s.Max)
		if s.Settled > 0 {
			least = min(least, s.P50)
		}
	}
	x := plot.Seconds(until, width/70)
	area, middle := plot.Series{Color: 2, Area: true}, func(i int) float64 { return float64(i) + 0.5 }
	p50, p99, slow := plot.Series{Color: 0}, plot.Series{Color: 1}, plot.Series{Color: 6, Thin: true}
	for i, s := range seconds {
		area.Points = append(area.Points, [2]float64{float64(i), float64(s.Settled)}, [2]float64{float64(i + 1), float64(s.Settled)})
		if s.Settled == 0 { // there is no latency
			s.P50, s.P99, s.Max = math.NaN(), math.NaN(), math.NaN()
		}
		p50.Points = append(p50.Points, [2]float64{middle(i), s.P50})
		p99.Points = append(p99.Points, [2]float64{middle(i), s.P99})
		slow.Points = append(slow.Points, [2]float64{middle(i), s.Max})
	}
	settled = plot.Panel{Title: "settled per second", X: x, Y: plot.FromZero(most, 3, short), Series: []plot.Series{area}}
	settled.X.Ticks = nil // the panel below has them
	if offered > 0 {
		settled.Limits = []float64{offered}
	}
	latency = plot.Panel{Title: "latency", X: x, Y: plot.Milliseconds(min(least, slowest), slowest), Series: []plot.Series{slow, p99, p50}}
	return settled, latency
}

// DrawCourse draws the course of a run.
func DrawCourse(name string, width, offered float64, seconds []load.Second) *plot.Drawing {
	settled, latency := Course(seconds, float64(len(seconds)), offered, width)
	d := &plot.Drawing{Title: name, Width: width, Height: 322}
	d.Panel(plot.Frame{X: 52, Y: 24, Width: width - 74, Height: 120}, settled)
	d.Panel(plot.Frame{X: 52, Y: 178, Width: width - 74, Height: 120}, latency)
	return d
}

// short writes 20000 as 20k.
func short(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%gk", v/1000)
	}
	return fmt.Sprintf("%g", v)
}

// Curve is a latency by percentile.
type Curve struct {
	Name   string
	Points []load.Point
}

// DrawCurves draws latencies by percentile. Each nine of the percentile takes the same
// width, so the slowest payments show. It returns nil without curves.
func DrawCurves(title string, curves []Curve) *plot.Drawing {
	least, most, nines := math.Inf(1), 1.0, 2.0
	var names []string
	p := plot.Panel{}
	for i, curve := range curves {
		series := plot.Series{Color: i}
		for _, point := range curve.Points {
			least, most, nines = min(least, point.Ms), max(most, point.Ms), max(nines, ninesOf(point.Percentile))
			series.Points = append(series.Points, [2]float64{ninesOf(point.Percentile), point.Ms})
		}
		names, p.Series = append(names, curve.Name), append(p.Series, series)
	}
	if math.IsInf(least, 1) {
		return nil
	}
	p.X, p.Y = plot.Scale{Min: ninesOf(50), Max: nines}, plot.Milliseconds(least, most)
	for _, percentile := range []float64{50, 90, 99, 99.9, 99.99, 99.999} {
		if n := ninesOf(percentile); n <= nines+1e-9 {
			p.X.Ticks = append(p.X.Ticks, plot.Tick{Value: n, Text: fmt.Sprintf("%g %%", percentile)})
		}
	}
	d := &plot.Drawing{Title: title, Width: plot.FullWidth, Height: 424}
	top := d.Legend(14, 14, d.Width-28, names) + 22
	d.Panel(plot.Frame{X: 60, Y: top, Width: 1030, Height: d.Height - 36 - top}, p)
	return d
}

// ninesOf is 1 for 90 %, 2 for 99 % and so on.
func ninesOf(percentile float64) float64 { return -math.Log10(1 - percentile/100) }
