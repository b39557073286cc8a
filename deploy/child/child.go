// Package child runs servers that never outlive this process, however it ends.
package child

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Server is a running server.
type Server struct {
	PID   int
	Ended chan struct{} // closed when it has ended; its log says why

	log  string
	hold io.Closer
}

// Start runs a server that writes to the file log. The signal end stops it, at Stop or at the end
// of this process. Ctrl-C does not reach it.
func Start(server *exec.Cmd, log string, end syscall.Signal) (*Server, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	// The shell becomes the server. Before that it starts another shell, which stops the server
	// when standard input closes. The kernel closes it when this process exits or is killed.
	script := fmt.Sprintf(`exec 3<&0; (cat <&3 >/dev/null; kill -%d $$) & exec "$@" </dev/null 3<&-`, end)
	shell := exec.Command("sh", append([]string{"-c", script, "sh"}, server.Args...)...)
	shell.Dir, shell.Stdout, shell.Stderr = server.Dir, file, file
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if server.SysProcAttr != nil {
		shell.SysProcAttr.Credential = server.SysProcAttr.Credential
	}
	s := &Server{Ended: make(chan struct{}), log: log}
	if s.hold, err = shell.StdinPipe(); err != nil {
		return nil, err
	}
	if err := shell.Start(); err != nil {
		return nil, err
	}
	s.PID = shell.Process.Pid
	go func() {
		_ = shell.Wait()
		close(s.Ended)
	}()
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

// stopMax is how long a server may take to stop. Then it is killed.
const stopMax = 30 * time.Second

// Stop ends the server and returns when it has ended.
func (s *Server) Stop() {
	s.hold.Close()
	select {
	case <-s.Ended:
	case <-time.After(stopMax):
		_ = syscall.Kill(-s.PID, syscall.SIGKILL)
		<-s.Ended
	}
}
