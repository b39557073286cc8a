package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/liquida/liquida/loadtest/conform"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/stream"
)

// conformEnvironment says where Kafka is, and the bank's secret.
type conformEnvironment struct {
	stream.Config
	AnswerKeysFile string `env:"ANSWER_KEYS_FILE" help:"the banks' secrets, to check the seals of responses; empty: not checked"`
}

func conformCommand() *cobra.Command {
	var bank string
	environment, config := &conformEnvironment{}, conform.Config{}
	command := &cobra.Command{
		Use:   "conform --bank ISPB [-- COMMAND [ARGUMENT]...]",
		Short: "Tries the software of a receiving bank: asks it everything that engines may ask",
		Long: `Plays the clearing house for one bank: asks questions, repeats them, asks about payments
that are over, writes what is no question, and holds each response against
docs/participant.md. One line for each check says what was wrong, and where it is written.

Its questions have a header, by which loadtest audit counts them and blames nobody.
Nothing else may answer for the bank meanwhile. On a sandbox, silence the simulator first:
  curl -X PUT 127.0.0.1:8081/v1/profiles/ISPB -d '{"silent_share": 1}' \
    -H "Authorization: Bearer $(cat .stack/keys/central-bank)"
With a command behind --, conform starts the bank, kills its process group, and starts it again.
A bank over HTTP needs a front door that runs.
On a secured Kafka, use the user admin: only engines may ask.`,
		Example: `  loadtest conform --bank 10000005
  loadtest conform --bank 10000005 -- python3 examples/python/bank_kafka.py --bank 10000005
  loadtest conform --bank 10000005 -- python3 examples/python/bank.py --bank 10000005   # over HTTP`,
	}
	command.Long += "\n\nEnvironment:\n" + environmentHelp(environment)
	command.Flags().StringVar(&bank, "bank", "", "ISPB of the bank (required)")
	command.Flags().DurationVar(&config.Within, "within", 40*time.Second, "time for a response")
	command.Flags().IntVar(&config.Crowd, "crowd", 1000, "questions asked at once")
	command.RunE = func(command *cobra.Command, arguments []string) error {
		var bankErr error

		config.Bank, bankErr = pix.ParseISPB(bank)
		if bankErr != nil {
			bankErr = fmt.Errorf("--bank: %w", bankErr)
		}

		if err := errors.Join(settings.Parse(environment), bankErr,
			settings.InRange("--within", config.Within, time.Second, 10*time.Minute),
			settings.InRange("--crowd", config.Crowd, 2, 100_000)); err != nil {
			return err
		}

		if file := environment.AnswerKeysFile; file != "" {
			seals, err := keys.ReadSeals(file)
			if err != nil {
				return fmt.Errorf("ANSWER_KEYS_FILE: %w", err)
			}

			if seals[config.Bank] == nil {
				return fmt.Errorf("ANSWER_KEYS_FILE: %s has no secret of bank %s", file, config.Bank)
			}
			config.Seals = seals
		}
		started = true

		var err error
		if config.Kafka, err = reach(command.Context(), environment.Config); err != nil {
			return err
		}
		config.Command = arguments
		config.Log = func(format string, arguments ...any) {
			fmt.Fprintf(command.ErrOrStderr(), format+"\n", arguments...)
		}

		lines, err := conform.Run(command.Context(), config)
		if err != nil {
			return err
		}

		if !conform.Write(command.OutOrStdout(), lines) {
			return errors.New("the bank does not do what docs/participant.md asks of it")
		}

		return nil
	}

	return command
}
