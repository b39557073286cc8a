package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/chaos"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/settings"
)

// chaosFlags are the flags of chaos.
type chaosFlags struct {
	seed     uint64
	rate     float64
	duration time.Duration
	mix      string
	faults   string
	script   string
	dir      string
	engines  int
	replicas int
	kafka    string
	deadline time.Duration
	json     string
	report   string
}

const (
	chaosShortest   = 15 * time.Second
	chaosLongest    = 24 * time.Hour
	chaosEnginesMax = 16
)

func chaosCommand() *cobra.Command {
	var flags chaosFlags
	environment := &sandbox.Population{}
	command := &cobra.Command{
		Use:   "chaos",
		Short: "Breaks a clearing house at random while payments flow, and proves that nothing was lost",
		Args:  cobra.NoArgs,
		Example: `  loadtest chaos
  loadtest chaos --seed 7 --rate 1000 --duration 10m
  loadtest chaos --faults kill-engine,pause-ledger
  loadtest chaos --duration 60s --script "10s kill-broker, 20s cut-kafka, 30s pause-engine"`,
	}
	f := command.Flags()
	f.Uint64Var(&flags.seed, "seed", 0, "decides payments, faults and their times; 0 draws one")
	f.Float64Var(&flags.rate, "rate", 500, "payments per second")
	f.DurationVar(&flags.duration, "duration", 2*time.Minute, "how long to send and to break; draining and judging come after it")
	f.StringVar(&flags.mix, "mix", "demo", "what to send, as of run")
	f.StringVar(&flags.faults, "faults", "all", "names of faults, comma-separated")
	f.StringVar(&flags.script, "script", "", "faults at given times instead: a file, or text like \"12s kill-engine, 20s pause-broker\"")
	f.StringVar(&flags.dir, "dir", filepath.Join(".stack", "chaos"), "folder of the stack that is run and broken; what an earlier run left in it is removed")
	f.IntVar(&flags.engines, "engines", 2, "engines that are there all the time")
	f.IntVar(&flags.replicas, "replicas", 1, "TigerBeetle servers, 1 or 3")
	f.StringVar(&flags.kafka, "kafka", stack.Embedded, "broker: "+stack.Embedded+" or "+stack.Apache)
	f.DurationVar(&flags.deadline, "deadline", 20*time.Second, "the engines' deadline of a payment")
	f.StringVar(&flags.json, "json", "", "write the result to this file as JSON")
	f.StringVar(&flags.report, "report", "", "write the report to this file as HTML (default report.html in --dir)")
	command.Long = "Starts a stack of its own on free ports, sends load and breaks the stack meanwhile. Clients\n" +
		"pay through the front door too and keep asking what became of it. Then everything drains and is\n" +
		"judged: every payment ended as it must (load), every centavo is in its place (audit), and what\n" +
		"clients saw fits one story of each payment (history). Exit code 1, the seed and the command to\n" +
		"repeat it if not; data and logs then stay in --dir. Engine 0 reaches broker and ledger directly,\n" +
		"the others over links that can be broken.\n\nFaults:\n" + chaos.Kinds() + "\nEnvironment:\n" + environmentHelp(environment)
	command.RunE = func(command *cobra.Command, _ []string) error {
		config, err := flags.config(environment)
		if err != nil {
			return err
		}
		started = true
		config.Live = os.Stderr
		fmt.Fprintf(os.Stderr, "seed %d, %d faults\n", config.Seed, len(config.Plan))
		result, err := chaos.Run(command.Context(), config)
		if err != nil {
			return fmt.Errorf("seed %d: %w", config.Seed, err)
		}
		result.Repeat = flags.repeat()
		result.Write(os.Stdout)
		if err := errors.Join(writeJSON(flags.json, result), result.WriteReport(flags.report)); err != nil {
			return err
		}
		fmt.Printf("report: %s\n", flags.report)
		if !result.Passed {
			return errors.New("the run failed")
		}
		return nil
	}
	return command
}

// config checks the flags, and fills in what they leave open.
func (f *chaosFlags) config(population *sandbox.Population) (config chaos.Config, err error) {
	if err := settings.Parse(population); err != nil {
		return config, err
	}
	for f.seed == 0 {
		f.seed = uint64(rand.Uint32()) // short enough to be typed
	}
	if f.report == "" {
		f.report = filepath.Join(f.dir, "report.html")
	}
	if f.rate < 1 || f.rate > rateMax {
		return config, fmt.Errorf("--rate is %v: it must be from 1 to %d", f.rate, rateMax)
	}
	if f.replicas != 1 && f.replicas != 3 {
		return config, fmt.Errorf("--replicas is %d: it must be 1 or 3", f.replicas)
	}
	if f.kafka != stack.Embedded && f.kafka != stack.Apache {
		return config, fmt.Errorf("--kafka is %q: it must be %s or %s", f.kafka, stack.Embedded, stack.Apache)
	}
	if err := errors.Join(
		settings.DurationInRange("--duration", f.duration, chaosShortest, chaosLongest),
		settings.InRange("--engines", f.engines, 2, chaosEnginesMax),
		settings.DurationInRange("--deadline", f.deadline, 5*time.Second, 10*time.Minute),
		settings.InRange("the number of payments (--rate × --duration)", int(f.rate*f.duration.Seconds()), 1, paymentsMax),
	); err != nil {
		return config, err
	}
	var plan []chaos.Planned
	if f.script != "" {
		text := f.script
		if file, err := os.ReadFile(text); err == nil {
			text = string(file)
		} else if !strings.Contains(text, " ") {
			return config, fmt.Errorf("--script: %w", err)
		}
		if plan, err = chaos.ParseScript(text, f.seed); err != nil {
			return config, err
		}
	} else {
		names, err := chaos.ParseKinds(f.faults)
		if err != nil {
			return config, fmt.Errorf("--faults: %w", err)
		}
		plan = chaos.Plan(f.seed, f.duration, names)
	}
	return chaos.Config{
		Dir: f.dir, Engines: f.engines, Replicas: f.replicas, Kafka: f.kafka, Population: *population,
		Seed: f.seed, Rate: f.rate, Duration: f.duration, MixName: f.mix, Plan: plan, Deadline: f.deadline,
	}, nil
}

// repeat is the command that does the same again.
func (f *chaosFlags) repeat() string {
	command := fmt.Sprintf("loadtest chaos --seed %d --rate %v --duration %v --mix %s --engines %d --replicas %d --kafka %s --deadline %v",
		f.seed, f.rate, f.duration, f.mix, f.engines, f.replicas, f.kafka, f.deadline)
	if f.script != "" {
		return command + fmt.Sprintf(" --script %q", f.script)
	}
	return command + " --faults " + f.faults
}
