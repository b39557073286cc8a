package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/chaos"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/loadtest/report"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/settings"
)

// chaosFlags are the flags of chaos that are not part of chaos.Config as they are.
type chaosFlags struct {
	chaos.Config
	faults, script string
	allow          []string
	failIf         []string
}

func chaosCommand() *cobra.Command {
	var flags chaosFlags
	command := &cobra.Command{
		Use:   "chaos",
		Short: "Breaks a stack at random while payments flow, and proves that nothing was lost",
		Args:  cobra.NoArgs,
		Example: `  loadtest chaos
  loadtest chaos --seed 7 --rate 1000 --duration 10m
  loadtest chaos --faults kill-engine,pause-ledger
  loadtest chaos --duration 60s --script "10s kill-broker, 20s cut-kafka, 30s pause-engine"`,
	}
	f := command.Flags()
	f.Uint64Var(&flags.Seed, "seed", 0, "decides payments, faults and their times; 0: a random one")
	f.Float64Var(&flags.Rate, "rate", 500, "payments per second")
	f.DurationVar(&flags.Duration, "duration", 2*time.Minute,
		"time of sending and faults, longer where recovery is slow; up to 24h; draining and judging follow")
	f.StringVar(&flags.MixName, "mix", "demo", "what to send, as in loadtest run")
	f.StringVar(&flags.faults, "faults", "all", "names of faults, separated by commas")
	f.StringVar(&flags.script, "script", "",
		"faults at given times, in place of --faults: text like \"12s kill-engine, 20s pause-broker\", or "+chaos.HourScript+": that of make evidence, stretched to --duration")
	f.BoolVar(&flags.KafkaSecured, "kafka-locks", false, "secure Kafka; faults with a star are left out then")
	f.BoolVar(&flags.Room, "room", false, "start the control room, and print its URL")
	f.StringVar(&flags.Dir, "dir", filepath.Join(".stack", "chaos"),
		"folder of the stack, the report, its drawing and the result; what an earlier run left in it is removed")
	f.IntVar(&flags.Engines, "engines", 2, "engines that run all the time")
	f.IntVar(&flags.Replicas, "replicas", 1, "TigerBeetle servers, 1 or 3")
	f.StringVar(&flags.Kafka, "kafka", stack.Embedded,
		"broker: "+stack.Embedded+", "+stack.RedpandaLike+" or "+stack.Apache)
	f.DurationVar(&flags.Deadline, "deadline", 20*time.Second, "the engines' deadline of a payment")
	f.StringSliceVar(&flags.allow, "allow", reasonCodes(chaos.AllowedByDefault),
		"reason codes with which good payments may be rejected because of a fault, or none")
	f.StringArrayVar(&flags.failIf, "fail-if", nil,
		"the run proves nothing if this holds at the end, as of loadtest run, like 'late>1%'; repeatable")
	f.StringVar(&flags.Evidence, "evidence", "",
		"leave report, result and archive in this folder, for somebody who was not there")
	command.Long = "Starts a stack of its own on free ports, sends a load, and breaks the stack meanwhile. Clients\n" +
		"also pay over HTTP and read their payments' states. Then everything drains, and three judges decide:\n" +
		"every payment ended as it must (load), every centavo is in its place (audit), and what clients saw\n" +
		"of each payment fits one order of events, in which no answer of the API takes back an earlier one\n" +
		"(answers). If one says no, the exit code is 1, the seed and the command to repeat the run are\n" +
		"printed, and data and logs stay in --dir. If a fault breaks links, programs reach broker and ledger\n" +
		"over them. --dir gets report.html, its drawing faults.svg, and result.json.\n\n" +
		"Faults (a star: not with --kafka-locks):\n" + chaos.Kinds() + "\nEnvironment:\n" +
		environmentHelp(&flags.Population)
	command.RunE = func(command *cobra.Command, _ []string) error {
		limits, err := flags.complete()
		if err != nil {
			return err
		}
		started = true

		return flags.run(command.Context(), limits)
	}

	return command
}

// run carries out the run and prints its result.
func (f *chaosFlags) run(ctx context.Context, limits []load.Threshold) error {
	repeat := seedFlag.ReplaceAllString(commandLine(), "") + fmt.Sprintf(" --seed %d", f.Seed)
	fmt.Fprintf(os.Stderr, "seed %d, faults: %d\n", f.Seed, len(f.Plan))

	result, err := chaos.Run(ctx, f.Config)
	if ctx.Err() != nil && (errors.Is(err, chaos.ErrInterrupted) || errors.Is(err, ctx.Err())) {
		fmt.Printf("data and logs stay in %s until the next run\n", f.Dir)
		return errInterrupted
	}

	if err != nil {
		return fmt.Errorf("seed %d: %w; to repeat it:\n  %s", f.Seed, err, repeat)
	}
	result.Repeat = repeat
	broken := read(limits, result.Load)
	result.Write(os.Stdout)
	folder := cmp.Or(f.Evidence, f.Dir)

	page := filepath.Join(folder, "report.html")
	if err := errors.Join(result.Page().Write(page, folder),
		report.WriteJSON(filepath.Join(folder, "result.json"), result)); err != nil {
		return err
	}
	fmt.Printf("report: %s\n", page)

	if !result.Passed {
		return errors.New("the run failed")
	}

	return broken
}

// seedFlag is what the command that repeats a run says anew.
var seedFlag = regexp.MustCompile(` --seed[= ]\S+`)

// complete checks the flags and the environment.
func (f *chaosFlags) complete() (limits []load.Threshold, err error) {
	if err := settings.Parse(&f.Population); err != nil {
		return nil, err
	}

	if f.Replicas != 1 && f.Replicas != 3 {
		return nil, fmt.Errorf("--replicas is %d: it must be 1 or 3", f.Replicas)
	}

	if left, err := os.ReadDir(f.Evidence); err == nil && len(left) > 0 {
		return nil, fmt.Errorf("--evidence is %q: it must be a new or an empty folder", f.Evidence)
	}

	if slices.Equal(f.allow, []string{"none"}) {
		f.allow = nil
	}
	var errs [4]error
	f.Allowed, errs[0] = each("--allow", f.allow, pix.ParseReason)
	f.BinDir, errs[1] = programs()
	limits, errs[2] = each("--fail-if", f.failIf, load.ParseThreshold)

	_, errs[3] = mix.Parse(f.MixName)
	if err := errors.Join(append(errs[:],
		stack.CheckKafka("--kafka", f.Kafka),
		settings.InRange("--rate", f.Rate, 1, rateMax),
		settings.InRange("--duration", f.Duration, 15*time.Second, 24*time.Hour),
		settings.InRange("--engines", f.Engines, 1, enginesMax),
		settings.InRange("--deadline", f.Deadline, 5*time.Second, 10*time.Minute),
		settings.InRange("the number of payments (--rate × --duration)", int(f.Rate*f.Duration.Seconds()), 1,
			paymentsMax))...); err != nil {
		return nil, err
	}

	if f.Seed == 0 {
		f.Seed = 1 + uint64(rand.Uint32()>>1) // short enough to type
	}

	f.Brokers, f.Live = 1, os.Stderr
	if f.Plan, err = f.plan(); err != nil {
		return nil, err
	}

	return limits, f.CheckPlan()
}

// plan returns the faults.
func (f *chaosFlags) plan() ([]chaos.PlannedFault, error) {
	switch f.script {
	case chaos.HourScript:
		return chaos.HourPlan(f.Seed, f.Duration), nil
	case "":
		names, err := f.ParseKinds(f.faults)
		if err != nil {
			return nil, fmt.Errorf("--faults: %w", err)
		}

		return chaos.Plan(f.Seed, f.Duration, names), nil
	}

	return chaos.ParseScript(f.script, f.Seed)
}

func reasonCodes(reasons []pix.Reason) (codes []string) {
	for _, reason := range reasons {
		codes = append(codes, reason.String())
	}

	return codes
}
