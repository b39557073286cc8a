package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/bench"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/settings"
)

// benchEnvironment is what bench shares with bootstrap.
type benchEnvironment struct{ sandbox.Population }

func (e *benchEnvironment) Validate() error { return e.Population.Validate() }

func benchCommand() *cobra.Command {
	var config bench.Config
	var ids []string
	var set []string
	var json string
	var fsync bool
	environment := &benchEnvironment{}
	command := &cobra.Command{
		Use:   "bench",
		Short: "Measures how many payments a second this machine settles, everything included",
		Long: `Starts stacks of its own, one for each measurement, and prints:
  what the ledger alone can do with the transfers of payments, in full requests;
  the most that the whole pipeline settles, and its ratio to that;
  latencies at fixed rates, from the intended send to the settlement report;
  what each process costs for a payment.
A run whose outcomes are wrong, that dropped a send, or whose audit fails gives no figure.
Run it on a quiet machine; a million payments write about 10 GB.`,
		Example: `  loadtest bench
  loadtest bench --payments 1000000 --rates 1000,5000,10000,20000 --json bench.json
  loadtest bench --ids ours,sequential,random --payments 0 --rates ""
  loadtest bench --fsync --rates ""
  loadtest bench --env clearing-engine:LEDGER_REQUEST_PAUSE=0s --payments 0 --rates 1000`,
		Args: cobra.NoArgs,
	}
	f := command.Flags()
	f.IntVar(&config.Payments, "payments", 1_000_000, "payments of the pipeline's maximum; 0 leaves it out")
	f.IntVar(&config.CeilingPayments, "ceiling-payments", 500_000, "payments of each ceiling")
	f.StringSliceVar(&ids, "ids", []string{string(bench.OurIDs)}, "ids of the ceilings: ours, sequential, random; empty leaves them out")
	f.IntVar(&config.OutstandingMax, "outstanding", 15_000, "payments in flight while the maximum is searched")
	f.IntSliceVar(&config.Rates, "rates", []int{1000, 5000, 10_000, 20_000}, "payments a second of the latencies; empty leaves them out")
	f.DurationVar(&config.RateDuration, "rate-duration", 30*time.Second, "how long each rate is offered")
	f.IntVar(&config.Engines, "engines", 1, "clearing engines")
	f.StringVar(&config.CacheGrid, "cache-grid", "1GiB", "the ledger's page cache")
	f.StringVar(&config.Kafka, "kafka", stack.Embedded, "the broker: embedded, or apache for Apache Kafka")
	f.BoolVar(&fsync, "fsync", false, "the embedded broker syncs each batch before it acknowledges")
	f.StringSliceVar(&set, "env", nil, "more environment variables of a process, PROCESS:NAME=value")
	f.StringVar(&json, "json", "", "write the result to this file as JSON")
	command.Long += "\n\nEnvironment:\n" + environmentHelp(environment)
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := settings.Parse(environment); err != nil {
			return err
		}
		config.Population = environment.Population
		for _, name := range ids {
			switch order := bench.IDs(name); order {
			case bench.OurIDs, bench.SequentialIDs, bench.RandomIDs:
				config.CeilingIDs = append(config.CeilingIDs, order)
			default:
				return fmt.Errorf("--ids holds %q: it must be ours, sequential or random", name)
			}
		}
		if err := errors.Join(
			settings.InRange("--payments", config.Payments, 0, paymentsMax),
			settings.InRange("--ceiling-payments", config.CeilingPayments, 1, paymentsMax),
			settings.InRange("--outstanding", config.OutstandingMax, 1, outstandingMax),
			settings.InRange("--engines", config.Engines, 1, 16),
			settings.DurationInRange("--rate-duration", config.RateDuration, time.Second, time.Hour)); err != nil {
			return err
		}
		for _, rate := range config.Rates {
			if err := settings.InRange("--rates", rate, 1, rateMax); err != nil {
				return err
			}
		}
		var err error
		if config.Environment, err = variablesByProcess(set); err != nil {
			return err
		}
		if fsync {
			config.Environment[stack.Broker] = append(config.Environment[stack.Broker], "BROKER_SYNC_WRITES=true")
		}
		program, err := os.Executable()
		if err != nil {
			return err
		}
		root, err := stack.RepoRoot()
		if err != nil {
			return err
		}
		started = true
		config.BinDir, config.Dir = filepath.Dir(program), filepath.Join(root, ".stack", "bench")
		config.ProgressOn, config.Tell = os.Stderr, os.Stderr
		result, err := bench.Measure(command.Context(), config)
		result.Write(os.Stdout) // what was valid until then
		return errors.Join(err, writeJSON(json, result))
	}
	return command
}

// variablesByProcess reads PROCESS:NAME=value.
func variablesByProcess(texts []string) (map[string][]string, error) {
	variables := map[string][]string{}
	for _, text := range texts {
		process, variable, ok := strings.Cut(text, ":")
		if !ok || process == "" || !strings.Contains(variable, "=") {
			return nil, fmt.Errorf("--env holds %q: it must be PROCESS:NAME=value, like clearing-engine:LEDGER_REQUEST_PAUSE=0s", text)
		}
		variables[process] = append(variables[process], variable)
	}
	return variables, nil
}
