package plot

import (
	"fmt"
	"math"
	"strings"
)

// Panel is an area with a vertical and a horizontal scale.
type Panel struct {
	Title  string
	X, Y   Scale
	Bands  [][2]float64 // ranges of X that are marked; each begins with a dashed line
	Limits []float64    // values of Y with a dashed line
	Series []Series
}

// Series is a line through points. A point whose value is NaN interrupts it.
type Series struct {
	Points [][2]float64
	Color  int
	Area   bool // filled down to the bottom
	Thin   bool
}

// Scale maps the values of an axis to its length.
type Scale struct {
	Min, Max float64
	Log      bool
	Ticks    []Tick
}

// Tick is a labelled value of an axis.
type Tick struct {
	Value float64
	Text  string
}

// FromZero is a linear scale from 0 to at least most. Its ticks are multiples of 1, 2 or 5 times a
// power of ten; there are at most about so many.
func FromZero(most, ticks float64, label func(float64) string) Scale {
	step := roundUp(max(most/ticks, 1))
	last := math.Ceil(max(most, 1) / step)

	s := Scale{Max: last * step}
	for n := 0.0; n <= last; n++ {
		s.Ticks = append(s.Ticks, Tick{n * step, label(n * step)})
	}

	return s
}

// Seconds is a linear scale of a time, with about so many ticks.
func Seconds(until, ticks float64) Scale {
	s := FromZero(until, ticks, func(v float64) string { return fmt.Sprintf("%g s", v) })

	s.Max = max(until, 1)
	for len(s.Ticks) > 0 && s.Ticks[len(s.Ticks)-1].Value > s.Max {
		s.Ticks = s.Ticks[:len(s.Ticks)-1]
	}

	return s
}

// Milliseconds is a logarithmic scale of whole decades that hold least and most.
func Milliseconds(least, most float64) Scale {
	from, to := math.Floor(math.Log10(max(least, 0.1))), math.Ceil(math.Log10(max(most, 1)))
	to = max(to, from+1)

	s := Scale{Min: math.Pow(10, from), Max: math.Pow(10, to), Log: true}
	for decade := from; decade <= to; decade++ {
		ms := math.Pow(10, decade)

		text := fmt.Sprintf("%g ms", ms)
		if ms >= 1000 {
			text = fmt.Sprintf("%g s", ms/1000)
		}
		s.Ticks = append(s.Ticks, Tick{ms, text})
	}

	return s
}

// roundUp returns 1, 2 or 5 times a power of ten that is at least step.
func roundUp(step float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(step)))
	for _, factor := range []float64{1, 2, 5} {
		if step <= factor*power {
			return factor * power
		}
	}

	return 10 * power
}

// share returns where a value is between the ends of the scale, from 0 to 1.
func (s Scale) share(v float64) float64 {
	low, high := s.Min, s.Max
	if s.Log {
		v, low, high = math.Log(max(v, s.Min)), math.Log(s.Min), math.Log(s.Max)
	}

	return min(max((v-low)/max(high-low, 1e-9), 0), 1)
}

// Panel draws a panel. Its labels are outside of the frame.
func (d *Drawing) Panel(f Frame, p Panel) {
	x := func(v float64) float64 { return f.X + f.Width*p.X.share(v) }
	y := func(v float64) float64 { return f.Y + f.Height*(1-p.Y.share(v)) }

	if p.Title != "" {
		d.Text(f.X, f.Y-8, "title", p.Title)
	}

	for _, band := range p.Bands {
		d.Rect(Frame{x(band[0]), f.Y, max(x(band[1])-x(band[0]), 3), f.Height}, "band "+Color(3), "")
		d.path("limit", fmt.Sprintf("M%.1f %.1fV%.1f", x(band[0]), f.Y, f.Y+f.Height))
	}

	for _, tick := range p.Y.Ticks {
		d.path("grid", fmt.Sprintf("M%.1f %.1fH%.1f", f.X, y(tick.Value), f.X+f.Width))
		d.Text(f.X-6, y(tick.Value)+4, "end", tick.Text)
	}

	for _, tick := range p.X.Ticks {
		d.path("grid", fmt.Sprintf("M%.1f %.1fV%.1f", x(tick.Value), f.Y, f.Y+f.Height))
		d.Text(x(tick.Value), f.Y+f.Height+17, "middle", tick.Text)
	}

	for _, limit := range p.Limits {
		d.path("limit", fmt.Sprintf("M%.1f %.1fH%.1f", f.X, y(limit), f.X+f.Width))
	}

	for _, s := range p.Series {
		var line strings.Builder
		pen, last := 'M', 0.0

		for _, point := range s.Points {
			if math.IsNaN(point[1]) {
				pen = 'M'
				continue
			}

			if s.Area && line.Len() == 0 {
				fmt.Fprintf(&line, "M%.1f %.1f", x(point[0]), f.Y+f.Height)
				pen = 'L'
			}
			fmt.Fprintf(&line, "%c%.1f %.1f", pen, x(point[0]), y(point[1]))
			pen, last = 'L', x(point[0])
		}

		if line.Len() == 0 {
			continue
		}

		class := Color(s.Color)
		switch {
		case s.Area:
			fmt.Fprintf(&line, "L%.1f %.1f", last, f.Y+f.Height)
			class += " area"
		case s.Thin:
			class += " thin"
		}
		d.path(class, line.String())
	}
}

func (d *Drawing) path(class, line string) {
	fmt.Fprintf(&d.svg, `<path class="%s" d="%s"/>`+"\n", class, line)
}
