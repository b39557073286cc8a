package report

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"time"

	"github.com/liquida/liquida/loadtest/plot"
)

// Page is a report as one HTML file that opens without a network.
type Page struct {
	Title     string
	StartedAt time.Time
	Passed    bool
	Verdict   string // one line
	Facts     []Fact // hardware, settings, the command
	Figures   []Fact // what matters most, in large
	Story     []string
	Drawing   *plot.Drawing
	Tables    []Table
	Checks    []Check
	Problems  []string
	Repeat    string // the command that does it again
}

// Fact is a name and what there is to say about it.
type Fact struct{ Name, Value string }

// Check is what a judge says of a run.
type Check struct {
	Name   string
	Passed bool
	Text   string
}

// Style is the style sheet of the drawing.
func (Page) Style() template.CSS { return plot.Style }

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// Write writes the page to a file that needs nothing else, and its drawing as faults.svg into a folder, if a path and a
// folder are given.
func (p Page) Write(path, folder string) error {
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

	if folder == "" {
		return nil
	}

	return p.Drawing.WriteFile(filepath.Join(folder, "faults.svg"))
}
