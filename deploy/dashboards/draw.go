package dashboards

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/liquida/liquida/deploy/plot"
)

// Line is a series of an answer: its labels and its points, in Unix time.
type Line struct {
	Labels map[string]string
	Points [][2]float64

	name string
}

// gapSeconds without a value interrupt a line.
const gapSeconds = 5

// Draw draws the dashboard with the layout that Grafana gets. ask returns the series of an
// expression. It is a drawing of the panels for places where Grafana cannot run, not a screenshot.
func (d Dashboard) Draw(ask func(expr string) ([]Line, error), from, to float64) (*plot.Drawing, error) {
	const unitX, unitY, gap = 50.0, 24.0, 8.0
	picture, y := &plot.Drawing{Title: "Liquida / " + d.Title, Width: 24*unitX + gap}, gap
	for _, row := range d.Rows {
		picture.Text(12, y+15, "head", row.Title)
		y += 24
		x, height := 0, float64(row.Height)*unitY
		for _, p := range row.Panels {
			if x+p.Width > 24 {
				x, y = 0, y+height+gap
			}
			lines, err := p.lines(ask)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.Title, err)
			}
			p.draw(picture, plot.Frame{X: gap + float64(x)*unitX, Y: y, Width: float64(p.Width)*unitX - gap, Height: height}, lines, from, to)
			x += p.Width
		}
		y += height + gap
	}
	picture.Height = y
	return picture, nil
}

// lines returns the series of all queries, by name.
func (p Panel) lines(ask func(string) ([]Line, error)) (all []Line, err error) {
	for _, q := range p.Queries {
		found, err := ask(q.Expr)
		if err != nil {
			return nil, err
		}
		for _, line := range found {
			line.name = q.Legend
			for label, value := range line.Labels {
				line.name = strings.ReplaceAll(line.name, "{{"+label+"}}", value)
			}
			all = append(all, line)
		}
	}
	slices.SortStableFunc(all, func(a, b Line) int { return cmp.Compare(a.name, b.name) })
	return all, nil
}

func (p Panel) draw(d *plot.Drawing, f plot.Frame, lines []Line, from, to float64) {
	if p.Kind == Stat {
		shown := Word{Text: p.noData()}
		for _, line := range lines {
			if n := len(line.Points); n > 0 && line.Points[n-1][0] >= to-10 {
				shown = p.show(line.Points[n-1][1])
			}
		}
		d.Rect(f, "card "+states[shown.Color], "")
		d.Text(f.X+8, f.Y+18, "name inside", p.Title) // not bold: the longest must fit
		d.Text(f.X+f.Width/2, f.Y+f.Height/2+18, "big middle inside", shown.Text)
		return
	}
	d.Rect(f, "card", "")
	d.Text(f.X+8, f.Y+18, "title", p.Title)
	switch p.Kind {
	case Table:
		drawTable(d, f, lines, to)
	case States:
		p.drawStates(d, f, lines, from, to)
	case Series:
		var names []string
		for _, line := range lines {
			names = append(names, line.name)
		}
		top := d.Legend(f.X+8, f.Y+38, f.Width-8, names) + 10
		d.Panel(plot.Frame{X: f.X + 60, Y: top, Width: f.Width - 80, Height: f.Y + f.Height - 26 - top}, p.series(lines, from, plot.Seconds(to-from, f.Width/90)))
	}
}

// drawTable lists what is there at the end, the most severe first.
func drawTable(d *plot.Drawing, f plot.Frame, lines []Line, to float64) {
	y := f.Y + 38
	slices.SortStableFunc(lines, func(a, b Line) int { return cmp.Compare(a.Labels["severity"], b.Labels["severity"]) })
	for _, line := range lines {
		n := len(line.Points)
		if n == 0 || line.Points[n-1][0] < to-2 || y > f.Y+f.Height {
			continue
		}
		about := fmt.Sprintf("%s · %s, %s", strings.Join(strings.Fields(line.Labels["about"]), " "), line.Labels["alertstate"], line.Labels["severity"])
		if count := line.Points[n-1][1]; count > 1 {
			about = fmt.Sprintf("%.0f of them: %s", count, about)
		}
		d.Text(f.X+8, y, "name", line.Labels["alertname"])
		d.Text(f.X+16+plot.TextWidth(line.Labels["alertname"]), y, "", strings.TrimPrefix(about, " · "))
		y += 17
	}
	if y == f.Y+38 {
		d.Text(f.X+8, y, "", "nothing")
	}
}

// drawStates draws a bar for each state, which holds until it changes or a gap begins.
func (p Panel) drawStates(d *plot.Drawing, f plot.Frame, lines []Line, from, to float64) {
	inner := plot.Frame{X: f.X + 200, Y: f.Y + 30, Width: f.Width - 220, Height: f.Height - 56}
	d.Panel(inner, plot.Panel{X: plot.Seconds(to-from, f.Width/90)})
	scale, height := inner.Width/(to-from), inner.Height/float64(len(lines))
	for i, line := range lines {
		y := inner.Y + float64(i)*height
		d.Text(f.X+8, y+height/2+4, "", line.name)
		for next := 0; next < len(line.Points); {
			began, ended, state := line.Points[next][0], line.Points[next][0], p.show(line.Points[next][1])
			for next < len(line.Points) && line.Points[next][0] <= ended+gapSeconds && p.show(line.Points[next][1]) == state {
				ended = line.Points[next][0]
				next++
			}
			bar := plot.Frame{X: inner.X + (began-from)*scale, Y: y + 3, Width: (min(ended+1, to) - began) * scale, Height: height - 6}
			d.Rect(bar, states[state.Color], "")
		}
	}
}

// series draws a line for each answer. A stacked line starts at the top of the one below.
func (p Panel) series(lines []Line, from float64, x plot.Scale) plot.Panel {
	panel, below := plot.Panel{X: x}, map[float64]float64{}
	low, high := math.Inf(1), math.Inf(-1)
	for i, line := range lines {
		series, previous := plot.Series{Color: i}, math.Inf(1)
		for _, point := range line.Points {
			at, value := point[0], point[1]
			if p.Stack {
				value += below[at]
				below[at] = value
			}
			if at > previous+gapSeconds {
				series.Points = append(series.Points, [2]float64{at - from, math.NaN()})
			}
			previous = at
			series.Points = append(series.Points, [2]float64{at - from, value})
			if !p.Log || value > 0 {
				low, high = min(low, value), max(high, value)
			}
		}
		panel.Series = append(panel.Series, series)
	}
	panel.Y = p.scale(low, high)
	for _, t := range p.Thresholds {
		if t.From > 0 && t.From <= panel.Y.Max {
			panel.Limits = append(panel.Limits, plot.Limit{Value: t.From, Class: states[t.Color]})
		}
	}
	return panel
}

// scale is the vertical scale for values between low and high.
func (p Panel) scale(low, high float64) plot.Scale {
	if math.IsInf(low, 1) { // no value
		low, high = 1, 1
	}
	if p.Max > 0 {
		high = p.Max
	}
	near := 3.0
	if p.Log {
		near = 1000
	}
	for _, t := range p.Thresholds { // show a limit that is near enough
		if t.From < high*near {
			high = max(high, t.From)
		}
	}
	label := func(v float64) string { return format(p.Unit, v) }
	if p.Log {
		return plot.Decades(max(low, high/1e6), high, label)
	}
	low, high = min(low, 0), max(high, 0)
	if low == high {
		high = 1
	}
	return plot.Linear(low, high, (high-low)/4, label)
}

// states are the classes that a drawing has for colors.
var states = map[string]string{green: "good", orange: "warn", red: "bad", "": "none"}

// show returns the text and color of a value. The color is that of the highest threshold at or
// below it.
func (p Panel) show(value float64) Word {
	if word, ok := p.Words[strconv.FormatFloat(value, 'f', -1, 64)]; ok {
		return word
	}
	word := Word{format(p.Unit, value), cmp.Or(p.FloorColor, green)}
	for _, t := range p.Thresholds {
		if value >= t.From {
			word.Color = t.Color
		}
	}
	return word
}

// format writes a value in a unit, as Grafana does.
func format(unit string, value float64) string {
	short := func(v float64) string {
		for _, step := range []struct {
			size float64
			name string
		}{{1e9, " G"}, {1e6, " M"}, {1e3, " K"}} {
			if math.Abs(v) >= step.size {
				return strconv.FormatFloat(v/step.size, 'g', 3, 64) + step.name
			}
		}
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	switch {
	case unit == "s" && value != 0 && math.Abs(value) < 0.001:
		return fmt.Sprintf("%.3g µs", value*1e6)
	case unit == "s" && value != 0 && math.Abs(value) < 1:
		return fmt.Sprintf("%.3g ms", value*1e3)
	case unit == "s":
		return fmt.Sprintf("%.3g s", value)
	case unit == "percentunit":
		return fmt.Sprintf("%.3g%%", 100*value)
	case unit == "currencyBRL":
		return "R$ " + short(value)
	case unit == "Bps":
		return short(value) + "B/s"
	case strings.HasPrefix(unit, "suffix:"):
		return short(value) + strings.TrimPrefix(unit, "suffix:")
	}
	return short(value)
}
