// The stack command runs the whole clearing house on this machine, without Docker.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/liquida/liquida/deploy/kafka"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/platform/settings"
)

// exitNotRunning is the exit code of status when nothing runs.
const exitNotRunning = 3

const usage = `stack runs the whole clearing house on this machine, without Docker: a real TigerBeetle
server or a cluster of three, a Kafka broker (embedded, also behaving like Redpanda, or
Apache's), the bootstrap, the bank simulator, the clearing engines and the producer, each a process of its own.

  stack up       build and start everything in the background; starts what is missing of a
                 stack that is partly up
  stack status   what runs, where, and why something is not ready
  stack down     stop everything; the data stays for the next up
  stack clean    remove the data and the logs of a stopped stack
  stack demo     start everything on free ports, send a load through it, audit the result, stop

Each takes --help. Fixed ports of up: producer 8080, bank simulator 8081, Kafka 9092,
TigerBeetle 3001 (and on); telemetry (/metrics, /readyz): producer 9101, bank simulator 9102,
engines 9103 and up. Prometheus (9090) is started too if it is on PATH, and with
statsd_exporter on PATH it also sees TigerBeetle's own metrics.

The TigerBeetle server is taken from TIGERBEETLE_BIN or PATH, else built once and cached.
Apache Kafka is fetched with Maven once and cached; it needs Java 17 or later.

Exit codes: 0 done (status: all is ready), 1 failed (status: something is not ready),
2 bad usage, 3 not running (status).
`

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	go func() {
		<-ctx.Done()
		cancel() // a second Ctrl-C ends this process at once, and its children with it
	}()
	os.Exit(run(ctx, os.Args[1:]))
}

func run(ctx context.Context, arguments []string) int {
	if len(arguments) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return settings.ExitBadUsage
	}
	commands := map[string]func(context.Context, []string) error{
		"up": up, "down": down, "status": status, "clean": clean, "demo": demo,
	}
	command, known := commands[arguments[0]]
	switch {
	case known:
	case arguments[0] == "help" || arguments[0] == "-h" || arguments[0] == "--help":
		fmt.Print(usage)
		return settings.ExitOK
	default:
		fmt.Fprintf(os.Stderr, "stack: unknown command %q: it must be up, status, down, clean or demo\nSee stack --help.\n", arguments[0])
		return settings.ExitBadUsage
	}
	err := command(ctx, arguments[1:])
	var bad usageError
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return settings.ExitOK
	case errors.As(err, &bad):
		fmt.Fprintf(os.Stderr, "stack %s: %v\nSee stack %s --help.\n", arguments[0], err, arguments[0])
		return settings.ExitBadUsage
	case errors.Is(err, stack.ErrNotRunning):
		fmt.Fprintf(os.Stderr, "stack %s: %v\n", arguments[0], err)
		return exitNotRunning
	default:
		fmt.Fprintf(os.Stderr, "stack %s: %v\n", arguments[0], err)
		return settings.ExitFailure
	}
}

type usageError struct{ error }

// options are the flags of one command.
type options struct {
	flags     *flag.FlagSet
	dir, bin  string
	noBuild   bool
	freePorts bool
	output    bool
	engines   int
	replicas  int
	cacheGrid string
	reserve   int64 // MiB
	core      bool
	kafka     string
	secured   bool
	logLevel  string
	env       environment
}

// environment collects --env PROCESS:NAME=value.
type environment map[string][]string

func (environment) String() string { return "" }

func (e environment) Set(text string) error {
	process, variable, ok := strings.Cut(text, ":")
	if !ok || process == "" || !strings.Contains(variable, "=") {
		return fmt.Errorf("%q must be PROCESS:NAME=value, like clearing-engine:ENGINE_DEADLINE=10s", text)
	}
	e[process] = append(e[process], variable)
	return nil
}

func newOptions(command, purpose string) *options {
	o := &options{flags: flag.NewFlagSet(command, flag.ContinueOnError), env: environment{}}
	o.flags.SetOutput(io.Discard) // errors are printed once, by run
	o.flags.Usage = func() {
		fmt.Printf("stack %s: %s\n\n", command, purpose)
		o.flags.SetOutput(os.Stdout)
		o.flags.PrintDefaults()
		o.flags.SetOutput(io.Discard)
	}
	o.flags.StringVar(&o.dir, "dir", "", "the stack's `folder` of data, logs and state (default .stack at the root of the repository)")
	return o
}

func (o *options) forStarting() {
	o.flags.StringVar(&o.bin, "bin", "", "`folder` of the programs (default bin at the root of the repository)")
	o.flags.BoolVar(&o.noBuild, "no-build", false, "take the programs in --bin as they are")
	o.flags.IntVar(&o.engines, "engines", 1, "how many clearing engines")
	o.flags.IntVar(&o.replicas, "replicas", 1, "TigerBeetle servers, 1 or 3; a cluster of 3 goes on when one is lost")
	o.flags.StringVar(&o.cacheGrid, "cache-grid", "", "page `cache` of each TigerBeetle server, which takes 2 GiB of memory more (default 512MiB, of three 128MiB)")
	o.flags.Int64Var(&o.reserve, "ledger-reserve", 4096, "`MiB` of the disk reserved for each TigerBeetle server's new data file, 0 to 1048576: it is faster while it need not grow; a payment takes about 9 KB")
	o.flags.BoolVar(&o.core, "ledger-core", runtime.NumCPU() > 2, "give a single TigerBeetle server a processor of its own (default with more than two): more payments and shorter tails, but of two processors the other is not enough for many HTTP requests")
	o.flags.StringVar(&o.kafka, "kafka", stack.Embedded, "the `broker`: embedded, redpanda-like for the embedded one behaving like Redpanda, or apache for Apache Kafka "+kafka.Version)
	o.flags.BoolVar(&o.secured, "kafka-locks", false, "secure Kafka: TLS, a password for each user, least-privilege ACLs; the secrets are in kafka-keys of --dir")
	o.flags.StringVar(&o.logLevel, "log-level", "info", "of the services: debug, info, warn or error")
	o.flags.Var(o.env, "env", "`PROCESS:NAME=value`, a setting of one process or kind, like clearing-engine:ENGINE_DEADLINE=10s; repeatable")
}

// parse also sets the default folders, which are in the repository.
func (o *options) parse(arguments []string) error {
	if err := o.flags.Parse(arguments); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return usageError{err}
	}
	if extra := o.flags.Args(); len(extra) > 0 {
		return usageError{fmt.Errorf("unexpected argument %q", extra[0])}
	}
	if o.flags.Lookup("engines") != nil {
		if err := settings.InRange("--ledger-reserve", int(o.reserve), 0, 1<<20); err != nil {
			return usageError{err}
		}
		if err := settings.InRange("--engines", o.engines, 1, 64); err != nil {
			return usageError{err}
		}
		if o.replicas != 1 && o.replicas != 3 {
			return usageError{fmt.Errorf("--replicas is %d: it must be 1 or 3", o.replicas)}
		}
		if err := stack.CheckKafka("--kafka", o.kafka); err != nil {
			return usageError{err}
		}
	}
	if o.dir != "" && (o.bin != "" || o.flags.Lookup("bin") == nil) {
		return nil
	}
	root, err := stack.RepoRoot()
	if err != nil {
		return err
	}
	if o.dir == "" {
		o.dir = filepath.Join(root, ".stack")
	}
	if o.bin == "" {
		o.bin = filepath.Join(root, "bin")
	}
	return nil
}

func (o *options) build(ctx context.Context) error {
	if o.noBuild {
		return nil
	}
	root, err := stack.RepoRoot()
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "building the programs")
	return stack.Build(ctx, root, o.bin)
}

func (o *options) config() stack.Config {
	config := stack.Config{
		Dir: o.dir, BinDir: o.bin, Replicas: o.replicas, CacheGrid: o.cacheGrid, LedgerReserve: o.reserve << 20, LedgerCore: o.core, Kafka: o.kafka, KafkaSecured: o.secured, Engines: o.engines,
		Env: o.env, LogLevel: o.logLevel, Progress: os.Stderr,
	}
	if o.freePorts {
		config.Ports = stack.FreePorts
	}
	if o.output {
		config.Output = os.Stderr
	}
	return config
}

func up(ctx context.Context, arguments []string) error {
	o := newOptions("up", "build and start everything in the background, and wait until all of it is ready")
	o.forStarting()
	o.flags.BoolVar(&o.freePorts, "free-ports", false, "pick free ports instead of the fixed ones; status shows them")
	if err := o.parse(arguments); err != nil {
		return err
	}
	if err := o.build(ctx); err != nil {
		return err
	}
	config := o.config()
	config.Observers = stack.InstalledObservers()
	if err := stack.Up(ctx, config); err != nil {
		return err
	}
	return show(ctx, o.dir)
}

func down(ctx context.Context, arguments []string) error {
	o := newOptions("down", "stop everything in the reverse order of starting; the data stays")
	if err := o.parse(arguments); err != nil {
		return err
	}
	err := stack.Down(ctx, o.dir)
	if errors.Is(err, stack.ErrNotRunning) {
		fmt.Println("the stack is not running") // as the caller wants it
		return nil
	}
	if err == nil {
		fmt.Printf("stopped; the data stays in %s\n", o.dir)
	}
	return err
}

func status(ctx context.Context, arguments []string) error {
	o := newOptions("status", "what runs, where, and why something is not ready")
	if err := o.parse(arguments); err != nil {
		return err
	}
	return show(ctx, o.dir)
}

func show(ctx context.Context, dir string) error {
	all, err := stack.StatusOf(ctx, dir)
	if err != nil {
		return err
	}
	notReady := 0
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tPID\tREADY\tADDRESS\tTELEMETRY\tWHY NOT")
	for _, s := range all {
		ready := "yes"
		if s.Problem != "" {
			ready = "no"
			notReady++
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%s\n", s.Name, s.PID, ready, s.Address, s.Telemetry, s.Problem)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if notReady > 0 {
		return fmt.Errorf("%d of %d processes are not ready; `stack up` starts what is missing", notReady, len(all))
	}
	return nil
}

func clean(_ context.Context, arguments []string) error {
	o := newOptions("clean", "remove the data and the logs of a stopped stack, and those of the last demo")
	if err := o.parse(arguments); err != nil {
		return err
	}
	return errors.Join(stack.Clean(demoDir(o.dir)), stack.Clean(o.dir))
}

func demoDir(dir string) string { return filepath.Join(dir, "demo") }

func demo(ctx context.Context, arguments []string) error {
	began := time.Now()
	o := newOptions("demo", "start everything on free ports with fresh data, send a load through it, audit the result, stop")
	o.forStarting()
	o.flags.BoolVar(&o.output, "output", false, "show the logs of all processes while they run")
	rate := o.flags.Int("rate", 500, "payments per second")
	payments := o.flags.Int("payments", 10000, "payments in all")
	if err := o.parse(arguments); err != nil {
		return err
	}
	if err := errors.Join(settings.InRange("--rate", *rate, 1, 1_000_000), settings.InRange("--payments", *payments, 1, 100_000_000)); err != nil {
		return usageError{err}
	}
	o.dir, o.freePorts = demoDir(o.dir), true
	if err := o.build(ctx); err != nil {
		return err
	}
	if err := stack.Clean(o.dir); err != nil {
		return err
	}
	// A late bank answers after the engine's deadline. The demo shows that without waiting 40 s.
	// These come first, so that --env wins.
	o.env[stack.Engine] = append([]string{"ENGINE_DEADLINE=10s"}, o.env[stack.Engine]...)
	o.env[stack.Simulator] = append([]string{"SIMULATOR_LATE_DELAY=15s"}, o.env[stack.Simulator]...)
	s, err := stack.Start(ctx, o.config())
	if err != nil {
		return err
	}
	loadErr := s.Run(ctx, os.Stdout, os.Stderr, "loadtest", "run", fmt.Sprint("--rate=", *rate), fmt.Sprint("--payments=", *payments))
	auditErr := errors.New("the audit was not run")
	if ctx.Err() == nil { // also after a failed load
		auditErr = s.Run(ctx, os.Stdout, os.Stderr, "loadtest", "audit")
	}
	crashes := s.Crashes()
	stopErr := s.Stop(context.WithoutCancel(ctx))

	fmt.Printf("\nload   %s\naudit  %s\nlogs   %s\ntook   %v\n", verdict(loadErr), verdict(auditErr), filepath.Join(o.dir, "logs"), time.Since(began).Round(time.Second))
	var crashErr error
	for _, c := range crashes {
		crashErr = errors.Join(crashErr, fmt.Errorf("%s ended unasked (%s); the end of its log:\n%s", c.Name, c.How, c.Log))
	}
	return errors.Join(loadErr, auditErr, crashErr, stopErr)
}

func verdict(err error) string {
	if err != nil {
		return "FAILED"
	}
	return "passed"
}
