package mutants

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Config says what to run.
type Config struct {
	Root   string         // of the repository
	Run    *regexp.Regexp // the names of the mutants
	Worlds int            // of each mutant
	Seed   uint64         // of the first world; the others follow
	Output io.Writer
}

// worldMax bounds the real time of a world: a mutant may never end.
const worldMax = time.Minute

// Row is what became of one mutant.
type Row struct {
	Name   string         `json:"name"`
	Bug    string         `json:"bug"`
	Test   string         `json:"test"`   // that lives the worlds
	Judges map[string]int `json:"judges"` // who found it in how many worlds
	Caught int            `json:"caught"` // in so many worlds
	Worlds int            `json:"worlds"`
	First  int            `json:"first"`   // the first world that was caught, from 1; 0: none
	Took   float64        `json:"seconds"` // of all worlds up to that one
	Says   string         `json:"says"`    // the first finding
}

// ByLuck reports whether the mutant was caught in less than half of its worlds, or never.
func (r Row) ByLuck() bool { return 2*r.Caught < r.Worlds }

// Run judges the same worlds without a bug, and then with each mutant's. An error means that
// mutants could not run, or that the judges complain about the product itself.
func Run(ctx context.Context, config Config) ([]Row, error) {
	folder, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	var wanted []Mutant
	for _, m := range All {
		if config.Run.MatchString(m.Name) {
			wanted = append(wanted, m)
		}
	}
	if err := config.control(ctx, wanted, filepath.Join(folder, "control")); err != nil {
		return nil, err
	}
	rows := make([]Row, len(wanted))
	var mu sync.Mutex
	var workers sync.WaitGroup
	next, done, failed := 0, 0, error(nil)
	began := time.Now()
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				stop := i >= len(wanted) || failed != nil
				mu.Unlock()
				if stop {
					return
				}
				row, err := config.judge(ctx, wanted[i], filepath.Join(folder, wanted[i].Name), 1)
				mu.Lock()
				if err != nil { // it was not tried to the end
					failed = cmp.Or(failed, err)
					mu.Unlock()
					return
				}
				rows[i] = row
				done++
				left := time.Duration(float64(time.Since(began)) / float64(done) * float64(len(wanted)-done))
				fmt.Fprintf(config.Output, "mutants: %d of %d, about %v left: %s: %s\n", done, len(wanted), left.Round(time.Second), row.Name, row.verdict())
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return slices.DeleteFunc(rows, func(r Row) bool { return r.Name == "" }), failed
}

// control runs the worlds of the mutants without a bug.
func (c Config) control(ctx context.Context, wanted []Mutant, folder string) error {
	began := time.Now()
	tests := map[string]bool{}
	for _, m := range wanted {
		tests[m.Test] = true
	}
	for _, test := range slices.Sorted(maps.Keys(tests)) {
		row, err := c.judge(ctx, Mutant{Name: "control", Test: test}, folder, runtime.GOMAXPROCS(0))
		if err != nil {
			return err
		}
		if row.Caught > 0 {
			return fmt.Errorf("without a planted bug %s fails in %d of %d worlds (%s), so it proves nothing about mutants: %s", test, row.Caught, row.Worlds, row.Who(), row.Says)
		}
	}
	fmt.Fprintf(c.Output, "mutants: %d worlds of each of %d tests are clean without a planted bug (%.0f s)\n", c.Worlds, len(tests), time.Since(began).Seconds())
	return nil
}

// judge builds a mutant and runs its worlds.
func (c Config) judge(ctx context.Context, m Mutant, folder string, atOnce int) (Row, error) {
	row := Row{Name: m.Name, Bug: m.Bug, Test: m.Test, Judges: map[string]int{}, Worlds: c.Worlds}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return row, err
	}
	defer os.RemoveAll(folder)
	program, err := c.build(ctx, m, folder)
	if err != nil {
		return row, err
	}
	lived := make([]world, c.Worlds)
	limit := make(chan struct{}, atOnce)
	var running sync.WaitGroup
	for i := range lived {
		limit <- struct{}{}
		running.Go(func() {
			defer func() { <-limit }()
			lived[i] = c.live(ctx, program, m.Test, c.Seed+uint64(i), filepath.Join(folder, strconv.Itoa(i)))
		})
	}
	running.Wait()
	if err := ctx.Err(); err != nil {
		return row, err
	}
	for i, w := range lived {
		if row.First == 0 {
			row.Took += w.took.Seconds()
		}
		if len(w.findings) == 0 {
			continue
		}
		row.Caught++
		if row.First == 0 {
			row.First, row.Says = i+1, w.findings[0].says
		}
		seen := map[string]bool{}
		for _, f := range w.findings {
			if !seen[f.judge] {
				seen[f.judge] = true
				row.Judges[f.judge]++
			}
		}
	}
	return row, nil
}

// build builds the program of one world, as loadtest/simulation does, with the bug in it.
func (c Config) build(ctx context.Context, m Mutant, folder string) (program string, err error) {
	overlay, err := m.overlay(c.Root, folder)
	if err != nil {
		return "", err
	}
	program = filepath.Join(folder, "world")
	command := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-tags", "synctests", "-overlay", overlay, "-o", program, "./loadtest/simulation")
	command.Dir = c.Root
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build the mutant %s: %w\n%s", m.Name, err, output)
	}
	return program, nil
}

// world is what became of one world.
type world struct {
	took     time.Duration
	findings []finding
}

func (c Config) live(ctx context.Context, program, test string, seed uint64, file string) world {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, worldMax)
	defer cancel()
	command := exec.CommandContext(ctx, program, "-test.run=^"+test+"$", "-test.v", "-test.timeout=0", "-seed="+strconv.FormatUint(seed, 10), "-result="+file)
	command.Dir = filepath.Join(c.Root, "loadtest/simulation")
	command.Env = append(os.Environ(), "TMPDIR="+filepath.Dir(file)) // a world does not clean up
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGQUIT) }
	command.WaitDelay = 10 * time.Second
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	err := command.Run()
	w := world{took: time.Since(began)}
	if f, is := crashed(output.String()); is { // its result says at most what was planned
		w.findings = append(w.findings, f)
		return w
	}
	var result struct{ Problems []string }
	text, readErr := os.ReadFile(file)
	switch {
	case test != anyWorld: // a scenario writes none
		result.Problems, readErr = failures(output.String()), nil
	case readErr == nil:
		readErr = json.Unmarshal(text, &result)
	}
	for _, problem := range result.Problems {
		if f, is := findingIn(problem); is {
			w.findings = append(w.findings, f)
		}
	}
	switch {
	case len(w.findings) > 0:
	case ctx.Err() != nil:
		w.findings = append(w.findings, finding{"world", fmt.Sprintf("it does not end within %v", worldMax)})
	case err != nil || readErr != nil:
		w.findings = append(w.findings, finding{"world", strings.TrimSpace(output.String())})
	}
	return w
}

// finding is what one judge says.
type finding struct{ judge, says string }

// judges are those that begin what they say with their name.
var judges = []string{"load", "audit", "history", "answers", "streams", "statements", "rest"}

// findingIn reads a problem of a world. The lines below a judge's name are its details.
func findingIn(problem string) (f finding, is bool) {
	lines := strings.Split(strings.TrimSpace(problem), "\n")
	if strings.HasPrefix(problem, "  ") {
		return finding{}, false // a detail of the one before
	}
	f = finding{"world", lines[0]}
	for _, name := range judges {
		if strings.Contains(strings.ToLower(lines[0]), name) || strings.Contains(problem, strings.ToUpper(name)+" FAILED") {
			f.judge = name
			break
		}
	}
	if i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "WRONG ") }); i >= 0 {
		f.says = lines[i]
	}
	return f, true
}

// failure is where a test says something.
var failure = regexp.MustCompile(`(?m)^ +[a-z_]+_test\.go:\d+: `)

// failures returns what a test says in its output. The judges are asked before the trace is printed.
func failures(output string) []string {
	said := failure.Split(output, -1)[1:]
	for i, what := range said {
		said[i] = strings.ReplaceAll(what, "\n        ", "\n")
	}
	return slices.DeleteFunc(said, func(what string) bool {
		return strings.HasPrefix(what, "what happened, in virtual time") || strings.Contains(what, "AUDIT CLEAN") || strings.HasPrefix(what, "AUDIT FAILED")
	})
}

// crashed reads the output of a world: whether the program has ended itself, and why.
func crashed(output string) (f finding, is bool) {
	for line := range strings.Lines(output) {
		if _, law, broken := strings.Cut(line, "broken law: "); broken {
			return finding{"law", strings.TrimSpace(law)}, true
		}
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return finding{"panic", strings.TrimSpace(line)}, true
		}
	}
	return finding{}, false
}
