// Package kit helps tests: it waits for conditions, runs a Kafka broker, and runs the
// program under test as a process. No program imports it. A real ledger for tests is in
// deploy/ledgertest.
package kit

import (
	"flag"
	"strconv"
	"strings"
	"testing"
	"time"
)

// AtOnce sets how many parallel tests run side by side, unless -parallel says another number. Tests
// that mostly wait end sooner if there are more of them than processors. TestMain calls it.
func AtOnce(tests int) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })

	if chosen {
		return
	}

	if err := flag.Set("test.parallel", strconv.Itoa(tests)); err != nil {
		panic(err)
	}
}

// Patience is how long Await waits. No test waits that long unless it fails.
const Patience = time.Minute

// Await returns when a condition is met, and fails the test if that takes too long. met
// also says what it saw, for the failure.
func Await(t testing.TB, what string, met func() (bool, string)) {
	t.Helper()
	AwaitWithin(t, Patience, what, met)
}

// AwaitWithin is Await for what may take longer than Patience on a busy machine.
func AwaitWithin(t testing.TB, limit time.Duration, what string, met func() (bool, string)) {
	t.Helper()

	for deadline := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		ok, saw := met()
		if ok {
			return
		}

		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s: %s", limit, what, saw)
		}
	}
}

// Must ends the test if there is an error.
func Must(t testing.TB, err error) {
	t.Helper()

	if err != nil {
		t.Fatal(err)
	}
}

// ErrorOf is the error of what also returns something that the test does not need.
func ErrorOf[T any](_ T, err error) error { return err }

// Says fails the test unless there is an error that says all of this.
func Says(t testing.TB, err error, texts ...string) {
	t.Helper()

	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("it says %v, want %q", err, text)
		}
	}
}

// Holds fails the test unless a text has all of these parts.
func Holds(t testing.TB, text string, parts ...string) {
	t.Helper()

	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%.4000s", part, text)
		}
	}
}

// Eventually is Await for a condition that speaks for itself.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	Await(t, what, func() (bool, string) { return holds(), "not yet" })
}
