// Package host is the machine under a service, as far as the service may see it: the
// network, the wall clock and a way to die. A program runs on System. A simulation gives
// each service a host of its own, so that many run in one process and in virtual time.
package host

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/liquida/liquida/platform/settings"
)

// Host is all that a service takes from its surroundings, besides the ledger's client.
type Host struct {
	Listen Listen // for the HTTP API and telemetry
	Dial   Dial   // to a Kafka broker
	// Now is the wall clock. It may jump, so it dates things. Durations are measured with
	// time.Since and timers.
	Now func() time.Time
	// Die ends the process at a crash point: no deferred call, no flush, no last word.
	Die func()
	Log io.Writer // one JSON object a line
}

// Listen opens a listener.
type Listen func(network, address string) (net.Listener, error)

// Dial opens a connection. It gives up when ctx ends.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// System is the machine that this process runs on.
func System() Host {
	return Host{Listen: net.Listen, Dial: new(net.Dialer).DialContext, Now: time.Now, Die: kill, Log: os.Stderr}
}

// Sleep returns false if ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Next returns the time until the next whole interval of the wall clock: more than 0, and at most an interval. Loops
// that sleep for it wake at the same instants, so an idle machine wakes once a second for all of them.
func Next(interval time.Duration) time.Duration {
	return interval - time.Duration(time.Now().UnixNano())%interval
}

// kill works like a power cut.
func kill() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)

	select {}
}

// Main runs a service on System until SIGTERM or an interrupt cancels its context. It exits
// with ExitFailure if the service fails.
func Main(program string, run func(context.Context, Host) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	if err := run(ctx, System()); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
		os.Exit(settings.ExitFailure)
	}
}
