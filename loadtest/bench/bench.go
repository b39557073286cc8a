// Package bench measures how fast the clearing house is with everything on this machine, and
// how fast the ledger is alone. A figure counts only if every payment of its run ended as it
// must, none was dropped, and the audit is clean.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/deploy/tigerbeetle"
	"github.com/liquida/liquida/loadtest/audit"
	"github.com/liquida/liquida/loadtest/flood"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/meter"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/loadtest/report"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/sandbox"
)

// Config says what to measure.
type Config struct {
	Dir, BinDir        string
	Population         sandbox.Population
	Parts              []string
	Rows               string   // a part of the names of the rows to measure; empty: all of the parts
	Passes             int      // passes over everything
	Payments           int      // of each maximum
	CeilingPayments    int      // of each ceiling
	GrowthPayments     int      // of each growth
	GrowthCaches       []string // the ledger's page cache in each growth
	Customers          int      // in the part "customers"
	OutstandingMax     int      // in flight at a maximum
	SlowOutstandingMax int      // in flight at a maximum with slow banks
	Rates              []int    // of the latencies
	RateDuration       time.Duration
	OverloadPayments   int                 // of each row that offers too much
	DoorPayments       int                 // of each row that pays over HTTP
	DoorConnections    int                 // to the HTTP API, each with one request at a time
	BatchLines         int                 // payments of a batch
	CacheGrid          string              // the ledger's page cache
	Environment        map[string][]string // more variables of every row, by process
	Profiles           string              // folder of the part profile
	ProgressOn, Log    io.Writer
}

// Run is one valid run of a row.
type Run struct {
	OfferedPerSecond int // 0: as fast as it goes
	Payments         int
	PerSecond        float64       // settled in the steady window, or refused where nothing settles; ledger alone: of the whole run; HTTP API: operations
	Ratio            float64       // to the ceiling of the same pass
	Latency          *load.Latency // until settled; HTTP API: of a request
	Reads            *load.Latency // of the balance reads meanwhile
	Costs            []meter.Cost  // of each payment; HTTP API: of each operation
	Overload         *Overload     // what came of offering too much
	Door             *Door         // what the HTTP API was asked for
	StoredBytes      float64       // growth of ledger and topics, for each payment
	Stages           []Stage       // of a growth
	Hops             []meter.Hop   // where the time goes
	Ledger           meter.Ledger  // requests of the engines
	Profile          *Profile      // of the first engine
	InFlight         *InFlight     // of the first engine
	Room             *Room         // what its page saw
	Course           []load.Second // what settled in each second, where Load does not say it
	Load             *load.Result
	Audit            string  // its verdict
	BusyBefore       float64 // share of the processors that others used in the second before the run
	WakeUp           *WakeUp // measured just before the run
}

// Stage is a part of a long run.
type Stage struct {
	Payments    int // settled at its end
	PerSecond   float64
	Costs       []meter.Cost // of each payment of the stage
	StoredBytes float64      // of each payment of the stage
}

// garbagePercent is that of the services: the load generator shares their processor.
const garbagePercent = 400

// Measure runs every row of the config in every pass. Each run has a stack of its own, so that
// it inherits no data. A row that fails gives no figure; the others go on. If the disk has no
// room for the largest row, Measure returns nil, so that no earlier result is overwritten.
func Measure(ctx context.Context, config Config) (*Result, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(garbagePercent))
	r := &Result{StartedAt: time.Now().UTC(), Hardware: meter.Hardware() + ", everything on it, load generator included", Settings: config.settings(), Passes: config.Passes}
	rows := config.rows()
	most := row{}
	for _, row := range rows {
		r.Rows = append(r.Rows, Row{Part: row.part, Name: row.name, Differs: row.differs()})
		if row.payments > most.payments {
			most = row
		}
	}
	if err := config.roomFor(most); err != nil {
		return nil, err
	}
	var failed error
	for pass := range config.Passes {
		ceilings, maximum := map[delay]float64{}, 0.0 // by how long banks take
		for i, row := range rows {
			if row.half {
				row.rate = int(maximum/2) / 100 * 100
				row.payments = int(float64(row.rate) * config.RateDuration.Seconds())
			}
			fmt.Fprintf(config.Log, "%s%s: %s payments\n", config.passName(pass), row.name, thousands(row.payments))
			run, err := config.measure(ctx, row)
			if err == nil && row.half && maximum == 0 {
				err = errors.New("there is no maximum in this pass to halve")
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", row.name, err)
				fmt.Fprintln(config.Log, err)
				r.Rows[i].Invalid = append(r.Rows[i].Invalid, err.Error())
				failed = errors.Join(failed, err)
				if ctx.Err() != nil {
					return r, failed
				}
				continue
			}
			switch {
			case row.isCeiling():
				ceilings[row.delay] = run.PerSecond
			case maximum == 0 && row.part == "maximum":
				maximum = run.PerSecond
			}
			if ceiling := ceilings[row.delay]; ceiling > 0 && row.rate == 0 && !row.isCeiling() && row.asks == "" {
				run.Ratio = run.PerSecond / ceiling
			}
			r.Rows[i].add(*run)
			r.Seconds = time.Since(r.StartedAt).Seconds()
		}
	}
	return r, failed
}

func (c Config) passName(pass int) string {
	if c.Passes == 1 {
		return ""
	}
	return fmt.Sprintf("pass %d of %d: ", pass+1, c.Passes)
}

// Upper bounds of the disk that a payment takes, and that a stack without payments takes.
const (
	bytesPerPayment = 11_000
	bytesOfStack    = 4 << 30
)

// roomFor returns an error if the disk has no room for a row. A full disk would end the row
// after minutes, and harm whatever else runs here.
func (c Config) roomFor(r row) error {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return err
	}
	var disk syscall.Statfs_t
	if err := syscall.Statfs(c.Dir, &disk); err != nil {
		return fmt.Errorf("cannot read how much room there is in %s: %w", c.Dir, err)
	}
	free, needed := int64(disk.Bavail)*disk.Bsize, int64(r.payments)*bytesPerPayment+bytesOfStack
	if free < needed {
		return fmt.Errorf("%s has %d GB of room, but %s payments (%s) need %d GB: free some, or use fewer payments", c.Dir, free/1e9, thousands(r.payments), r.name, needed/1e9)
	}
	return nil
}

// busyMax is the share of the processors that other programs may use before a run.
const busyMax = 0.1

// measure runs one row on a fresh stack, and removes the stack.
func (c Config) measure(ctx context.Context, r row) (run *Run, err error) {
	if r.payments == 0 {
		return nil, errors.New("there are no payments to send")
	}
	if err := os.RemoveAll(c.Dir); err != nil {
		return nil, err
	}
	if err := c.roomFor(r); err != nil {
		return nil, err
	}
	debug.FreeOSMemory() // the memory of the last audit does not count for this row
	before := meter.BusyShare()
	if before > busyMax {
		fmt.Fprintf(c.Log, "the machine is not quiet: other programs use %.0f %% of it\n", 100*before)
	}
	wakeUp, err := measureWakeUp()
	if err != nil {
		fmt.Fprintf(c.Log, "cannot measure how long a thread takes to wake another: %v\n", err)
	}
	population := c.Population
	if r.banks > 0 {
		population.Banks = r.banks
	}
	if r.customers > 0 {
		population.Customers = r.customers
	}
	people := []string{fmt.Sprint("SANDBOX_BANKS=", population.Banks), fmt.Sprint("SANDBOX_CUSTOMERS=", population.Customers)}
	environment := map[string][]string{stack.Bootstrap: people, stack.Room: slices.Clone(people)}
	for _, more := range []map[string][]string{c.Environment, r.env} {
		for process, variables := range more {
			environment[process] = append(environment[process], variables...)
		}
	}
	if r.cacheGrid == "" {
		r.cacheGrid = c.CacheGrid
	}
	reserve := int64(r.payments) * bytesPerPayment
	if r.growingFile {
		reserve = 0
	}
	started := time.Now()
	s, err := stack.Start(ctx, stack.Config{
		Dir: c.Dir, BinDir: c.BinDir, Ports: stack.FreePorts, Engines: r.engines, CacheGrid: r.cacheGrid, Kafka: r.kafka, Env: environment, Room: r.room,
		LedgerReserve: reserve, LedgerCore: !r.sharedCores,
		ReadyWithin: 5 * time.Minute, StopWithin: time.Minute,
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, s.Stop(context.WithoutCancel(ctx)), os.RemoveAll(filepath.Join(c.Dir, "data")))
	}()
	fmt.Fprintf(c.Log, "ready with %s customers after %.1f s\n", thousands(population.Customers), time.Since(started).Seconds())
	switch {
	case r.ids != "":
		run, err = c.ledgerAlone(s, population, r)
	case r.over != "":
		run, err = c.overloaded(ctx, s, population, r)
	case r.asks != "":
		run, err = c.frontDoor(ctx, s, population, r)
	default:
		run, err = c.pipeline(ctx, s, population, r)
	}
	if run != nil {
		run.BusyBefore = before
		if wakeUp.OtherProcessor > 0 {
			run.WakeUp = &wakeUp
		}
	}
	return run, err
}

// ledgerAlone measures a ceiling and its costs.
func (c Config) ledgerAlone(s *stack.Stack, population sandbox.Population, r row) (*Run, error) {
	processes, data := processesOf(s), filepath.Join(c.Dir, "data")
	client, err := ledger.Connect(ledgerConfig(s))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	before, err := meter.Read(processes, data)
	if err != nil {
		return nil, err
	}
	perSecond, err := measureCeiling(client, population, r)
	if err != nil {
		return nil, err
	}
	after, err := meter.Read(processes, data)
	if err != nil {
		return nil, err
	}
	return &Run{Payments: r.payments, PerSecond: perSecond, Costs: meter.Costs(processes, before, after, r.payments),
		StoredBytes: perPayment(before, after, r.payments)}, nil
}

// pipeline sends payments. A run that is not valid gives no figure.
func (c Config) pipeline(ctx context.Context, s *stack.Stack, population sandbox.Population, r row) (*Run, error) {
	if r.mix == "" {
		r.mix = "settling"
	}
	weights, err := mix.Parse(r.mix)
	if err != nil {
		return nil, err
	}
	config := load.Config{
		Stream: s.Kafka(), Population: population, Mix: weights, MixName: r.mix,
		Rate: float64(r.rate), Payments: r.payments, Seed: 1, DrainTimeout: 5 * time.Minute, OutstandingMax: 1_000_000,
	}
	if r.rate == 0 {
		config.Rate, config.WaitForRoom, config.OutstandingMax = 1e6, true, cmp.Or(r.inFlight, c.OutstandingMax)
	}
	callers, err := s.Keys()
	if err != nil {
		return nil, err
	}
	if r.reads > 0 {
		config.FrontDoor, config.Keys = s.ProducerURL(), callers
	}
	if file, ok := c.ProgressOn.(*os.File); ok {
		config.Progress, config.ProgressEvery = load.ProgressOn(file)
	}
	if r.capped {
		if err := capBanks(ctx, s, population); err != nil {
			return nil, err
		}
	}
	var page *watcher
	if r.room { // before its processor time is read
		if page, err = openPage(ctx, s); err != nil {
			return nil, err
		}
	}
	processes, data, engines := processesOf(s), filepath.Join(c.Dir, "data"), enginesOf(s)
	before, err := meter.Read(processes, data)
	if err != nil {
		return nil, err
	}
	countedBefore, err := meter.ReadEngines(ctx, engines)
	if err != nil {
		return nil, err
	}
	run := &Run{OfferedPerSecond: r.rate, Payments: r.payments}
	stages := watchStages(&config, r.stage, processes, data, before)
	readBalances := func() error { return nil }
	if r.reads > 0 {
		readBalances = startReads(ctx, s.ProducerURL(), callers, population, r.reads, c.RateDuration, &run.Reads)
	}
	inFlight := func() (*InFlight, error) { return nil, nil }
	if r.part == slowBanksPart {
		if inFlight, err = startInFlight(ctx, engines[0]); err != nil {
			return nil, err
		}
	}
	profile := func() (*Profile, error) { return nil, nil }
	if r.profiled {
		profile = startProfile(ctx, engines[0], c.Profiles)
	}
	stopFlood := func() error { return nil }
	if r.flood != "" {
		if stopFlood, err = c.startFlood(ctx, s, population, r); err != nil {
			return nil, err
		}
	}
	var after meter.Sample
	var counted meter.Engines
	var readErr, unmeasured, unseen error
	config.AtEnd = func() {
		readErr = readBalances()
		after, unmeasured = meter.Read(processes, data)
		if unmeasured == nil {
			counted, unmeasured = meter.ReadEngines(ctx, engines)
		}
		counted = counted.Since(countedBefore)
		if page != nil {
			unseen = page.end()
		}
	}
	result, err := load.Run(ctx, config)
	if err := errors.Join(err, readErr, unmeasured, unseen, stopFlood()); err != nil {
		return nil, err
	}
	if !result.Passed {
		report.WriteLoad(c.Log, result)
		return nil, errors.New("the run is not valid: " + result.Verdict())
	}
	if run.Profile, err = profile(); err != nil {
		return nil, err
	}
	if run.InFlight, err = inFlight(); err != nil {
		return nil, err
	}
	if run.Stages, err = stages(); err != nil {
		return nil, err
	}
	if page != nil { // before the audit, which reads the same ledger and topics
		if run.Room, err = page.catchUp(ctx); err != nil {
			return nil, err
		}
		if run.Room.CPUMicros, err = roomMicros(processes, data, before, r.payments); err != nil {
			return nil, err
		}
	}
	verdict, err := c.audit(ctx, s)
	if err != nil {
		return nil, err
	}
	run.Audit = verdict.String()
	run.Costs, run.StoredBytes = meter.Costs(processes, before, after, r.payments), perPayment(before, after, r.payments)
	run.Hops, run.Ledger, run.Load = counted.Hops(), counted.Ledger(), result
	run.PerSecond = result.SteadyPerSecond
	if run.PerSecond == 0 { // too short for a steady window
		run.PerSecond = cmp.Or(result.SettledPerSecond, float64(result.Rejected)/result.Seconds)
	}
	run.Latency = result.Latency("settled")
	if run.Profile != nil {
		run.Profile.count(counted, run.Costs, r.payments)
	}
	return run, nil
}

// startFlood sends a row's flood until stop is called.
func (c Config) startFlood(ctx context.Context, s *stack.Stack, population sandbox.Population, r row) (stop func() error, err error) {
	kafka, err := s.Kafka().Options()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		sent, err := flood.Flood{Kind: r.flood, PerSecond: r.floodRate, Most: r.floodMost, Population: population, Bank: population.Banks - 1, Random: rand.New(rand.NewPCG(2, 0))}.Run(ctx, kafka)
		fmt.Fprintf(c.Log, "the flood sent %s %s\n", thousands(sent), r.flood)
		ended <- err
	}()
	return func() error { cancel(); return <-ended }, nil
}

func perPayment(before, after meter.Sample, payments int) float64 {
	return float64(after.Stored-before.Stored) / float64(payments)
}

// watchStages samples the processes each time that this many more payments have settled, by
// the progress of the load.
func watchStages(config *load.Config, every int, processes []meter.Process, data string, first meter.Sample) func() ([]Stage, error) {
	if every == 0 {
		return func() ([]Stage, error) { return nil, nil }
	}
	var stages []Stage
	var failed error
	show, showEvery := config.Progress, config.ProgressEvery
	before, done, shown := first, 0, time.Now()
	config.ProgressEvery = 50 * time.Millisecond
	config.Progress = func(s load.Snapshot) {
		if show != nil && (time.Since(shown) >= showEvery || s.Settled == s.Payments) {
			show(s)
			shown = time.Now()
		}
		if failed != nil || s.Settled < every*(len(stages)+1) {
			return
		}
		after, err := meter.Read(processes, data)
		if err != nil {
			failed = err
			return
		}
		n := s.Settled - done
		stages = append(stages, Stage{s.Settled, float64(n) / after.At.Sub(before.At).Seconds(), meter.Costs(processes, before, after, n), perPayment(before, after, n)})
		before, done = after, s.Settled
	}
	return func() ([]Stage, error) { return stages, failed }
}

// processesOf lists the processes to measure. The first is this one, the load generator.
func processesOf(s *stack.Stack) []meter.Process {
	processes := []meter.Process{{Name: "load generator", PID: os.Getpid()}}
	for _, name := range s.Names() {
		if pid := s.PID(name); pid != 0 && name != stack.Bootstrap {
			processes = append(processes, meter.Process{Name: name, PID: pid})
		}
	}
	return processes
}

// enginesOf lists the engines' telemetry URLs.
func enginesOf(s *stack.Stack) (urls []string) {
	for _, name := range s.Names() {
		if strings.HasPrefix(name, "engine-") {
			urls = append(urls, s.TelemetryURL(name))
		}
	}
	return urls
}

func (c Config) audit(ctx context.Context, s *stack.Stack) (verdict audit.Verdict, err error) {
	client, err := ledger.Connect(ledgerConfig(s))
	if err != nil {
		return verdict, err
	}
	defer client.Close()
	kafka, err := s.Kafka().Options()
	if err != nil {
		return verdict, err
	}
	secrets, err := audit.ReadSecrets(s.AnswerKeysFile())
	if err != nil {
		return verdict, err
	}
	verdict, err = audit.Run(ctx, audit.Config{
		Kafka: kafka, Ledger: client, Secrets: secrets, Behind: s.Kafka().Behind, Wait: 70 * time.Second, Log: func(string, ...any) {},
	})
	if n := verdict.Summary.LeftOut; n > 0 {
		fmt.Fprintf(c.Log, "the audit's Kafka client left records out %d times: they were fetched again\n", n)
	}
	if err == nil && !verdict.Clean {
		verdict.Write(c.Log)
		err = errors.New("the run is not valid: " + verdict.String())
	}
	return verdict, err
}

func ledgerConfig(s *stack.Stack) ledger.Config {
	return ledger.Config{Addresses: strings.Split(s.TigerBeetleAddresses(), ",")}
}

func (c Config) settings() string {
	text := fmt.Sprintf("TigerBeetle %s, %s; as shipped but for what a row says: embedded broker without fsync, one engine, %s of cache for TigerBeetle, its file reserved for the payments of the run, a processor of its own for it, %d PSPs, %s customers, banks that answer at once, fresh data in every run; at a maximum %s payments in flight",
		tigerbeetle.Version, runtime.Version(), c.CacheGrid, c.Population.Banks, thousands(c.Population.Customers), thousands(c.OutstandingMax))
	for _, process := range slices.Sorted(maps.Keys(c.Environment)) {
		text += fmt.Sprintf("; %s %s", process, strings.Join(c.Environment[process], " "))
	}
	return text
}
