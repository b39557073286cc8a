// Package ledgertest runs real TigerBeetle servers for tests and measurements: the ledger's results
// are never assumed.
package ledgertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/liquida/liquida/deploy/child"
	"github.com/liquida/liquida/deploy/tigerbeetle"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/ports"
)

// Server is a TigerBeetle server with a data file and an address of its own.
type Server struct {
	Config ledger.Config // where it is
	PID    int

	bin, log  string
	data      string // the file
	arguments []string
	process   *child.Process
}

// Start runs a server on the data file in dir, which it creates if there is none, and returns when
// the server answers. The server ends with this process. extra are more arguments for it. Its page
// cache is small: the start of a server writes to all of its memory.
func Start(dir string, extra ...string) (*Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // building the server once takes minutes
	defer cancel()

	bin, err := tigerbeetle.Locate(ctx, os.Stderr)
	if err != nil {
		return nil, err
	}

	folder := filepath.Join(dir, "ledger")
	if err := tigerbeetle.FormatCluster(ctx, bin, folder, 1, 0); err != nil {
		return nil, err
	}
	address, data := ports.Free(), tigerbeetle.DataFile(folder, 0)
	s := &Server{
		Config: ledger.Config{Addresses: []string{address}}, bin: bin,
		log: filepath.Join(dir, "tigerbeetle.log"), data: data,
		arguments: slices.Insert(tigerbeetle.StartArguments(data, address, "64MiB", tigerbeetle.LimitGiB), 1, extra...),
	}

	started, err := tigerbeetle.AwaitMemory(ctx, 1, func(why string) { fmt.Fprintln(os.Stderr, why) })
	if err != nil {
		return nil, err
	}
	defer started()

	if err := s.StartAgain(); err != nil {
		return nil, err
	}

	return s, nil
}

// StartAgain starts a stopped server with its data and address, and returns when it answers.
func (s *Server) StartAgain() (err error) {
	if err := tigerbeetle.AwaitRelease(s.data); err != nil {
		return err
	}

	log, err := os.Create(s.log)
	if err != nil {
		return err
	}
	defer log.Close()

	if s.process, err = child.Start(exec.Command(s.bin, s.arguments...), log); err != nil {
		return err
	}
	s.PID = s.process.Pid

	return s.process.Await(context.Background(), "the TigerBeetle server on "+s.Config.Addresses[0], s.log,
		2*time.Minute, tigerbeetle.Answers)
}

// Stop kills the server, as a crash does.
func (s *Server) Stop() { s.process.Stop() }
