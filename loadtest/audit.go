package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/liquida/liquida/loadtest/audit"
	"github.com/liquida/liquida/loadtest/report"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/stream"
)

// auditEnvironment says where Kafka and the ledger are, and what the engines' deadline is. The
// audit shares nothing else with services.
type auditEnvironment struct {
	Stream         stream.Config
	Ledger         ledger.Config
	AnswerKeysFile string        `env:"ANSWER_KEYS_FILE" help:"the banks' secrets: each outcome that needs the word of the payee's bank must have its sealed response, as far back as the topic keeps responses; empty: not checked"`
	Deadline       time.Duration `env:"ENGINE_DEADLINE" envDefault:"40s" range:"1s to 1h" help:"the engine's deadline: no order is rejected with AB03 before it, and not all that wait for it end late; none younger than half of it is refused as too old"`
	PendingTimeout time.Duration `env:"ENGINE_PENDING_TIMEOUT" envDefault:"60s" range:"1s to 1h" help:"when the ledger itself ends a hold: no hold may last longer"`
}

func auditCommand() *cobra.Command {
	var wait, shortest time.Duration
	var json string
	environment := &auditEnvironment{}
	command := &cobra.Command{
		Use:   "audit",
		Short: "Proves that every payment has one outcome, and every centavo is funded and in place",
		Long: `Reads all topics and the whole ledger, and fails unless
  every payment has exactly one outcome: a report, or a dead letter for its message;
  all legs of a settled payment are posted, and no leg of a rejected one;
  each report agrees with the verdict in the ledger, and repeated reports are equal, and
  not more than redeliveries explain;
  each payment that settled, or was rejected by its payee's bank, has that bank's sealed
  response (only with ANSWER_KEYS_FILE), and the bank was asked about this payment (both as
  far back as the topics keep responses and requests);
  the reason of every refusal follows from order, accounts and balances of that time (not
  LQ02 and LQ11, which depend on settings: these are counted), and no deadline is early,
  or late for all;
  every message is a payment or has a dead letter, not both; every report, dead letter
  and transfer has a message; every dead letter has the code of what is wrong, and names it;
  every message is in the partition of its order and has its key;
  nothing is pending, and the engines have finished every message;
  each account's balance follows from funding and reports;
  for each bank transit + its customers = 0 and reserve + transit = books, and the
  reserves add up to what was issued.
It derives ids and laws by itself and shares no code with the engine. It waits (--wait)
until no payment is in flight, then reads. While orders keep coming there is no verdict:
it says so and exits with 3. A million payments take about 3 GiB of memory, half of that if
GOMEMLIMIT says so, and half a minute.`,
		Example: "  loadtest audit\n  loadtest audit --json audit.json --wait 0s",
		Args:    cobra.NoArgs,
	}
	command.Long += "\n\nEnvironment:\n" + environmentHelp(environment)
	command.Flags().DurationVar(&wait, "wait", 70*time.Second,
		"longest wait until no payment is in flight and nothing is held")
	command.Flags().DurationVar(&shortest, "shortest-deadline", 0,
		"the shortest ENGINE_DEADLINE that engines had, if it was changed; 0: it was not")
	command.Flags().StringVar(&json, "json", "", "write the result to this file as JSON")
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := errors.Join(settings.Parse(environment), settings.InRange("--wait", wait, 0, time.Hour),
			settings.InRange("--shortest-deadline", shortest, 0, environment.Deadline)); err != nil {
			return err
		}
		started = true

		kafka, err := reach(command.Context(), environment.Stream)
		if err != nil {
			return err
		}

		client, err := ledger.Connect(environment.Ledger)
		if err != nil {
			return err
		}

		var secrets audit.Secrets
		if environment.AnswerKeysFile != "" {
			if secrets, err = audit.ReadSecrets(environment.AnswerKeysFile); err != nil {
				return fmt.Errorf("ANSWER_KEYS_FILE: %w", err)
			}
		}
		// Not closed: Close would wait for the ledger, and the process ends now anyway.
		verdict, err := audit.Run(command.Context(), audit.Config{
			Kafka: kafka, Ledger: client, Wait: wait, Deadline: environment.Deadline, DeadlineMin: shortest,
			HoldMax: environment.PendingTimeout, Secrets: secrets, Behind: environment.Stream.Behind,
			Log: func(format string, arguments ...any) { fmt.Fprintf(os.Stderr, format+"\n", arguments...) },
		})
		if err != nil {
			return err
		}

		if err := report.WriteJSON(json, verdict); err != nil {
			return err
		}
		verdict.Write(os.Stdout)

		if !verdict.Clean {
			return errors.New("the audit failed")
		}

		return nil
	}

	return command
}
