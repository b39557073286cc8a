package plot

import (
	"fmt"
	"math"

	"github.com/liquida/liquida/platform/pix"
)

// Bar is a row of figures, one for each name of the legend.
type Bar struct {
	Name   string
	Values []float64
}

func (b Bar) sum() (sum float64) {
	for _, v := range b.Values {
		sum += v
	}

	return sum
}

// Width is that of a drawing.
const Width = 1120

// Bars draws each row as a bar of parts, as long as their sum or, with shares, all equally
// long. It returns nil without rows.
func Bars(title, unit string, shares bool, legend []string, rows []Bar) *Drawing {
	const height, left, length = 24, 230, 740

	if len(rows) == 0 {
		return nil
	}

	d, top := &Drawing{Title: title, Width: Width}, 4.0
	if len(legend) > 1 {
		top += d.legend(legend) + 8
	}
	d.Height = top + float64(len(rows)*height)

	most := 1e-9
	for _, row := range rows {
		most = max(most, row.sum())
	}

	for i, row := range rows {
		scale := length / most
		if shares {
			scale = length / max(row.sum(), 1e-9)
		}
		x, y := float64(left), top+float64(i*height)
		d.Text(x-8, y+12, "name end", row.Name)

		for j, v := range row.Values {
			d.Rect(Frame{x, y, v * scale, 16}, Color(j), fmt.Sprintf("%s %s %s", legend[j], Amount(v), unit))
			x += v * scale
		}
		d.Text(x+6, y+12, "name", Amount(row.sum())+" "+unit)
	}

	return d
}

// Amount writes a figure with as many digits as say something.
func Amount(v float64) string {
	switch {
	case v >= 1000:
		return pix.Thousands(int64(math.RoundToEven(v))) // as %.0f rounds
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	}

	return fmt.Sprintf("%.1f", v)
}
