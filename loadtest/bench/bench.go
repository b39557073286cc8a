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
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/meter"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/loadtest/report"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
)

// Config says what to measure.
type Config struct {
	Dir, BinDir      string
	Population       sandbox.Population
	Parts            []string
	Rows             string // a part of the names of the rows to measure; empty: all of the parts
	Passes           int    // passes over everything
	Payments         int    // of the ledger alone, and of each maximum
	OutstandingMax   int    // in flight at a maximum
	Rates            []int  // of the latencies
	RateDuration     time.Duration
	OverloadPayments int                 // of each row that offers too much
	DoorPayments     int                 // of each row that pays over HTTP
	CacheGrid        string              // the ledger's page cache
	Engines          int                 // of every row
	Mix              string              // of every row that has none of its own
	Room             bool                // the control room runs in every row
	Archive          bool                // the archiver does
	Environment      map[string][]string // more variables of every row, by process
	Profiles         string              // folder of the part profile
	ProgressOn, Log  io.Writer
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
		of := references{ceiling: map[time.Duration]float64{}}
		for i, row := range rows {
			fmt.Fprintf(config.Log, "pass %d of %d: %s: %s payments\n", pass+1, config.Passes, row.name, pix.Thousands(row.payments))
			run, err := config.measure(ctx, row)
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
			of.relate(row, run)
			r.Rows[i].add(run)
			r.Seconds = time.Since(r.StartedAt).Seconds()
		}
	}
	return r, failed
}

// references are what the figures of a pass are related to, so that they tell something on another machine.
type references struct {
	ceiling map[time.Duration]float64 // of the ledger alone, a second, by how late banks answer
	bare    *Run
	bareRow row
}

// relate adds the ratios of a run to the references, or takes it as one.
func (of *references) relate(r row, run *Run) {
	switch {
	case r.does == fillLedger:
		of.ceiling[r.answers] = run.figures[runFigures]["per_second"]
	case r.does == payBare:
		of.bare, of.bareRow = run, r
	case r.does != "":
		return // its figures count other things
	case r.rate == 0 && of.ceiling[r.answers] > 0:
		run.set(runFigures, "ratio_to_ceiling", run.figures[runFigures]["per_second"]/of.ceiling[r.answers])
	case r.rate > 0 && r.rate == of.bareRow.rate && r.part == of.bareRow.part:
		for _, f := range []figure{p50, p99, cpu} {
			run.set(bareFigures, f.name, run.figures[f.group][f.name]/of.bare.figures[f.group][f.name])
		}
	}
	if ledger := run.figures[cpuFigures]["ledger"]; ledger > 0 {
		run.set(runFigures, "cpu_to_ledger", run.figures[cpuFigures][allProcesses]/ledger)
	}
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
	if r.apart > 0 { // each of three replicas stores everything
		needed *= 3
	}
	if free < needed {
		return fmt.Errorf("%s has %d GB of room, but %s payments (%s) need %d GB: free some, or use fewer payments", c.Dir, free/1e9, pix.Thousands(r.payments), r.name, needed/1e9)
	}
	return nil
}

// busyMax is the share of the processors that other programs may use before a run.
const busyMax = 0.1

// measure runs one row on a fresh stack, and removes the stack.
func (c Config) measure(ctx context.Context, r row) (run *Run, err error) {
	if r.payments == 0 && r.does != rest {
		return nil, errors.New("there are no payments to send")
	}
	if err := stack.Clean(c.Dir); err != nil {
		return nil, err
	}
	if err := c.roomFor(r); err != nil {
		return nil, err
	}
	debug.FreeOSMemory() // the memory of the last audit does not count for this row
	busy := meter.BusyShare()
	if busy > busyMax {
		fmt.Fprintf(c.Log, "the machine is not quiet: other programs use %.0f %% of it\n", 100*busy)
	}
	population := c.Population
	if r.banks > 0 {
		population.Banks = r.banks
	}
	people := []string{fmt.Sprint("SANDBOX_BANKS=", population.Banks), fmt.Sprint("SANDBOX_CUSTOMERS=", population.Customers)}
	environment := map[string][]string{stack.Bootstrap: people, stack.Room: slices.Clone(people)}
	for _, more := range []map[string][]string{c.Environment, r.env} {
		for process, variables := range more {
			environment[process] = append(environment[process], variables...)
		}
	}
	far := &distance{roundTrip: r.apart}
	defer far.close()
	config := stack.Config{
		Dir: c.Dir, BinDir: c.BinDir, Ports: stack.FreePorts, Engines: c.Engines, CacheGrid: c.CacheGrid, Kafka: r.kafka, Env: environment, Room: c.Room || r.does == rest, Archive: c.Archive || r.does == rest,
		LedgerReserve: int64(r.payments) * bytesPerPayment, LedgerCore: !r.sharedCores,
		ReadyWithin: 5 * time.Minute, StopWithin: time.Minute,
	}
	if r.apart > 0 {
		config.Replicas, config.Via = 3, far.via
	}
	s, err := stack.Start(ctx, config)
	if err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, s.Stop(context.WithoutCancel(ctx)), os.RemoveAll(filepath.Join(c.Dir, "data")))
	}()
	switch r.does {
	case "":
		run, err = c.pipeline(ctx, s, population, r)
	case fillLedger:
		run, err = c.ledgerAlone(s, population, r)
	case payBare:
		run, err = c.bare(ctx, s, population, r)
	case rest:
		run, err = c.idle(ctx, s)
	case overBatches, overKafka:
		run, err = c.overloaded(ctx, s, population, r)
	case readFloods:
		run, err = c.underReads(ctx, s, population, r)
	default:
		run, err = c.frontDoor(ctx, s, population, r)
	}
	if run != nil {
		run.set(runFigures, "busy_share_before", busy)
		run.verdict += fmt.Sprintf("; other programs used %.0f %% of the machine before it", 100*busy)
	}
	return run, err
}

// measurement samples what the processes of a stack use.
type measurement struct {
	processes     []meter.Process
	data          string
	before, after meter.Sample
}

func (c Config) begin(s *stack.Stack) (*measurement, error) {
	m := &measurement{processes: []meter.Process{{Name: "load generator", PID: os.Getpid()}}, data: filepath.Join(c.Dir, "data")}
	for _, name := range s.Names() {
		if pid := s.PID(name); pid != 0 && name != stack.Bootstrap {
			m.processes = append(m.processes, meter.Process{Name: name, PID: pid})
		}
	}
	var err error
	m.before, err = meter.Read(m.processes, m.data)
	return m, err
}

func (m *measurement) end() (err error) {
	m.after, err = meter.Read(m.processes, m.data)
	return err
}

// costs adds what each payment cost.
func (m *measurement) costs(run *Run, payments int) {
	run.set(runFigures, "stored_bytes", float64(m.after.Stored-m.before.Stored)/float64(payments))
	run.setCosts(meter.Costs(m.processes, m.before, m.after, payments))
}

// ledgerAlone measures a ceiling and its costs.
func (c Config) ledgerAlone(s *stack.Stack, population sandbox.Population, r row) (*Run, error) {
	client, err := ledger.Connect(ledgerConfig(s))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	m, err := c.begin(s)
	if err != nil {
		return nil, err
	}
	perSecond, err := measureCeiling(client, population, r.payments, r.answers)
	if err == nil {
		err = m.end()
	}
	if err != nil {
		return nil, err
	}
	run := &Run{verdict: "the ledger refused no transfer; not audited"}
	run.set(runFigures, "payments", float64(r.payments))
	run.set(runFigures, "per_second", perSecond)
	m.costs(run, r.payments)
	return run, nil
}

// pipeline sends payments. A run that is not valid gives no figure.
func (c Config) pipeline(ctx context.Context, s *stack.Stack, population sandbox.Population, r row) (*Run, error) {
	name := cmp.Or(r.mix, c.Mix)
	weights, err := mix.Parse(name)
	if err != nil {
		return nil, err
	}
	config := load.Config{
		Stream: s.Kafka(), Population: population, Mix: weights, MixName: name,
		Rate: float64(r.rate), Payments: r.payments, Seed: 1, DrainTimeout: reportsMax, OutstandingMax: 1_000_000,
	}
	if r.rate == 0 {
		config.Rate, config.WaitForRoom, config.OutstandingMax = 1e6, true, cmp.Or(r.outstanding, c.OutstandingMax)
	}
	if file, ok := c.ProgressOn.(*os.File); ok {
		config.Progress, config.ProgressEvery = load.ProgressOn(file)
	}
	var engines []string
	for _, name := range s.Names() {
		if strings.HasPrefix(name, "engine-") {
			engines = append(engines, s.TelemetryURL(name))
		}
	}
	if r.answering > 0 { // the banks over HTTP are all there are
		if err := s.StopProcess(ctx, stack.Simulator); err != nil {
			return nil, err
		}
	}
	if r.capped {
		if err := capBanks(ctx, s, population); err != nil {
			return nil, err
		}
	}
	m, err := c.begin(s)
	if err != nil {
		return nil, err
	}
	countedBefore, err := meter.ReadEngines(ctx, engines)
	if err != nil {
		return nil, err
	}
	profiled := func() error { return nil }
	if r.part == profilePart {
		profiled = c.startProfile(ctx, engines[0])
	}
	running, end := context.WithCancel(ctx)
	defer end()
	stopBanks, err := c.startBanks(ctx, s, population, r.answering, end)
	if err != nil {
		return nil, err
	}
	stopFlood, err := c.startFlood(ctx, s, population, r.flood)
	if err != nil {
		return nil, errors.Join(err, stopBanks())
	}
	var counted meter.Engines
	var unmeasured error
	config.AtEnd = func() {
		if unmeasured = m.end(); unmeasured == nil {
			counted, unmeasured = meter.ReadEngines(ctx, engines)
		}
	}
	result, err := load.Run(running, config)
	if err := errors.Join(err, unmeasured, stopFlood(), stopBanks()); err != nil {
		return nil, err
	}
	if !result.Passed {
		report.WriteLoad(c.Log, result)
		return nil, errors.New("the run is not valid: " + result.Verdict())
	}
	if err := profiled(); err != nil {
		return nil, err
	}
	verdict, err := c.audit(ctx, s)
	if err != nil {
		return nil, err
	}
	counted = counted.Since(countedBefore)
	run := &Run{verdict: result.Verdict() + ". " + verdict.String(), course: result.PerSecond, curve: curveOf(result.Curve)}
	run.set(runFigures, "payments", float64(r.payments))
	run.set(runFigures, "offered_per_second", float64(r.rate))
	// A short run has no steady window, and where all is refused nothing settles.
	run.set(runFigures, "per_second", cmp.Or(result.SteadyPerSecond, result.SettledPerSecond, float64(result.Rejected)/result.Seconds))
	if r.part == "growth" {
		for i, rate := range rates(result.PerSecond, c.Payments) {
			run.set(growthFigures, fmt.Sprint(i+1), rate)
		}
	}
	run.set(runFigures, "transfers_per_request", counted.Ledger().TransfersPerRequest)
	run.set(runFigures, "request_ms", counted.Ledger().MeanMs)
	run.set(runFigures, "allocations", counted.Counter("go_memstats_mallocs_total")/float64(r.payments))
	run.set(runFigures, "allocated_bytes", counted.Counter("go_memstats_alloc_bytes_total")/float64(r.payments))
	run.setLatency(result.Latency("settled"))
	for _, hop := range counted.Hops() {
		run.set(hopMeanFigures, hop.Name, hop.MeanMs)
		run.set(hopP99Figures, hop.Name, hop.P99Ms)
	}
	if r.part == questionsPart && r.rate > 0 {
		took, err := c.answered(ctx, s)
		if err != nil {
			return nil, err
		}
		run.set(answerFigures, "p50", took.P50)
		run.set(answerFigures, "p99", took.P99)
	}
	m.costs(run, r.payments)
	return run, nil
}

// rates returns the payments a second of each so many payments that settled, as far as there are.
func rates(seconds []load.Second, each int) (rates []float64) {
	settled, before := 0, 0.0
	for i, second := range seconds {
		for next := each * (len(rates) + 1); settled < next && settled+second.Settled >= next; next += each {
			at := float64(i) + float64(next-settled)/float64(second.Settled)
			rates, before = append(rates, float64(each)/(at-before)), at
		}
		settled += second.Settled
	}
	return rates
}

// startFlood sends a flood, if there is one, until stop is called.
func (c Config) startFlood(ctx context.Context, s *stack.Stack, population sandbox.Population, flood load.Flood) (stop func() error, err error) {
	if flood.Kind == "" {
		return func() error { return nil }, nil
	}
	kafka, err := s.Kafka().Options()
	if err != nil {
		return nil, err
	}
	flood.Population, flood.Bank, flood.Random = population, population.Banks-1, rand.New(rand.NewPCG(2, 0))
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		sent, err := flood.Run(ctx, kafka)
		fmt.Fprintf(c.Log, "the flood sent %s %s\n", pix.Thousands(sent), flood.Kind)
		ended <- err
	}()
	return func() error { cancel(); return <-ended }, nil
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
	text := fmt.Sprintf("TigerBeetle %s, %s; as shipped but for what a row says: embedded broker without fsync, %d engines, %s of cache for TigerBeetle, its file reserved for the payments of the run, a processor of its own for it, %d PSPs, %s customers, payments of the mix %s, banks that answer at once, fresh data in every run; at a maximum %s payments in flight",
		tigerbeetle.Version, runtime.Version(), c.Engines, c.CacheGrid, c.Population.Banks, pix.Thousands(c.Population.Customers), c.Mix, pix.Thousands(c.OutstandingMax))
	for _, process := range slices.Sorted(maps.Keys(c.Environment)) {
		text += fmt.Sprintf("; %s %s", process, strings.Join(c.Environment[process], " "))
	}
	return text
}
