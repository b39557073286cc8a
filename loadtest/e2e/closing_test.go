package e2e

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/loadtest/answers"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
)

// After payments, rejections and returns of every case the statements of all banks agree with each
// other and with the reserves, which the audit proves. A bank reads its own, and finds every
// difference to its book once.
func TestABankClosesItsDay(t *testing.T) {
	s := plain.start(t)
	s.load(100, 1000, "--mix", "demo").wait()
	if verdict := s.audit(); verdict.Summary.Returned == 0 || len(verdict.Summary.Rejected) == 0 {
		t.Errorf("no returns or no rejections: %+v", verdict.Summary)
	}
	client, err := ledger.Connect(ledger.Config{Addresses: strings.Split(s.TigerBeetleAddresses(), ",")})
	s.must(err)
	defer client.Close()
	all, err := s.Keys()
	s.must(err)
	population := sandbox.Population{Banks: len(all) - 1}
	judge := answers.NewJudge(1, 0)
	clients := answers.NewClients(answers.Config{Doors: []string{s.ProducerURL()}, Keys: all, Population: population, Judge: judge})
	s.must(clients.ReadDays(t.Context(), client))
	told, err := judge.Conclude(client)
	s.must(err)
	if !told.Clean || told.Days < population.Banks || told.DayLines < 1000 {
		t.Errorf("%v\n%+v", told, told.Contradictions)
	}

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

	// The book, and what is planted in it.
	rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	s.must(err)
	var book [][]string
	for _, row := range rows {
		if row[0] == "line" {
			book = append(book, []string{"settled", row[3], row[5], row[6]})
		}
	}
	if len(book) < 10 {
		t.Skipf("midnight in São Paulo has just passed: %d lines", len(book))
	}
	rejected := strings.Fields(do("pay", "10000001/0001/1", "10000002/9003/1", "1.00").Is(t, exitNot, "rejected AC06").Out)[0]
	within := strings.Fields(do("pay", "10000001/0001/1", "10000001/0001/2", "1.00").Is(t, exitDone).Out)[0]
	write := func(entries [][]string) string {
		path := filepath.Join(t.TempDir(), "book.csv")
		var text strings.Builder
		text.WriteString("state,id,direction,amount_centavos\n")
		for _, entry := range entries {
			text.WriteString(strings.Join(entry, ",") + "\n")
		}
		s.must(os.WriteFile(path, []byte(text.String()), 0o600))
		return path
	}
	book = append(book, []string{"rejected", rejected, "debit", "100"})
	run("reconcile", "--book", write(book)).Is(t, exitDone, "no difference")

	nobody := "E10000001202601010000ABCDEFGHIJK"
	wrong := [][]string{
		{"settled", book[1][1], book[1][2], book[1][3] + "0"},
		{"rejected", book[2][1], book[2][2], book[2][3]},
		{"settled", book[3][1], map[string]string{"credit": "debit", "debit": "credit"}[book[3][2]], book[3][3]},
	}
	wrong = append(wrong, book[4:]...)
	wrong = append(wrong, book[4], []string{"settled", nobody, "debit", "1"})
	for i, entry := range wrong {
		if entry[1] == rejected {
			wrong[i] = []string{"settled", rejected, "debit", "100"}
		}
	}
	wrong = append(wrong, []string{"settled", within, "debit", "100"})
	type difference struct{ Kind, ID, Here, There string }
	found := map[string]difference{}
	for _, d := range read[difference](t, run("reconcile", "--json", "--book", write(wrong)).Is(t, exitNot, "differences: 8")) {
		if _, twice := found[d.Kind+" "+d.ID]; twice {
			t.Errorf("%+v is told twice", d)
		}
		found[d.Kind+" "+d.ID] = d
	}
	for _, want := range []struct{ difference, says string }{
		{"missing-here " + book[0][1], ""},
		{"other-amount " + book[1][1], ""},
		{"other-state " + book[2][1], "settled"},
		{"other-amount " + book[3][1], ""},
		{"twice-here " + book[4][1], "settled"},
		{"missing-there " + nobody, ""},
		{"other-state " + rejected, "rejected AC06"},
		{"missing-there " + within, "within the bank"},
	} {
		d, ok := found[want.difference]
		if !ok || !strings.Contains(d.There, want.says) {
			t.Errorf("%s: %v %+v", want.difference, ok, d)
		}
		delete(found, want.difference)
	}
	if len(found) > 0 {
		t.Errorf("told besides: %s", fmt.Sprint(found))
	}
}
