// The bootstrap command creates the topics, the accounts and their funds, and exits.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/liquida/liquida/deploy/bootstrap"
	"github.com/liquida/liquida/platform/archive/past"
	"github.com/liquida/liquida/platform/archive/store"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/rebuild"
	"github.com/liquida/liquida/platform/settings"
)

const purpose = `creates the topics, the accounts and their initial funds, and exits.
It is safe to run again, from any state of an earlier run. Exit codes: 0 all is there, 1 Kafka
or the ledger is away or holds something else than configured, 2 bad setting.

bootstrap participant ISPB [--new-seal] gives a bank that has joined what must not pass the front
door: the secret of its seals (ANSWER_KEYS_FILE) and, on a secured Kafka, a user, a consumer group
and ACLs of its own. Nothing needs a restart. --new-seal makes another secret and has it used from
then on.

bootstrap retell has engines write again the reports and dead letters that are missing, after
pix.settlements or pix.dead-letters was lost, made anew or cut. Stop engines and producers first.

bootstrap rebuild archive DIR makes the empty ledger at TIGERBEETLE_ADDRESSES what the lost one was
when its archive ends, which is in a folder or at s3://BUCKET/PREFIX, and bootstrap rebuild
ADDRESSES what the one at ADDRESSES is, such as an older copy. Then each order that was reported
since gets its reported verdict. Interrupted, run it again. It says what it could not bring back.
bootstrap rebuild accept has the topics take that ledger: from then on acts are taken. bootstrap
rebuild confirm lets orders in, and engines begin. No other engine may run meanwhile: see
docs/backup.md.`

var errUsage = errors.New(`usage: bootstrap [participant ISPB [--new-seal] | retell | ` +
	`rebuild (ADDRESSES | archive DIR | accept | confirm)]`)

func main() {
	arguments := os.Args[1:]

	os.Args = os.Args[:1]
	if slices.Contains(arguments, "--help") || slices.Contains(arguments, "-h") {
		os.Args = append(os.Args, "--help")
	}
	var config bootstrap.Config
	settings.Load("bootstrap", purpose, &config)
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()

	if err := run(ctx, &config, arguments); errors.Is(err, errUsage) {
		fmt.Fprintf(os.Stderr, "bootstrap: %v\nSee bootstrap --help.\n", err)
		os.Exit(settings.ExitBadUsage)
	} else if err != nil {
		fmt.Fprintf(os.Stderr, "bootstrap: %v\n", err)
		os.Exit(settings.ExitFailure)
	}
}

// run does what the arguments ask for.
func run(ctx context.Context, config *bootstrap.Config, arguments []string) error {
	switch {
	case len(arguments) == 0:
		return bootstrap.Run(ctx, config, os.Stderr)
	case slices.Equal(arguments, []string{"retell"}):
		return bootstrap.Retell(ctx, config, os.Stderr)
	case len(arguments) > 1 && arguments[0] == "rebuild":
		return bootstrap.At(config, func(p bootstrap.Place) error { return again(ctx, p, config, arguments[1:]) })
	}

	newSeal := len(arguments) == 3 && arguments[2] == "--new-seal"
	if arguments[0] != "participant" || len(arguments) != 2 && !newSeal {
		return errUsage
	}

	bank, err := pix.ParseISPB(arguments[1])
	if err != nil {
		return fmt.Errorf("%w; %w", err, errUsage)
	}

	return bootstrap.Participant(ctx, config, bank, newSeal, os.Stderr)
}

// again builds a ledger again.
func again(ctx context.Context, p bootstrap.Place, config *bootstrap.Config, arguments []string) error {
	switch {
	case slices.Equal(arguments, []string{"accept"}):
		return p.Accept(ctx, config, os.Stderr)
	case slices.Equal(arguments, []string{"confirm"}):
		return p.Confirm(ctx, config, os.Stderr)
	case len(arguments) == 2 && arguments[0] == "archive":
		in, err := store.Open(ctx, arguments[1])
		if err != nil {
			return err
		}

		return p.Rebuild(ctx, config, past.Source{Folder: in}, os.Stderr)
	case len(arguments) != 1 || arguments[0] == "archive":
		return errUsage
	}
	from := ledger.Config{Addresses: strings.Split(arguments[0], ","), ClusterID: config.Ledger.ClusterID}

	if err := from.Validate(); err != nil {
		return err
	}

	client, err := ledger.Connect(from)
	if err != nil {
		return err
	}
	defer client.Close()

	return p.Rebuild(ctx, config, rebuild.Ledger{Client: client, EventsMax: config.EventsMax}, os.Stderr)
}
