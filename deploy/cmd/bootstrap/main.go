// The bootstrap command creates the topics, the accounts and their funds, and exits.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/liquida/liquida/deploy/bootstrap"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/settings"
)

const purpose = `creates the topics, the accounts and their initial funds, and exits.
It is safe to run again, from any state of an earlier run. Exit codes: 0 all is there, 1 Kafka
or the ledger is away or holds something else than configured, 2 bad setting.

bootstrap participant ISPB [--new-seal] gives a bank that has joined what must not pass the front
door: the secret of its seals (ANSWER_KEYS_FILE) and, on a secured Kafka, a user, a consumer group
and ACLs of its own. Nothing needs a restart. --new-seal makes another secret and has it used from
then on.`

func main() {
	run := bootstrap.Run
	if arguments := os.Args[1:]; len(arguments) > 0 && arguments[0] == "participant" {
		run = participant(arguments[1:])
		os.Args = os.Args[:1]
	}
	var config bootstrap.Config
	settings.Load("bootstrap", purpose, &config)
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, &config, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "bootstrap: %v\n", err)
		os.Exit(settings.ExitFailure)
	}
}

// participant returns what the arguments behind participant ask for.
func participant(arguments []string) func(context.Context, *bootstrap.Config, io.Writer) error {
	newSeal := len(arguments) == 2 && arguments[1] == "--new-seal"
	var bank pix.ISPB
	err := errors.New("bootstrap participant ISPB [--new-seal]")
	if len(arguments) == 1 || newSeal {
		bank, err = pix.ParseISPB(arguments[0])
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "bootstrap: %v\nSee bootstrap --help.\n", err)
		os.Exit(settings.ExitBadUsage)
	}
	return func(ctx context.Context, config *bootstrap.Config, progress io.Writer) error {
		return bootstrap.Participant(ctx, config, bank, newSeal, progress)
	}
}
