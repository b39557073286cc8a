// Package child runs programs that never outlive this process, however it ends.
package child

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a running program.
type Process struct {
	*os.Process
	Ended chan struct{} // closed when it has ended
	Err   error         // how it ended, once Ended is closed
	How   *os.ProcessState
	At    time.Time // when it ended
}

// Start runs a program that writes to log. The kernel kills it when this process ends. Ctrl-C does not
// reach it.
func Start(program *exec.Cmd, log *os.File) (*Process, error) {
	program.Stdout, program.Stderr = log, log
	program.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p := &Process{Ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()         // to the kernel, the thread that starts a process is its parent
		defer runtime.UnlockOSThread() // else the thread ended here, and with it what others have started on it before
		err := program.Start()
		started <- err

		if err == nil {
			p.Err = program.Wait()
			p.How, p.At = program.ProcessState, time.Now()
			close(p.Ended)
		}
	}()

	if err := <-started; err != nil {
		return nil, err
	}
	p.Process = program.Process

	return p, nil
}

// Await returns when the program answers. answers may look at what it has logged since its start. A program
// that does not answer in time is stopped.
func (p *Process) Await(ctx context.Context, name, log string, within time.Duration,
	answers func(log []byte) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("not within %v", within))
	defer cancel()

	for {
		said, err := os.ReadFile(log)
		if err == nil && answers(said) {
			return nil
		}

		select {
		case <-p.Ended:
			said, _ = os.ReadFile(log) // to its end
			return fmt.Errorf("%s has ended; it said:\n%s", name, said)
		case <-ctx.Done():
			p.Stop()
			return fmt.Errorf("%s does not answer: %w; it said:\n%s", name, context.Cause(ctx), bytes.TrimSpace(said))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Stop kills the program, as a crash does, and returns when it has ended.
func (p *Process) Stop() {
	_ = p.Kill()
	<-p.Ended
}
