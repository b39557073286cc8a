package crash

import (
	"strings"
	"testing"
	"time"
)

var points = []Point{"before", "after"}

func TestCrashIsOffWithoutSetting(t *testing.T) {
	c, err := Parse("CRASH_AT", "", points, nil)
	if c != nil || err != nil {
		t.Fatalf("got %v, %v", c, err)
	}
	c.Pass("before") // the test would be dead
	c.PassSent("after")
}

func TestCrashRefusesBadSettings(t *testing.T) {
	for _, text := range []string{"before", "before:", "before:0", "before:-1", "before:x", "elsewhere:1", ":1"} {
		if _, err := Parse("CRASH_AT", text, points, nil); err == nil || !strings.Contains(err.Error(), "CRASH_AT") ||
			!strings.Contains(err.Error(), text) {
			t.Errorf("%q: the error %v does not name the variable and the value", text, err)
		}
	}
}

func TestCrashComesAtTheNthPassageOfItsPoint(t *testing.T) {
	deaths := make(chan int, 10)
	passages := 0

	c, err := Parse("CRASH_AT", "after:3", points, func() { deaths <- passages })
	if err != nil {
		t.Fatal(err)
	}

	for range 5 {
		c.Pass("before")
		passages++
		c.Pass("after")
	}

	if len(deaths) != 1 || <-deaths != 3 {
		t.Errorf("it did not die exactly once, at the third passage")
	}

	if c, err = Parse("CRASH_AT", "after:1", points, func() { deaths <- 0 }); err != nil {
		t.Fatal(err)
	}
	c.PassSent("after")

	select {
	case <-deaths:
	case <-time.After(10 * time.Second):
		t.Error("it did not die after something was sent")
	}
}
