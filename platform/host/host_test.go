package host

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
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
