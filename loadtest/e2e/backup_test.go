package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/platform/kit"
)

// The commands of docs/backup.md, as they stand there, with one ledger server.
func TestBackup(t *testing.T) {
	b := beginBackup(t, 1)
	b.run("bin/stack up")
	before := b.pay()
	b.block("Copy", 0)
	after := b.pay()
	kit.Holds(t, b.block("Check a copy", 0), "AUDIT CLEAN")
	b.knows(before, true)
	b.knows(after, true)
	kit.Holds(t, b.block("Put a copy back", 0), "AUDIT CLEAN")
	b.knows(before, true)
	b.knows(after, false)

	// An older ledger beside newer topics.
	told := b.pay()
	kit.Holds(t, b.block("Only the ledger comes back older, or is lost", 0), "the ledger is older than the topics",
		"LEDGER_GIVEN_UP=")
	b.block("Only the ledger comes back older, or is lost", 1)
	b.knows(before, true)
	b.knows(told, false)
	b.knows(b.pay(), true)
	kit.Holds(t, b.run("bin/loadtest audit || true"), "ledger that took the place of another")

	b.run("bin/stack down")
	b.run("rm -r .stack/data/tigerbeetle")
	kit.Holds(t, b.run("bin/stack up || true"), "docs/backup.md")

	// Docker is for deploy/verify-compose.sh.
	run := []string{"Copy", "Check a copy", "Put a copy back", "Only the ledger comes back older, or is lost",
		"One replica of three lost its file"}

	for heading, blocks := range b.blocks {
		for _, block := range blocks {
			if !slices.Contains(run, heading) && !strings.Contains(block, "docker compose") {
				t.Errorf("nobody runs the commands below %q", heading)
			}
		}
	}
}

// The same with three replicas, of which one loses its file.
func TestBackupOfThreeReplicas(t *testing.T) {
	b := beginBackup(t, 3)
	b.run("bin/stack up")
	b.run("kill -9 $(bin/stack status | awk '/^tigerbeetle-1 / {print $2}')")
	b.run("rm .stack/data/tigerbeetle-cluster/0_1.tigerbeetle")
	kit.Holds(t, b.run("bin/stack up || true"), "replica 1 of 3 is gone")
	during := b.pay() // the other two go on
	b.block("One replica of three lost its file", 0)
	b.run("bin/stack status")
	b.knows(during, true)
	kit.Holds(t, b.run("bin/loadtest audit"), "AUDIT CLEAN")
}

// backup is a folder of its own, laid out like the repository: its bin has the programs, and the stack is below.
// Stacks there take free ports and little memory, and bin/loadtest finds the one that runs.
type backup struct {
	t      *testing.T
	folder string
	blocks map[string][]string // of docs/backup.md, by heading
}

func beginBackup(t *testing.T, replicas int) *backup {
	t.Helper()
	t.Parallel()
	kit.Must(t, servers.Acquire(t.Context(), int64(replicas)))
	t.Cleanup(func() { servers.Release(int64(replicas)) })
	folder, err := os.MkdirTemp("", "liquida-e2e-backup-") //nolint:usetesting // the logs of a failed test stay
	kit.Must(t, err)
	b := &backup{t: t, folder: folder, blocks: shellBlocks(t, "../../docs/backup.md")}
	program := func(name, text string) { b.must(os.WriteFile(filepath.Join(folder, "bin", name), []byte(text), 0o755)) } //nolint:gosec // a program
	b.must(os.Mkdir(filepath.Join(folder, "bin"), 0o755))
	b.must(os.WriteFile(filepath.Join(folder, "go.work"), nil, 0o600))

	for _, name := range []string{"producer", "clearing-engine", "bank-simulator", "archiver", "bootstrap", "broker"} {
		b.must(os.Symlink(filepath.Join(binaries, name), filepath.Join(folder, "bin", name)))
	}
	b.must(os.Symlink(compile(t, "tigerbeetle", "./deploy/cmd/tigerbeetle"),
		filepath.Join(folder, "bin", "tigerbeetle")))
	program("stack", fmt.Sprintf(
		"#!/bin/sh\n[ \"$1\" != up ] || set -- \"$@\" --no-build --free-ports --room=false --cache-grid=64MiB --ledger-reserve=0 --replicas=%d\nexec %s \"$@\"\n",
		replicas, compile(t, "stack", "./deploy/cmd/stack")))
	program("loadtest", "#!/bin/sh\nfor dir in check .stack; do [ ! -e $dir/control.sock ] || break; done\n"+
		"export KAFKA_BROKERS=$(bin/stack status --dir $dir | awk '/^broker / {print $4}')\n"+
		"export TIGERBEETLE_ADDRESSES=$(bin/stack status --dir $dir | awk '/^tigerbeetle/ {print $4}' | paste -sd , -)\n"+
		"export ANSWER_KEYS_FILE=${ANSWER_KEYS_FILE:-.stack/answer-keys}\nexec "+filepath.Join(binaries,
		"loadtest")+" \"$@\"\n")

	t.Cleanup(func() {
		for _, dir := range []string{"check", ".stack"} {
			_ = stack.Down(context.Background(), filepath.Join(folder, dir))
		}

		if t.Failed() {
			t.Logf("logs are in %s", folder)
			return
		}
		_ = os.RemoveAll(folder)
	})

	return b
}

func (b *backup) must(err error) {
	b.t.Helper()
	kit.Must(b.t, err)
}

// run runs commands in a shell, fails the test unless each of them succeeds, and returns what they print.
func (b *backup) run(commands string) string {
	b.t.Helper()
	output := filepath.Join(b.t.TempDir(), "output")
	// of the first block
	shell := exec.Command("bash", "-ec", "copy=$(ls -d backup/* 2>&-) || true\nexec >"+output+" 2>&1\n"+commands)
	shell.Dir = b.folder
	err := shell.Run()
	printed, _ := os.ReadFile(output)
	b.t.Logf("$ %s\n%s", strings.ReplaceAll(strings.TrimSpace(commands), "\n", "\n$ "), printed)
	b.must(err)

	return string(printed)
}

// block runs one block of commands of the document.
func (b *backup) block(heading string, which int) string {
	b.t.Helper()

	if which >= len(b.blocks[heading]) {
		b.t.Fatalf("docs/backup.md has no block %d below %q", which, heading)
	}

	return b.run(b.blocks[heading][which])
}

// bank is the API of the running stack, as one of its banks.
func (b *backup) bank() *client.Client {
	b.t.Helper()
	key, err := client.ReadKey(filepath.Join(b.folder, ".stack", "keys", "10000001"))
	b.must(err)
	at := strings.TrimSpace(b.run("bin/stack status 2>&- | awk '/^producer / {print $4}'"))
	api, err := client.New("http://"+at, key)
	b.must(err)

	return api
}

// pay returns the id of a payment that has settled.
func (b *backup) pay() string {
	b.t.Helper()
	return settled(b.t, b.bank())
}

// knows checks whether the clearing house knows a payment.
func (b *backup) knows(id string, want bool) {
	b.t.Helper()

	state, err := b.bank().Payment(b.t.Context(), id)
	switch {
	case want && (err != nil || state.Status != client.Settled):
		b.t.Errorf("payment %s: %+v %v", id, state, err)
	case !want && !client.NotFound(err):
		b.t.Errorf("payment %s is known, and came after the copy: %+v %v", id, state, err)
	}
}

// shellBlocks returns the fenced commands of a document, by the heading above them.
func shellBlocks(t *testing.T, path string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(path)
	kit.Must(t, err)
	all, heading := map[string][]string{}, ""

	for _, part := range regexp.MustCompile("(?m)^## (.*)$|^```sh\n((?s:.*?))^```$").FindAllStringSubmatch(
		string(text), -1) {
		if part[1] != "" {
			heading = part[1]
			continue
		}
		all[heading] = append(all[heading], part[2])
	}

	return all
}
