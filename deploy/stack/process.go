package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/liquida/liquida/deploy/tigerbeetle"
	"github.com/liquida/liquida/platform/host"
)

const (
	pauseSignal  = syscall.SIGSTOP
	resumeSignal = syscall.SIGCONT

	pollEvery = 50 * time.Millisecond
	killed    = 30 * time.Second // for a process to be gone after SIGKILL: its disk may be slow
)

// process is one process of the stack. It may run many times.
type process struct {
	spec    spec
	logPath string
	endPath string // where keep leaves how a run in the background ended
	// comesBack: start it again after a crash.
	comesBack bool

	mu       sync.Mutex
	run      *run // the latest, nil before the first
	failures int  // crashes in a row
}

// run is one life of a process.
type run struct {
	pid     int
	started string // start time; a later process with the same pid has another
	began   time.Time
	logFrom int64    // where the log of this run begins
	adopted bool     // started by an earlier call of Up
	env     []string // of its spec; nil: not known

	exited chan struct{} // closed after err is set; nil for an adopted run, which is not our child
	err    error
	asked  atomic.Bool // its end was asked for
}

func (r *run) dead() bool {
	if r.exited == nil {
		return gone(r.pid, r.started)
	}
	select {
	case <-r.exited:
		return true
	default:
		return false
	}
}

// died waits until the run has ended, for at most the given time.
func (r *run) died(ctx context.Context, within time.Duration) bool {
	for deadline := time.Now().Add(within); !r.dead(); {
		if time.Now().After(deadline) || ctx.Err() != nil {
			return false
		}
		host.Sleep(ctx, pollEvery)
	}
	return true
}

func (p *process) current() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run
}

func (p *process) running() bool {
	r := p.current()
	return r != nil && !r.dead()
}

func (p *process) adopted() bool {
	r := p.current()
	return r != nil && r.adopted
}

// start begins a new run, with additional environment variables for this run only.
func (p *process) start(l *launcher, detached bool, env ...string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != nil && !p.run.dead() {
		return fmt.Errorf("%s is already running with pid %d", p.spec.name, p.run.pid)
	}
	if p.spec.ledger != "" {
		if err := tigerbeetle.AwaitRelease(p.spec.ledger); err != nil {
			return fmt.Errorf("cannot start %s: %w", p.spec.name, err)
		}
	}
	log, err := os.OpenFile(p.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		err = log.Chmod(0o600) // also of an earlier version's: the room prints its URL with the token
	}
	if err != nil {
		return fmt.Errorf("cannot log %s: %w", p.spec.name, err)
	}
	defer log.Close() // the child has its own
	r := &run{began: time.Now(), env: p.spec.env, exited: make(chan struct{})}
	if r.logFrom, err = log.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	cmd := exec.Command(p.spec.path, p.spec.arguments...)
	cmd.Dir = filepath.Dir(filepath.Dir(p.logPath)) // the stack's folder, not the caller's
	cmd.Env = slices.Concat(os.Environ(), p.spec.env, env)
	cmd.SysProcAttr = attributes(detached)
	pid := func() (int, error) { return cmd.Process.Pid, nil }
	if detached {
		if pid, err = keep(cmd, p.endPath); err != nil {
			return fmt.Errorf("cannot start %s: %w", p.spec.name, err)
		}
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := l.start(cmd, p.spec.cores); err != nil {
		return fmt.Errorf("cannot start %s: %w", p.spec.name, err)
	}
	if r.pid, err = pid(); err != nil {
		return fmt.Errorf("cannot start %s: %w", p.spec.name, errors.Join(err, cmd.Wait()))
	}
	r.started, _ = startTime(r.pid) // no start time means that it has already ended
	p.run = r
	go func() {
		r.err = cmd.Wait()
		if !detached {
			leaveEnd(p.endPath, cmd.ProcessState)
		}
		close(r.exited)
	}()
	return nil
}

// stop sends SIGTERM, and SIGKILL after the given time. It does nothing if the process does not run.
func (p *process) stop(ctx context.Context, within time.Duration) error {
	r := p.current()
	if r == nil || r.dead() {
		return nil
	}
	r.asked.Store(true)
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	_ = p.signal(resumeSignal) // a paused process handles SIGTERM only after it resumes
	if r.died(ctx, within) {
		return nil
	}
	if err := p.kill(); err != nil {
		if r.dead() { // just now
			return nil
		}
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s was killed, there was no time left for an orderly stop: %w", p.spec.name, context.Cause(ctx))
	}
	return fmt.Errorf("%s was killed, it had not ended %v after SIGTERM; the end of %s:\n%s", p.spec.name, within, p.logPath, p.logEnd())
}

func (p *process) kill() error {
	r := p.current()
	if r == nil {
		return fmt.Errorf("cannot kill %s: it was never started", p.spec.name)
	}
	if r.dead() {
		return fmt.Errorf("cannot kill %s: it is not running", p.spec.name)
	}
	r.asked.Store(true)
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	if !r.died(context.Background(), killed) {
		return fmt.Errorf("%s (pid %d) is still there %v after SIGKILL", p.spec.name, r.pid, killed)
	}
	return nil
}

// signal checks the start time after it has a handle, so it cannot reach a later process with the
// same pid.
func (p *process) signal(signal os.Signal) error {
	r := p.current()
	if r == nil || r.dead() {
		return fmt.Errorf("cannot send %v to %s: it is not running", signal, p.spec.name)
	}
	handle, err := os.FindProcess(r.pid)
	if err == nil {
		defer func() { _ = handle.Release() }()
		if now, startErr := startTime(r.pid); startErr == nil && now == r.started {
			err = handle.Signal(signal)
		}
	}
	if err != nil && !r.dead() {
		return fmt.Errorf("cannot send %v to %s (pid %d): %w", signal, p.spec.name, r.pid, err)
	}
	return nil
}

// ready returns why the process is not ready, or nil when it is.
func (p *process) ready(ctx context.Context) error {
	r := p.current()
	switch {
	case r == nil:
		return fmt.Errorf("%s was never started", p.spec.name)
	case p.spec.oneShot && r.dead() && r.err == nil:
		return nil
	case p.spec.oneShot && !r.dead():
		return fmt.Errorf("still working")
	case r.dead() && r.err != nil:
		return fmt.Errorf("not running (%w)", r.err)
	case r.exited == nil && !alive(r.pid, r.started): // also while it dies
		return errors.New(howEnded(p.endPath))
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return p.spec.ready(ctx, p)
}

func (p *process) waitReady(ctx context.Context) error {
	var why error
	for {
		r := p.current()
		dead := r != nil && r.dead() // asked first: what ends during the question tells how in the next round
		now := p.ready(ctx)
		if now == nil {
			return nil
		}
		if why == nil || ctx.Err() == nil { // a question that the end of ctx has cut off says nothing
			why = now
		}
		if r == nil {
			return why
		}
		if dead && r.asked.Load() {
			return fmt.Errorf("%s is not running: it was stopped or killed", p.spec.name)
		}
		if dead && !p.comesBack {
			return fmt.Errorf("%s ended before it was ready: %w; the end of %s:\n%s", p.spec.name, why, p.logPath, p.logEnd())
		}
		if !host.Sleep(ctx, pollEvery) {
			return fmt.Errorf("%s: %w: %w; the end of %s:\n%s", p.spec.name, context.Cause(ctx), why, p.logPath, p.logEnd())
		}
	}
}

// pauseBeforeRestart grows with each crash in a row. A run that lasted for a while resets it.
func (p *process) pauseBeforeRestart(r *run) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(r.began) > 30*time.Second {
		p.failures = 0
	}
	p.failures++
	return min(250*time.Millisecond<<min(p.failures, 6), 10*time.Second)
}

// logged returns what the current run has logged.
func (p *process) logged() ([]byte, error) {
	r := p.current()
	log, err := os.Open(p.logPath)
	if err != nil || r == nil {
		return nil, err
	}
	defer log.Close()
	if _, err := log.Seek(r.logFrom, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(log)
}

// logEnd returns the last lines of the current run's log, for an error message.
func (p *process) logEnd() string {
	text, err := p.logged()
	if err != nil {
		return err.Error()
	}
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return "  (it logged nothing)"
	}
	lines := strings.Split(string(text), "\n")
	return "  " + strings.Join(lines[max(0, len(lines)-15):], "\n  ")
}

const lastWordsMax = 300

// lastWords returns the last line of the current run's log, as it follows a sentence.
func (p *process) lastWords() string {
	text, err := p.logged()
	text = bytes.TrimSpace(text)
	if err != nil || len(text) == 0 {
		return ""
	}
	line := text[bytes.LastIndexByte(text, '\n')+1:]
	if len(line) > lastWordsMax {
		line = append(line[:lastWordsMax:lastWordsMax], "…"...)
	}
	return "; it said last: " + string(line)
}

// launcher starts processes from one thread that never ends. Linux sends the parent-death
// signal when the thread that started a child ends, and Go may end any other thread.
type launcher struct {
	commands chan launch
	closed   chan struct{}
	once     sync.Once
}

type launch struct {
	cmd    *exec.Cmd
	cores  *cores // nil: all
	result chan error
}

func newLauncher() *launcher {
	l := &launcher{commands: make(chan launch), closed: make(chan struct{})}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for {
			select {
			case launch := <-l.commands:
				err := confineThread(launch.cores)
				if err == nil {
					err = launch.cmd.Start()
				}
				launch.result <- err
			case <-l.closed:
				return
			}
		}
	}()
	return l
}

func (l *launcher) start(cmd *exec.Cmd, cores *cores) error {
	launch := launch{cmd, cores, make(chan error, 1)}
	select {
	case l.commands <- launch:
		return <-launch.result
	case <-l.closed:
		return fmt.Errorf("the stack is stopped")
	}
}

func (l *launcher) close() { l.once.Do(func() { close(l.closed) }) }
