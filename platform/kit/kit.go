// Package kit helps tests: it waits for conditions, runs a Kafka broker, and runs the
// program under test as a process. No program imports it. A real ledger for tests is in
// deploy/ledgertest.
package kit

import (
	"net"
	"testing"
	"time"
)

// Patience is how long Await waits. No test waits that long unless it fails.
const Patience = time.Minute

// Await returns when a condition is met, and fails the test if that takes too long. met
// also says what it saw, for the failure.
func Await(t testing.TB, what string, met func() (bool, string)) {
	t.Helper()
	for deadline := time.Now().Add(Patience); ; time.Sleep(10 * time.Millisecond) {
		ok, saw := met()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s: %s", Patience, what, saw)
		}
	}
}

// FreeAddress returns a TCP address on this machine that nobody listens on.
func FreeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
