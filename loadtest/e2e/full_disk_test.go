package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liquida/liquida/deploy/stack"
)

// The broker's disk is full in the middle of a load. The broker stops by itself and says why.
// When there is room again, every acknowledged payment ends.
func TestBrokerDiskFull(t *testing.T) {
	s := start(t, 1)
	s.must(s.Kill(stack.Broker))
	stopped, err := s.StartToDie(stack.Broker)
	s.must(err)
	s.ready(stack.Broker, stack.EngineName(0))
	load := s.load(400, 4000, duringFaults...)
	load.progress(400)
	s.must(limitFiles(s.PID(stack.Broker), 64<<10)) // much more than its log, and less than a topic
	select {
	case <-stopped:
	case <-time.After(time.Minute):
		t.Fatal("the broker goes on with a full disk")
	}
	log, err := os.ReadFile(s.Log(stack.Broker))
	s.must(err)
	data := filepath.Join(filepath.Dir(filepath.Dir(s.Log(stack.Broker))), "data")
	if !strings.Contains(strings.ToLower(string(log)), "file too large") || !strings.Contains(string(log), data) {
		t.Errorf("the broker did not say that its disk in %s is full:\n%s", data, log)
	}
	s.bring(stack.Broker, stack.EngineName(0))
	load.proven()
}

// limitFiles makes the disk look full to a process until it ends: none of its files, its log
// included, can grow past so many bytes. It needs no privileges.
func limitFiles(pid int, bytes uint64) error {
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &limit); err != nil {
		return err
	}
	limit.Cur = min(bytes, limit.Max)
	return unix.Prlimit(pid, unix.RLIMIT_FSIZE, &limit, nil)
}
