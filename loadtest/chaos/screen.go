package chaos

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/liquida/liquida/loadtest/load"
)

// screen shows load and faults: on a terminal in one line that it rewrites, else in a line now
// and then. Each fault has a line of its own, too.
type screen struct {
	file     *os.File
	terminal bool
	every    time.Duration

	mu      sync.Mutex
	begun   int
	planned int
	active  []string
	latest  string
	before  load.Snapshot
}

func newScreen(file *os.File) *screen {
	l := &screen{file: file, terminal: term.IsTerminal(int(file.Fd())), every: 3 * time.Second}
	if l.terminal {
		l.every = 250 * time.Millisecond
	}
	return l
}

// progress shows the progress of the load.
func (l *screen) progress(s load.Snapshot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	faults := "none now"
	if len(l.active) > 0 {
		faults = strings.Join(l.active, ", ")
	}
	l.latest = fmt.Sprintf("%s | faults %d of %d: %s", s.Line(l.before), l.begun, l.planned, faults)
	l.before = s
	if !l.terminal {
		fmt.Fprintln(l.file, l.latest)
		return
	}
	l.redraw()
}

func (l *screen) redraw() {
	text := l.latest
	if width, _, err := term.GetSize(int(l.file.Fd())); err == nil && width > 1 {
		text = text[:min(len(text), width-1)]
	}
	fmt.Fprintf(l.file, "\r\x1b[K%s", text)
}

// event prints a line.
func (l *screen) event(format string, arguments ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.terminal {
		fmt.Fprint(l.file, "\r\x1b[K")
	}
	fmt.Fprintln(l.file, strings.TrimRight("        "+fmt.Sprintf(format, arguments...), " "))
	if l.terminal && l.latest != "" {
		l.redraw()
	}
}

// during shows a fault as active until the returned function is called.
func (l *screen) during(name string) (over func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun++
	l.active = append(l.active, name)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i, active := range l.active {
			if active == name {
				l.active = append(l.active[:i], l.active[i+1:]...)
				break
			}
		}
	}
}
