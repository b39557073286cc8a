// Package chaos runs a clearing house and breaks it at random while payments flow. Then load,
// audit and API answers judge the run. A seed decides everything random.
package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// rejectedByBank is the reason with which banks reject that a fault made to.
var rejectedByBank = pix.MustReason("AG01")

// Config says what to run and how to break it.
type Config struct {
	Dir      string // the stack's folder; removes what an earlier run left there
	BinDir   string // folder of the programs, those of make build
	Replicas int
	Kafka    string
	Brokers  int // without links if there are several
	// KafkaSecured has no links to break: a link cannot put its address into what Kafka says over TLS.
	KafkaSecured bool
	Room         bool // start the control room, and say where it is
	Engines      int
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

	// Evidence is a folder that keeps the archive; empty: nothing is kept.
	Evidence string

	Live *os.File // where to show progress
}

// Bare reports whether there are no links between programs and servers.
func (c *Config) Bare() bool { return c.KafkaSecured || c.Brokers > 1 }

const (
	faultsAtOnce = 3
	// The order is what matters: bank < engine < ledger.
	pendingAfterDeadline = 6 * time.Second
	lateAfterDeadline    = 4 * time.Second
	// RecoveryMax is the most that the system may take until everything is ready again. Where memory is short, a ledger
	// server takes a minute; on a disk that takes seconds to sync, three brokers took each other for dead for more
	// than 90 s. What it usually takes is in docs/recovery.md.
	RecoveryMax = 5 * time.Minute
	// clientsShare is the number of payments over HTTP for each payment of the load.
	clientsShare   = 0.05
	clientsRateMax = 50
	asksPerSecond  = 100
	// clockTolerance allows for several processes that read the clock of one machine.
	clockTolerance = 2 * time.Millisecond
	// settledShareMin keeps a run from passing because nearly everything was rejected.
	settledShareMin = 0.2
)

// AllowedByDefault are the reasons with which good payments may be rejected because of faults
// of all kinds together. A crash alone must reject none.
var AllowedByDefault = append(
	[]pix.Reason{pix.ReasonPayeePSPSilent, pix.ReasonPayeePSPBusy, pix.ReasonTooLate, pix.ReasonPastDeadline,
		rejectedByBank}, load.ActReasons...)

// ErrInterrupted ends a run after Ctrl-C, if nothing was wrong until then.
var ErrInterrupted = errors.New("interrupted")

// Run breaks a clearing house. The Result says whether the run passed; an error means that
// there is no result.
func Run(ctx context.Context, config Config) (*Result, error) {
	if config.Allowed == nil {
		config.Allowed = AllowedByDefault
	}
	w := &world{screen: screen{file: config.Live, planned: len(config.Plan)}, population: config.Population}

	if err := w.begin(ctx, &config); err != nil {
		return nil, err
	}
	stop := sync.OnceValue(func() error { return w.Stop(context.WithoutCancel(ctx)) })
	defer func() { _ = stop() }()

	result, err := breakIt(ctx, config, w)
	if err != nil {
		return nil, err
	}

	if err := stop(); err != nil {
		result.problem("cannot stop in order: %v", err)
	}

	for _, crash := range w.Crashes() {
		result.problem("%s ended unasked (%s):\n%s", crash.Name, crash.How, crash.Log)
	}
	result.judge()

	if config.Evidence != "" {
		if err := os.CopyFS(filepath.Join(config.Evidence, stack.Archiver), os.DirFS(w.ArchiveFolder())); err != nil {
			return nil, fmt.Errorf("cannot keep the archive: %w", err)
		}
	}

	if result.Passed {
		_ = os.RemoveAll(filepath.Join(config.Dir, "data")) // gigabytes; after a failure everything stays
	}

	return result, nil
}

// begin starts a stack.
func (w *world) begin(ctx context.Context, config *Config) (err error) {
	if err := stack.Clean(config.Dir); err != nil {
		return err
	}
	w.event("starting a stack in %s", config.Dir)

	environment := map[string][]string{
		stack.Engine: {"ENGINE_DEADLINE=" + config.Deadline.String(),
			"ENGINE_PENDING_TIMEOUT=" + (config.Deadline + pendingAfterDeadline).String(),
			// A stopping engine waits half of it for silent banks, and its partitions wait, too.
			"SHUTDOWN_TIMEOUT=4s"},
		stack.Simulator: {"SIMULATOR_LATE_DELAY=" + (config.Deadline + lateAfterDeadline).String()},
		// there are segments before a minute is over
		stack.Archiver:  {"ARCHIVE_SEGMENT_ROWS_MAX=1000"},
		stack.Bootstrap: {"TRANSIENT_RETENTION=" + (time.Hour + config.Duration).String()}, // the judges read all of it
		// the engines must survive without it
		stack.Broker: {"BROKER_CHECK_BATCHES=false"},
	}

	started := stack.Config{
		Dir: config.Dir, BinDir: config.BinDir, Ports: stack.FreePorts, Engines: 1, Replicas: config.Replicas,
		Kafka: config.Kafka, Brokers: config.Brokers, KafkaSecured: config.KafkaSecured, Archive: true, LoadFirst: true,
		// in an hour the ledger outgrows less, and reads it again and again
		CacheGrid: map[bool]string{true: "1GiB", false: "256MiB"}[config.Evidence != ""], LedgerReserve: 1 << 30,
		ReadyWithin: RecoveryMax, Env: environment, Room: config.Room, Progress: config.Live, Linked: config.linked,
	}

	if w.Stack, err = stack.Start(ctx, started); err != nil {
		return err
	}

	w.engines = []string{stack.EngineName(0)}

	if config.Room {
		if w.roomURL, err = w.RoomURL(); err == nil {
			err = w.WaitReady(ctx, stack.Room)
		}
		w.event("watch it: %s", w.roomURL)
	}

	return err
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

	if w.keys, err = w.Keys(); err != nil {
		return nil, err
	}

	w.admin = kadm.NewClient(kafka)

	w.simulator, w.producer = load.NewCallers(w.SimulatorURL(), w.keys), load.NewCallers(w.ProducerURL(), w.keys)
	for len(w.engines) < config.Engines {
		name, err := w.AddEngine(ctx)
		if err != nil {
			return nil, err
		}
		w.engines = append(w.engines, name)
	}

	r := &run{Config: config, world: w, client: client, kafka: options}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}

	loaded, err := r.load(ctx)
	if err != nil {
		return nil, err
	}

	return r.conclude(ctx, loaded)
}

// run is one run on a running stack.
type run struct {
	Config
	world  *world
	client tigerbeetle.Client
	kafka  []kgo.Opt

	payments    int
	clientsRate float64
	judge       *answers.Judge
	clients     *answers.Clients
	observer    *observer
	sample      *followed // of evidence
	light       *Light

	mu     sync.Mutex
	events []*Event
}

// prepare begins to observe. Nothing is sent yet.
func (r *run) prepare(ctx context.Context) (err error) {
	r.payments, r.clientsRate = max(1, int(r.Rate*r.Duration.Seconds())),
		min(clientsRateMax, max(1, r.Rate*clientsShare))
	r.judge = answers.NewJudge(r.payments+int(r.clientsRate*r.Duration.Seconds()), clockTolerance)
	r.clients = answers.NewClients(answers.Config{
		Doors: []string{r.world.ProducerURL()}, Keys: r.world.keys, Population: r.Population,
		Judge: r.judge, Seed: r.Seed, Asks: asksPerSecond,
	})
	begin, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()

	if err := r.clients.Begin(begin); err != nil {
		return err
	}

	if r.Evidence != "" {
		r.sample = follow(r.payments)
	}
	r.world.start = time.Now()
	r.observer, err = observe(ctx, r.kafka, r.judge, r.world.start)

	return err
}

// load sends all payments and injects all faults, while clients pay and ask. It returns when all have ended.
func (r *run) load(ctx context.Context) (*load.Result, error) {
	w := r.world

	weights, err := mix.Parse(r.MixName)
	if err != nil {
		return nil, err
	}
	sending, stopSending := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSending()
	patience, losePatience := context.WithCancel(ctx)
	defer losePatience()
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	var background sync.WaitGroup
	background.Go(func() { r.clients.Pay(sending, patience, r.clientsRate, r.observer.Observer) })
	background.Go(func() { r.clients.Ask(watching) })

	if w.roomURL != "" {
		background.Go(func() { r.light = watchLight(watching, w.roomURL) })
	}
	go func() { defer stopSending(); r.inject(ctx) }()

	loaded, err := load.Run(ctx, load.Config{
		Stream: w.Kafka(), Population: r.Population,
		Mix: weights, MixName: r.MixName, Rate: r.Rate, Payments: r.payments, Seed: r.Seed,
		DrainTimeout: r.Deadline + RecoveryMax, OutstandingMax: 1_000_000, Allowed: r.Allowed, Faults: true,
		// where recovery takes long, the load would be over before the faults, or prove little
		GoOn: func(s load.Snapshot) bool {
			return sending.Err() == nil || float64(s.Settled) < settledShareMin*float64(s.Sent) &&
				time.Since(w.start) < r.Duration+RecoveryMax
		},
		Sending: func(id pix.EndToEndID) { r.judge.Choose(id); r.sample.sending(id) },
		Told:    r.sample.told, Progress: w.progress, ProgressEvery: progressEvery,
	})
	<-sending.Done()

	if err != nil {
		return nil, err
	}

	if loaded.Interrupted {
		w.event("%s", loaded.Verdict())

		if loaded.FailureCount > 0 {
			return nil, fmt.Errorf("%d payments have a wrong outcome, like %s (%s): %s", loaded.FailureCount,
				loaded.Failures[0].EndToEndID, loaded.Failures[0].Case, loaded.Failures[0].Problem)
		}

		return nil, ErrInterrupted
	}
	w.event("the load has drained; clients finish, then audit and answers judge")
	losing := time.AfterFunc(r.Deadline+30*time.Second, losePatience)
	r.clients.Wait()
	losing.Stop()
	stopWatching()
	background.Wait()

	return loaded, nil
}

// conclude lets all judges judge.
func (r *run) conclude(ctx context.Context, loaded *load.Result) (*Result, error) {
	w := r.world

	secrets, err := audit.ReadSecrets(w.AnswerKeysFile())
	if err != nil {
		return nil, err
	}
	verdict, err := audit.Run(ctx, audit.Config{
		Secrets: secrets, LateRequests: r.lateRequests(),
		Behind: w.Kafka().Behind, Kafka: r.kafka, Ledger: r.client,
		Deadline: r.Deadline, HoldMax: max(time.Minute, r.Deadline+pendingAfterDeadline),
		Wait: r.Deadline + pendingAfterDeadline + 30*time.Second, Log: w.event,
	})
	// Only now: the audit waited until no payment was in flight.
	finish, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()

	if err := errors.Join(err, r.observer.Finish(finish)); err != nil {
		return nil, err
	}

	untold := r.clients.Finish(finish)
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
	if r.light != nil && r.light.Seconds[live.Red] > 0 {
		result.problem("the live audit's light was red: %v", r.light.Findings)
	}

	if r.sample != nil {
		result.Budget, err = r.sample.budget(ctx, w.Kafka(), loaded.Latency("settled").Mean)
		if err != nil {
			result.problem("%v", err)
		} else if off := result.Budget.Off(); math.Abs(off) > budgetOffMax {
			result.problem("the parts of a payment's time differ from the whole by %.1f %%", 100*off)
		}
	}

	if untold > 0 {
		result.problem("at the end the producer did not answer about %d payments and accounts within a minute", untold)
	}

	return result, nil
}

func (r *run) result(loaded *load.Result, verdict audit.Verdict, told answers.Verdict) *Result {
	result := &Result{
		Seed: r.Seed,
		System: fmt.Sprintf("engines: %d, Kafka: %s, TigerBeetle servers: %d, deadline %v", len(r.world.engines),
			r.Kafka, r.Replicas, r.Deadline),
		Load: loaded, Audit: verdict, Answers: told, Light: r.light,
		Clients:  r.clients.Submitted(),
		Problems: append(r.clients.Problems(told), verdict.Summary.Unread...),
	}
	if share := float64(loaded.Settled) / float64(max(1, loaded.Sent)); share < settledShareMin {
		result.problem("only %.0f %% of the payments settled: the run proves little; make it longer, or the faults fewer",
			share*100)
	}

	for _, event := range r.events {
		if event.Problem == "" && event.Ended > 0 {
			r.observer.recovery(event)
		}
		before := loaded.StartedAt.Sub(r.world.start).Seconds() // of the first payment
		event.Began, event.Ended = event.Began-before, event.Ended-before
		result.Events = append(result.Events, *event)
	}
	slices.SortFunc(result.Events, func(a, b Event) int { return cmp.Compare(a.Began, b.Began) })

	return result
}

// lateRequests returns when faults delayed what engines had sent to the ledger.
func (r *run) lateRequests() (late []audit.Interval) {
	for _, e := range r.events {
		if e.Kind == "pause-engine" || strings.HasSuffix(e.Kind, "-ledger") {
			late = append(late, audit.Interval{From: r.world.start.Add(inSeconds(e.Began)),
				To: r.world.start.Add(inSeconds(max(e.Began, e.Ended)))})
		}
	}

	return late
}

// inject injects every fault of the plan at its time. Faults may overlap. It returns when all are over and a
// quiet time has passed, not before the duration has.
func (r *run) inject(ctx context.Context) {
	var all sync.WaitGroup
	room := make(chan struct{}, faultsAtOnce)

	for _, planned := range r.Plan {
		host.Sleep(ctx, time.Until(r.world.start.Add(planned.At)))
		room <- struct{}{}

		if ctx.Err() != nil {
			break
		}
		all.Go(func() { defer func() { <-room }(); r.injectOne(ctx, planned) })
	}
	all.Wait()
	host.Sleep(ctx, max(quietAfter, time.Until(r.world.start.Add(r.Duration))))
}

func (r *run) injectOne(ctx context.Context, planned PlannedFault) {
	w, event := r.world, &Event{Kind: planned.Kind}
	w.begun.Add(1)
	err := kindNamed(planned.Kind).inject(ctx, w, &fault{Event: event, random: rand.New(rand.NewPCG(planned.Roll, 0))})

	switch {
	case err == nil:
		w.event("%s %s: all is ready again, %.1f s after it began. %s", event.Kind, event.Target,
			w.now()-event.Began, event.Detail)
	case ctx.Err() == nil:
		event.Problem = err.Error()
		w.event("PROBLEM %s %s: %v", event.Kind, event.Target, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, event)
}
