package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/loadtest/report"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/stream"
)

// runEnvironment are the variables that run shares with the services.
type runEnvironment struct {
	stream.Config
	sandbox.Population
	Deadline time.Duration `env:"ENGINE_DEADLINE" envDefault:"40s" range:"1s to 1h" help:"the engine's deadline; the default of --drain-timeout is 30 s more"`
}

// runFlags are the flags of run.
type runFlags struct {
	load.Config
	duration     time.Duration
	allow        []string
	failIf       []string
	json, report string
}

const (
	drainMax       = time.Hour
	outstandingMax = 500_000 // payments that wait, 1 KiB each; more are dropped and counted
)

func runCommand() *cobra.Command {
	var flags runFlags
	command := &cobra.Command{
		Use:   "run --rate R (--payments N | --duration D)",
		Short: "Sends payments at a fixed rate and compares every outcome with the one it must have",
		Args:  cobra.NoArgs,
		Example: `  loadtest run --rate 1000 --payments 10000
  loadtest run --rate 5000 --duration 60s --mix settling --json run.json
  loadtest run --rate 100 --payments 500 --mix accepted=9,silent=1
  loadtest run --rate 1000 --duration 1m --report load.html --fail-if 'p99>500ms' --fail-if 'max>5s'
  loadtest run --rate 2000 --duration 30s --allow AB03,LQ10,LQ13    # while faults are injected`,
	}
	f := command.Flags()
	f.Float64Var(&flags.Rate, "rate", 0, "payments per second, whatever the system does (open loop)")
	f.IntVar(&flags.Payments, "payments", 0, "number of payments")
	f.DurationVar(&flags.duration, "duration", 0, "time of sending, in place of --payments")
	f.Uint64Var(&flags.Seed, "seed", 1, "decides the order of the cases, accounts and amounts")
	f.StringVar(&flags.MixName, "mix", "demo", "a named mix, or weights like accepted=90,silent=10")
	f.StringSliceVar(&flags.allow, "allow", nil,
		"reason codes with which any payment may be rejected, for runs with faults")
	f.StringArrayVar(&flags.failIf, "fail-if", nil, "fail if this holds at the end, like 'p99>500ms'; repeatable")
	f.StringVar(&flags.report, "report", "",
		"write what happened to this file, as one page that opens in any browser without a network")
	f.StringVar(&flags.json, "json", "", "write the result to this file as JSON")
	f.DurationVar(&flags.DrainTimeout, "drain-timeout", 0,
		"longest wait for outcomes after the last send; 0: ENGINE_DEADLINE and 30 s")
	environment := &runEnvironment{}
	command.Long = "Sends payments to Kafka at a fixed rate, and reads reports and dead letters, without a consumer\n" +
		"group. It knows how every payment must end.\n" +
		"Latencies count from the instant when a payment should have been sent, so they show a stall of the\n" +
		"sender or the broker. The exit code is 1 if an outcome is wrong or missing, or a send was dropped.\n" +
		"It is 130 after Ctrl-C, if no outcome was wrong until then.\n\n" +
		"Thresholds (--fail-if METRIC>LIMIT, or <). They are checked last: if every outcome is\n" +
		fmt.Sprintf("right and one of them holds, the exit code is %d, as of k6. Metrics:\n", exitThreshold) +
		metricsHelp() +
		"Latencies are in ms or s (500ms, 2s), excused and late are shares of what was sent (1%).\n\n" +
		mixHelp() + "\nEnvironment:\n" + environmentHelp(environment)
	command.RunE = func(command *cobra.Command, _ []string) error {
		config, err := flags.config(environment)
		if err != nil {
			return err
		}

		thresholds, err := each("--fail-if", flags.failIf, load.ParseThreshold)
		if err != nil {
			return err
		}
		started = true
		config.Progress, config.ProgressEvery = load.ProgressOn(os.Stderr)
		_, err = reach(command.Context(), environment.Config)

		var result *load.Result
		if err == nil {
			result, err = load.Run(command.Context(), config)
		}

		switch {
		case command.Context().Err() != nil && err != nil: // before the first payment
			result = &load.Result{Interrupted: true}
		case err != nil:
			return err
		}

		if result.Interrupted {
			report.WriteInterrupted(os.Stdout, result)
		} else {
			report.WriteLoad(os.Stdout, result)
		}

		broken := read(thresholds, result)
		if err := errors.Join(report.WriteJSON(flags.json, result),
			report.OfLoad(result, nil, commandLine()).Write(flags.report, "")); err != nil {
			return err
		}

		switch {
		case result.Interrupted && result.FailureCount == 0:
			return errInterrupted
		case !result.Passed:
			return errors.New("the load failed")
		}

		return broken
	}

	return command
}

// config checks the flags and the environment.
func (f runFlags) config(environment *runEnvironment) (config load.Config, err error) {
	if err := settings.Parse(environment); err != nil {
		return config, err
	}

	if (f.Payments > 0) == (f.duration > 0) {
		return config, fmt.Errorf("--payments is %d and --duration is %v: give exactly one of them",
			f.Payments, f.duration)
	}

	if f.duration > 0 {
		f.Payments = int(min(f.Rate*f.duration.Seconds(), 1e15))
	}

	weights, err := mix.Parse(f.MixName)
	if err != nil {
		return config, fmt.Errorf("--mix: %w", err)
	}

	allowed, err := each("--allow", f.allow, pix.ParseReason)
	if err != nil {
		return config, err
	}

	if f.DrainTimeout == 0 {
		f.DrainTimeout = environment.Deadline + 30*time.Second
	}
	config = f.Config
	config.Stream, config.Population, config.Mix, config.Allowed = environment.Config, environment.Population,
		weights, allowed
	config.OutstandingMax = outstandingMax

	return config, errors.Join(
		settings.InRange("--rate", f.Rate, 0.01, rateMax),
		settings.InRange("the number of payments (--payments, or --rate × --duration)", f.Payments, 1, paymentsMax),
		settings.InRange("--drain-timeout", f.DrainTimeout, time.Second, drainMax))
}

// read says in the result what it measured for each threshold. It returns an error if one is broken.
func read(thresholds []load.Threshold, result *load.Result) error {
	var broken []string

	for _, t := range thresholds {
		reading := t.Read(result)

		result.Thresholds = append(result.Thresholds, reading)
		if reading.Broken {
			broken = append(broken, fmt.Sprintf("%s: %s", reading.Threshold, reading.Measured))
		}
	}

	if broken == nil {
		return nil
	}

	return fmt.Errorf("%w: %s", errThreshold, strings.Join(broken, "; "))
}

func metricsHelp() string {
	var text strings.Builder
	for _, m := range load.Metrics() {
		text.WriteString(settings.Beside(fmt.Sprintf("  %-18s ", m[0]), m[1]))
	}

	return text.String()
}

// mixHelp explains the mixes and the cases.
func mixHelp() string {
	var text strings.Builder
	text.WriteString("Mixes (--mix); from 1000 payments on each has at least 5 payments of each case:\n")

	for _, name := range slices.Sorted(maps.Keys(mix.Names)) {
		text.WriteString(settings.Beside(fmt.Sprintf("  %-18s ", name), mix.Names[name]))
	}
	text.WriteString("\nCases, for weights:\n")

	for _, c := range mix.Cases() {
		e := c.Expectation()
		text.WriteString(settings.Beside(fmt.Sprintf("  %-18s ", c), e.Meaning+" → "+e.String()))
	}

	return text.String()
}
