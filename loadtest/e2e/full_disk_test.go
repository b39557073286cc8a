package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/deploy/stack"
)

// The broker's disk is full in the middle of a load: the broker stops by itself, and says
// why. When there is room again every payment that it had acknowledged ends.
func TestBrokerDiskFull(t *testing.T) {
	s := start(t, 1)
	s.must(s.Kill(stack.Broker))
	stopped, err := s.StartToDie(stack.Broker)
	s.must(err)
	s.ready(stack.Broker, stack.EngineName(0))
	load := s.load(500, 10_000, duringFaults...)
	time.Sleep(4 * time.Second)
	err = s.LimitFiles(stack.Broker, 64<<10) // much more than its log, and less than a topic
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	s.must(err)
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
	s.must(s.StartProcess(stack.Broker))
	s.ready(stack.Broker, stack.EngineName(0))
	s.settledAtLeast(load.wait(), 0.4)
	s.audit()
}
