// Package child runs servers that never outlive this process, however it ends.
package child

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Server is a running server.
type Server struct {
	PID   int
	Ended chan struct{} // closed when it has ended; its log says why

	log string
}

// Start runs a server that writes to the file log. The kernel kills it when this process ends. Ctrl-C does not
// reach it.
func Start(server *exec.Cmd, log string) (*Server, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	server.Stdout, server.Stderr = file, file
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	s := &Server{Ended: make(chan struct{}), log: log}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()         // to the kernel, the thread that starts a process is its parent
		defer runtime.UnlockOSThread() // else the thread ended here, and with it what others have started on it before
		err := server.Start()
		started <- err
		if err == nil {
			_ = server.Wait()
			close(s.Ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	s.PID = server.Process.Pid
	return s, nil
}

// Await returns when the server answers. answers may look at what the server has logged. A server
// that does not answer in time is stopped.
func (s *Server) Await(ctx context.Context, name string, within time.Duration, answers func(log []byte) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("not within %v", within))
	defer cancel()
	for {
		said, err := os.ReadFile(s.log)
		if err == nil && answers(said) {
			return nil
		}
		select {
		case <-s.Ended:
			said, _ = os.ReadFile(s.log) // to its end
			return fmt.Errorf("%s has ended; it said:\n%s", name, said)
		case <-ctx.Done():
			s.Stop()
			return fmt.Errorf("%s does not answer: %w; it said:\n%s", name, context.Cause(ctx), said)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Stop kills the server, as a crash does, and returns when it has ended.
func (s *Server) Stop() {
	_ = syscall.Kill(-s.PID, syscall.SIGKILL)
	<-s.Ended
}
