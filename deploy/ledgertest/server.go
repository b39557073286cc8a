// Package ledgertest runs real TigerBeetle servers for tests and measurements: the ledger's results
// are never assumed.
package ledgertest

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/liquida/liquida/deploy/tigerbeetle"
	"github.com/liquida/liquida/platform/ledger"
)

// Server is a TigerBeetle server with a data file and an address of its own.
type Server struct {
	Config ledger.Config // where it is
	PID    int

	bin, log  string
	arguments []string
	hold      io.Closer
	ended     chan struct{}
}

// Start runs a server on the data file in dir, which it creates if there is none, and returns when
// the server answers. The server ends with this process. extra are more arguments for it.
func Start(dir string, extra ...string) (*Server, error) { return StartCached(dir, "128MiB", extra...) }

// StartCached is Start with another size of the server's page cache.
func StartCached(dir, cacheGrid string, extra ...string) (*Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // building the server once takes minutes
	defer cancel()
	bin, err := tigerbeetle.Locate(ctx, os.Stderr)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "ledger")
	if err := tigerbeetle.FormatCluster(ctx, bin, data, 1, 0); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") // to learn a free port
	if err != nil {
		return nil, err
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return nil, err
	}
	s := &Server{
		Config: ledger.Config{Addresses: []string{address}}, bin: bin, log: filepath.Join(dir, "tigerbeetle.log"),
		arguments: slices.Insert(tigerbeetle.StartArguments(tigerbeetle.DataFile(data, 0), address, cacheGrid), 1, extra...),
	}
	if err := s.StartAgain(); err != nil {
		return nil, err
	}
	return s, nil
}

// StartAgain starts a stopped server with its data and address, and returns when it answers.
func (s *Server) StartAgain() error {
	log, err := os.Create(s.log)
	if err != nil {
		return err
	}
	defer log.Close()
	// The shell becomes the server. Before that it starts another shell, which kills the server
	// when standard input closes. The kernel closes it when this process exits or is killed.
	process := exec.Command("sh", append([]string{"-c", `exec 3<&0; (cat <&3 >/dev/null; kill -9 $$) & exec "$@"`, "sh", s.bin}, s.arguments...)...)
	process.Stdout, process.Stderr = log, log
	if s.hold, err = process.StdinPipe(); err != nil {
		return err
	}
	if err := process.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	s.PID, s.ended = process.Process.Pid, ended
	go func() {
		_ = process.Wait() // how it ends is in the log
		close(ended)
	}()
	address, deadline := s.Config.Addresses[0], time.After(time.Minute)
	for {
		said, err := os.ReadFile(s.log)
		if err == nil && tigerbeetle.Answers(said) {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("the TigerBeetle server on %s has ended; it said:\n%s", address, said)
		case <-deadline:
			s.Stop()
			return fmt.Errorf("the TigerBeetle server on %s does not answer after a minute; it said:\n%s", address, said)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Stop kills the server, as a crash does.
func (s *Server) Stop() {
	s.hold.Close()
	<-s.ended
}
