package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
)

// A client that a foreign generator makes of the API's description works: the description
// is true, and others can read it.
func TestAForeignClientIsGeneratedAndPays(t *testing.T) {
	generator := os.Getenv("FOREIGN_CLIENT_GENERATOR")
	if generator == "" {
		t.Skip("FOREIGN_CLIENT_GENERATOR is empty: make test-foreign-client fetches openapi-python-client and sets it")
	}
	s := start(t, 1)
	made := t.TempDir()
	generate := exec.Command(generator, "generate", "--path", "../../services/producer/openapi.json", "--output-path", made+"/foreign", "--meta", "none")
	said, err := generate.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	// It makes no NDJSON, and so no batches; anything else that it left out is ours to mend.
	if left := strings.Count(string(said), "will not be generated"); left != 1 || !strings.Contains(string(said), "Unsupported content type application/x-ndjson") {
		t.Errorf("it left %d endpoints out:\n%s", left, said)
	}
	all, err := s.Keys()
	s.must(err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, filepath.Join(filepath.Dir(generator), "python"), "testdata/pays.py")
	command.Env = append(os.Environ(), "LIQUIDA_URL="+s.ProducerURL(), "PAYER_KEY="+all["10000001"], "PAYEE_KEY="+all["10000002"], "CENTRAL_BANK_KEY="+all[keys.CentralBank],
		"PYTHONPATH="+made, "PYTHONDONTWRITEBYTECODE=1")
	if said, err := command.CombinedOutput(); err != nil || !strings.Contains(string(said), "paid, polled, streamed, read and gave back") {
		t.Fatalf("%v\n%s", err, said)
	}
}

func TestExamplesPayWaitAndReconcile(t *testing.T) {
	s := start(t, 1)
	for _, c := range []struct {
		name    string
		command []string
		payer   client.Account
	}{
		{"go", []string{compile(t, "example", "./examples/go")}, client.Account{ISPB: "10000003", Branch: "0001", Number: "7"}},
		{"python", []string{"python3", "../../examples/python/payer.py"}, client.Account{ISPB: "10000004", Branch: "0001", Number: "7"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := exec.LookPath(c.command[0]); err != nil {
				t.Skip("there is no ", c.command[0])
			}
			keyFile := s.keyFile(c.payer.ISPB)
			journal := filepath.Join(t.TempDir(), "journal.jsonl")
			run := func(code int, holds string) {
				t.Helper()
				kit.RunCommand(t, []string{"LIQUIDA_URL=" + s.ProducerURL(), "LIQUIDA_KEY_FILE=" + keyFile},
					c.command[0], append(c.command[1:], "--journal", journal, "--count", "2")...).Is(t, code, holds)
				if t.Failed() {
					t.FailNow()
				}
			}
			run(0, "reconciled: 2 payments in the journal, 2 of them left the account")

			// It ended after it had written two payments down: before one was sent, and after the
			// other was, without knowing its outcome.
			unsent, err := client.NewEndToEndID(c.payer)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(journal)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.SplitAfter(string(text), "\n")
			lines = lines[:len(lines)-2] // the last outcome, and what follows the last line
			payment := strings.Join(strings.Fields(lines[len(lines)-1]), "")
			id := payment[strings.Index(payment, `"E`)+1:][:32]
			lines = append(lines, strings.Replace(lines[len(lines)-1], id, unsent, 1))
			if err := os.WriteFile(journal, []byte(strings.Join(lines, "")), 0o600); err != nil {
				t.Fatal(err)
			}
			run(0, "reconciled: 5 payments in the journal, 5 of them left the account")

			// Somebody pays from the account without the journal.
			key, err := client.ReadKey(keyFile)
			if err != nil {
				t.Fatal(err)
			}
			api, err := client.New(s.ProducerURL(), key)
			if err != nil {
				t.Fatal(err)
			}
			stray, err := api.Pay(t.Context(), client.Payment{Payer: c.payer, Payee: c.payer, AmountCentavos: 1}, 2*time.Minute)
			if err != nil || stray.Status != client.Settled {
				t.Fatalf("%+v %v", stray, err)
			}
			run(1, "DIFFERENCE: "+stray.EndToEndID+" is not in the journal")
		})
	}
}
