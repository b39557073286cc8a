// Package correctness runs the tests that the project's promise rests on and makes one
// table of them: what each checks, and how often it passed.
package correctness

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// packages hold the tests, as folders of the repository.
var packages = []string{endToEnd, "deploy/bootstrap", "deploy/ledgerfacts"}

const endToEnd = "loadtest/e2e"

// Row is one test.
type Row struct {
	Test     string  `json:"test"`
	Proves   string  `json:"proves"` // the promises that rest on it; none: it is shown all the same
	Checks   string  `json:"checks"`
	Passed   int     `json:"passed"`
	Runs     int     `json:"runs"`
	Skipped  int     `json:"skipped"`
	Broker   string  `json:"broker"`
	Ledger   string  `json:"ledger"`
	Payments int     `json:"payments"` // audited, in all runs
	Seconds  float64 `json:"seconds"`
}

// Config says what to run.
type Config struct {
	Root   string // of the repository
	Run    string // which tests, as of go test; empty: all
	Count  int    // how often each
	Output io.Writer
}

// timeoutMinutesPerCount is of all tests of a package, once.
const timeoutMinutesPerCount = 40

// Run runs the tests, one package after the other. An error means that they could not be
// run; those that fail are in the rows.
func Run(ctx context.Context, config Config) ([]Row, error) {
	purposes := map[string]string{}
	for _, folder := range packages {
		of, err := purposesOf(filepath.Join(config.Root, folder))
		if err != nil {
			return nil, err
		}
		maps.Copy(purposes, of)
	}
	if err := refuseBroken(purposes); err != nil {
		return nil, err
	}
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
		found, err := read(output, purposes, brokerOf(folder), config.Output)
		_, _ = io.Copy(io.Discard, output)
		failed := command.Wait()                                    // because a test failed, or because nothing could be run
		if err == nil && failed != nil && len(Failed(found)) == 0 { // it died between two tests, or before the first
			err = fmt.Errorf("%w: %s", failed, strings.TrimSpace(problems.String()))
		}
		if err != nil {
			return nil, fmt.Errorf("cannot test %s: %w", folder, err)
		}
		rows = append(rows, found...)
	}
	return rows, nil
}

// audited finds the payments that an audit was about.
var audited = regexp.MustCompile(`AUDIT CLEAN: (\d+) payments`)

// event is a line of go test -json.
type event struct {
	Action  string
	Test    string
	Output  string
	Elapsed float64
}

// read turns the events of a package's tests into rows, in the order of the tests.
func read(events io.Reader, purposes map[string]string, broker string, progress io.Writer) ([]Row, error) {
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
			continue // its payments count, its end is the test's
		}
		e.Test = test
		row := rows[e.Test]
		if row == nil {
			row = &Row{Test: e.Test, Proves: proves(e.Test), Checks: purposes[e.Test], Broker: broker, Ledger: "TigerBeetle"}
			if strings.Contains(e.Test, "Replica") {
				row.Ledger = "TigerBeetle × 3"
			}
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
		case "run": // counted now: a run that is cut short has no end
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

// brokerOf is the broker that the tests of a folder run on.
func brokerOf(folder string) string {
	switch folder {
	case endToEnd:
		return cmp.Or(os.Getenv("E2E_KAFKA"), "embedded")
	case "deploy/bootstrap":
		return "embedded"
	}
	return "none"
}

// purposesOf reads what each test of a folder checks: the first sentence above it, or its
// name as a sentence.
func purposesOf(folder string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no tests in %s (%w)", folder, err)
	}
	purposes := map[string]string{}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, declaration := range file.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") {
				said := strings.Join(strings.Fields(new(doc.Package).Synopsis(f.Doc.Text())), " ")
				purposes[f.Name.Name] = cmp.Or(said, sentence(strings.TrimPrefix(f.Name.Name, "Test")))
			}
		}
	}
	return purposes, nil
}

// sentence makes "ItWaitsForKafka" one.
func sentence(name string) string {
	var text strings.Builder
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) {
			text.WriteByte(' ')
			r = unicode.ToLower(r)
		}
		text.WriteRune(r)
	}
	return text.String() + "."
}

// Write prints the promises and the tests in Markdown.
func Write(w io.Writer, rows []Row) {
	writePromises(w, rows)
	fmt.Fprintln(w, "| test | passed | what it checks | broker | ledger | payments |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|")
	for _, row := range rows {
		fmt.Fprintf(w, "| `%s` | %s | %s | %s | %s | %s |\n", row.Test, row.passed(), strings.ReplaceAll(row.Checks, "|", "\\|"), row.Broker, row.Ledger, row.payments())
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

// Failed lists the tests that did not always pass, or were cut short.
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
