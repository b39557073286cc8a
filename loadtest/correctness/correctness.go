// Package correctness runs the tests that the project's promise rests on, and counts how
// often each promise held.
package correctness

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// packages hold the tests, as folders of the repository.
var packages = []string{"loadtest/e2e", "loadtest/simulation", "services/clearing-engine/engine", "deploy/bootstrap", "deploy/ledgerfacts"}

// Row is one test.
type Row struct {
	Test     string  `json:"test"`
	Proves   string  `json:"proves"` // the promises that rest on it; may be none
	Passed   int     `json:"passed"`
	Runs     int     `json:"runs"`
	Skipped  int     `json:"skipped"`
	Payments int     `json:"payments"` // audited, in all runs
	Seconds  float64 `json:"seconds"`
}

// Config says what to run.
type Config struct {
	Root   string // of the repository
	Run    string // which tests, as in go test -run; empty: all
	Count  int    // runs of each test
	Output io.Writer
}

// timeoutMinutesPerCount is for all tests of a package, once.
const timeoutMinutesPerCount = 40

// Run runs the tests, one package after the other. Failed tests are in the rows. An error
// means that tests could not run.
func Run(ctx context.Context, config Config) ([]Row, error) {
	var rows []Row
	for _, folder := range packages {
		arguments := []string{"test", "-json", "-count", strconv.Itoa(config.Count), "-timeout", fmt.Sprintf("%dm", timeoutMinutesPerCount*config.Count)}
		if config.Run != "" {
			arguments = append(arguments, "-run", config.Run)
		}
		command := exec.CommandContext(ctx, "go", append(arguments, "./"+folder)...)
		command.Dir = config.Root
		var problems bytes.Buffer
		command.Stderr = &problems
		output, err := command.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := command.Start(); err != nil {
			return nil, err
		}
		found, err := read(output, config.Output)
		_, _ = io.Copy(io.Discard, output)
		failed := command.Wait()
		if err == nil && failed != nil && len(Failed(found)) == 0 { // not because of a test: it ended before the first or between two
			err = fmt.Errorf("%w: %s", failed, strings.TrimSpace(problems.String()))
		}
		if err != nil {
			return nil, fmt.Errorf("cannot test %s: %w", folder, err)
		}
		rows = append(rows, found...)
	}
	return rows, nil
}

// audited finds the payments of an audit.
var audited = regexp.MustCompile(`AUDIT CLEAN: (\d+) payments`)

// event is a line of go test -json.
type event struct {
	Action  string
	Test    string
	Output  string
	Elapsed float64
}

// read turns the events of a package's tests into rows, in the order of the tests.
func read(events io.Reader, progress io.Writer) ([]Row, error) {
	rows := map[string]*Row{}
	var order []string
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Test == "" {
			continue // of the package, or of the compiler
		}
		test, _, isSubtest := strings.Cut(e.Test, "/")
		if isSubtest && e.Action != "output" {
			continue // a subtest's payments count, its end does not
		}
		e.Test = test
		row := rows[e.Test]
		if row == nil {
			row = &Row{Test: e.Test, Proves: proves(e.Test)}
			rows[e.Test] = row
			order = append(order, e.Test)
		}
		switch e.Action {
		case "output":
			if match := audited.FindStringSubmatch(e.Output); match != nil && strings.Contains(e.Output, "one outcome") {
				payments, _ := strconv.Atoi(match[1])
				row.Payments += payments
			}
			continue
		case "run": // counted here, because a run that is cut short has no end
			row.Runs++
			continue
		case "pass":
			row.Passed++
		case "fail":
		case "skip":
			row.Runs--
			row.Skipped++
		default:
			continue
		}
		row.Seconds += e.Elapsed
		fmt.Fprintf(progress, "%s %s (%.0f s)\n", e.Action, e.Test, e.Elapsed)
	}
	all := make([]Row, 0, len(order))
	for _, name := range order {
		all = append(all, *rows[name])
	}
	return all, lines.Err()
}

// Write prints the promises and the tests in Markdown.
func Write(w io.Writer, rows []Row) {
	writePromises(w, rows)
	fmt.Fprintln(w, "| test | passed | payments audited | seconds |\n|---|---|---|---|")
	for _, row := range rows {
		fmt.Fprintf(w, "| `%s` | %s | %s | %.0f |\n", row.Test, row.passed(), row.payments(), row.Seconds)
	}
}

func (r Row) passed() string {
	switch {
	case r.Skipped == 0:
		return fmt.Sprintf("%d of %d", r.Passed, r.Runs)
	case r.Runs == 0:
		return "skipped"
	}
	return fmt.Sprintf("%d of %d, %d skipped", r.Passed, r.Runs, r.Skipped)
}

func (r Row) payments() string {
	if r.Payments == 0 {
		return ""
	}
	return strconv.Itoa(r.Payments)
}

// Failed returns the tests that failed or were cut short at least once.
func Failed(rows []Row) []string {
	var names []string
	for _, row := range rows {
		if row.Passed < row.Runs {
			names = append(names, row.Test)
		}
	}
	slices.Sort(names)
	return names
}
