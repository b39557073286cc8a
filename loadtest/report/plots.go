package report

import (
	"fmt"
	"math"

	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/plot"
)

// CourseNote explains the drawing of a run.
const CourseNote = "Above: payments settled per second; a rate that was offered is dashed. Below: latency of those payments (logarithmic): median blue, 99th percentile orange, slowest dashed."

// Course is what settled in each second of a run, and, if PerQuarter is known, in each quarter of one.
type Course struct {
	PerSecond  []load.Second
	PerQuarter []int
}

// Fault is what broke a part of the system, from one second of a run to another.
type Fault struct {
	Name         string
	Began, Ended float64
	Failed       bool
	Story        string // what it did, in a sentence or two
}

// DrawRun draws the course of a run: the faults with their numbers, what settled in each second, and
// how long that took. offered is the rate of sending, 0 for none.
func DrawRun(title string, width, offered float64, c Course, faults []Fault) *plot.Drawing {
	until, height := float64(len(c.PerSecond)), 120.0
	for _, f := range faults {
		until = max(until, math.Ceil(f.Ended))
	}

	if width > plot.HalfWidth {
		height = 170
	}
	d := &plot.Drawing{Title: title, Width: width}
	frame := plot.Frame{X: 56, Y: 24, Width: width - 80, Height: height}

	settled, latency := c.panels(until, offered, width)
	if len(faults) > 0 {
		frame.Y = drawFaults(d, frame, until, faults) + 34
	}

	for _, f := range faults {
		band := [2]float64{f.Began, max(f.Ended, f.Began)}
		settled.Bands, latency.Bands = append(settled.Bands, band), append(latency.Bands, band)
	}
	d.Panel(frame, settled)
	frame.Y += height + 34
	d.Panel(frame, latency)
	d.Height = frame.Y + height + 26

	return d
}

// namesMax is how many faults have their names in a drawing. Of more, only the numbers have room.
const namesMax = 4

// drawFaults draws each fault in the first lane that is free at its time, and returns the bottom of the last.
func drawFaults(d *plot.Drawing, f plot.Frame, until float64, faults []Fault) float64 {
	const laneHeight = 15.0
	x := func(second float64) float64 { return f.X + second/max(until, 1)*f.Width }
	var freeFrom []float64

	for i, fault := range faults {
		mark := plot.Frame{X: x(fault.Began),
			Width: max(x(max(fault.Ended, fault.Began))-x(fault.Began), 3), Height: 12}

		text, at, class := fmt.Sprint(i+1), mark.X+3, "inside"
		if len(faults) <= namesMax {
			text += " " + fault.Name
		}

		wide := 7 * float64(len(text))
		if mark.Width < wide {
			at, class = mark.X+mark.Width+3, "name"
			if at+wide > f.X+f.Width {
				at, class = mark.X-3, "name end"
			}
		}

		lane := 0
		for lane < len(freeFrom) && freeFrom[lane] > mark.X {
			lane++
		}

		if lane == len(freeFrom) {
			freeFrom = append(freeFrom, 0)
		}
		freeFrom[lane] = max(mark.X+mark.Width, at+wide) + 3
		mark.Y = 4 + float64(lane)*laneHeight

		color := plot.Color(3)
		if fault.Failed {
			color = "bad"
		}
		d.Rect(mark, color, fmt.Sprintf("%d %s, %.1f to %.1f s", i+1, fault.Name, fault.Began, fault.Ended))
		d.Text(at, mark.Y+10, class, text)
	}

	return 4 + float64(len(freeFrom))*laneHeight
}

// quartersMax is the length in seconds up to which a run is drawn by quarters of a second.
const quartersMax = 60

// panels returns the panels of a run over so many seconds.
func (c Course) panels(until, offered, width float64) (settled, latency plot.Panel) {
	most, least, slowest := offered, math.Inf(1), 1.0
	x := plot.Seconds(until, width/70)
	area := plot.Series{Color: 2, Area: true}
	bar := func(from, to, perSecond float64) {
		most = max(most, perSecond)
		area.Points = append(area.Points, [2]float64{from, perSecond}, [2]float64{to, perSecond})
	}
	p50, p99, slow := plot.Series{Color: 0}, plot.Series{Color: 1}, plot.Series{Color: 6, Thin: true}

	byQuarter := until <= quartersMax && len(c.PerQuarter) > 0
	for i, n := range c.PerQuarter {
		if byQuarter {
			bar(float64(i)/4, float64(i+1)/4, 4*float64(n))
		}
	}

	for i, s := range c.PerSecond {
		middle := float64(i) + 0.5
		if !byQuarter {
			bar(float64(i), float64(i+1), float64(s.Settled))
		}

		if s.Settled == 0 { // there is no latency
			s.P50, s.P99, s.Max = math.NaN(), math.NaN(), math.NaN()
		} else {
			least, slowest = min(least, s.P50), max(slowest, s.Max)
		}
		p50.Points = append(p50.Points, [2]float64{middle, s.P50})
		p99.Points = append(p99.Points, [2]float64{middle, s.P99})
		slow.Points = append(slow.Points, [2]float64{middle, s.Max})
	}
	settled = plot.Panel{Title: "settled per second", X: x, Y: plot.FromZero(most, 3, short),
		Series: []plot.Series{area}}

	settled.X.Ticks = nil // the panel below has them
	if offered > 0 {
		settled.Limits = []float64{offered}
	}
	latency = plot.Panel{Title: "latency", X: x, Y: plot.Milliseconds(min(least, slowest), slowest),
		Series: []plot.Series{slow, p99, p50}}

	return settled, latency
}

// short writes 20000 as 20k.
func short(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%gk", v/1000)
	}

	return fmt.Sprintf("%g", v)
}

// Curve is a latency in ms at each of a list of percentiles.
type Curve struct {
	Name        string    `json:"-"`
	Percentiles []float64 `json:"percentiles"`
	Ms          []float64 `json:"ms"`
}

// DrawCurves draws latencies by percentile. Each nine of the percentile takes the same
// width, so the slowest payments show. It returns nil without curves.
func DrawCurves(title string, curves []Curve) *plot.Drawing {
	least, most, nines := math.Inf(1), 1.0, 2.0
	var names []string
	p := plot.Panel{}

	for i, curve := range curves {
		series := plot.Series{Color: i}

		for j, ms := range curve.Ms {
			x := ninesOf(curve.Percentiles[j])
			least, most, nines = min(least, ms), max(most, ms), max(nines, x)
			series.Points = append(series.Points, [2]float64{x, ms})
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
