// Package chaos runs a clearing house and breaks it at random while payments flow. Then load,
// audit and API answers judge the run. A seed decides everything random.
package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/answers"
	"github.com/liquida/liquida/loadtest/audit"
	"github.com/liquida/liquida/loadtest/live"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
)

// Config says what to run and how to break it.
type Config struct {
	// Containers breaks the stack that docker compose has started, and not one of its own. The
	// fields up to Engines are for a stack of its own. Deadline is read from the containers.
	Containers bool
	Dir        string // the stack's folder; removes what an earlier run left there
	BinDir     string // folder of the programs, those of make build
	Replicas   int
	Kafka      string
	Brokers    int // without links if there are several
	// KafkaSecured has no links to break: a link cannot put its address into what Kafka says over TLS.
	KafkaSecured bool
	Env          map[string][]string // more of the environment, as of stack.Config
	Room         bool                // start the control room, and say where it is
	Engines      int                 // at least
	Population   sandbox.Population

	Seed     uint64
	Rate     float64
	Duration time.Duration
	MixName  string
	Plan     []PlannedFault
	// Deadline is the engines' deadline. If it is shorter than in production, a run ends sooner
	// and more payments end by it.
	Deadline time.Duration
	// Allowed are the reasons with which a good payment may be rejected because of a fault. nil
	// means AllowedByDefault, empty none.
	Allowed []pix.Reason

	// Evidence is a folder that keeps the archive of a run that passed; empty: nothing is kept.
	Evidence string

	Live *os.File // where to show progress
}

const (
	faultsAtOnce = 3
	// The order is what matters: bank < engine < ledger.
	pendingAfterDeadline = 6 * time.Second
	lateAfterDeadline    = 4 * time.Second
	// recoveryMax is the most that the system may take until everything is ready again.
	recoveryMax = 90 * time.Second
	// clientsShare is the number of payments over HTTP for each payment of the load.
	clientsShare   = 0.05
	clientsRateMax = 50
	asksPerSecond  = 100
)

// AllowedByDefault are the reasons with which good payments may be rejected because of faults
// of all kinds together. A crash alone must reject none.
var AllowedByDefault = append([]pix.Reason{pix.ReasonPayeePSPSilent, pix.ReasonPayeePSPBusy, pix.ReasonTooLate, rejectedByBank}, load.ActReasons...)

// ErrInterrupted ends a run after Ctrl-C, if nothing was wrong until then.
var ErrInterrupted = errors.New("interrupted")

// Run breaks a clearing house. The Result says whether the run passed; an error means that
// there is no result.
func Run(ctx context.Context, config Config) (*Result, error) {
	shown := newScreen(config.Live)
	shown.planned = len(config.Plan)
	if config.Allowed == nil {
		config.Allowed = AllowedByDefault
	}
	w := &world{screen: shown, taken: map[string]chan struct{}{}}
	begin := beginProcesses
	if config.Containers {
		begin = beginContainers
	}
	end, err := begin(ctx, &config, w)
	if err != nil {
		return nil, err
	}
	stop := sync.OnceValue(func() error { return end(context.WithoutCancel(ctx)) })
	defer func() { _ = stop() }()

	result, err := breakIt(ctx, config, w)
	if err != nil {
		return nil, err
	}
	if err := stop(); err != nil {
		result.Problems = append(result.Problems, "cannot stop in order: "+err.Error())
	}
	for _, crash := range w.Crashes() {
		result.Problems = append(result.Problems, fmt.Sprintf("%s ended unasked (%s):\n%s", crash.Name, crash.How, crash.Log))
	}
	result.judge()
	if config.Evidence != "" {
		if err := os.CopyFS(filepath.Join(config.Evidence, stack.Archiver), os.DirFS(w.processes.ArchiveFolder())); err != nil {
			return nil, fmt.Errorf("cannot keep the archive: %w", err)
		}
	}
	if result.Passed && !config.Containers {
		_ = os.RemoveAll(filepath.Join(config.Dir, "data")) // gigabytes; after a failure everything stays
	}
	return result, nil
}

// beginProcesses starts a stack whose programs reach their servers over links.
func beginProcesses(ctx context.Context, config *Config, w *world) (end func(context.Context) error, err error) {
	if err := stack.Clean(config.Dir); err != nil {
		return nil, err
	}
	w.screen.event("starting a stack in %s", config.Dir)
	w.links = &links{of: map[string]*programLinks{}}
	via := w.links.via
	if config.KafkaSecured || config.Brokers > 1 {
		if via, err = nil, RefuseBare(config.Plan); err != nil {
			return nil, err
		}
	}
	environment := map[string][]string{
		stack.Engine: {"ENGINE_DEADLINE=" + config.Deadline.String(), "ENGINE_PENDING_TIMEOUT=" + (config.Deadline + pendingAfterDeadline).String(),
			// A stopping engine waits half of it for silent banks, and its partitions wait, too.
			"SHUTDOWN_TIMEOUT=4s"},
		stack.Simulator: {"SIMULATOR_LATE_DELAY=" + (config.Deadline + lateAfterDeadline).String()},
		stack.Archiver:  {"ARCHIVE_SEGMENT_ROWS_MAX=1000"},                                 // there are segments before a minute is over
		stack.Bootstrap: {"TRANSIENT_RETENTION=" + (time.Hour + config.Duration).String()}, // the judges read all of it
		stack.Broker:    {"BROKER_CHECK_BATCHES=false", "BROKER_TRANSACTIONS=true"},        // the engines must survive without it
	}
	for process, more := range config.Env {
		environment[process] = append(environment[process], more...)
	}
	config.Env = environment
	running, err := stack.Start(ctx, stack.Config{
		Dir: config.Dir, BinDir: config.BinDir, Ports: stack.FreePorts, Engines: 1, Replicas: config.Replicas, Kafka: config.Kafka, Brokers: config.Brokers,
		KafkaSecured: config.KafkaSecured, CacheGrid: "256MiB", LedgerReserve: 1 << 30, ReadyWithin: recoveryMax, RestartCrashed: true, Via: via,
		Env: environment, Archive: true, Room: config.Room, Progress: config.Live,
	})
	if err != nil {
		w.links.close()
		return nil, err
	}
	w.system, w.processes, w.engines = running, running, []string{stack.EngineName(0)}
	w.instance = func(engine string) string { return engine }
	if config.Room {
		if err = running.WaitReady(ctx, stack.Room); err == nil {
			var url string
			url, err = running.RoomURL()
			w.roomURL = url
			w.screen.event("watch it: %s", url)
		}
		if err != nil {
			w.screen.event("there is no control room: %v", err)
		}
	}
	return func(ctx context.Context) error {
		defer w.links.close() // after the programs have stopped, in order
		return running.Stop(ctx)
	}, nil
}

// beginContainers finds the stack that docker compose has started.
func beginContainers(ctx context.Context, config *Config, w *world) (end func(context.Context) error, err error) {
	if err := RefuseBare(config.Plan); err != nil {
		return nil, err
	}
	found, err := findContainers(ctx)
	if err != nil {
		return nil, err
	}
	w.system, w.engines = found, found.Engines()
	w.instance = found.instance
	if config.Deadline, err = time.ParseDuration(found.engineDeadline); err != nil {
		return nil, errors.Join(err, found.Stop(context.WithoutCancel(ctx)))
	}
	config.Replicas, config.Kafka = len(found.Replicas()), found.brokerImage
	return found.Stop, nil
}

// breakIt carries out a run on a running clearing house.
func breakIt(ctx context.Context, config Config, w *world) (*Result, error) {
	options, err := w.Kafka().Options()
	if err != nil {
		return nil, err
	}
	kafka, err := kgo.NewClient(append(options, kgo.ClientID("chaos"))...)
	if err != nil {
		return nil, err
	}
	defer kafka.Close()
	client, err := ledger.Connect(ledger.Config{Addresses: strings.Split(w.TigerBeetleAddresses(), ",")})
	if err != nil {
		return nil, err
	}
	defer func() {
		// Before the stack stops: without a ledger Close would never return.
		closed := make(chan struct{})
		go func() { defer close(closed); client.Close() }()
		select {
		case <-closed:
		case <-time.After(10 * time.Second):
		}
	}()

	callers, err := w.Keys()
	if err != nil {
		return nil, err
	}
	var guests []pix.Account
	if w.processes != nil { // containers keep the files of secrets to themselves
		if err := w.invite(ctx, config, callers); err != nil {
			return nil, err
		}
		guests = load.GuestAccounts
	}
	w.admin = kadm.NewClient(kafka)
	w.simulator, w.callers = &banks{load.NewCallers(w.SimulatorURL(), callers), config.Population}, load.NewCallers(w.ProducerURL(), callers)
	for len(w.engines) < config.Engines {
		name, err := w.AddEngine(ctx)
		if err != nil {
			return nil, err
		}
		w.engines = append(w.engines, name)
	}
	return (&run{config: config, world: w, client: client, kafka: options, callers: callers, guests: guests}).carryOut(ctx)
}

// run is one run on a running stack.
type run struct {
	config  Config
	world   *world
	client  tigerbeetle.Client
	kafka   []kgo.Opt
	callers map[string]string // keys by holder
	guests  []pix.Account

	observer *observer
	judge    *answers.Judge
	clients  *answers.Clients
	counters counterReader

	mu     sync.Mutex
	events []*Event
}

func (r *run) carryOut(ctx context.Context) (*Result, error) {
	config, w := r.config, r.world
	weights, err := mix.Parse(config.MixName)
	if err != nil {
		return nil, err
	}
	payments, clientsRate := max(1, int(config.Rate*config.Duration.Seconds())), min(clientsRateMax, max(1, config.Rate*clientsShare))
	r.judge = answers.NewJudge(payments+int(clientsRate*config.Duration.Seconds()), clockTolerance)
	r.clients = answers.NewClients(answers.Config{
		Doors: []string{w.ProducerURL()}, Keys: r.callers, Population: config.Population, Guests: r.guests, Judge: r.judge, Seed: config.Seed, Asks: asksPerSecond,
	})
	begin, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := r.clients.Begin(begin); err != nil {
		return nil, err
	}
	w.start = time.Now()
	if r.observer, err = observe(ctx, r.kafka, r.judge, w.start); err != nil {
		return nil, err
	}

	sending, stopSending := context.WithTimeout(ctx, config.Duration)
	defer stopSending()
	patience, losePatience := context.WithTimeout(ctx, config.Duration+config.Deadline+recoveryMax)
	defer losePatience()
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	var background sync.WaitGroup
	var balancesErr error
	background.Go(func() { balancesErr = readBalances(watching, r.client, config.Population, r.judge) })
	background.Go(func() { r.counters.run(watching, r.engineTelemetry) })
	background.Go(func() { r.clients.Pay(sending, patience, clientsRate, r.observer.Observer) })
	background.Go(func() { r.clients.Ask(watching) })
	var light *Light
	if w.roomURL != "" {
		background.Go(func() { light = watchLight(watching, w.roomURL) })
	}
	var sample *followed // of evidence
	if config.Evidence != "" {
		sample = follow(payments)
	}
	faulted := make(chan struct{})
	go func() { defer close(faulted); r.inject(ctx) }()

	progress := w.screen
	loaded, err := load.Run(ctx, load.Config{
		Stream: r.world.Kafka(), Population: config.Population,
		Mix: weights, MixName: config.MixName, Rate: config.Rate, Payments: payments, Seed: config.Seed,
		DrainTimeout: config.Deadline + recoveryMax, OutstandingMax: 1_000_000, Allowed: config.Allowed, Faults: true,
		Sending:     func(id pix.EndToEndID) { r.judge.Choose(id); sample.sending(id) },
		Told:        sample.told,
		LedgerHolds: load.LedgerHolds(func() (tigerbeetle.Client, error) { return r.client, nil }),
		Deadline:    config.Deadline, Progress: progress.progress, ProgressEvery: progress.every,
	})
	if progress.terminal {
		fmt.Fprintln(progress.file)
	}
	<-faulted
	if err != nil {
		return nil, err
	}
	if loaded.Interrupted {
		progress.event("%s", loaded.Verdict())
		if loaded.FailureCount > 0 {
			return nil, fmt.Errorf("%d payments have a wrong outcome, like %s (%s): %s", loaded.FailureCount, loaded.Failures[0].EndToEndID, loaded.Failures[0].Case, loaded.Failures[0].Problem)
		}
		return nil, ErrInterrupted
	}
	progress.event("the load has drained; clients finish, then audit and answers judge")
	losing := time.AfterFunc(config.Deadline+30*time.Second, losePatience)
	r.clients.Wait()
	losing.Stop()
	stopWatching()
	background.Wait()

	var secrets audit.Secrets
	if w.processes != nil { // containers keep theirs to themselves
		if secrets, err = audit.ReadSecrets(w.processes.AnswerKeysFile()); err != nil {
			return nil, err
		}
	}
	var archive fs.FS
	if w.processes != nil {
		archive = os.DirFS(w.processes.ArchiveFolder())
	}
	verdict, err := audit.Run(ctx, audit.Config{
		Archive: archive,
		Secrets: secrets, LateRequests: r.lateRequests(), Behind: w.Kafka().Behind, Kafka: r.kafka, Ledger: r.client, Deadline: config.Deadline, HoldMax: max(time.Minute, config.Deadline+pendingAfterDeadline), Wait: config.Deadline + pendingAfterDeadline + 30*time.Second,
		Log: func(format string, arguments ...any) { progress.event(format, arguments...) },
	})
	// Only now: the audit waited until no payment was in flight.
	finish, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := errors.Join(err, balancesErr, r.observer.Finish(finish)); err != nil {
		return nil, err
	}
	untold, err := r.clients.Finish(finish, r.client)
	if err != nil {
		return nil, err
	}
	days, cancelDays := context.WithTimeout(ctx, 5*time.Minute) // every movement of every reserve, twice
	defer cancelDays()
	if err := r.clients.ReadDays(days, r.client); err != nil {
		return nil, err
	}
	told, err := r.judge.Conclude(r.client)
	if err != nil {
		return nil, err
	}
	result := r.result(loaded, verdict, told)
	if result.Light = light; light != nil && light.Seconds[live.Red] > 0 {
		result.Problems = append(result.Problems, fmt.Sprintf("the live audit's light was red: %v", light.Findings))
	}
	if sample != nil {
		result.Budget, err = sample.budget(ctx, w.Kafka(), loaded.Latency("settled").Mean)
		if err != nil {
			result.Problems = append(result.Problems, err.Error())
		} else if off := result.Budget.Off(); math.Abs(off) > budgetOffMax {
			result.Problems = append(result.Problems, fmt.Sprintf("the parts of a payment's time differ from the whole by %.1f %%", 100*off))
		}
	}
	if untold > 0 {
		result.Problems = append(result.Problems, fmt.Sprintf("at the end the producer did not answer about %d payments and accounts within a minute", untold))
	}
	return result, nil
}

// clockTolerance allows for several processes that read the clock of one machine.
const clockTolerance = 2 * time.Millisecond

func (r *run) result(loaded *load.Result, verdict audit.Verdict, told answers.Verdict) *Result {
	result := &Result{
		Seed: r.config.Seed, Engines: len(r.world.engines), Kafka: r.config.Kafka, Replicas: r.config.Replicas,
		StartedAt: loaded.StartedAt, DeadlineSeconds: r.config.Deadline.Seconds(),
		Load: loaded, Audit: verdict, Answers: told, Counters: r.counters.total,
		Settings: r.config.Env, Clients: r.clients.Submitted(), Rejected: maps.Clone(r.observer.rejected),
	}
	result.Problems = append(r.clients.Problems(told), verdict.Summary.Unread()...)
	for _, lie := range []pix.Reason{forged, rejectedByRace} {
		if n := result.Rejected[lie.String()]; n > 0 {
			result.Problems = append(result.Problems, fmt.Sprintf("%d payments were rejected with %s: the engine accepted a forged response", n, lie))
		}
	}
	if problem := r.world.planted.Problem(verdict.Summary.DeadLetters[unreadable]); problem != "" {
		result.Problems = append(result.Problems, problem)
	}
	if share := float64(loaded.Settled) / float64(max(1, loaded.Sent)); share < settledShareMin {
		result.Problems = append(result.Problems, fmt.Sprintf("only %.0f %% of the payments settled: the run proves little; make it longer, or the faults fewer", share*100))
	}
	for _, event := range r.events {
		if event.Problem == "" && event.Ended > 0 {
			r.observer.recovery(event)
		}
		before := loaded.StartedAt.Sub(r.world.start).Seconds() // of the first payment
		event.Began, event.Ended, event.Ready = event.Began-before, event.Ended-before, event.Ready-before
		result.Events = append(result.Events, *event)
	}
	slices.SortFunc(result.Events, func(a, b Event) int { return cmp.Compare(a.Began, b.Began) })
	result.nameFaults(loaded.StartedAt)
	return result
}

// settledShareMin keeps a run from passing because nearly everything was rejected.
const settledShareMin = 0.2

// inject injects every fault of the plan at its time. Faults may overlap. It returns when
// all are over.
func (r *run) inject(ctx context.Context) {
	var all sync.WaitGroup
	room := make(chan struct{}, faultsAtOnce)
	for _, planned := range r.config.Plan {
		host.Sleep(ctx, time.Until(r.world.start.Add(planned.At)))
		room <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		all.Go(func() { defer func() { <-room }(); r.injectOne(ctx, planned) })
	}
	all.Wait()
}

func (r *run) injectOne(ctx context.Context, planned PlannedFault) {
	event := &Event{Kind: planned.Kind}
	f := &fault{Event: event, random: rand.New(rand.NewPCG(planned.Roll, 0)), world: r.world}
	for _, k := range kinds {
		if k.name != planned.Kind {
			continue
		}
		over := r.world.screen.during(planned.Kind)
		err := k.inject(ctx, r.world, f)
		over()
		event.Ready = time.Since(r.world.start).Seconds()
		switch {
		case err == nil:
			r.world.screen.event("%s %s: all is ready again, %.1f s after it began", event.Kind, event.Target, event.Ready-event.Began)
		case ctx.Err() == nil:
			event.Problem = err.Error()
			r.world.screen.event("PROBLEM %s %s: %v", event.Kind, event.Target, err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, event)
}

// engineTelemetry returns the engines' telemetry URLs, by name.
func (r *run) engineTelemetry() map[string]string {
	urls := map[string]string{}
	for _, name := range r.world.allEngines() {
		if url := r.world.TelemetryURL(name); url != "" {
			urls[name] = url
		}
	}
	return urls
}
