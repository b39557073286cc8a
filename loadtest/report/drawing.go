package report

import (
	"errors"
	"os"
	"path/filepath"
	"unicode/utf8"
)

// drawing is one of the page's as an SVG file of its own.
type drawing struct {
	Title         string
	Width, Height float64
	Legend        []Line // End.At is where a name begins
	Bars          *Bars
	Curves        *Curves
}

// headHeight is the room for title and legend.
const headHeight = 60

// WriteDrawings writes the page's drawings into a folder, if one is given, for documents.
func (p Page) WriteDrawings(folder string) error {
	if folder == "" {
		return nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, bars := range map[string]*Bars{"throughput": p.Throughput, "budget": p.Budgets, "cpu": p.Costs} {
		if bars != nil {
			if err := (drawing{bars.Title, bars.Width, bars.Height + headHeight, spaced(bars.Legend), bars, nil}).write(filepath.Join(folder, name+".svg")); err != nil {
				return err
			}
		}
	}
	if c := p.Latencies; c != nil {
		return drawing{c.Title, c.Width, c.Height + headHeight, spaced(c.Lines), nil, c}.write(filepath.Join(folder, "latency.svg"))
	}
	return nil
}

// spaced lays the names of a legend side by side.
func spaced(legend []Line) (placed []Line) {
	x := 14.0
	for _, line := range legend {
		line.End = Tick{At: x}
		x += 36 + 6.5*float64(utf8.RuneCountInString(line.Name))
		placed = append(placed, line)
	}
	return placed
}

func (d drawing) write(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(page.ExecuteTemplate(file, "drawing", d), file.Close())
}
