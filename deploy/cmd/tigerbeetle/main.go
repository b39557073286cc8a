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

const purpose = "prints the path of a TigerBeetle " + tigerbeetle.Version + ` server, for scripts: $(tigerbeetle) start ...
It takes TIGERBEETLE_BIN, else tigerbeetle on PATH, else the one in its cache, else it
builds one from source into the cache (some minutes; needs cargo and python3 with venv).
Progress goes to standard error.`

// variables only documents what tigerbeetle.Locate reads.
type variables struct {
	Bin   string `env:"TIGERBEETLE_BIN" help:"the server to use; refused unless it is version 0.16.78"`
	Cache string `env:"LIQUIDA_CACHE" help:"folder to keep the built server in; empty is liquida in the user's cache folder"`
}

func main() {
	settings.Load("tigerbeetle", purpose, &variables{})
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	path, err := tigerbeetle.Locate(ctx, os.Stderr)
	if err != nil {
		fmt.Fprintf(os.Stderr, "tigerbeetle: %v\n", err)
		os.Exit(settings.ExitFailure)
	}
	fmt.Println(path)
}
