package report

import (
	"fmt"
	"html/template"
	"math"
	"strings"

	"github.com/liquida/liquida/loadtest/load"
)

// Tick is a mark on an axis.
type Tick struct {
	At   float64
	Text string
}

// Line is a drawn series.
type Line struct {
	Name  string
	Color int // of the page's palette
	Path  template.HTMLAttr
	End   Tick // where it ends, and its value there
}

// Path is the attribute d of a line made of numbers that were formatted here: there is
// nothing to escape.
func Path(d string) template.HTMLAttr { return template.HTMLAttr(`d="` + d + `"`) }

// Nice rounds a step up to 1, 2 or 5 times a power of ten.
func Nice(step float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(max(step, 1))))
	for _, factor := range []float64{1, 2, 5} {
		if step <= factor*power {
			return factor * power
		}
	}
	return 10 * power
}

// linear is an axis from 0 up to at least most, drawn from bottom to bottom-height.
func linear(most, bottom, height float64) (at func(float64) float64, ticks []Tick) {
	step := Nice(most / 3)
	top := max(math.Ceil(most/step), 1) * step
	at = func(v float64) float64 { return bottom - height*v/top }
	for v := 0.0; v <= top; v += step {
		ticks = append(ticks, Tick{at(v), short(v)})
	}
	return at, ticks
}

// milliseconds is a logarithmic axis of whole decades that hold least and most.
func milliseconds(least, most, bottom, height float64) (at func(float64) float64, ticks []Tick) {
	from, to := math.Floor(math.Log10(max(least, 0.1))), math.Ceil(math.Log10(max(most, 1)))
	if to <= from {
		to = from + 1
	}
	at = func(v float64) float64 {
		return bottom - height*(math.Log10(max(v, math.Pow(10, from)))-from)/(to-from)
	}
	for decade := from; decade <= to; decade++ {
		text := fmt.Sprintf("%g ms", math.Pow(10, decade))
		if decade >= 3 {
			text = fmt.Sprintf("%g s", math.Pow(10, decade-3))
		}
		ticks = append(ticks, Tick{at(math.Pow(10, decade)), text})
	}
	return at, ticks
}

// short writes 20000 as 20k.
func short(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%gk", v/1000)
	}
	return fmt.Sprintf("%g", v)
}

// polyline joins points with straight lines.
func polyline(points [][2]float64) string {
	var d strings.Builder
	pen := 'M'
	for _, p := range points {
		fmt.Fprintf(&d, "%c%.1f %.1f", pen, p[0], p[1])
		pen = 'L'
	}
	return d.String()
}

// Course is a run over time: what settled in each second, and how long it took.
type Course struct {
	Name                               string
	Width, Height, Left, Right         float64
	RateTop, LatencyTop, Area, Bottom  float64
	RateTicks, LatencyTicks, TimeTicks []Tick
	Settled, P50, P99, Max             template.HTMLAttr
	Offered                            float64 // where the offered rate is; 0: none
}

// HalfWidth is for drawings of which two stand side by side, FullWidth for one alone.
const (
	FullWidth = 1120
	HalfWidth = 560
)

// NewCourse draws the seconds of a run. offered is the rate that was offered, 0 for none.
func NewCourse(name string, width, offered float64, seconds []load.Second) *Course {
	const area, gap = 120, 34
	c := &Course{Name: name, Width: width, Left: 52, Right: width - 22, RateTop: 24, Area: area}
	c.LatencyTop = c.RateTop + area + gap
	c.Bottom = c.LatencyTop + area
	c.Height = c.Bottom + 24
	n := max(float64(len(seconds)), 1)
	x := func(second float64) float64 { return c.Left + second/n*(c.Right-c.Left) }
	most, least, slowest := offered, math.Inf(1), 1.0
	for _, s := range seconds {
		most, slowest = max(most, float64(s.Settled)), max(slowest, s.Max)
		if s.Settled > 0 {
			least = min(least, s.P50)
		}
	}
	var rate, latency func(float64) float64
	rate, c.RateTicks = linear(most, c.RateTop+area, area)
	latency, c.LatencyTicks = milliseconds(min(least, slowest), slowest, c.Bottom, area)
	if offered > 0 {
		c.Offered = rate(offered)
	}
	every := Nice(n / (width / 70))
	for second := 0.0; second <= n; second += every {
		c.TimeTicks = append(c.TimeTicks, Tick{x(second), fmt.Sprintf("%g s", second)})
	}
	settled := [][2]float64{{x(0), rate(0)}}
	var p50, p99, slow [][2]float64
	for i, s := range seconds {
		settled = append(settled, [2]float64{x(float64(i)), rate(float64(s.Settled))}, [2]float64{x(float64(i) + 1), rate(float64(s.Settled))})
		if s.Settled > 0 {
			middle := x(float64(i) + 0.5)
			p50, p99, slow = append(p50, [2]float64{middle, latency(s.P50)}), append(p99, [2]float64{middle, latency(s.P99)}), append(slow, [2]float64{middle, latency(s.Max)})
		}
	}
	settled = append(settled, [2]float64{x(n), rate(0)})
	c.Settled, c.P50, c.P99, c.Max = Path(polyline(settled)), Path(polyline(p50)), Path(polyline(p99)), Path(polyline(slow))
	return c
}

// Curves are latencies by percentile: the tail is drawn as wide as the rest.
type Curves struct {
	Title, Note                   string
	Width, Height, Left, Right    float64
	Top, Bottom                   float64
	PercentileTicks, LatencyTicks []Tick
	Lines                         []Line
}

// Series is a named curve.
type Series struct {
	Name   string
	Points []load.Point
}

// NewCurves draws series; nil when there are none.
func NewCurves(title, note string, all []Series) *Curves {
	c := &Curves{Title: title, Note: note, Width: FullWidth, Height: 400, Left: 60, Right: 1090, Top: 16, Bottom: 364}
	least, most, nines := math.Inf(1), 1.0, 2.0
	for _, series := range all {
		for _, p := range series.Points {
			least, most, nines = min(least, p.Ms), max(most, p.Ms), max(nines, ninesOf(p))
		}
	}
	if math.IsInf(least, 1) {
		return nil
	}
	first := ninesOf(load.Point{Percentile: 50})
	x := func(n float64) float64 { return c.Left + (n-first)/(nines-first)*(c.Right-c.Left) }
	y, ticks := milliseconds(least, most, c.Bottom, c.Bottom-c.Top)
	c.LatencyTicks = ticks
	for _, p := range []float64{50, 90, 99, 99.9, 99.99, 99.999} {
		if n := ninesOf(load.Point{Percentile: p}); n <= nines+1e-9 {
			c.PercentileTicks = append(c.PercentileTicks, Tick{x(n), fmt.Sprintf("%g %%", p)})
		}
	}
	for i, series := range all {
		if len(series.Points) == 0 {
			continue
		}
		var points [][2]float64
		for _, p := range series.Points {
			points = append(points, [2]float64{x(ninesOf(p)), y(p.Ms)})
		}
		end := series.Points[len(series.Points)-1]
		c.Lines = append(c.Lines, Line{series.Name, i % palette, Path(polyline(points)), Tick{points[len(points)-1][1], fmt.Sprintf("%.0f ms", end.Ms)}})
	}
	return c
}

// ninesOf is 1 for 90 %, 2 for 99 % and so on.
func ninesOf(p load.Point) float64 { return -math.Log10(1 - p.Percentile/100) }

// palette is how many colours the page has.
const palette = 7

// Bars compares parts of a whole, one bar a row.
type Bars struct {
	Title, Note   string
	Legend        []Line // name and colour
	Rows          []Bar
	Width, Height float64
	Left          float64
}

// Bar is one row.
type Bar struct {
	Name, Total string
	Y           float64
	Parts       []Part
	End         float64
}

// Part is a piece of a bar.
type Part struct {
	X, Width float64
	Color    int
	Text     string // what a pointer on it is told
}

// Amounts is a row of figures, one for each name of the legend.
type Amounts struct {
	Name   string
	Values []float64
}

// NewBars draws rows of figures in a unit, each as long as it is, or all equally long to
// compare shares; nil when there are none.
func NewBars(title, note, unit string, shares bool, legend []string, rows []Amounts) *Bars {
	const height, left, length = 24, 230, 740
	b := &Bars{Title: title, Note: note, Width: FullWidth, Left: left, Height: float64(len(rows)*height) + 6}
	if len(rows) == 0 {
		return nil
	}
	for i, name := range legend {
		b.Legend = append(b.Legend, Line{Name: name, Color: i % palette})
	}
	most := 0.0
	total := func(values []float64) (sum float64) {
		for _, v := range values {
			sum += v
		}
		return sum
	}
	for _, row := range rows {
		most = max(most, total(row.Values))
	}
	for i, row := range rows {
		all := total(row.Values)
		scale := length / max(most, 1e-9)
		if shares {
			scale = length / max(all, 1e-9)
		}
		bar := Bar{Name: row.Name, Total: Amount(all) + " " + unit, Y: float64(i*height) + 4, End: left}
		for j, v := range row.Values {
			bar.Parts = append(bar.Parts, Part{bar.End, v * scale, j % palette, fmt.Sprintf("%s %s %s", strings.Join(legend[j:j+1], ""), Amount(v), unit)})
			bar.End += v * scale
		}
		b.Rows = append(b.Rows, bar)
	}
	return b
}

// Amount writes a figure with as many digits as say something.
func Amount(v float64) string {
	switch {
	case v >= 1000:
		n := fmt.Sprintf("%.0f", v)
		return n[:len(n)-3] + "," + n[len(n)-3:]
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.1f", v)
}
