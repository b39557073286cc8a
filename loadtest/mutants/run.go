package mutants

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
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

	"github.com/liquida/liquida/deploy/child"
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
const worldMax = 2 * time.Minute

// sureMax bounds the real time of a sure test.
const sureMax = 10 * time.Minute

// Row is what became of one mutant.
type Row struct {
	Name   string         `json:"name"`
	Bug    string         `json:"bug"`
	Test   string         `json:"test"`       // that lives the worlds
	Judges map[string]int `json:"judges"`     // who found it in how many worlds
	Caught int            `json:"caught"`     // in so many worlds
	Silent int            `json:"no_verdict"` // so many worlds broke off before a judge spoke
	Worlds int            `json:"worlds"`
	First  int            `json:"first"`   // the first world that was caught, from 1; 0: none
	Took   float64        `json:"seconds"` // of all worlds up to that one
	Says   string         `json:"says"`    // the first finding
	Sure   *SureRow       `json:"sure,omitempty"`
}

// SureRow is what the sure test of a mutant found.
type SureRow struct {
	Test   string  `json:"test"`
	Caught bool    `json:"caught"`
	Took   float64 `json:"seconds"`
	Says   string  `json:"says"`
}

// ByLuck reports whether the mutant was caught in less than two of three worlds and by no sure test.
func (r Row) ByLuck() bool { return 3*r.Caught < 2*r.Worlds && (r.Sure == nil || !r.Sure.Caught) }

// Run judges the same worlds without a bug, and then with each mutant's. An error means that
// mutants could not run, or that the judges complain about the product itself.
func Run(ctx context.Context, config Config) ([]Row, error) {
	wanted := slices.DeleteFunc(slices.Clone(All), func(m Mutant) bool { return !config.Run.MatchString(m.Name) })
	if len(wanted) == 0 {
		return nil, fmt.Errorf("--run is %q: none of the %d bugs has such a name", config.Run, len(All))
	}
	folder, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
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
	tests, sures := map[string]bool{}, map[Sure]bool{}
	for _, m := range wanted {
		tests[m.Test] = true
		if test, has := sure[m.Name]; has {
			sures[test] = true
		}
	}
	for _, test := range slices.Sorted(maps.Keys(tests)) {
		row, err := c.judge(ctx, Mutant{Name: "control", Test: test}, folder, runtime.GOMAXPROCS(0))
		if err != nil {
			return err
		}
		if row.Caught+row.Silent > 0 {
			return fmt.Errorf("without a planted bug %s fails in %d of %d worlds (%s), so it proves nothing about mutants: %s", test, row.Caught+row.Silent, row.Worlds, row.Who(), row.Says)
		}
	}
	for test := range sures {
		if err := os.Mkdir(folder, 0o700); err != nil {
			return err
		}
		row, err := c.try(ctx, Mutant{Name: "control"}, test, folder)
		os.RemoveAll(folder)
		if err != nil {
			return err
		}
		if row.Caught {
			return fmt.Errorf("without a planted bug %s fails, so it proves nothing about mutants: %s", test.Test, row.Says)
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
	if test, has := sure[m.Name]; has {
		found, err := c.try(ctx, m, test, folder)
		if err != nil {
			return row, err
		}
		row.Sure = &found
	}
	program, err := c.build(ctx, m, folder, "loadtest/simulation")
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
			if w.silent != "" {
				row.Silent++
				row.Says = cmp.Or(row.Says, "no verdict: "+w.silent)
			}
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

// try runs the sure test of a mutant.
func (c Config) try(ctx context.Context, m Mutant, test Sure, folder string) (row SureRow, err error) {
	program, err := c.build(ctx, m, folder, test.Folder)
	if err != nil {
		return row, err
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, sureMax)
	defer cancel()
	command := exec.CommandContext(ctx, program, "-test.run=^"+test.Test+"$", "-test.failfast", "-test.timeout=0")
	command.Dir = filepath.Join(c.Root, test.Folder)
	output, err := run(command)
	row = SureRow{Test: test.Test, Took: time.Since(began).Seconds()}
	if ctx.Err() != nil {
		return row, fmt.Errorf("mutant %s: %s did not end within %v", m.Name, test.Test, sureMax)
	}
	if f, is := crashed(output); is {
		row.Caught, row.Says = true, f.says
	} else if said := firstFailure(output); err != nil && said != "" {
		row.Caught, row.Says = true, said
	} else if err != nil || strings.Contains(output, noTests) {
		return row, fmt.Errorf("mutant %s: %s: %w\n%s", m.Name, test.Test, cmp.Or(err, errNotLived), output)
	}
	return row, nil
}

// build builds the tests of a package with the bug in them, those of worlds as
// loadtest/simulation does.
func (c Config) build(ctx context.Context, m Mutant, folder, tests string) (program string, err error) {
	overlay, err := m.overlay(c.Root, folder)
	if err != nil {
		return "", err
	}
	program = filepath.Join(folder, filepath.Base(tests)+".test")
	command := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-tags", "synctests", "-overlay", overlay, "-o", program, "./"+tests)
	command.Dir = c.Root
	if output, err := run(command); err != nil {
		return "", fmt.Errorf("cannot build the mutant %s: %w\n%s", m.Name, err, output)
	}
	return program, nil
}

// world is what became of one world. Without a finding, silent says why no judge spoke; if
// that is empty, too, all judges are content.
type world struct {
	took     time.Duration
	findings []finding
	silent   string
}

func (c Config) live(ctx context.Context, program, test string, seed uint64, file string) world {
	began := time.Now()
	command := exec.Command(program, "-test.run=^"+test+"$", "-test.v", "-test.timeout=0", "-seed="+strconv.FormatUint(seed, 10), "-result="+file)
	command.Dir = filepath.Join(c.Root, "loadtest/simulation")
	command.Env = append(os.Environ(), "TMPDIR="+filepath.Dir(file)) // a world does not clean up
	said, err := child.Run(ctx, command, worldMax)
	w := world{took: time.Since(began)}
	if errors.Is(err, child.ErrLate) {
		w.silent = err.Error()
		return w
	}
	w.findings, w.silent = read(string(said), err, test, file)
	return w
}

// run runs a command to its end, and returns all that it says. The kernel kills it when this
// program ends.
func run(command *exec.Cmd) (output string, err error) {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	command.WaitDelay = 10 * time.Second
	said, err := command.CombinedOutput()
	return string(said), err
}

// read returns what the judges of a world say, or why they say nothing.
func read(output string, failed error, test, file string) (found []finding, silent string) {
	if f, is := crashed(output); is { // its result says at most what was planned
		return []finding{f}, ""
	}
	problems := failures(output)
	lived := strings.Contains(output, "=== RUN   "+test+"\n")
	if test == anyWorld { // a scenario writes no result
		var result struct {
			Ended    bool
			Problems []string
		}
		if text, err := os.ReadFile(file); err == nil {
			err = json.Unmarshal(text, &result)
			failed = cmp.Or(failed, err)
		}
		if lived = result.Ended; lived {
			problems = append(problems, result.Problems...)
		}
	}
	told := 0 // findings whose first detail is known
	for _, problem := range problems {
		if f, is := findingIn(problem); is {
			found = append(found, f)
		} else if told < len(found) {
			told = len(found)
			found[told-1].says += ": " + strings.TrimSpace(problem)
		}
	}
	if len(found) == 0 && (failed != nil || !lived) {
		silent = fmt.Sprintf("%v: %s", cmp.Or(failed, errNotLived), strings.TrimSpace(output))
	}
	return found, silent
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

// failedPart is the last part of a test that failed, by its depth.
var failedPart = regexp.MustCompile(`(?m)^( *)--- FAIL: .*$`)

// firstFailure returns the first line with which a test fails: the first of its part that failed, or,
// if it has no parts, the last: what a test only logs comes before it. Logs of the whole are beside it.
func firstFailure(output string) string {
	parts := failedPart.FindAllStringSubmatchIndex(output, -1)
	if parts == nil {
		return ""
	}
	last := parts[len(parts)-1]
	said := failures(output[last[1]:])
	if len(said) == 0 {
		return ""
	}
	text := said[len(said)-1]
	if isPart := last[3] > last[2]; isPart {
		text = said[0]
	}
	text, _, _ = strings.Cut(text, "\n")
	return text
}

// noTests is what a program of tests says if it has no test of the name, and exits with 0.
const noTests = "testing: warning: no tests to run"

// errNotLived is of a program that ends well and did nothing.
var errNotLived = errors.New("it has not lived to its end")

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
