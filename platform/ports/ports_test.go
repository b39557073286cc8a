package ports

import (
	"context"
	"net"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// A port stays with its process while the server there is down: another process must not take it.
func TestTwoProcessesNeverPickOnePort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ports") // not the machine's: this test may run twice at once

	one, other := newTable(path), newTable(path) // the locks of two open files, as of two processes
	if !one.reserve(1) || other.reserve(1) || one.reserve(1) {
		t.Error("a port was picked twice")
	}

	if !one.reserve(2) || !other.reserve(3) {
		t.Error("a port that nobody has cannot be had")
	}
}

func TestAPortIsFreeAndPickedOnce(t *testing.T) {
	seen := map[string]bool{}

	for range 200 {
		address := Free()
		if seen[address] {
			t.Errorf("%s was picked twice", address)
		}
		seen[address] = true

		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Error(err)
			continue
		}
		listener.Close()
	}
}

// A program that this process starts has a copy of its open sockets for a moment.
func TestAPortIsFreeWhileProgramsStart(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())

	var starting sync.WaitGroup
	for range 4 {
		starting.Go(func() {
			for ctx.Err() == nil {
				if err := exec.Command("true").Run(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}

	for range 300 {
		listener, err := net.Listen("tcp", Free())
		if err != nil {
			t.Error(err)
			continue
		}
		listener.Close()
	}
	stop()
	starting.Wait()
}
