// The tigerbeetle command prints the path of the TigerBeetle server that the project is
// written for, and builds it first if there is none.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/liquida/liquida/deploy/tigerbeetle"
	"github.com/liquida/liquida/platform/settings"
)

const usage = "tigerbeetle prints the path of a TigerBeetle " + tigerbeetle.Version + ` server, for scripts: $(tigerbeetle) start ...
It takes TIGERBEETLE_BIN, else the one in its cache (LIQUIDA_CACHE, or liquida in the user's cache folder), else it
builds one from source into the cache (some minutes; needs cargo and python3 with venv).
Progress goes to standard error.`

func main() {
	if len(os.Args) > 1 {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(settings.ExitBadUsage)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()

	path, err := tigerbeetle.Locate(ctx, os.Stderr)
	if err != nil {
		fmt.Fprintf(os.Stderr, "tigerbeetle: %v\n", err)
		os.Exit(settings.ExitFailure)
	}
	fmt.Println(path)
}
