package mutants

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/liquida/liquida/deploy/stack"
)

// A mutant whose text has gone, or that no longer compiles, would plant nothing.
func TestEveryMutantCanBePlanted(t *testing.T) {
	root, err := stack.RepoRoot()
	if err != nil {
		t.Fatal(err)
	}
	names, folders := map[string]bool{}, map[string]bool{}
	for _, m := range All {
		if names[m.Name] || m.Name == "" || m.Bug == "" || len(m.Edits) == 0 {
			t.Errorf("mutant %q: its name must be its own, and it must say and do something", m.Name)
		}
		names[m.Name] = true
		for _, e := range m.Edits {
			if !strings.HasPrefix(e.File, "services/") && !strings.HasPrefix(e.File, "platform/") {
				t.Errorf("mutant %s: %s is not of the product", m.Name, e.File)
			}
			folders[filepath.Dir(e.File)] = true
		}
	}
	for name := range sure {
		if !names[name] {
			t.Errorf("a sure test is for %s, which is no mutant", name)
		}
	}
	for _, m := range All {
		mustExist(t, root, Sure{"loadtest/simulation", m.Test})
	}
	for _, test := range sure {
		mustExist(t, root, test)
	}
	packages := list(t, root, folders)
	fset := token.NewFileSet()
	from := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(packages[path].Export) })
	for _, m := range All {
		files, err := m.mutated(root)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, p := range packages {
			if p.isIn(files) {
				if err := p.check(fset, from, files); err != nil {
					t.Errorf("mutant %s does not compile: %v", m.Name, err)
				}
			}
		}
	}
}

// mustExist fails the test if there is no test of a name in a folder.
func mustExist(t *testing.T, root string, test Sure) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, test.Folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("\nfunc "+test.Test+"(t *testing.T) {")) {
			return
		}
	}
	t.Errorf("%s has no %s", test.Folder, test.Test)
}

// pkg is a package as go list describes it.
type pkg struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// list returns the packages in folders, and all that they need, compiled.
func list(t *testing.T, root string, folders map[string]bool) map[string]pkg {
	t.Helper()
	arguments := []string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles"}
	for folder := range folders {
		arguments = append(arguments, "./"+folder)
	}
	command := exec.CommandContext(t.Context(), "go", arguments...)
	command.Dir = root
	var problems bytes.Buffer
	command.Stderr = &problems
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, problems.String())
	}
	packages := map[string]pkg{}
	for decoder := json.NewDecoder(bytes.NewReader(output)); decoder.More(); {
		var p pkg
		if err := decoder.Decode(&p); err != nil {
			t.Fatal(err)
		}
		packages[p.ImportPath] = p
	}
	return packages
}

func (p pkg) isIn(files map[string]string) bool {
	for path := range files {
		if filepath.Dir(path) == p.Dir {
			return true
		}
	}
	return false
}

// check checks the types of a package in which files have another text.
func (p pkg) check(fset *token.FileSet, from types.Importer, files map[string]string) error {
	var parsed []*ast.File
	for _, name := range p.GoFiles {
		path := filepath.Join(p.Dir, name)
		var text any
		if mutated, is := files[path]; is {
			text = mutated
		}
		file, err := parser.ParseFile(fset, path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		parsed = append(parsed, file)
	}
	_, err := (&types.Config{Importer: from}).Check(p.ImportPath, fset, parsed, nil)
	return err
}

// A mistyped --run must not look like a run in which every bug was found.
func TestANameThatNoMutantHasIsNamed(t *testing.T) {
	rows, err := Run(t.Context(), Config{Run: regexp.MustCompile("no-such-bug"), Worlds: 1, Output: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "no-such-bug") || rows != nil {
		t.Errorf("%v, %v", rows, err)
	}
}

func TestFindingsNameTheirJudge(t *testing.T) {
	for problem, want := range map[string]finding{
		"load: 3 failures": {"load", "load: 3 failures"},
		"read    5 orders\nWRONG E1: no outcome: none\nAUDIT FAILED: 1 findings": {"audit", "WRONG E1: no outcome: none"},
		"HISTORY FAILED: 1 violations in 5 payments":                             {"history", "HISTORY FAILED: 1 violations in 5 payments"},
		"the audit fails: no broker":                                             {"audit", "the audit fails: no broker"},
	} {
		if got, is := findingIn(problem); !is || got != want {
			t.Errorf("%q: got %+v, want %+v", problem, got, want)
		}
	}
	if _, is := findingIn("  E1 conflict 0/3: no report"); is {
		t.Error("a detail counts as a finding of its own")
	}
	if got, is := crashed("panic: broken law: room is freed once: 5\n\ngoroutine 1"); !is || got != (finding{"law", "room is freed once: 5"}) {
		t.Errorf("got %+v", got)
	}
	if got, is := crashed("--- FAIL: TestWorld\n    put: connection refused\n"); is {
		t.Errorf("a failed test is no crash: %+v", got)
	}
}

// A world that broke off proves nothing, whatever it had planned.
func TestABrokenOffWorldIsNoVerdict(t *testing.T) {
	killed := errors.New("signal: killed")
	file := filepath.Join(t.TempDir(), "result")
	for name, at := range map[string]struct {
		result, output string
		failed         error
		found          int
		silent         bool
	}{
		"clean":                 {result: `{"Ended":true}`},
		"not begun":             {silent: true},
		"not ended":             {result: `{"Problems":["the world did not end"]}`, silent: true},
		"found":                 {result: `{"Ended":true,"Problems":["load: 3 failures","  E1: no report"]}`, found: 1},
		"killed":                {result: `{"Problems":["the world did not end"]}`, failed: killed, silent: true},
		"killed, after results": {result: `{"Ended":true,"Problems":["load: 3 failures"]}`, failed: killed, found: 1},
		"killed at once":        {failed: killed, silent: true},
		"a broken law":          {result: `{"Problems":["the world did not end"]}`, output: "panic: broken law: an offset is finished once", failed: killed, found: 1},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(at.result), 0o600); err != nil {
				t.Fatal(err)
			}
			found, silent := read(at.output, at.failed, anyWorld, file)
			if len(found) != at.found || (silent != "") != at.silent {
				t.Errorf("%d findings %v, silent %q; want %d, silent %t", len(found), found, silent, at.found, at.silent)
			}
		})
	}
	if err := os.WriteFile(file, []byte(`{"Ended":true,"Problems":["load: 2 failures","  E1: no report","  E2: no report"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if found, _ := read("", nil, anyWorld, file); len(found) != 1 || found[0].says != "load: 2 failures: E1: no report" {
		t.Errorf("got %+v", found)
	}
	for output, wantSilent := range map[string]bool{"=== RUN   TestScenario\n": false, noTests + "\nPASS\n": true, "": true} {
		if found, silent := read(output, nil, "TestScenario", file); len(found) > 0 || (silent != "") != wantSilent {
			t.Errorf("a scenario that says %q: %v, silent %q", output, found, silent)
		}
	}
	row := Row{Worlds: 3, Silent: 3, Judges: map[string]int{}}
	if !row.ByLuck() || !strings.HasPrefix(row.verdict(), "NO VERDICT") {
		t.Errorf("three worlds without a verdict: %s", row.verdict())
	}
	row.Sure = &SureRow{Test: "TestX", Caught: true}
	if row.ByLuck() {
		t.Error("what a sure test finds is no luck")
	}
}

// The finding of a sure test is what its part says that failed, not what the whole logs.
func TestTheFindingIsOfThePartThatFailed(t *testing.T) {
	for output, want := range map[string]string{
		"--- FAIL: TestX (0.02s)\n    --- FAIL: TestX/order (0.01s)\n        x_test.go:60: a record counts as stored\n             0s  engine 0\n    x_test.go:194: 0 states of 13 plots\nFAIL\n": "a record counts as stored",
		"--- FAIL: TestX (0.02s)\n    x_test.go:194: 0 states of 13 plots\n    --- FAIL: TestX/order (0.01s)\n        x_test.go:60: a record counts as stored\nFAIL\n":                            "a record counts as stored",
		"--- FAIL: TestX (0.02s)\n    x_test.go:3: a world of seed 1\n    x_test.go:9: it settles\nFAIL\n":                                                                                        "it settles",
		"PASS\n": "",
	} {
		if got := firstFailure(output); got != want {
			t.Errorf("%q: got %q, want %q", output, got, want)
		}
	}
}
