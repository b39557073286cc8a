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
