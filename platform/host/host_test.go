package host

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// A death is by SIGKILL: nothing of the program runs after it.
func TestDeathIsAPowerCut(t *testing.T) {
	if os.Getenv("HOST_TEST_DIES") != "" {
		defer os.Stdout.WriteString("a deferred call ran")
		System().Die()
		os.Stdout.WriteString("the program went on")

		return
	}
	child := exec.Command(os.Args[0], "-test.run=^TestDeathIsAPowerCut$")
	child.Env = append(os.Environ(), "HOST_TEST_DIES=1")
	output, err := child.Output()

	exit := new(exec.ExitError)
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v, not by SIGKILL", err)
	}

	if len(output) != 0 {
		t.Errorf("it had last words: %s", output)
	}
}

// Whoever waits for the next of an interval wakes with all others that do, and never waits for longer than it.
func TestNextIsAWholeInterval(t *testing.T) {
	for _, interval := range []time.Duration{time.Millisecond, 300 * time.Millisecond, time.Second, 5 * time.Second} {
		for range 100 {
			before := time.Now().UnixNano()
			wait := Next(interval)
			after := time.Now().UnixNano()

			whole := (after + int64(wait)) / int64(interval) * int64(interval)
			if wait <= 0 || wait > interval || whole < before+int64(wait) {
				t.Fatalf("Next(%v) is %v at %d", interval, wait, before)
			}
		}
	}
}
