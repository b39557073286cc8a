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
	Title      string
	StartedAt  time.Time
	Passed     bool
	Verdict    string // one line
	Facts      []Fact // hardware, settings, the command
	Figures    []Fact // what matters most, in large
	Story      []string
	Drawings   []Drawing
	Courses    []*plot.Drawing
	CourseNote string
	Tables     []Table
	Checks     []Check
	CheckNote  string
	Problems   []string
	Repeat     string // the command that does it again
}

// Fact is a name and what there is to say about it.
type Fact struct{ Name, Value string }

// Check is what a judge says of a run.
type Check struct {
	Name   string
	Passed bool
	Text   string
}

// Drawing is a drawing of a page, with the name of its file among documents.
type Drawing struct {
	*plot.Drawing
	Note, File string
}

// Draw adds a drawing, if there is one.
func (p *Page) Draw(file, note string, d *plot.Drawing) {
	if d != nil {
		p.Drawings = append(p.Drawings, Drawing{d, note, file})
	}
}

// Style is the style sheet of the drawings.
func (Page) Style() template.CSS { return plot.Style }

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// Write writes the page to a file that needs nothing else, and its drawings as SVG into a folder, if a path and a
// folder are given.
func (p Page) Write(path, drawings string) error {
	return errors.Join(p.write(path), p.writeDrawings(drawings))
}

func (p Page) write(path string) error {
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

func (p Page) writeDrawings(folder string) error {
	if folder == "" {
		return nil
	}

	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}

	for _, d := range p.Drawings {
		if err := d.WriteFile(filepath.Join(folder, d.File+".svg")); err != nil {
			return err
		}
	}

	return nil
}
