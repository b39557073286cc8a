package correctness

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/liquida/liquida/loadtest/audit"
)

const events = `
{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestOne"}
{"Action":"output","Package":"p","Test":"TestOne","Output":"        AUDIT CLEAN: 123 payments, every one has exactly one outcome\n"}
{"Action":"pass","Package":"p","Test":"TestOne","Elapsed":1.5}
{"Action":"run","Package":"p","Test":"TestOne"}
{"Action":"run","Package":"p","Test":"TestOne/sub"}
{"Action":"fail","Package":"p","Test":"TestOne/sub","Elapsed":1}
{"Action":"output","Package":"p","Test":"TestOne/sub","Output":"        AUDIT CLEAN: 100 payments, every one has exactly one outcome\n"}
{"Action":"fail","Package":"p","Test":"TestOne","Elapsed":0.5}
{"Action":"run","Package":"p","Test":"TestReplicaLost"}
{"Action":"skip","Package":"p","Test":"TestReplicaLost","Elapsed":0}
{"Action":"run","Package":"p","Test":"TestCutShort"}
{"Action":"pass","Package":"p","Test":"TestCutShort","Elapsed":0}
{"Action":"run","Package":"p","Test":"TestCutShort"}
not json
{"Action":"fail","Package":"p","Elapsed":3}
`

func TestEventsBecomeRows(t *testing.T) {
	rows, err := read(strings.NewReader(events), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	want := []Row{
		{Test: "TestOne", Passed: 1, Runs: 2, Payments: 223, Seconds: 2},
		{Test: "TestReplicaLost", Proves: "replica loss", Skipped: 1},
		{Test: "TestCutShort", Passed: 1, Runs: 2},
	}
	if !slices.Equal(rows, want) {
		t.Errorf("got  %+v\nwant %+v", rows, want)
	}
	if p := proves("TestReplicaLost"); p != "replica loss" {
		t.Errorf("TestReplicaLost proves %q", p)
	}
	if failed := Failed(rows); !slices.Equal(failed, []string{"TestCutShort", "TestOne"}) {
		t.Errorf("failed: %v", failed)
	}
	var promised strings.Builder
	writePromises(&promised, []Row{{Test: "TestBadInput", Runs: 2, Passed: 1, Payments: 10}, {Test: "TestZombieEngine", Skipped: 1},
		{Test: "TestBanksMisbehave", Runs: 1, Passed: 1}, {Test: "TestBanksKilled", Skipped: 1}})
	for _, want := range []string{"| poison input | 1 of 2 | 10 |", "| zombie engine | skipped |", "| bank misbehaviour | 1 of 1, 1 skipped |"} {
		if !strings.Contains(promised.String(), want) {
			t.Errorf("the promises are\n%s", promised.String())
		}
	}
	var table strings.Builder
	Write(&table, rows)
	if !strings.Contains(table.String(), "| `TestOne` | 1 of 2 | 223 | 2 |") || !strings.Contains(table.String(), "skipped") {
		t.Errorf("the table is\n%s", table.String())
	}
}

// The payments are counted from the words of the audit's verdict.
func TestAuditedPaymentsAreFound(t *testing.T) {
	for returns := range 2 {
		verdict := audit.Verdict{Clean: true, Summary: audit.Summary{Payments: 7, Returns: returns}}.String()
		events := fmt.Sprintf(`{"Action":"output","Test":"TestOne","Output":%q}`, verdict+"\n")
		rows, err := read(strings.NewReader(events), io.Discard)
		if err != nil || len(rows) != 1 || rows[0].Payments != 7 {
			t.Errorf("%q: %+v, %v", verdict, rows, err)
		}
	}
}

// A test that a promise rests on cannot be renamed or removed unnoticed.
func TestEveryPromiseRestsOnTestsThatAreThere(t *testing.T) {
	tests, err := list("../..")
	if err != nil {
		t.Fatal(err)
	}
	if err := refuseBroken(tests); err != nil {
		t.Error(err)
	}
	tests = slices.DeleteFunc(tests, func(test string) bool { return test == "TestBadInput" })
	if err := refuseBroken(tests); err == nil || !strings.Contains(err.Error(), "poison input") {
		t.Errorf("a promise without its test: %v", err)
	}
}

// testName finds a test in its source. go test -list would build and link every package first.
var testName = regexp.MustCompile(`(?m)^func (Test\w+)\(t `)

// list returns the names of all tests.
func list(root string) (names []string, err error) {
	for _, folder := range packages {
		files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
		if err != nil || len(files) == 0 {
			return nil, fmt.Errorf("there are no tests in %s (%w)", folder, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			for _, match := range testName.FindAllStringSubmatch(string(text), -1) {
				names = append(names, match[1])
			}
		}
	}
	return names, nil
}

// refuseBroken returns an error that names a promise whose test does not exist.
func refuseBroken(tests []string) error {
	for _, p := range promises {
		for _, test := range p.tests {
			if !slices.Contains(tests, test) {
				return fmt.Errorf("the promise %q rests on %s, which does not exist in %s: name the test that proves it now in loadtest/correctness/promises.go",
					p.name, test, strings.Join(packages, ", "))
			}
		}
	}
	return nil
}
