package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// colour is how a terminal is told to show what follows.
type colour string

const (
	red    colour = "\x1b[31m"
	yellow colour = "\x1b[33m"
	green  colour = "\x1b[32m"
	bold   colour = "\x1b[1m"
	dim    colour = "\x1b[2m"
	normal        = "\x1b[0m"
)

const (
	redrawEvery = 100 * time.Millisecond // the bar, in place
	barEvery    = 3 * time.Second        // a line with the bar's figures, elsewhere
	cellsMin    = 10                     // of the bar, on a narrow terminal
	cellsMax    = 30
	figuresMax  = 68 // characters beside the bar, mostly; the bar has what is left
)

// screen writes lines, and a bar under the last of them. On a terminal the bar is redrawn in place.
// Elsewhere it is a line every few seconds.
type screen struct {
	out    io.Writer
	inside bool       // on a terminal, which can redraw
	colour bool       // also: NO_COLOR is not set
	width  func() int // of the terminal, in cells
	mu     sync.Mutex // guards what follows
	bar    bool       // the cursor is at the end of the bar
	barAt  time.Time  // when it was drawn
}

func newScreen(file *os.File, redraw bool) *screen {
	descriptor := int(file.Fd())
	terminal := term.IsTerminal(descriptor) && os.Getenv("TERM") != "dumb"
	return &screen{out: file, inside: terminal && redraw, colour: terminal && os.Getenv("NO_COLOR") == "", width: func() int {
		width, _, err := term.GetSize(descriptor)
		if err != nil || width <= 0 {
			return 80
		}
		return width
	}}
}

// paint returns text in a colour, if the screen has colours.
func (s *screen) paint(c colour, text string) string {
	if !s.colour {
		return text
	}
	return string(c) + text + normal
}

// line writes a line in a colour, above the bar. An empty colour is the terminal's own.
func (s *screen) line(c colour, format string, arguments ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := fmt.Sprintf(format, arguments...)
	if c != "" {
		text = s.paint(c, text)
	}
	s.leaveBar(true)
	fmt.Fprintln(s.out, text)
}

// Write takes whole lines of the stack.
func (s *screen) Write(text []byte) (int, error) {
	s.line("", "%s", bytes.TrimSuffix(text, []byte("\n")))
	return len(text), nil
}

// leaveBar puts the cursor where the next line begins, in place of the bar or under it.
func (s *screen) leaveBar(erase bool) {
	switch {
	case !s.bar:
	case erase:
		fmt.Fprint(s.out, "\r\x1b[K")
	default:
		fmt.Fprintln(s.out)
	}
	s.bar = false
}

// progress shows how much is done, from 0 to 1, and the figures. The last call stays.
func (s *screen) progress(done float64, last bool, figures string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	every := barEvery
	if s.inside {
		every = redrawEvery
	}
	if !last && time.Since(s.barAt) < every {
		return
	}
	s.barAt = time.Now()
	if !s.inside {
		fmt.Fprintf(s.out, "%3d %%  %s\n", int(100*done), figures)
		return
	}
	s.leaveBar(true)
	width := s.width()
	cells := min(max(width-figuresMax-2, cellsMin), cellsMax)
	figures = figures[:max(0, min(len(figures), width-cells-2))] // a line that wraps cannot be redrawn
	full := int(float64(cells) * done)
	fmt.Fprint(s.out, s.paint(green, strings.Repeat("█", full)), s.paint(dim, strings.Repeat("░", cells-full)), " ", figures)
	s.bar = true
	if last {
		s.leaveBar(false)
	}
}

// thousands writes a number with a comma between groups of three digits.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
