package dashboards

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestDrawing(t *testing.T) {
	for _, lines := range [][]Line{
		nil,
		{{Labels: map[string]string{"ispb": "<&>"}, Points: [][2]float64{{100, 0}, {102, 1.5}, {150, -3}}}},
		{{Points: [][2]float64{{100, 1}}}, {Points: [][2]float64{{100, 1e9}, {160, 1e-9}}}},
	} {
		for _, d := range All {
			var picture bytes.Buffer
			if err := d.Draw(&picture, func(string) ([]Line, error) { return lines, nil }, 100, 160); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(picture.String(), "NaN") || strings.Contains(picture.String(), "Inf") {
				t.Errorf("%s: a coordinate is no number", d.Title)
			}
			for decoder := xml.NewDecoder(&picture); ; {
				if _, err := decoder.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("%s is not well-formed: %v", d.Title, err)
				}
			}
		}
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
