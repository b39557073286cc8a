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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/liquida/liquida/deploy/child"
	"github.com/liquida/liquida/deploy/tigerbeetle"
	"github.com/liquida/liquida/platform/host"
)

const (
	pollEvery = 50 * time.Millisecond
	killed    = 30 * time.Second // for a process to be gone after SIGKILL: its disk may be slow
)

// process is one process of the stack. It may run many times.
type process struct {
	name    string
	logPath string

	mu   sync.Mutex
	spec spec
	run  *run // the latest, nil before the first
}

// run is one life of a process.
type run struct {
	*child.Process
	began    time.Time
	logFrom  int64       // where the log of this run begins
	env      []string    // of its spec
	asked    atomic.Bool // its end was asked for
	wasReady atomic.Bool
}

func (r *run) dead() bool { return closed(r.Ended) }

func closed(channel <-chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

// died waits until the run has ended, for at most the given time.
func (r *run) died(ctx context.Context, within time.Duration) bool {
	select {
	case <-r.Ended:
	case <-ctx.Done():
	case <-time.After(within):
	}

	return r.dead()
}

// howEnded is like "killed by signal 9 at 2026-11-23 12:03:10 UTC".
func (r *run) howEnded() string {
	how := fmt.Sprintf("exited with code %d", r.How.ExitCode())
	if status, ok := r.How.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		how = fmt.Sprintf("killed by signal %d", status.Signal())
	}

	return how + " at " + r.At.UTC().Format("2006-01-02 15:04:05 UTC")
}

func (p *process) current() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run
}

// program returns what the process runs.
func (p *process) program() spec {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spec
}

func (p *process) running() bool {
	r := p.current()
	return r != nil && !r.dead()
}

// start begins a new run, with additional environment variables for this run only.
func (p *process) start(env ...string) error {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.run != nil && !p.run.dead() {
		return fmt.Errorf("%s is already running with pid %d", p.name, p.run.Pid)
	}

	if p.spec.ledger != "" {
		if err := tigerbeetle.AwaitRelease(p.spec.ledger); err != nil {
			return fmt.Errorf("cannot start %s: %w", p.name, err)
		}
	}
	// the room prints its URL with the token
	log, err := os.OpenFile(p.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("cannot log %s: %w", p.name, err)
	}
	defer log.Close() // the child has its own

	r := &run{began: time.Now(), env: p.spec.env}
	if r.logFrom, err = log.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	program := exec.Command(p.spec.command[0], p.spec.command[1:]...)
	program.Dir = filepath.Dir(filepath.Dir(p.logPath)) // the stack's folder, not the caller's

	program.Env = slices.Concat(os.Environ(), p.spec.env, env)
	if r.Process, err = child.Start(program, log); err != nil {
		return fmt.Errorf("cannot start %s: %w", p.name, err)
	}
	p.run = r

	return nil
}

// stop sends SIGTERM, and SIGKILL after the given time. It does nothing if the process does not run.
func (p *process) stop(ctx context.Context, within time.Duration) error {
	r := p.current()
	if r == nil || r.dead() {
		return nil
	}
	r.asked.Store(true)
	_ = r.Signal(syscall.SIGTERM) // an error means that it has just ended

	_ = r.Signal(syscall.SIGCONT) // a paused process handles SIGTERM only after it resumes
	if r.died(ctx, within) {
		return nil
	}

	if err := p.kill(); err != nil {
		return err
	}

	if ctx.Err() != nil {
		return fmt.Errorf("%s was killed, there was no time left for an orderly stop: %w", p.name, context.Cause(ctx))
	}

	return fmt.Errorf("%s was killed, it had not ended %v after SIGTERM; the end of %s:\n%s",
		p.name, within, p.logPath, p.logEnd(logEndLines))
}

func (p *process) kill() error {
	r := p.current()
	if r != nil {
		r.asked.Store(true) // before its end, which would be a crash
	}

	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}

	return p.gone(context.Background(), r)
}

// gone waits for the end of a killed run.
func (p *process) gone(ctx context.Context, r *run) error {
	if !r.died(ctx, killed) {
		return fmt.Errorf("%s (pid %d) is still there %v after SIGKILL", p.name, r.Pid, killed)
	}

	return nil
}

// awaitDying waits for the end of a process that is dying. It would look ready, and may hold its ports and files, for a
// second or more after a kill.
func (p *process) awaitDying(ctx context.Context) error {
	if r := p.current(); r != nil && !r.dead() && look(r.Pid).dying {
		return p.gone(ctx, r)
	}

	return nil
}

func (p *process) signal(signal os.Signal) error {
	r := p.current()
	if r == nil || r.dead() {
		return fmt.Errorf("cannot signal %s: it is not running", p.name)
	}

	if err := r.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("cannot send %v to %s (pid %d): %w", signal, p.name, r.Pid, err)
	}

	return nil
}

// ready returns why the process is not ready, or nil when it is.
func (p *process) ready(ctx context.Context) error {
	r, program := p.current(), p.program()
	switch {
	case r == nil:
		return fmt.Errorf("%s was never started", p.name)
	case program.oneShot && !r.dead():
		return errors.New("still working")
	case program.oneShot && r.Err == nil:
		return nil
	case r.dead():
		return fmt.Errorf("not running (%v)", r.How)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()

	err := program.ready(ctx, p)
	if err == nil {
		r.wasReady.Store(true)
	}

	return err
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

		switch {
		case r == nil:
			return why
		case dead && r.asked.Load():
			return fmt.Errorf("%s is not running: it was stopped or killed", p.name)
		case dead:
			return fmt.Errorf("%s ended before it was ready: %w; the end of %s:\n%s", p.name, why, p.logPath,
				p.logEnd(logEndLines))
		case !host.Sleep(ctx, pollEvery):
			return fmt.Errorf("%s: %w: %w; the end of %s:\n%s", p.name, context.Cause(ctx), why, p.logPath,
				p.logEnd(logEndLines))
		}
	}
}

// logged returns what the current run has logged.
func (p *process) logged() ([]byte, error) {
	r := p.current()

	log, err := os.Open(p.logPath)
	if err != nil || r == nil {
		return nil, err
	}
	defer log.Close()

	return io.ReadAll(io.NewSectionReader(log, r.logFrom, 1<<62))
}

// logEndLines are shown in an error.
const logEndLines = 15

// logEnd returns the last lines of the current run's log.
func (p *process) logEnd(lines int) string {
	text, err := p.logged()
	if err != nil {
		return err.Error()
	}

	if text = bytes.TrimSpace(text); len(text) == 0 {
		return "  (it logged nothing)"
	}
	all := strings.Split(string(text), "\n")

	return "  " + strings.Join(all[max(0, len(all)-lines):], "\n  ")
}
