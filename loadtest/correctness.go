package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/correctness"
	"github.com/liquida/liquida/loadtest/report"
	"github.com/liquida/liquida/platform/settings"
)

const correctnessCountMax = 1000

func correctnessCommand() *cobra.Command {
	var config correctness.Config
	var json string
	command := &cobra.Command{
		Use:   "correctness",
		Short: "Runs the tests that prove the promise, and prints a table of them",
		Long: `Runs the end-to-end tests, the tests of bootstrap and the tests of TigerBeetle's results
with go test, inside the repository. Prints two tables in Markdown: each promise, with how often
its tests passed and how many payments they audited; and the same for each test.
E2E_KAFKA=apache (or redpanda-like) chooses the broker. One run of everything takes about half an
hour.`,
		Example: "  loadtest correctness --count 3 --json correctness.json\n  loadtest correctness --run 'Zombie|Network'",
		Args:    cobra.NoArgs,
	}
	command.Flags().StringVar(&config.Run, "run", "", "only tests whose names match this regular expression")
	command.Flags().IntVar(&config.Count, "count", 1, "runs of each test")
	command.Flags().StringVar(&json, "json", "", "also write the table to this file as JSON")
	command.RunE = func(command *cobra.Command, _ []string) (err error) {
		if err := settings.InRange("--count", config.Count, 1, correctnessCountMax); err != nil {
			return err
		}
		if config.Root, err = stack.RepoRoot(); err != nil {
			return err
		}
		started = true
		config.Output = os.Stderr
		rows, err := correctness.Run(command.Context(), config)
		if err != nil {
			return err
		}
		correctness.Write(os.Stdout, rows)
		if err := report.WriteJSON(json, rows); err != nil {
			return err
		}
		if failed := correctness.Failed(rows); len(failed) > 0 {
			return fmt.Errorf("failed: %s", strings.Join(failed, ", "))
		}
		return nil
	}
	return command
}
