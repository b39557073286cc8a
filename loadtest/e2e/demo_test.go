package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/liquida/liquida/platform/kit"
)

// interruptedExit is the exit code after Ctrl-C, thresholdExit that after a threshold was broken.
const (
	interruptedExit = 130
	thresholdExit   = 99
)

// demo runs make demo's command with a small load until it exits. When it says the given text, if any, it
// gets a Ctrl-C. It returns its output, its exit code and the folder of its stack.
func demo(t *testing.T, interruptAt string, arguments ...string) (output string, code int, folder string) {
	t.Helper()
	t.Parallel()
	kit.Must(t, servers.Acquire(t.Context(), 1))
	defer servers.Release(1)
	folder = t.TempDir()
	output, code = interruptWhen(t, exec.CommandContext(t.Context(), filepath.Join(binaries, "loadtest"), append([]string{"chaos", "--dir", folder, "--room",
		"--script", "6s kill-engine", "--engines", "1", "--rate", "100", "--duration", "15s", "--deadline", "10s", "--allow", "AB03,LQ10"}, arguments...)...), interruptAt)
	return output, code, folder
}

// interruptWhen runs a command until it exits. When it says the given text, if any, it gets a
// Ctrl-C, as it alone would get it from a terminal.
func interruptWhen(t *testing.T, command *exec.Cmd, text string) (output string, code int) {
	t.Helper()
	read, write, err := os.Pipe()
	kit.Must(t, err)
	defer read.Close()
	command.Stdout, command.Stderr = write, write
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = command.Start()
	write.Close()
	kit.Must(t, err)
	var all strings.Builder
	interrupted := text == ""
	for lines := bufio.NewScanner(read); lines.Scan(); {
		all.WriteString(lines.Text() + "\n")
		if !interrupted && strings.Contains(lines.Text(), text) {
			interrupted = true
			if err := command.Process.Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
		}
	}
	_ = command.Wait() // the exit code says it
	t.Logf("exit code %d\n%s", command.ProcessState.ExitCode(), all.String())
	if !interrupted {
		t.Fatalf("it never said %q", text)
	}
	return all.String(), command.ProcessState.ExitCode()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// An engine dies in the middle of the demo, and nothing is lost. What passed leaves a page that tells the run.
func TestDemo(t *testing.T) {
	output, code, folder := demo(t, "")
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	kit.Holds(t, output, "watch it: http://127.0.0.1:", "kill-engine engine-0: all is ready again", "LOAD PASSED", "AUDIT CLEAN", "CHAOS PASSED", "report: ")
	if strings.Contains(output, "\x1b") {
		t.Error("what is no terminal gets colours")
	}
	page := pageOf(t, filepath.Join(folder, "report.html"))
	kit.Holds(t, page, "Liquida: kill-engine at 100 payments a second", "✓ Passed", "LOAD PASSED: 1500 payments", "AUDIT CLEAN", "ANSWERS CLEAN",
		"1 kill-engine engine-0", "One of its partitions settled nothing for ", "no more payments waited", "loadtest chaos --dir", "--seed")
	if exists(filepath.Join(folder, "data")) {
		t.Error("the data are still there")
	}
}

// pageOf returns a report, which must open offline, without a script.
func pageOf(t *testing.T, file string) string {
	t.Helper()
	html, err := os.ReadFile(file)
	kit.Must(t, err)
	for _, never := range []string{"<script", "src=", "href=", "@import", "NaN", "ZgotmplZ"} {
		if strings.Contains(string(html), never) {
			t.Errorf("the report holds %s", never)
		}
	}
	return string(html)
}

// A demo that fails keeps what shows why. Here payments settle that must be rejected: the bank that
// should respond too late responds in time.
func TestDemoFails(t *testing.T) {
	output, code, folder := demo(t, "", "--env", "bank-simulator:SIMULATOR_LATE_DELAY=100ms")
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	kit.Holds(t, output, "WRONG", "LOAD FAILED", "AUDIT CLEAN", "CHAOS FAILED", "--env ")
	kit.Holds(t, pageOf(t, filepath.Join(folder, "report.html")), "✗ Failed", "LOAD FAILED", "What is wrong", "(late)")
	for _, name := range []string{"data", "logs"} {
		if !exists(filepath.Join(folder, name)) {
			t.Errorf("%s is gone", name)
		}
	}
}

func TestDemoInterrupted(t *testing.T) {
	output, code, folder := demo(t, "kill-engine engine-0")
	if code != interruptedExit {
		t.Errorf("exit code %d", code)
	}
	isInterrupted(t, output)
	kit.Holds(t, output, "data and logs stay in "+folder)
	if !exists(filepath.Join(folder, "logs", "engine-0.log")) {
		t.Error("the logs are gone")
	}
}

// A load that passes breaks a threshold: the report says which, and what was measured.
func TestLoadBreaksAThreshold(t *testing.T) {
	s := start(t, 1)
	file := filepath.Join(t.TempDir(), "load.html")
	command := exec.CommandContext(t.Context(), filepath.Join(binaries, "loadtest"), "run", "--rate", "100", "--payments", "200", "--mix", "plain",
		"--fail-if", "max>1us", "--fail-if", "failed>0", "--report", file)
	command.Env = append(os.Environ(), "KAFKA_BROKERS="+s.KafkaAddress(), "TIGERBEETLE_ADDRESSES="+s.TigerBeetleAddresses())
	output, code := interruptWhen(t, command, "")
	if code != thresholdExit {
		t.Errorf("exit code %d", code)
	}
	kit.Holds(t, output, "LOAD PASSED", "a threshold is broken: max>1us: max was ")
	kit.Holds(t, pageOf(t, file), "✗ Failed", "LOAD PASSED", "threshold max&gt;1us", "max was ", "threshold failed&gt;0", "failed was 0 payments", "run --rate 100 --payments 200", "&#39;max&gt;1us&#39;")
}

var interruption = regexp.MustCompile(`INTERRUPTED: ([\d,]+) sent, ([\d,]+) ended, ([\d,]+) under way; audit not run\n`)

// isInterrupted checks how an interrupted load ends: no payment that is under way is wrong.
func isInterrupted(t *testing.T, output string) {
	t.Helper()
	if strings.Contains(output, "WRONG") || strings.Contains(output, "FAILED") {
		t.Error("an interrupt is called a failure")
	}
	found := interruption.FindStringSubmatch(output)
	if found == nil {
		t.Fatal("the output does not say how far it came")
	}
	var n [3]int
	for i, text := range found[1:] {
		var err error
		if n[i], err = strconv.Atoi(strings.ReplaceAll(text, ",", "")); err != nil {
			t.Fatal(err)
		}
	}
	if sent, ended, underWay := n[0], n[1], n[2]; sent == 0 || ended == 0 || sent != ended+underWay {
		t.Errorf("%d sent, %d ended, %d under way", sent, ended, underWay)
	}
}
