package child

import (
	"os"
	"os/exec"
	"testing"

	"github.com/liquida/liquida/platform/kit"
)

// The kernel kills a child with the thread that started it, and any thread may have started something before a
// server's.
func TestNoThreadEndsWithItsServer(t *testing.T) {
	threads := func() map[string]bool {
		entries, err := os.ReadDir("/proc/self/task")
		kit.Must(t, err)

		all := map[string]bool{}
		for _, entry := range entries {
			all[entry.Name()] = true
		}

		return all
	}
	var servers []*Process

	for range 8 {
		s, err := Start(exec.Command("sleep", "1000"), nil)
		kit.Must(t, err)
		servers = append(servers, s)
	}
	before := threads()

	for _, s := range servers {
		s.Stop()
	}
	// To end takes a moment; so does this.
	s, err := Start(exec.Command("true"), nil)
	kit.Must(t, err)
	<-s.Ended

	after := threads()
	for thread := range before {
		if !after[thread] {
			t.Errorf("thread %s has ended", thread)
		}
	}
}
