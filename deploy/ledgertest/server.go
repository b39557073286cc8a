// Package ledgertest starts real TigerBeetle servers for tests: what the ledger answers is
// never assumed.
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

// Server is a running TigerBeetle server with a data file of its own.
type Server struct {
	Config ledger.Config // where it is
	PID    int

	process *exec.Cmd
	hold    io.Closer
	ended   chan struct{}
}

// Start runs a server on the data file in dir, made when it is not there, and returns when
// it answers. It never outlives the test's process. extra are more arguments of the server.
func Start(dir string, extra ...string) (*Server, error) { return StartCached(dir, "128MiB", extra...) }

// StartCached is Start with another size of the server's page cache.
func StartCached(dir, cacheGrid string, extra ...string) (*Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // building a server once takes minutes
	defer cancel()
	bin, err := tigerbeetle.Locate(ctx, os.Stderr)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "0_0.tigerbeetle")
	if err := tigerbeetle.Format(ctx, bin, file); err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "tigerbeetle.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	arguments := slices.Insert(tigerbeetle.StartArguments(file, address, cacheGrid), 1, extra...)
	// The shell becomes the server, and leaves one behind that kills it when the standard
	// input ends, which the kernel ends with the test's process, whatever ends that.
	s := &Server{
		Config:  ledger.Config{Addresses: []string{address}},
		process: exec.Command("sh", append([]string{"-c", `exec 3<&0; (cat <&3 >/dev/null; kill -9 $$) & exec "$@"`, "sh", bin}, arguments...)...),
		ended:   make(chan struct{}),
	}
	s.process.Stdout, s.process.Stderr = log, log
	if s.hold, err = s.process.StdinPipe(); err != nil {
		return nil, err
	}
	if err := s.process.Start(); err != nil {
		return nil, err
	}
	s.PID = s.process.Process.Pid
	go func() {
		_ = s.process.Wait() // how it ends is in the log
		close(s.ended)
	}()
	deadline := time.After(time.Minute)
	for {
		said, err := os.ReadFile(log.Name())
		if err == nil && tigerbeetle.Answers(said) {
			return s, nil
		}
		select {
		case <-s.ended:
			return nil, fmt.Errorf("the TigerBeetle server on %s has ended; it said:\n%s", address, said)
		case <-deadline:
			s.Stop()
			return nil, fmt.Errorf("the TigerBeetle server on %s does not answer after a minute; it said:\n%s", address, said)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Stop kills the server: a crash, from which a server started in the same folder recovers.
func (s *Server) Stop() {
	s.hold.Close()
	<-s.ended
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
