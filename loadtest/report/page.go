package report

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"time"
)

// Page is a report as one HTML file, readable without a network.
type Page struct {
	Title     string
	StartedAt time.Time
	Passed    bool
	Verdict   string // of the gate, in one line
	Facts     []Fact // hardware, settings, the command
	Figures   []Fact // what matters most, in large
	Throughput,
	Budgets,
	Costs *Bars
	Latencies *Curves
	Courses   []*Course
	Tables    []Table
	Gate      []Verdict
	Problems  []string
}

// Fact is a name and what there is to say about it.
type Fact struct{ Name, Value string }

// Verdict is what the gate says of one run.
type Verdict struct {
	Name   string
	Passed bool
	Text   string
}

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"figure": isFigure,
	"sub":    func(a, b float64) float64 { return a - b },
}).Parse(pageText))

// Write writes the page to a file, if a path is given.
func (p Page) Write(path string) error {
	if path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(page.Execute(file, p), file.Close()); err != nil {
		return fmt.Errorf("cannot write the report %s: %w", path, err)
	}
	return nil
}

// isFigure tells whether a column is one of figures, which stand at the right.
func isFigure(column int) bool { return column > 0 }
