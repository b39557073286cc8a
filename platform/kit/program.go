package kit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/liquida/liquida/platform/ports"
	"github.com/liquida/liquida/platform/settings"
)

// asProgram makes a test binary run the program that it tests.
const asProgram = "KIT_AS_PROGRAM"

// programsAtOnce is how many parallel tests of a program run side by side.
const programsAtOnce = 8

// Main is what a package's TestMain calls. In a process that Start or Run started it runs
// the program's main, else the tests.
func Main(m *testing.M, program func()) {
	if os.Getenv(asProgram) != "" {
		program()
		return
	}
	AtOnce(programsAtOnce)
	os.Exit(m.Run())
}

// Program is a running service: the program under test, in a process of its own.
type Program struct {
	Telemetry, HTTP string // addresses
	Process         *exec.Cmd
	Exited          chan struct{} // closed when it has exited

	t   testing.TB
	log log
}

// Start starts the program under test, with more environment variables. The kernel kills
// it when the test's process ends, whatever ends that.
func Start(t testing.TB, env ...string) *Program {
	t.Helper()
	p := &Program{t: t, Telemetry: ports.Free(), HTTP: ports.Free(), Exited: make(chan struct{}), log: log{t: t}}
	p.Process = exec.Command(os.Args[0])
	p.Process.Env = append(append(os.Environ(), asProgram+"=1", "TELEMETRY_ADDRESS="+p.Telemetry,
		"HTTP_ADDRESS="+p.HTTP), env...)
	p.Process.Stdout, p.Process.Stderr = &p.log, &p.log

	p.Process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.Process.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.Exited)
		_ = p.Process.Wait()
	}()
	t.Cleanup(func() { p.End(syscall.SIGKILL) })

	return p
}

// End sends a signal and waits until the program has exited.
func (p *Program) End(signal syscall.Signal) {
	_ = p.Process.Process.Signal(signal)
	<-p.Exited
}

// ExitCode returns the exit code of a program that has exited; -1 after a signal.
func (p *Program) ExitCode() int { return p.Process.ProcessState.ExitCode() }

// Log returns what the program has logged.
func (p *Program) Log() string { return p.log.text() }

// Problems returns what keeps the program from being ready, by need. A program that does
// not answer has the problem "telemetry".
func (p *Program) Problems() map[string]string {
	response, err := http.Get("http://" + p.Telemetry + "/readyz")
	if err != nil {
		return map[string]string{"telemetry": err.Error()}
	}
	defer response.Body.Close()

	var health struct{ Problems map[string]string }
	if err := json.NewDecoder(response.Body).Decode(&health); err != nil {
		return map[string]string{"telemetry": err.Error()}
	}

	return health.Problems
}

// AwaitReady waits until the program is ready.
func (p *Program) AwaitReady() {
	p.t.Helper()
	Await(p.t, "the program to be ready", func() (bool, string) {
		problems := p.Problems()
		return len(problems) == 0, fmt.Sprint(problems)
	})
}

// AwaitNeed waits until the program runs and a need is met or, with missed, is not.
func (p *Program) AwaitNeed(need string, missed bool) {
	p.t.Helper()
	Await(p.t, fmt.Sprintf("the need %s, missed: %v", need, missed), func() (bool, string) {
		problems := p.Problems()
		if problems["telemetry"] != "" || problems["running"] != "" {
			return false, fmt.Sprint(problems)
		}
		problem := problems[need]

		return (problem != "" && problem != "not reached yet") == missed && (missed || problem == ""),
			fmt.Sprint(problems)
	})
}

// log sends what a program logs to the test, and keeps it.
type log struct {
	t testing.TB

	mu   sync.Mutex
	said bytes.Buffer
}

func (l *log) Write(text []byte) (int, error) {
	l.t.Log("program: " + strings.TrimRight(string(text), "\n"))
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.said.Write(text)
}

func (l *log) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said.String()
}

// Output is what a program wrote until it exited.
type Output struct {
	Out, Err string
	Code     int // exit code
}

// Run runs the program under test until it exits, with more environment variables.
func Run(t testing.TB, env []string, arguments ...string) Output {
	t.Helper()
	return RunCommand(t, append(env, asProgram+"=1"), os.Args[0], arguments...)
}

// HelpFits checks that no line of the program's help texts, those of its commands included, is wider
// than a terminal that shows it whole. It returns the number of texts.
func HelpFits(t testing.TB, command ...string) (texts int) {
	t.Helper()

	help := Run(t, nil, append(slices.Clone(command), "--help")...).Is(t, 0)
	for line := range strings.Lines(help.Out) {
		if columns := utf8.RuneCountInString(strings.TrimRight(line, "\n")); columns > settings.Columns {
			t.Errorf("%s --help has a line of %d columns: %s", strings.Join(command, " "), columns, line)
		}
	}
	_, list, _ := strings.Cut(help.Out, "\nAvailable Commands:\n")

	list, _, _ = strings.Cut(list, "\n\n")
	for line := range strings.Lines(list) {
		if name := strings.Fields(line)[0]; name != "help" {
			texts += HelpFits(t, append(slices.Clone(command), name)...)
		}
	}

	return texts + 1
}

// RunCommand runs any program until it exits, with more environment variables.
func RunCommand(t testing.TB, env []string, program string, arguments ...string) Output {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, program, arguments...)
	command.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer

	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	o := Output{out.String(), errs.String(), command.ProcessState.ExitCode()}
	t.Logf("%s: %d\n%s%s", strings.Join(arguments, " "), o.Code, o.Out, o.Err)

	return o
}

// Is checks the exit code, and that the output holds these texts.
func (o Output) Is(t testing.TB, code int, holds ...string) Output {
	t.Helper()

	if o.Code != code {
		t.Errorf("exit code %d, not %d: %s%s", o.Code, code, o.Out, o.Err)
	}

	for _, text := range holds {
		if !strings.Contains(o.Out+o.Err, text) {
			t.Errorf("%q is missing: %s%s", text, o.Out, o.Err)
		}
	}

	return o
}
