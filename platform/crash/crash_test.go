package crash

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

var points = []Point{"before", "after"}

func TestCrashIsOffWithoutSetting(t *testing.T) {
	c, err := Parse("CRASH_AT", "", points)
	if c != nil || err != nil {
		t.Fatalf("got %v, %v", c, err)
	}
	c.Pass("before") // the test would be dead
	c.PassSent("after")
}

func TestCrashRefusesBadSettings(t *testing.T) {
	for _, text := range []string{"before", "before:", "before:0", "before:-1", "before:x", "elsewhere:1", ":1"} {
		if _, err := Parse("CRASH_AT", text, points); err == nil || !strings.Contains(err.Error(), "CRASH_AT") || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: the error %v does not name the variable and the value", text, err)
		}
	}
}

func TestCrashComesAtTheNthPassageOfItsPoint(t *testing.T) {
	c, err := Parse("CRASH_AT", "after:3", points)
	if err != nil {
		t.Fatal(err)
	}
	deaths := make(chan int, 10)
	passages := 0
	c.die = func() { deaths <- passages }
	for range 5 {
		c.Pass("before")
		passages++
		c.Pass("after")
	}
	if len(deaths) != 1 || <-deaths != 3 {
		t.Errorf("it did not die exactly once, at the third passage")
	}

	if c, err = Parse("CRASH_AT", "after:1", points); err != nil {
		t.Fatal(err)
	}
	c.die = func() { deaths <- 0 }
	c.PassSent("after")
	select {
	case <-deaths:
	case <-time.After(10 * time.Second):
		t.Error("it did not die after something was sent")
	}
}

// A death is by SIGKILL: nothing of the program runs after it.
func TestCrashIsAPowerCut(t *testing.T) {
	if os.Getenv("CRASH_TEST_DIES") != "" {
		defer os.Stdout.WriteString("a deferred call ran")
		c, _ := Parse("CRASH_AT", "before:1", points)
		c.Pass("before")
		os.Stdout.WriteString("the program went on")
		return
	}
	child := exec.Command(os.Args[0], "-test.run=^TestCrashIsAPowerCut$")
	child.Env = append(os.Environ(), "CRASH_TEST_DIES=1")
	output, err := child.Output()
	exit := new(exec.ExitError)
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v, not by SIGKILL", err)
	}
	if len(output) != 0 {
		t.Errorf("it had last words: %s", output)
	}
}
