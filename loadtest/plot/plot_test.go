package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/liquida/liquida/platform/kit"
)

func TestScales(t *testing.T) {
	texts := func(s Scale) (all string) {
		for _, tick := range s.Ticks {
			all += tick.Text + " "
		}

		return all
	}
	for _, c := range []struct {
		scale Scale
		max   float64
		ticks string
	}{
		{FromZero(550, 3, Amount), 600, "0.0 200 400 600 "},
		{FromZero(0, 3, Amount), 1, "0.0 1.0 "},
		{Seconds(95, 10), 95, "0 s 10 s 20 s 30 s 40 s 50 s 60 s 70 s 80 s 90 s "},
		{Milliseconds(4, 2500), 10_000, "1 ms 10 ms 100 ms 1 s 10 s "},
		{Milliseconds(0, 0), 1, "0.1 ms 1 ms "},
	} {
		if c.scale.Max != c.max || texts(c.scale) != c.ticks {
			t.Errorf("up to %v with ticks %s: want %v, %s", c.scale.Max, texts(c.scale), c.max, c.ticks)
		}
	}
}

// A file is sound XML, whatever the names hold, and holds numbers only.
func TestFilesAreSound(t *testing.T) {
	d := Bars("<Costs> & more", "µs", false, []string{"a<b", "c"},
		[]Bar{{"x & y", []float64{1, 2000}}, {"none", []float64{0, 0}}})
	d.Panel(Frame{50, 90, 400, 100},
		Panel{Title: "<latency>", X: Seconds(0, 5), Y: Milliseconds(1, 10), Bands: [][2]float64{{0, 1}},
			Limits: []float64{5},
			Series: []Series{{Points: [][2]float64{{0, 1}, {1, math.NaN()}, {2, 3}}}, {Area: true},
				{Thin: true, Color: 9, Points: [][2]float64{{0, 1}}}}})
	path := filepath.Join(t.TempDir(), "costs.svg")
	kit.Must(t, d.WriteFile(path))
	text, err := os.ReadFile(path)
	kit.Must(t, err)

	for decoder := xml.NewDecoder(strings.NewReader(string(text))); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
	}

	for _, never := range []string{"NaN", "Inf", "src=", "href="} {
		if strings.Contains(string(text), never) {
			t.Errorf("the file holds %q", never)
		}
	}

	if !strings.Contains(string(text), "c 2,000 µs") || !strings.Contains(string(d.HTML()), "&lt;latency&gt;") {
		t.Errorf("what bars are is missing in %s", text)
	}

	if Bars("nothing", "", true, nil, nil) != nil {
		t.Error("a drawing of nothing")
	}
}
