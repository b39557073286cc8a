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
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/chaos"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/report"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/settings"
)

// chaosFlags are the flags of chaos. config is what all runs share.
type chaosFlags struct {
	config                 chaos.Config
	on, faults, script     string
	failIf                 []string
	limits                 []load.Threshold
	set                    []string
	seeds                  []uint
	runs                   int
	allow                  []string
	json, report, drawings string
}

// What chaos breaks.
const (
	onLocal   = "local"
	onCompose = "compose"
)

const (
	chaosShortest   = 15 * time.Second
	chaosLongest    = 24 * time.Hour
	chaosEnginesMax = 16
	chaosRunsMax    = 1000
)

func chaosCommand() *cobra.Command {
	var flags chaosFlags
	command := &cobra.Command{
		Use:   "chaos",
		Short: "Breaks a stack at random while payments flow, and proves that nothing was lost",
		Args:  cobra.NoArgs,
		Example: `  loadtest chaos
  loadtest chaos --seed 7 --rate 1000 --duration 10m
  loadtest chaos --faults kill-engine,pause-ledger
  loadtest chaos --seed 3,14,15,92,65
  loadtest chaos --runs 10 --duration 30m
  loadtest chaos --duration 60s --script "10s kill-broker, 20s cut-kafka, 30s pause-engine"
  loadtest chaos --on compose --duration 40s     # what docker compose up has started

  # Engines die at 10,000/s while 2 % of the payments get no response. No other may end as AB03.
  loadtest chaos --rate 10000 --duration 40s --deadline 40s \
    --mix accepted=88,same-bank=10,silent=2 --allow none \
    --script "10s kill-engine, 25s kill-engine-takeover"`,
	}
	f := command.Flags()
	f.StringVar(&flags.on, "on", onLocal, "what to break: "+onLocal+", a stack of its own, or "+onCompose+", the running one of this folder's compose file (or COMPOSE_FILE's)")
	f.UintSliceVar(&flags.seeds, "seed", nil, "decides payments, faults and their times; several make a run each; empty: a random one")
	f.IntVar(&flags.runs, "runs", 1, "number of runs, with ascending seeds")
	f.Float64Var(&flags.config.Rate, "rate", 500, "payments per second")
	f.DurationVar(&flags.config.Duration, "duration", 2*time.Minute, "time of sending and faults; draining and judging follow; up to 24h, for a soak test")
	f.StringVar(&flags.config.MixName, "mix", "demo", "what to send, as in loadtest run")
	f.StringVar(&flags.faults, "faults", "all", "names of faults, separated by commas")
	f.StringVar(&flags.script, "script", "", "faults at given times, in place of --faults: a file, text like \"12s kill-engine, 20s pause-broker\", or "+chaos.HourScript+": that of make evidence, stretched to --duration")
	f.BoolVar(&flags.config.KafkaSecured, "kafka-locks", false, "secure Kafka; faults of links, processes and topics are left out then")
	f.BoolVar(&flags.config.Room, "room", false, "start the control room, and print its URL")
	f.StringArrayVar(&flags.set, "env", nil, "`PROCESS:NAME=value`, a setting of one process or kind; repeatable")
	f.StringVar(&flags.config.Dir, "dir", filepath.Join(".stack", "chaos"), "folder of the stack; what an earlier run left in it is removed")
	f.IntVar(&flags.config.Engines, "engines", 2, "engines that run all the time, at least")
	f.IntVar(&flags.config.Replicas, "replicas", 1, "TigerBeetle servers, 1 or 3")
	f.StringVar(&flags.config.Kafka, "kafka", stack.Embedded, "broker: "+stack.Embedded+", "+stack.RedpandaLike+" or "+stack.Apache)
	f.IntVar(&flags.config.Brokers, "brokers", 1, "brokers, 1, or 3 of "+stack.Apache+", which keep three copies; faults of links, processes and topics are left out then")
	f.DurationVar(&flags.config.Deadline, "deadline", 20*time.Second, "the engines' deadline of a payment")
	f.StringSliceVar(&flags.allow, "allow", reasonCodes(chaos.AllowedByDefault), "reason codes with which good payments may be rejected because of a fault, or none")
	f.StringArrayVar(&flags.failIf, "fail-if", nil, "the run proves nothing if this holds at the end, as of loadtest run, like 'late>1%'; repeatable")
	f.StringVar(&flags.config.Evidence, "evidence", "", "leave report, result, archive and histograms in this folder, for somebody who was not there; not with several runs")
	f.StringVar(&flags.json, "json", "", "write the result to this file as JSON; several runs are a list")
	f.StringVar(&flags.report, "report", "", "write the report to this file as HTML (default report.html in --dir); not with several runs")
	f.StringVar(&flags.drawings, "drawings", "", "write the report's drawing to this folder as SVG (faults.svg); not with several runs")
	command.Long = "Starts a stack of its own on free ports, sends a load, and breaks the stack meanwhile. Clients\n" +
		"also pay over HTTP and read their payments' states. Then everything drains, and three judges decide:\n" +
		"every payment ended as it must (load), every centavo is in its place (audit), and what clients saw\n" +
		"of each payment fits one order of events, in which no answer of the API takes back an earlier one\n" +
		"(answers). If one says no, the exit code is 1, the seed and the command to repeat the run are\n" +
		"printed, and data and logs stay in --dir. Programs reach broker and ledger over links, which faults\n" +
		"break.\n\n" +
		"--on compose needs the docker command, an idle stack, and Linux (it reads the engines' counters at\n" +
		"the containers' own addresses). It kills, stops and pauses containers, adds engines up to --engines,\n" +
		"and leaves the stack running as it was. Deadline, broker and ledger are those of the stack.\n\n" +
		"Faults (a star: only with --on local):\n" + chaos.Kinds() + "\nEnvironment:\n" + environmentHelp(&flags.config.Population)
	command.RunE = func(command *cobra.Command, _ []string) error {
		configs, err := flags.configs()
		if err != nil {
			return err
		}
		started = true
		var results []*chaos.Result
		var problem error // of a run without a result: no other run follows
		var invalid error // a threshold is broken
		for _, config := range configs {
			result, err := flags.run(command.Context(), config)
			if errors.Is(err, errThreshold) {
				invalid, err = errors.Join(invalid, fmt.Errorf("seed %d: %w", config.Seed, err)), nil
			}
			if ctx := command.Context(); ctx.Err() != nil && (errors.Is(err, chaos.ErrInterrupted) || errors.Is(err, ctx.Err())) {
				fmt.Printf("data and logs stay in %s until the next run\n", config.Dir)
				return errInterrupted
			}
			if err != nil {
				problem = fmt.Errorf("seed %d: %w; to repeat it:\n  %s", config.Seed, err, repeat(config.Seed))
				break
			}
			results = append(results, result)
		}
		if len(configs) > 1 {
			chaos.WriteTable(os.Stdout, results)
			problem = errors.Join(problem, report.WriteJSON(flags.json, results))
		} else if len(results) == 1 {
			problem = errors.Join(problem, report.WriteJSON(flags.json, results[0]))
		}
		failed := 0
		for _, result := range results {
			if !result.Passed {
				failed++
			}
		}
		if failed > 0 {
			problem = errors.Join(problem, fmt.Errorf("%d of %d runs failed", failed, len(configs)))
		}
		return cmp.Or(problem, invalid)
	}
	return command
}

// run carries out one run and prints its result.
func (f *chaosFlags) run(ctx context.Context, config chaos.Config) (*chaos.Result, error) {
	config.Live = os.Stderr
	fmt.Fprintf(os.Stderr, "seed %d, %d faults\n", config.Seed, len(config.Plan))
	result, err := chaos.Run(ctx, config)
	if err != nil {
		return nil, err
	}
	result.Repeat = repeat(config.Seed)
	broken := read(f.limits, result.Load)
	result.Write(os.Stdout)
	page, json := cmp.Or(f.report, filepath.Join(cmp.Or(config.Evidence, config.Dir), "report.html")), ""
	if config.Evidence != "" {
		json = filepath.Join(config.Evidence, "result.json")
	}
	if err := errors.Join(result.Page().Write(page, f.drawings), report.WriteJSON(json, result)); err != nil {
		return nil, err
	}
	fmt.Printf("report: %s\n", page)
	return result, broken
}

// configs checks the flags and returns the configuration of each run.
func (f *chaosFlags) configs() ([]chaos.Config, error) {
	if err := settings.Parse(&f.config.Population); err != nil {
		return nil, err
	}
	if f.on != onLocal && f.on != onCompose {
		return nil, fmt.Errorf("--on is %q: it must be %s or %s", f.on, onLocal, onCompose)
	}
	if f.config.Rate < 1 || f.config.Rate > rateMax {
		return nil, fmt.Errorf("--rate is %v: it must be from 1 to %d", f.config.Rate, rateMax)
	}
	if f.config.Replicas != 1 && f.config.Replicas != 3 {
		return nil, fmt.Errorf("--replicas is %d: it must be 1 or 3", f.config.Replicas)
	}
	if err := stack.CheckKafka("--kafka", f.config.Kafka); err != nil {
		return nil, err
	}
	if b := f.config.Brokers; b != 1 && (b != 3 || f.config.Kafka != stack.Apache || f.config.KafkaSecured) {
		return nil, fmt.Errorf("--brokers is %d: it must be 1, or 3 with --kafka %s and without --kafka-locks", b, stack.Apache)
	}
	allowed := []pix.Reason{}
	if !slices.Equal(f.allow, []string{"none"}) {
		var err error
		if allowed, err = reasons(f.allow); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(
		settings.InRange("--duration", f.config.Duration, chaosShortest, chaosLongest),
		settings.InRange("--engines", f.config.Engines, 1, chaosEnginesMax),
		settings.InRange("--runs", f.runs, 1, chaosRunsMax),
		settings.InRange("the number of seeds (--seed)", len(f.seeds), 0, chaosRunsMax),
		settings.InRange("--deadline", f.config.Deadline, 5*time.Second, 10*time.Minute),
		settings.InRange("the number of payments (--rate × --duration)", int(f.config.Rate*f.config.Duration.Seconds()), 1, paymentsMax),
	); err != nil {
		return nil, err
	}
	if len(f.seeds) == 0 {
		f.seeds = []uint{1 + uint(rand.Uint32()>>1)} // short enough to type
	}
	if f.runs > 1 && len(f.seeds) > 1 {
		return nil, fmt.Errorf("--runs is %d and --seed has %d seeds: give one of them", f.runs, len(f.seeds))
	}
	for run := 1; run < f.runs; run++ {
		f.seeds = append(f.seeds, f.seeds[0]+uint(run))
	}
	if f.config.Evidence != "" && (len(f.seeds) > 1 || f.on == onCompose) {
		return nil, fmt.Errorf("--evidence is %q: it must be of one run of a stack of its own", f.config.Evidence)
	}
	if left, err := os.ReadDir(f.config.Evidence); err == nil && len(left) > 0 {
		return nil, fmt.Errorf("--evidence is %q: it must be a new or an empty folder", f.config.Evidence)
	}
	if f.report+f.drawings != "" && len(f.seeds) > 1 {
		return nil, fmt.Errorf("--report is %q and --drawings is %q with %d runs: each run writes its own report, in a folder of its seed in --dir", f.report, f.drawings, len(f.seeds))
	}
	var err error
	if f.limits, err = thresholds(f.failIf); err != nil {
		return nil, err
	}
	if f.config.Env, err = variablesByProcess(f.set); err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f.config.BinDir = filepath.Dir(program)
	var configs []chaos.Config
	for _, seed := range f.seeds {
		plan, err := f.plan(uint64(seed))
		if err != nil {
			return nil, err
		}
		dir := f.config.Dir
		if len(f.seeds) > 1 {
			dir = filepath.Join(dir, fmt.Sprintf("seed-%d", seed))
		}
		config := f.config
		config.Containers, config.Dir, config.Seed, config.Plan, config.Allowed = f.on == onCompose, dir, uint64(seed), plan, allowed
		configs = append(configs, config)
	}
	return configs, nil
}

// bare reports whether there are no links to break.
func (f *chaosFlags) bare() bool {
	return f.on == onCompose || f.config.KafkaSecured || f.config.Brokers > 1
}

// plan returns the faults of a seed.
func (f *chaosFlags) plan(seed uint64) (plan []chaos.PlannedFault, err error) {
	if f.script == chaos.HourScript {
		plan = chaos.HourPlan(seed, f.config.Duration)
	} else if f.script != "" {
		text := f.script
		if file, err := os.ReadFile(text); err == nil {
			text = string(file)
		} else if !strings.Contains(text, " ") {
			return nil, fmt.Errorf("--script: %w", err)
		}
		plan, err = chaos.ParseScript(text, seed)
	} else {
		names, unknown := chaos.ParseKinds(f.faults)
		if unknown != nil {
			return nil, fmt.Errorf("--faults: %w", unknown)
		}
		if f.bare() && f.faults == "all" {
			names = chaos.BareKinds()
		}
		plan = chaos.Plan(seed, f.config.Duration, names)
	}
	if err == nil && f.bare() {
		err = chaos.RefuseBare(plan)
	}
	return plan, err
}

// repeat returns the command that repeats the run of a seed.
func repeat(seed uint64) string {
	return seeds.ReplaceAllString(commandLine(), "") + fmt.Sprintf(" --seed %d", seed)
}

var seeds = regexp.MustCompile(` --(seed|runs)[= ]\S+`)

func reasonCodes(reasons []pix.Reason) (codes []string) {
	for _, reason := range reasons {
		codes = append(codes, reason.String())
	}
	return codes
}
