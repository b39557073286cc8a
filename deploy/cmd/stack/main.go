// The stack command runs the whole clearing house on this machine, without Docker.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/liquida/liquida/deploy/kafka"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/platform/settings"
)

// exitNotRunning is the exit code of status when nothing runs.
const exitNotRunning = 3

const long = `stack runs the whole clearing house on this machine, without Docker, each program a process of its
own. docs/running.md lists the ports.
The TigerBeetle server is taken from TIGERBEETLE_BIN, else built once and cached.
Apache Kafka is fetched with Maven once and cached; it needs Java 17 or later.

Exit codes: 0 done (status: all is ready), 1 failed (status: something is not ready),
2 bad usage, 3 not running (status).`

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, cancel) // a second Ctrl-C ends this process at once, and its children with it
	o := &options{env: map[string][]string{}}
	root := &cobra.Command{Use: "stack", Short: "Runs the whole clearing house on this machine, without Docker",
		Long: long, Version: settings.Version(),
		SilenceUsage: true, SilenceErrors: true, RunE: func(*cobra.Command, []string) error {
			return errors.New("no command: it must be up, status, down or clean")
		}}
	root.SetUsageTemplate(settings.Fitted(root.UsageTemplate()))
	root.CompletionOptions.DisableDefaultCmd = true
	root.PersistentFlags().StringVar(&o.dir, "dir", "",
		"the stack's `folder` of data, logs and state (default .stack at the root of the repository)")
	root.AddCommand(
		o.upCommand(),
		o.command("status", "what runs, where, and why something is not ready", func(ctx context.Context) error {
			return show(ctx, o.config.Dir)
		}),
		o.command("down", "stop everything in the reverse order of starting; the data stays", o.down),
		o.command("clean", "remove the data and the logs of a stopped stack, and those of the last demo",
			func(context.Context) error {
				return errors.Join(stack.Clean(filepath.Join(o.config.Dir, "demo")), stack.Clean(o.config.Dir))
			}),
	)
	root.AddCommand(&cobra.Command{Use: stack.Supervisor + " FOLDER", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, arguments []string) error {
			o.started = true
			return stack.Supervise(arguments[0])
		}})

	command, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return
	case !o.started:
		fmt.Fprintf(os.Stderr, "%s: %v\nSee %[1]s --help.\n", command.CommandPath(), err)
		os.Exit(settings.ExitBadUsage)
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", command.CommandPath(), err)

	if errors.Is(err, stack.ErrNotRunning) {
		os.Exit(exitNotRunning)
	}
	os.Exit(settings.ExitFailure)
}

// options are the flags of all commands, and the configuration that they make.
type options struct {
	config    stack.Config
	dir, root string
	noBuild   bool
	freePorts bool
	reserve   int64 // MiB
	variables []string
	env       map[string][]string
	started   bool // the flags were good
}

// command returns a command that has the stack's folder.
func (o *options) command(name, purpose string, run func(context.Context) error) *cobra.Command {
	return &cobra.Command{Use: name, Short: purpose, Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			o.started = true

			root, err := stack.RepoRoot()
			if err != nil && (o.dir == "" || name == "up") {
				return fmt.Errorf("%w; all but up also run elsewhere, with --dir", err)
			}
			o.root, o.config.Dir, o.config.BinDir = root, cmp.Or(o.dir, filepath.Join(root, ".stack")),
				filepath.Join(root, "bin")

			return run(command.Context())
		}}
}

func (o *options) upCommand() *cobra.Command {
	command := o.command("up", "start everything in the background, and wait until all of it is ready", o.up)
	command.Long = `Build and start everything in the background, and wait until all of it is ready. What runs already
stays as it is; what is missing starts, and stays, also if another process fails. Only what --env
changes restarts. It stays until the next one, or down.`
	flags, c := command.Flags(), &o.config
	flags.BoolVar(&o.noBuild, "no-build", false, "take the programs in bin as they are")
	flags.IntVar(&c.Engines, "engines", 1, "how many clearing engines")
	flags.IntVar(&c.Replicas, "replicas", 1, "TigerBeetle servers, 1 or 3; a cluster of 3 goes on when one is lost")
	flags.StringVar(&c.CacheGrid, "cache-grid", "",
		"page `cache` of each TigerBeetle server, which takes 2 GiB of memory more (default 512MiB, of three 128MiB)")
	flags.IntVar(&c.LimitGiB, "limit-storage", 0,
		"`GiB` to which the data file of each TigerBeetle server may grow, 2 to 65536 (default 16384); there the server ends, until it starts with more")
	flags.Int64Var(&o.reserve, "ledger-reserve", 4096,
		"`MiB` of the disk reserved for each TigerBeetle server's new data file, 0 to 1048576: it is faster while it need not grow; a payment takes about 9 KB")
	flags.StringVar(&c.Kafka, "kafka", stack.Embedded,
		"the `broker`: embedded, redpanda-like for the embedded one behaving like Redpanda, or apache for Apache Kafka "+kafka.Version)
	flags.BoolVar(&c.KafkaSecured, "kafka-locks", false,
		"secure Kafka: TLS, a password for each user, least-privilege ACLs; the secrets are in kafka-keys of --dir")
	flags.StringArrayVar(&o.variables, "env", nil,
		"`PROCESS:NAME=value`, a setting of one process or kind, like clearing-engine:ENGINE_DEADLINE=10s; repeatable. One that the program does not know has no effect")
	flags.BoolVar(&c.Cuts, "cuts", false,
		"lead the connections of engines and producer to broker and ledger through links, which the control room can cut; not with --kafka-locks")
	flags.BoolVar(&c.Room, "room", true, "start the control room, a page that shows the stack and breaks it")
	flags.BoolVar(&o.freePorts, "free-ports", false, "pick free ports instead of the fixed ones; status shows them")

	return command
}

// check checks the flags of all commands; those that a command does not have are at their defaults.
func (o *options) check() error {
	o.config.LedgerReserve, o.config.Env, o.config.Progress = o.reserve<<20, o.env, os.Stderr
	for _, text := range o.variables {
		process, variable, _ := strings.Cut(text, ":")
		o.env[process] = append(o.env[process], variable)
	}

	var badReplicas error
	if o.config.Replicas != 1 && o.config.Replicas != 3 {
		badReplicas = fmt.Errorf("--replicas is %d: it must be 1 or 3", o.config.Replicas)
	}

	return errors.Join(badReplicas,
		stack.CheckProcesses(o.env),
		settings.InRange("--ledger-reserve", o.reserve, 0, 1<<20),
		settings.InRange("--engines", o.config.Engines, 1, stack.EnginesMax),
		stack.CheckKafka("--kafka", o.config.Kafka))
}

func (o *options) up(ctx context.Context) error {
	if !o.noBuild {
		fmt.Fprintln(os.Stderr, "building the programs")

		if err := stack.Build(ctx, o.root, o.config.BinDir); err != nil {
			return err
		}
	}

	if o.freePorts {
		o.config.Ports = stack.FreePorts
	}

	o.config.Archive = true
	// Of two processors the other would not be enough for many HTTP requests.
	o.config.LedgerCore = runtime.NumCPU() > 2

	if err := stack.Up(ctx, o.config); err != nil {
		return err
	}

	if err := show(ctx, o.config.Dir); err != nil {
		return err
	}
	fmt.Print("\nnext: make load sends payments, make audit proves the books after it, make down stops\n")

	return nil
}

func (o *options) down(ctx context.Context) error {
	err := stack.Down(ctx, o.config.Dir)
	if errors.Is(err, stack.ErrNotRunning) {
		fmt.Println("the stack is not running") // as the caller wants it
		return nil
	}

	if err == nil {
		fmt.Printf("stopped; the data stays in %s\n", o.config.Dir)
	}

	return err
}

func show(ctx context.Context, dir string) error {
	all, err := stack.Attach(dir).Status(ctx)
	if err != nil {
		return err
	}
	var problems []string
	needed := 0
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tPID\tSTATE\tADDRESS\tTELEMETRY")

	for _, s := range all {
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\n", s.Name, s.PID, s.State, s.Address, s.Telemetry)

		if s.Problem != "" {
			problems = append(problems, fmt.Sprintf("%s: %s", s.Name, s.Problem))
			if !s.Optional {
				needed++
			}
		}
	}

	if err := table.Flush(); err != nil {
		return err
	}

	for _, problem := range problems {
		fmt.Println(problem)
	}

	if needed > 0 {
		return fmt.Errorf("%d of %d processes are not ready; `stack up` starts what is missing, and the logs in %s show why",
			needed, len(all), filepath.Join(dir, "logs"))
	}

	return nil
}
