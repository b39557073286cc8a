// The bootstrap command creates the topics, the accounts and their funds, and exits.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/liquida/liquida/deploy/bootstrap"
	"github.com/liquida/liquida/platform/settings"
)

const purpose = `creates the topics, the accounts and their initial funds, and exits.
It is safe to run again, from any state of an earlier run. Exit codes: 0 all is there, 1 Kafka
or the ledger is away or holds something else than configured, 2 bad setting.`

func main() {
	var config bootstrap.Config
	settings.Load("bootstrap", purpose, &config)
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := bootstrap.Run(ctx, &config, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "bootstrap: %v\n", err)
		os.Exit(settings.ExitFailure)
	}
}
