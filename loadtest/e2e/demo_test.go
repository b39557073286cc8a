package e2e

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/liquida/liquida/loadtest/room"
)

// interruptedExit is the exit code after Ctrl-C.
const interruptedExit = 130

// demo runs `stack demo` with a small load until it exits. When it says the given text, if any, it
// gets a Ctrl-C. It returns its output, its exit code and the folder of its stack.
func demo(t *testing.T, interruptAt string, arguments ...string) (output string, code int, folder string) {
	t.Helper()
	t.Parallel()
	if err := servers.Acquire(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	defer servers.Release(1)
	dir := t.TempDir()
	command := exec.CommandContext(t.Context(), compile(t, "stack", "./deploy/cmd/stack"), append([]string{"demo", "--no-build", "--bin", binaries,
		"--dir", dir, "--rate", "300", "--payments", "1500", "--ledger-reserve", "0"}, arguments...)...)
	output, code = interruptWhen(t, command, interruptAt)
	return output, code, filepath.Join(dir, "demo")
}

// interruptWhen runs a command until it exits. When it says the given text, if any, it gets a
// Ctrl-C, as it alone would get it from a terminal.
func interruptWhen(t *testing.T, command *exec.Cmd, text string) (output string, code int) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	command.Stdout, command.Stderr = write, write
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = command.Start()
	write.Close()
	if err != nil {
		t.Fatal(err)
	}
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

func has(t *testing.T, output string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(output, text) {
			t.Errorf("the output lacks %q", text)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

var nothingSettled = regexp.MustCompile(`Nothing settled for (\d+\.\d) s`)

// An engine dies in the middle of the demo, nothing is lost, and what passed is deleted.
func TestDemo(t *testing.T) {
	output, code, folder := demo(t, "")
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	has(t, output, "engine-0 is dead", "engine-0 is started again", "caught up", "LOAD PASSED", "AUDIT CLEAN", "load    passed", "audit   passed",
		"data and logs are deleted", "make up", "http://127.0.0.1:8080", filepath.Join(filepath.Dir(folder), "keys"))
	gap := nothingSettled.FindStringSubmatch(output)
	if gap == nil {
		t.Fatal("it does not say how long nothing settled")
	}
	// The engine is away for 5 s. Progress comes every 100 ms.
	if seconds, err := strconv.ParseFloat(gap[1], 64); err != nil || seconds < 4.5 {
		t.Errorf("nothing settled for %s s, while the only engine was away for 5 s", gap[1])
	}
	if strings.Contains(output, "\x1b") {
		t.Error("what is no terminal gets colours")
	}
	aboutKill(t, filepath.Join(folder, "report.html"))
	for _, name := range []string{"data", "logs", "keys"} {
		if exists(filepath.Join(folder, name)) {
			t.Errorf("%s is still there", name)
		}
	}
}

var frozen = regexp.MustCompile(`(?s)<script type="application/json" id="frozen">(.*?)</script>`)

// aboutKill checks that the report of a demo shows the kill and what came of it, and needs nothing else.
func aboutKill(t *testing.T, file string) {
	t.Helper()
	html, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := frozen.FindSubmatch(html)
	if found == nil {
		t.Fatal("the report holds no picture")
	}
	var picture room.Picture
	if err := json.Unmarshal(found[1], &picture); err != nil {
		t.Fatal(err)
	}
	killed := slices.IndexFunc(picture.Story, func(l room.Line) bool { return l.Text == "kill -9 engine-0" })
	if killed < 0 || picture.Story[killed].GapSeconds == nil || *picture.Story[killed].GapSeconds < 4.5 {
		t.Errorf("the report does not tell of the kill and its gap of at least 5 s: %+v", picture.Story)
	}
	if len(picture.Marks) == 0 || picture.Light.Colour == "red" || picture.Light.Checked == 0 {
		t.Errorf("the report has the marks %v and the light %+v", picture.Marks, picture.Light)
	}
	for _, external := range []string{`src="`, `href="http`, "@import"} {
		if strings.Contains(string(html), external) {
			t.Errorf("the report holds %s: it must open offline", external)
		}
	}
}

// A demo that fails keeps what shows why. Here payments settle that must be rejected: the bank that
// should respond too late responds in time.
func TestDemoFails(t *testing.T) {
	output, code, folder := demo(t, "", "--cache-grid=64MiB", "--env", "bank-simulator:SIMULATOR_LATE_DELAY=100ms")
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	has(t, output, "WRONG", "LOAD FAILED", "load    FAILED", "AUDIT CLEAN", filepath.Join(folder, "data"), filepath.Join(folder, "logs"))
	for _, name := range []string{"data", "logs"} {
		if !exists(filepath.Join(folder, name)) {
			t.Errorf("%s is gone", name)
		}
	}
}

func TestDemoInterrupted(t *testing.T) {
	output, code, folder := demo(t, "engine-0 is dead", "--cache-grid=64MiB")
	if code != interruptedExit {
		t.Errorf("exit code %d", code)
	}
	isInterrupted(t, output)
	has(t, output, filepath.Join(folder, "data"))
	if !exists(filepath.Join(folder, "logs", "engine-0.log")) {
		t.Error("the logs are gone")
	}
}

func TestLoadInterrupted(t *testing.T) {
	s := plain.start(t)
	command := exec.CommandContext(t.Context(), filepath.Join(binaries, "loadtest"), "run", "--rate", "100", "--payments", "100000", "--progress", "json")
	command.Env = append(os.Environ(), "KAFKA_BROKERS="+s.KafkaAddress(), "TIGERBEETLE_ADDRESSES="+s.TigerBeetleAddresses())
	output, code := interruptWhen(t, command, `"settled":1`)
	if code != interruptedExit {
		t.Errorf("exit code %d", code)
	}
	isInterrupted(t, output)
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
