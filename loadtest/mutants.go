package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/mutants"
	"github.com/liquida/liquida/loadtest/report"
	"github.com/liquida/liquida/platform/settings"
)

const mutantWorldsMax = 10_000

func mutantsCommand() *cobra.Command {
	config := mutants.Config{Output: os.Stderr}
	var run, json string
	command := &cobra.Command{
		Use:   "mutants",
		Short: "Plants bugs in the product, and shows which judge finds each",
		Long: `Builds the clearing house once for each planted bug, and runs worlds in virtual time (see make
simulate) until all are judged, and a sure test beside the code if the bug names one. Without a bug
the same worlds and tests must be clean. Prints a table in Markdown. A bug that is found in less
than two of three worlds is found by luck, unless a sure test finds it. A world that does not end
is no verdict. Exit code 1 if a bug survives, or is found by luck.`,
		Example: "  loadtest mutants --worlds 8 --seed 1001\n  loadtest mutants --run 'seal|deadline'",
		Args:    cobra.NoArgs,
	}
	command.Flags().StringVar(&run, "run", "", "only bugs whose names match this regular expression")
	command.Flags().IntVar(&config.Worlds, "worlds", 3, "worlds of each bug")
	command.Flags().Uint64Var(&config.Seed, "seed", 1, "seed of the first world; the others follow")
	command.Flags().StringVar(&json, "json", "", "also write the table to this file as JSON")
	command.RunE = func(command *cobra.Command, _ []string) (err error) {
		if err := settings.InRange("--worlds", config.Worlds, 1, mutantWorldsMax); err != nil {
			return err
		}
		if config.Run, err = regexp.Compile(run); err != nil {
			return fmt.Errorf("--run: %w", err)
		}
		if config.Root, err = stack.RepoRoot(); err != nil {
			return err
		}
		started = true
		rows, err := mutants.Run(command.Context(), config)
		if len(rows) > 0 { // of a run that was interrupted, what was tried
			mutants.Write(os.Stdout, rows)
			err = errors.Join(err, report.WriteJSON(json, rows))
		}
		if err != nil {
			return err
		}
		if survivors := mutants.Survivors(rows); len(survivors) > 0 {
			return fmt.Errorf("%d of %d bugs survive, or are found by luck: %s", len(survivors), len(rows), strings.Join(survivors, ", "))
		}
		return nil
	}
	return command
}
