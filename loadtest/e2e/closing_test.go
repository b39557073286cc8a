package e2e

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/pix"
)

// After payments, rejections and returns of every case a bank reads the statement of its day, and finds the
// differences to its book.
func TestABankClosesItsDay(t *testing.T) {
	s := start(t, 1)
	s.load(100, 1000, "--mix", "demo").wait()
	do := s.liquida(s.ProducerURL(), "10000001")
	until := time.Now().UTC()
	day := pix.DayOf(until)
	file := filepath.Join(t.TempDir(), "statement.csv")
	of := []string{"--participant", "10000001", "--day", day.String(), "--until", until.Format(time.RFC3339Nano)}
	run := func(command ...string) (output kit.Output) {
		t.Helper()
		s.eventually("the ledger's clock to pass "+until.String(), func() bool {
			output = do(append(command, of...)...)
			return output.Code != exitUnknown
		})
		return output
	}
	run("statement", "--output", file).Is(t, exitDone)
	text, err := os.ReadFile(file)
	s.must(err)
	if printed := run("statement").Is(t, exitDone); printed.Out != string(text) {
		t.Errorf("the file is\n%s\nand standard output\n%s", text, printed.Out)
	}
	run("statement", "--json").Is(t, exitDone, `"participant":"10000001"`)
	run("statement", "--format", "camt053").Is(t, exitDone, "<BkToCstmrStmt>")
	missing := filepath.Join(t.TempDir(), "unfinished.csv")
	do("statement", "--participant", "10000001", "--day", day.String(), "--output", missing).Is(t, exitUnknown, "The day is not over (409)", day.Next().Begins().Format(time.RFC3339))
	if _, err := os.Stat(missing); !os.IsNotExist(err) {
		t.Errorf("%s is there: %v", missing, err)
	}
	do("statement", "--participant", "10000002", "--day", day.String()).Is(t, exitNot, "Not yours (403)", "ispb")
	do("statement", "--participant", "10000001", "--day", "2020-01-02").Is(t, exitNot, "Unknown day (404)")
	s.liquida(s.ProducerURL(), keys.CentralBank)(append([]string{"statement"}, of...)...).Is(t, exitDone, "closing,")

	// The book, and what is planted in it: an amount, a payment that nobody knows, and one that is missing.
	rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	s.must(err)
	book := []string{"state,id,direction,amount_centavos"}
	for _, row := range rows {
		if row[0] == "line" {
			book = append(book, strings.Join([]string{"settled", row[3], row[5], row[6]}, ","))
		}
	}
	if len(book) < 10 {
		t.Skipf("midnight in São Paulo has just passed: %d lines", len(book))
	}
	write := func(lines []string) string {
		path := filepath.Join(t.TempDir(), "book.csv")
		s.must(os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
		return path
	}
	run("reconcile", "--book", write(book)).Is(t, exitDone, "no difference")
	wrong := append([]string{book[0], book[1] + "0", "settled,E10000001202601010000ABCDEFGHIJK,debit,1"}, book[3:]...)
	type difference struct{ Kind string }
	var found []string
	for _, d := range read[difference](t, run("reconcile", "--json", "--book", write(wrong)).Is(t, exitNot, "differences: 3")) {
		found = append(found, d.Kind)
	}
	slices.Sort(found)
	if want := []string{"missing-here", "missing-there", "other-amount"}; !slices.Equal(found, want) {
		t.Errorf("the differences are %q, want %q", found, want)
	}
}
