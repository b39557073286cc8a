package report

import (
	"fmt"
	"math"

	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/plot"
)

// Fault is what broke a part of the system, from one second of a run to another.
type Fault struct {
	Name         string
	Began, Ended float64
	Failed       bool
	Story        string // what it did, in a sentence or two
}

// drawRun draws the course of a load: the faults with their numbers, what settled in each second, and
// how long that took.
func drawRun(r *load.Result, faults []Fault) *plot.Drawing {
	const height = 170.0

	until := float64(len(r.PerSecond))
	for _, f := range faults {
		until = max(until, math.Ceil(f.Ended))
	}
	d := &plot.Drawing{Title: "Settled payments and latency over time", Width: plot.Width}
	frame := plot.Frame{X: 56, Y: 24, Width: plot.Width - 80, Height: height}

	settled, latency := panels(r, until)
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

// panels returns the panels of a load over so many seconds.
func panels(r *load.Result, until float64) (settled, latency plot.Panel) {
	most, least, slowest := r.Rate, math.Inf(1), 1.0
	x := plot.Seconds(until, plot.Width/70)
	area := plot.Series{Color: 2, Area: true}
	bar := func(from, to, perSecond float64) {
		most = max(most, perSecond)
		area.Points = append(area.Points, [2]float64{from, perSecond}, [2]float64{to, perSecond})
	}
	p50, p99, slow := plot.Series{Color: 0}, plot.Series{Color: 1}, plot.Series{Color: 6, Thin: true}

	byQuarter := until <= quartersMax && len(r.PerQuarter) > 0
	for i, n := range r.PerQuarter {
		if byQuarter {
			bar(float64(i)/4, float64(i+1)/4, 4*float64(n))
		}
	}

	for i, s := range r.PerSecond {
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
		Limits: []float64{r.Rate}, Series: []plot.Series{area}}
	settled.X.Ticks = nil // the panel below has them
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
