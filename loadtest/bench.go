package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/bench"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/loadtest/report"
	"github.com/liquida/liquida/platform/settings"
)

// benchFlags are the flags that are not part of bench.Config as they are.
type benchFlags struct {
	set                           []string
	json, from, compare, drawings string
}

func benchCommand() *cobra.Command {
	var config bench.Config
	var flags benchFlags
	command := &cobra.Command{
		Use:   "bench",
		Short: "Measures how many payments a second this machine settles, with everything on it",
		Example: `  loadtest bench
  loadtest bench --parts all --runs 3 --json now.json --compare earlier.json
  loadtest bench --parts latency --rates 1000 --env clearing-engine:LEDGER_REQUEST_PAUSE=1ms
  loadtest bench --parts maximum --rows "shared cores" --engines 4
  SANDBOX_CUSTOMERS=1000000 loadtest bench --parts maximum --mix hottest
  loadtest bench --from now.json --compare earlier.json    # measures nothing`,
		Args: cobra.NoArgs,
	}
	f := command.Flags()
	f.StringSliceVar(&config.Parts, "parts", bench.DefaultParts, "what to measure; all for everything")
	f.StringVar(&config.Rows, "rows", "", "measure only the rows with this in their names; empty: all rows of the parts")
	f.IntVar(&config.Passes, "runs", 1, "passes over everything; with more than one the tables show the spread")
	f.IntVar(&config.Payments, "payments", 1_000_000, "payments of the ledger alone, and of each maximum")
	f.IntSliceVar(&config.Rates, "rates", []int{1000, 5000, 10_000, 20_000}, "payments a second of the part latency")
	f.DurationVar(&config.RateDuration, "rate-duration", 30*time.Second, "how long each rate is offered")
	f.IntVar(&config.Engines, "engines", 1, "engines in every row")
	f.StringVar(&config.CacheGrid, "cache-grid", "1GiB", "page `cache` of TigerBeetle")
	f.StringVar(&config.Mix, "mix", "settling",
		"cases of the payments in every row that has none of its own, as of loadtest run")
	f.BoolVar(&config.Room, "room", false, "the control room runs in every row")
	f.BoolVar(&config.Archive, "archive", false, "the archiver runs in every row")
	f.StringSliceVar(&flags.set, "env", nil, "more environment variables of a process in every row, PROCESS:NAME=value; one that it does not know has no effect")
	f.StringVar(&flags.json, "json", "", "write the result to this file as JSON")
	f.StringVar(&flags.drawings, "drawings", "", "write drawings to this folder as SVG")
	f.StringVar(&flags.from, "from", "", "measure nothing, but read a result that --json wrote")
	f.StringVar(&flags.compare, "compare", "",
		"show what is slower or faster than in an earlier result that --json wrote")
	command.Long = `Starts a stack of its own for each row and measures it. Parts:
` + bench.PartsHelp() + `
A row with a wrong outcome, a dropped send or a failed audit gives no figure, and exit code 1.
Latencies count from the intended send; at a maximum, where the sender waits for room, from the
send. Run it on a quiet machine. While they are measured, a million payments take 12 GB of disk,
ten million 70.

Comparing: ` + bench.CompareRule + `

Environment:
` + environmentHelp(&config.Population)
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := flags.complete(&config); err != nil {
			return err
		}
		var earlier, result *bench.Result

		var err error
		if flags.compare != "" { // read first: a wrong name must not fail after an hour
			if earlier, err = bench.Read(flags.compare); err != nil {
				return fmt.Errorf("--compare: %w", err)
			}
		}

		if flags.from == "" {
			config.Log = os.Stderr
			result, err = bench.Measure(command.Context(), config)
		} else if result, err = bench.Read(flags.from); err != nil {
			return fmt.Errorf("--from: %w", err)
		}
		started = true
		result.Write(os.Stdout) // what was valid so far

		// A result without a figure overwrites no earlier one.
		if slices.ContainsFunc(result.Rows, func(r bench.Row) bool { return len(r.Verdicts) > 0 }) {
			err = errors.Join(err, report.WriteJSON(flags.json, result))
		}

		err = errors.Join(err, result.Draw(flags.drawings))
		if earlier != nil {
			err = errors.Join(err, result.WriteComparison(os.Stdout, earlier))
		}

		return err
	}

	return command
}

// complete checks the flags and the environment.
func (f *benchFlags) complete(config *bench.Config) error {
	if err := settings.Parse(&config.Population); err != nil {
		return err
	}

	if slices.Equal(config.Parts, []string{"all"}) {
		config.Parts = bench.AllParts()
	}

	_, badMix := mix.Parse(config.Mix)
	if err := errors.Join(
		badMix,
		bench.CheckParts(config.Parts),
		settings.InRange("--engines", config.Engines, 1, enginesMax),
		settings.InRange("--runs", config.Passes, 1, 100),
		settings.InRange("--payments", config.Payments, 1, paymentsMax),
		settings.InRange("--rate-duration", config.RateDuration, time.Second, time.Hour)); err != nil {
		return err
	}

	for _, rate := range config.Rates {
		if err := settings.InRange("--rates", rate, 1, rateMax); err != nil {
			return err
		}
	}

	if err := os.MkdirAll(filepath.Dir(f.json), 0o755); err != nil { // now, and not after an hour of measuring
		return err
	}

	var err error
	if config.Environment, err = variablesByProcess(f.set); err != nil {
		return err
	}

	if config.BinDir, err = programs(); err != nil {
		return err
	}

	root, err := stack.RepoRoot()
	config.Dir = filepath.Join(root, ".stack", "bench")

	return err
}
