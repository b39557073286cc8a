package dashboards

import (
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Line is a series of an answer: its labels and its points, in Unix time.
type Line struct {
	Labels map[string]string
	Points [][2]float64
}

// Draw writes the dashboard as SVG, with the layout and colors that Grafana gets. ask returns the
// series of an expression. It is a drawing of the panels for places where Grafana cannot run, not a
// screenshot.
func (d Dashboard) Draw(w io.Writer, ask func(expr string) ([]Line, error), from, to float64) error {
	var body strings.Builder
	y := 44.0
	for _, row := range d.Rows {
		fmt.Fprintf(&body, `<text x="12" y="%.0f" class="row">%s</text>`+"\n", y+15, html.EscapeString(row.Title))
		y += 24
		x, height := 0, float64(row.Height)*unitY
		for _, p := range row.Panels {
			if x+p.Width > 24 {
				x, y = 0, y+height+gap
			}
			if err := p.draw(&body, frame{8 + float64(x)*unitX, y, float64(p.Width)*unitX - gap, height}, ask, from, to); err != nil {
				return fmt.Errorf("%s: %w", p.Title, err)
			}
			x += p.Width
		}
		y += height + gap
	}
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="Inter, Helvetica, Arial, sans-serif" font-size="11" fill="#ccccdc">
<style>.row{font-size:14px;font-weight:600}.title{font-size:12px;font-weight:600}.small{font-size:10px;fill:#9d9fa7}.big{font-size:30px;font-weight:600;fill:#fff;text-anchor:middle}.right{text-anchor:end}</style>
<rect width="100%%" height="100%%" fill="#111217"/><text x="12" y="28" font-size="18" font-weight="600">Liquida / %s</text>
%s</svg>
`, 24*unitX+16, y+4, html.EscapeString(d.Title), body.String())
	return err
}

const (
	unitX = 50.0
	unitY = 24.0
	gap   = 8.0
)

type frame struct{ x, y, width, height float64 }

var paint = map[string]string{green: "#299c46", orange: "#e0752d", red: "#d44a3a", "blue": "#1f60c4"}

var palette = []string{"#73bf69", "#f2cc0c", "#5794f2", "#ff780a", "#f2495c", "#b877d9", "#37872d", "#8ab8ff", "#fade2a", "#ffa6b0", "#c0d8ff", "#96d98d", "#e02f44", "#3274d9", "#a352cc", "#56a64b"}

func (p Panel) draw(out *strings.Builder, f frame, ask func(string) ([]Line, error), from, to float64) error {
	type named struct {
		name string
		Line
	}
	var lines []named
	for _, q := range p.Queries {
		found, err := ask(q.Expr)
		if err != nil {
			return err
		}
		for _, line := range found {
			name := q.Legend
			for label, value := range line.Labels {
				name = strings.ReplaceAll(name, "{{"+label+"}}", value)
			}
			lines = append(lines, named{name, line})
		}
	}
	sort.SliceStable(lines, func(i, j int) bool { return lines[i].name < lines[j].name })

	background := "#181b1f"
	text := ""
	switch p.Kind {
	case Stat:
		var last float64
		known := false
		for _, line := range lines {
			if n := len(line.Points); n > 0 && line.Points[n-1][0] >= to-10 {
				last, known = line.Points[n-1][1], true
			}
		}
		text = p.noData()
		background = grey
		if known {
			text = format(p.Unit, last)
			if word, ok := p.Words[strconv.FormatFloat(last, 'f', -1, 64)]; ok {
				text = word.Text
			}
			background = paint[p.color(last)]
		}
	}
	fmt.Fprintf(out, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="3" fill="%s" stroke="#2c3235"/>`+"\n", f.x, f.y, f.width, f.height, background)
	title := p.Title
	if most := int(f.width / 7.2); len(title) > most {
		title = title[:most-1] + "…"
	}
	fmt.Fprintf(out, `<text x="%.1f" y="%.1f" class="title">%s</text>`+"\n", f.x+8, f.y+17, html.EscapeString(title))
	switch p.Kind {
	case Stat:
		fmt.Fprintf(out, `<text x="%.1f" y="%.1f" class="big">%s</text>`+"\n", f.x+f.width/2, f.y+f.height/2+18, html.EscapeString(text))
		return nil
	case Table:
		y := f.y + 36
		sort.SliceStable(lines, func(i, j int) bool { return lines[i].Labels["severity"] < lines[j].Labels["severity"] })
		for _, line := range lines {
			n := len(line.Points)
			if n == 0 || line.Points[n-1][0] < to-2 || y > f.y+f.height {
				continue
			}
			about := fmt.Sprintf("%s · %s, %s", strings.Join(strings.Fields(line.Labels["about"]), " "), line.Labels["alertstate"], line.Labels["severity"])
			if count := line.Points[n-1][1]; count > 1 {
				about = fmt.Sprintf("%.0f of them: %s", count, about)
			}
			fmt.Fprintf(out, `<text x="%.1f" y="%.1f">%s  <tspan class="small">%s</tspan></text>`+"\n", f.x+8, y, line.Labels["alertname"], html.EscapeString(strings.TrimPrefix(about, " · ")))
			y += 16
		}
		if y == f.y+36 {
			fmt.Fprintf(out, `<text x="%.1f" y="%.1f" class="small">nothing</text>`+"\n", f.x+8, y)
		}
		return nil
	}

	plot := frame{f.x + 52, f.y + 28, f.width - 62, f.height - 68}
	states := p.Kind == States
	if states {
		each := (f.height - 40) / float64(max(1, len(lines)))
		for i, line := range lines {
			y := f.y + 30 + float64(i)*each
			fmt.Fprintf(out, `<text x="%.1f" y="%.1f" class="small">%s</text>`+"\n", f.x+8, y+each/2+3, html.EscapeString(line.name))
			for k, point := range line.Points {
				end := point[0] + 2
				if k+1 < len(line.Points) {
					end = min(line.Points[k+1][0], point[0]+4)
				}
				left, right := f.x+180+(point[0]-from)/(to-from)*(f.width-190), f.x+180+(end-from)/(to-from)*(f.width-190)
				fmt.Fprintf(out, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`, left, y+2, right-left+0.4, each-4, paint[p.color(point[1])])
			}
		}
		return nil
	}

	// Each stacked line starts at the top of the one below.
	if p.Stack {
		base := map[float64]float64{}
		for i := range lines {
			points := slices.Clone(lines[i].Points)
			for k := range points {
				points[k][1] += base[points[k][0]]
				base[points[k][0]] = points[k][1]
			}
			lines[i].Points = points
		}
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, line := range lines {
		for _, point := range line.Points {
			if !p.Log || point[1] > 0 {
				low, high = min(low, point[1]), max(high, point[1])
			}
		}
	}
	if math.IsInf(low, 1) {
		low, high = 0, 1
	}
	if p.Max > 0 {
		high = p.Max
	}
	if !p.Log {
		low = min(low, 0)
	}
	for _, t := range p.Thresholds { // show a line that is near enough
		if p.Log && t.From > 0 && t.From < high*1000 {
			high = max(high, t.From*1.5)
		} else if t.From < high*3 {
			high = max(high, t.From*1.05)
		}
	}
	if high <= low {
		high = low + 1
	}
	scale := func(v float64) float64 { return (v - low) / (high - low) }
	if p.Log {
		low = max(low, high/1e6)
		scale = func(v float64) float64 { return math.Log(max(v, low)/low) / math.Log(high/low) }
	}
	at := func(t, v float64) (float64, float64) {
		return plot.x + (t-from)/(to-from)*plot.width, plot.y + plot.height*(1-min(1, max(0, scale(v))))
	}
	for i := range 4 {
		part := float64(i) / 3
		value := low + (high-low)*part
		if p.Log {
			value = low * math.Pow(high/low, part)
		}
		_, y := at(from, value)
		fmt.Fprintf(out, `<path d="M%.1f %.1fH%.1f" stroke="#2c3235"/><text x="%.1f" y="%.1f" class="small right">%s</text>`+"\n", plot.x, y, plot.x+plot.width, plot.x-4, y+3, html.EscapeString(format(p.Unit, value)))
	}
	for i := range 4 {
		t := from + (to-from)*float64(i)/3
		fmt.Fprintf(out, `<text x="%.1f" y="%.1f" class="small" text-anchor="middle">%.0f s</text>`+"\n", plot.x+plot.width*float64(i)/3, plot.y+plot.height+13, t-from)
	}
	for _, t := range p.Thresholds {
		if t.From > 0 && t.From <= high {
			_, y := at(from, t.From)
			fmt.Fprintf(out, `<path d="M%.1f %.1fH%.1f" stroke="%s" stroke-dasharray="6 4"/>`+"\n", plot.x, y, plot.x+plot.width, paint[t.Color])
		}
	}
	legend, row := plot.x, plot.y+plot.height+28
	for i, line := range lines {
		color := palette[i%len(palette)]
		var path strings.Builder
		previous := math.Inf(-1)
		for _, point := range line.Points {
			x, y := at(point[0], point[1])
			if point[0]-previous > 5 { // a gap is a gap
				fmt.Fprintf(&path, "M%.1f %.1f", x, y)
			} else {
				fmt.Fprintf(&path, "L%.1f %.1f", x, y)
			}
			previous = point[0]
		}
		fmt.Fprintf(out, `<path d="%s" fill="none" stroke="%s" stroke-width="1.4"/>`+"\n", path.String(), color)
		if wide := 22 + 5.6*float64(len(line.name)); legend+wide < f.x+f.width {
			fmt.Fprintf(out, `<rect x="%.1f" y="%.1f" width="10" height="3" fill="%s"/><text x="%.1f" y="%.1f" class="small">%s</text>`+"\n", legend, row-4, color, legend+13, row, html.EscapeString(line.name))
			legend += wide
		}
	}
	return nil
}

// color returns the color of the highest threshold at or below the value.
func (p Panel) color(value float64) string {
	color := p.FloorColor
	if color == "" {
		color = green
	}
	if word, ok := p.Words[strconv.FormatFloat(value, 'f', -1, 64)]; ok {
		return word.Color
	}
	for _, t := range p.Thresholds {
		if value >= t.From {
			color = t.Color
		}
	}
	return color
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
