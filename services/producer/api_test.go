package main

import (
	"cmp"
	"os"
	"os/exec"
	"testing"

	"github.com/liquida/liquida/platform/sandbox"
)

// Valid and invalid requests are generated from the description. No response is a 5xx, and
// each is as described. make test-api installs the tool and runs this.
func TestNoRequestBreaksTheAPI(t *testing.T) {
	t.Parallel()
	tool := os.Getenv("SCHEMATHESIS")
	if tool == "" {
		t.Skip("SCHEMATHESIS does not name the tool: make test-api does")
	}
	l := startLedger(t)
	fund(t, connect(t, l), sandbox.Population{Banks: 3, Customers: 7, DepositCentavos: 1000, ReserveCentavos: 10_000})
	p := startProgram(t, startBroker(t), l, "STREAM_TIME_MAX=1s", "WAIT_MAX=1s")
	p.AwaitNeed("ledger", false)
	p.AwaitNeed("kafka", false)
	p.awaitSettlements()
	command := exec.Command(tool, "--no-color", "run", "http://"+p.HTTP+"/openapi.json", "--phases", "examples,coverage,fuzzing",
		"--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,response_headers_conformance",
		"--max-examples", cmp.Or(os.Getenv("API_EXAMPLES"), "40"), "--seed", "1", "--request-timeout", "20", "--continue-on-failure",
		"--exclude-path", batchPath) // the tool cannot make NDJSON: FuzzBatch does
	command.Dir = t.TempDir() // it may write files
	said, err := command.CombinedOutput()
	t.Logf("%s", said)
	if err != nil {
		t.Error(err)
	}
}
