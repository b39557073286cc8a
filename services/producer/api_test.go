package main

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/sandbox"
)

// Valid and invalid requests are generated from the description, for the central bank and for a bank, and
// all of the tool's checks are made: no response is a 5xx, each is as described, what the description
// forbids is refused, and nothing is done without a key. make test-api installs the tool and runs this.
func TestNoRequestBreaksTheAPI(t *testing.T) {
	t.Parallel()

	tool := os.Getenv("SCHEMATHESIS")
	if tool == "" {
		t.Skip("SCHEMATHESIS does not name the tool: make test-api does")
	}
	l := startLedger(t)
	client := connect(t, l)
	fund(t, client, sandbox.Population{Banks: 3, Customers: 7, DepositCentavos: 1000, ReserveCentavos: 10_000})

	r, err := sharedRing()
	if err != nil {
		t.Fatal(err)
	}
	r.name(t, client)
	p := startProgram(t, startBroker(t), l, "HTTP_KEYS_FILE="+r.digests, "STREAM_TIME_MAX=1s", "WAIT_MAX=1s")
	p.AwaitNeed("log", false)
	p.awaitSettlements()

	for _, holder := range []string{"10000001", keys.CentralBank} {
		folder := t.TempDir() // the tool may write files
		settings := filepath.Join(folder, "schemathesis.toml")
		// A schema cannot say all: a time may not exist, and 1.0 is an integer for JSON Schema, but no amount here.
		if err := os.WriteFile(settings,
			[]byte("[checks.positive_data_acceptance]\nexpected-statuses = [\"2xx\", 400, 401, 403, 404, 409, 422, 429]\n"),
			0o600); err != nil {
			t.Fatal(err)
		}
		command := exec.Command(tool, "--config-file", settings, "--no-color", "run", "http://"+p.HTTP+"/openapi.json",
			"--phases", "examples,coverage,fuzzing,stateful",
			"--checks", "all", "--header", "Authorization: Bearer "+r.of(t, holder),
			"--max-examples", cmp.Or(os.Getenv("API_EXAMPLES"), "40"), "--seed", "1", "--request-timeout", "20",
			"--continue-on-failure",
			"--exclude-path", batchPath) // the tool cannot make NDJSON: FuzzBatch does
		command.Dir = folder
		said, err := command.CombinedOutput()
		t.Logf("as %s: %s", holder, said)

		if err != nil {
			t.Errorf("as %s: %v", holder, err)
		}
	}
}
