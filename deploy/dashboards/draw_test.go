package dashboards

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/liquida/liquida/deploy/plot"
)

func TestDrawing(t *testing.T) {
	for _, lines := range [][]Line{
		nil,
		{{Labels: map[string]string{"ispb": "<&>"}, Points: [][2]float64{{100, 0}, {102, 1.5}, {150, -3}}}},
		{{Points: [][2]float64{{100, 1}}}, {Points: [][2]float64{{100, 1e9}, {160, 1e-9}}}},
	} {
		for _, d := range All {
			drawing, err := d.Draw(func(string) ([]Line, error) { return lines, nil }, 100, 160)
			if err != nil {
				t.Fatal(err)
			}
			picture := string(drawing.HTML())
			if strings.Contains(picture, "NaN") || strings.Contains(picture, "Inf") {
				t.Errorf("%s: a coordinate is no number", d.Title)
			}
			for decoder := xml.NewDecoder(strings.NewReader(picture)); ; {
				if _, err := decoder.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("%s is not well-formed: %v", d.Title, err)
				}
			}
		}
	}
}

func TestGapsAreGaps(t *testing.T) {
	lines := []Line{{Points: [][2]float64{{100, 1}, {101, 1}, {120, 1}, {121, 1}, {122, 0}}}}
	var breaks []float64
	for _, point := range (Panel{}).series(lines, 100, plot.Seconds(30, 3)).Series[0].Points {
		if math.IsNaN(point[1]) {
			breaks = append(breaks, point[0])
		}
	}
	if !slices.Equal(breaks, []float64{20}) {
		t.Errorf("the line breaks at %v, want 20", breaks)
	}
	var d plot.Drawing
	Panel{FloorColor: red, Thresholds: []Threshold{{1, green}}}.drawStates(&d, plot.Frame{Width: 250, Height: 100}, lines, 100, 130)
	if text := string(d.HTML()); strings.Count(text, `class="good"`) != 2 || strings.Count(text, `class="bad"`) != 1 {
		t.Errorf("want two bars good and one bad: %s", text)
	}
}

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		unit  string
		value float64
		want  string
	}{
		{"s", 0.0123, "12.3 ms"}, {"s", 40, "40 s"}, {"s", 0, "0 s"}, {"s", 0.00002, "20 µs"},
		{"percentunit", 0.985, "98.5%"}, {"currencyBRL", 1e10, "R$ 10 G"}, {"suffix: /s", 2500, "2.5 K /s"}, {"short", 16, "16"},
	} {
		if got := format(c.unit, c.value); got != c.want {
			t.Errorf("%v %s is written %q, want %q", c.value, c.unit, got, c.want)
		}
	}
}
