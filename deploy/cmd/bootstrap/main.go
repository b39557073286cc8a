// The bootstrap command creates the topics, the accounts and their funds, and exits.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// command is what bootstrap does with its configuration.
type command func(context.Context, *bootstrap.Config, io.Writer) error

func main() {
	run := command(bootstrap.Run)

	if slices.Contains(os.Args, "--help") {
		os.Args = []string{os.Args[0], "--help"}
	} else if chosen := chosenBy(os.Args[1:]); chosen != nil {
		run, os.Args = chosen, os.Args[:1]
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

// chosenBy returns the command that arguments name, or nil. It exits if they are incomplete.
func chosenBy(arguments []string) command {
	name, rest := "", arguments
	if len(arguments) > 0 {
		name, rest = arguments[0], arguments[1:]
	}

	switch {
	case name == "participant":
		return participant(rest)
	case name == "retell" && len(rest) == 0:
		return bootstrap.Retell
	case name != "rebuild":
		return nil
	case slices.Equal(rest, []string{"accept"}):
		return at(bootstrap.Place.Accept)
	case slices.Equal(rest, []string{"confirm"}):
		return at(bootstrap.Place.Confirm)
	case len(rest) == 2 && rest[0] == "archive":
		return fromArchive(rest[1])
	case len(rest) == 1 && rest[0] != "archive":
		return fromLedger(rest[0])
	}
	badUsage(errors.New("bootstrap rebuild ADDRESSES | archive DIR | accept | confirm"))

	return nil
}

func badUsage(err error) {
	fmt.Fprintf(os.Stderr, "bootstrap: %v\nSee bootstrap --help.\n", err)
	os.Exit(settings.ExitBadUsage)
}

// at returns a command at the place of the configuration.
func at(do func(bootstrap.Place, context.Context, *bootstrap.Config, io.Writer) error) command {
	return func(ctx context.Context, config *bootstrap.Config, progress io.Writer) error {
		return bootstrap.At(config, func(p bootstrap.Place) error { return do(p, ctx, config, progress) })
	}
}

// participant returns what the arguments behind participant ask for.
func participant(arguments []string) command {
	newSeal := len(arguments) == 2 && arguments[1] == "--new-seal"
	var bank pix.ISPB

	err := errors.New("bootstrap participant ISPB [--new-seal]")
	if len(arguments) == 1 || newSeal {
		bank, err = pix.ParseISPB(arguments[0])
	}

	if err != nil {
		badUsage(err)
	}

	return func(ctx context.Context, config *bootstrap.Config, progress io.Writer) error {
		return bootstrap.Participant(ctx, config, bank, newSeal, progress)
	}
}

// fromLedger returns a rebuild from the ledger at some addresses.
func fromLedger(addresses string) command {
	return at(func(p bootstrap.Place, ctx context.Context, config *bootstrap.Config, progress io.Writer) error {
		from := ledger.Config{Addresses: strings.Split(addresses, ","), ClusterID: config.Ledger.ClusterID}
		if err := from.Validate(); err != nil {
			return err
		}

		client, err := ledger.Connect(from)
		if err != nil {
			return err
		}
		defer client.Close()

		return p.Rebuild(ctx, config, rebuild.Ledger{Client: client, EventsMax: config.EventsMax}, progress)
	})
}

// fromArchive returns a rebuild from an archive.
func fromArchive(place string) command {
	return at(func(p bootstrap.Place, ctx context.Context, config *bootstrap.Config, progress io.Writer) error {
		in, err := store.Open(ctx, place)
		if err != nil {
			return err
		}

		return p.Rebuild(ctx, config, past.Source{Folder: in}, progress)
	})
}
