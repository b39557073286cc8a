package chaos

import (
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/liquida/liquida/loadtest/report"
)

// WriteReport writes the result as one HTML file that needs nothing else.
func (r *Result) WriteReport(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := page.Execute(file, view{r, newPlot(r)}); err != nil {
		return fmt.Errorf("cannot write the report %s: %w", path, err)
	}
	return file.Close()
}

//go:embed report.html
var pageText string

var page = template.Must(template.New("report").Funcs(template.FuncMap{
	"seconds": func(s float64) string {
		if s < 0 {
			return "never"
		}
		return fmt.Sprintf("%.2f", s)
	},
	"round": func(v float64) string { return fmt.Sprintf("%.0f", v) },
	"one":   func(v float64) string { return fmt.Sprintf("%.1f", v) },
	"next":  func(i int) int { return i + 1 },
	"good": func(good bool) template.HTML {
		if good {
			return `<span class="good">✓ clean</span>`
		}
		return `<span class="bad">✗ failed</span>`
	},
}).Parse(pageText))

// view is what the page shows.
type view struct {
	*Result
	Plot plot
}

// plot is the drawing, in units of its viewBox.
type plot struct {
	Width, Height float64
	Left, Right   float64
	Faults        []mark
	FaultsTop     float64
	SettledTop    float64
	LatencyTop    float64
	Area          float64 // height of each of the two
	Settled       template.HTMLAttr
	P50, P99      template.HTMLAttr
	SettledTicks  []report.Tick
	LatencyTicks  []report.Tick
	TimeTicks     []report.Tick
	Bottom        float64
}

// mark is a fault in the drawing.
type mark struct {
	Number       int
	X, Y, Width  float64
	Kind, Target string
	Began, Ended float64
	Failed       bool
}

const (
	laneHeight  = 14
	areaHeight  = 170
	plotWidth   = 1120
	plotLeft    = 56
	plotRight   = 12
	labelHeight = 30
)

func newPlot(r *Result) plot {
	p := plot{Width: plotWidth, Left: plotLeft, Right: plotWidth - plotRight, Area: areaHeight}
	seconds := max(float64(len(r.Seconds)), 1)
	for _, event := range r.Events {
		seconds = max(seconds, math.Ceil(event.Ended))
	}
	x := func(second float64) float64 { return p.Left + second/seconds*(p.Right-p.Left) }

	// Faults in lanes, each in the first that is free at its time.
	p.FaultsTop = labelHeight
	var freeFrom []float64
	for i, event := range r.Events {
		ended := max(event.Ended, event.Began)
		m := mark{Number: i + 1, X: x(event.Began), Width: max(x(ended)-x(event.Began), 3), Kind: event.Kind, Target: event.Target, Began: event.Began, Ended: ended, Failed: event.Problem != ""}
		lane := 0
		for lane < len(freeFrom) && freeFrom[lane] > m.X {
			lane++
		}
		if lane == len(freeFrom) {
			freeFrom = append(freeFrom, 0)
		}
		freeFrom[lane] = max(m.X+m.Width, m.X+18) + 3 // room for the number
		m.Y = p.FaultsTop + float64(lane*laneHeight)
		p.Faults = append(p.Faults, m)
	}
	p.SettledTop = p.FaultsTop + float64(len(freeFrom)*laneHeight) + labelHeight
	p.LatencyTop = p.SettledTop + areaHeight + labelHeight
	p.Bottom = p.LatencyTop + areaHeight
	p.Height = p.Bottom + labelHeight

	most, slowest := 10.0, 10.0
	for _, s := range r.Seconds {
		most, slowest = max(most, float64(s.Settled)), max(slowest, s.P99)
	}
	step := report.Nice(most / 4)
	top := math.Ceil(most/step) * step
	settledY := func(v float64) float64 { return p.SettledTop + areaHeight*(1-v/top) }
	for v := 0.0; v <= top; v += step {
		p.SettledTicks = append(p.SettledTicks, report.Tick{At: settledY(v), Text: fmt.Sprintf("%.0f", v)})
	}
	// Latencies span four decades: logarithmic, from 1 ms.
	decades := math.Ceil(math.Log10(slowest))
	latencyY := func(ms float64) float64 {
		return p.LatencyTop + areaHeight*(1-math.Log10(max(ms, 1))/decades)
	}
	for d := 0.0; d <= decades; d++ {
		text := fmt.Sprintf("%.0f ms", math.Pow(10, d))
		if d >= 3 {
			text = fmt.Sprintf("%.0f s", math.Pow(10, d-3))
		}
		p.LatencyTicks = append(p.LatencyTicks, report.Tick{At: latencyY(math.Pow(10, d)), Text: text})
	}
	every := report.Nice(seconds / 10)
	for second := 0.0; second <= seconds; second += every {
		p.TimeTicks = append(p.TimeTicks, report.Tick{At: x(second), Text: fmt.Sprintf("%.0f s", second)})
	}

	var settled, p50, p99 strings.Builder
	fmt.Fprintf(&settled, "M%.1f %.1f", x(0), settledY(0))
	pen := "M"
	for i, s := range r.Seconds {
		fmt.Fprintf(&settled, "L%.1f %.1fL%.1f %.1f", x(float64(i)), settledY(float64(s.Settled)), x(float64(i+1)), settledY(float64(s.Settled)))
		if s.Settled == 0 { // no latency to show: the line is interrupted
			pen = "M"
			continue
		}
		fmt.Fprintf(&p50, "%s%.1f %.1f", pen, x(float64(i)+0.5), latencyY(s.P50))
		fmt.Fprintf(&p99, "%s%.1f %.1f", pen, x(float64(i)+0.5), latencyY(s.P99))
		pen = "L"
	}
	fmt.Fprintf(&settled, "L%.1f %.1f", x(float64(len(r.Seconds))), settledY(0))
	p.Settled, p.P50, p.P99 = report.Path(settled.String()), report.Path(p50.String()), report.Path(p99.String())
	return p
}
