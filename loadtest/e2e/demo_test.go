package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/liquida/liquida/platform/kit"
)

// demo runs make demo's command with a small load until it exits. When it says the given text, if any, it gets a
// Ctrl-C, as it alone would get it from a terminal. It returns its output, its exit code and the folder of its stack.
func demo(t *testing.T, interruptAt string) (output string, code int, folder string) {
	t.Helper()
	t.Parallel()
	kit.Must(t, servers.Acquire(t.Context(), 1))
	defer servers.Release(1)
	folder = t.TempDir()
	command := exec.CommandContext(t.Context(), filepath.Join(binaries, "loadtest"), "chaos", "--dir", folder, "--room",
		"--script", "6s kill-engine", "--engines", "1", "--rate", "100", "--duration", "15s", "--deadline", "10s",
		"--allow", "AB03,LQ10")
	read, write, err := os.Pipe()
	kit.Must(t, err)
	defer read.Close()
	command.Stdout, command.Stderr = write, write
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = command.Start()
	write.Close()
	kit.Must(t, err)

	for lines := bufio.NewScanner(read); lines.Scan(); {
		output += lines.Text() + "\n"
		if interruptAt != "" && strings.Contains(lines.Text(), interruptAt) {
			interruptAt = ""
			kit.Must(t, command.Process.Signal(os.Interrupt))
		}
	}
	_ = command.Wait() // the exit code says it
	t.Logf("exit code %d\n%s", command.ProcessState.ExitCode(), output)

	return output, command.ProcessState.ExitCode(), folder
}

// An engine dies in the middle of the demo, and nothing is lost. What passed leaves a page that tells the run, and
// opens offline, without a script.
func TestDemo(t *testing.T) {
	output, code, folder := demo(t, "")
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	kit.Holds(t, output, "watch it: http://127.0.0.1:", "kill-engine engine-0: all is ready again", "LOAD PASSED",
		"AUDIT CLEAN", "CHAOS PASSED", "report: ")
	html, err := os.ReadFile(filepath.Join(folder, "report.html"))
	kit.Must(t, err)
	kit.Holds(t, string(html), "Liquida: kill-engine at 100 payments a second", "✓ Passed",
		"LOAD PASSED: 1500 payments", "AUDIT CLEAN", "ANSWERS CLEAN",
		"1 kill-engine engine-0", "One of its partitions settled nothing for ",
		"loadtest chaos --dir", "--seed")

	if never := regexp.MustCompile(`<script|src=|href=|@import|NaN|ZgotmplZ`).FindString(string(html)); never != "" ||
		strings.Contains(output, "\x1b") {
		t.Errorf("the report holds %q, or what is no terminal gets colours", never)
	}

	if _, err := os.Stat(filepath.Join(folder, "data")); !os.IsNotExist(err) {
		t.Errorf("the data are still there: %v", err)
	}
}

// After Ctrl-C no payment that is under way is wrong, and data and logs stay.
func TestDemoInterrupted(t *testing.T) {
	output, code, folder := demo(t, "kill-engine engine-0")
	if said := regexp.MustCompile(
		`INTERRUPTED: [1-9][\d,]* sent, [1-9][\d,]* ended, [\d,]+ under way; audit not run\n`); code != 130 ||
		!said.MatchString(output) || strings.Contains(output, "WRONG") || strings.Contains(output, "FAILED") {
		t.Errorf("exit code %d:\n%s", code, output)
	}
	kit.Holds(t, output, "data and logs stay in "+folder)

	if _, err := os.Stat(filepath.Join(folder, "logs", "engine-0.log")); err != nil {
		t.Error(err)
	}
}
