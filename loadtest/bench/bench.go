// Package bench measures how fast the clearing house is with everything on this machine, and
// how fast the ledger is alone. A figure counts only if every payment of its run ended as it
// must, none was dropped, and the audit is clean.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/deploy/tigerbeetle"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/meter"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Config says what to measure.
type Config struct {
	Dir, BinDir  string
	Population   sandbox.Population
	Parts        []string
	Rows         string // a part of the names of the rows to measure; empty: all of the parts
	Passes       int    // passes over everything
	Payments     int    // of the ledger alone, and of each maximum
	Rates        []int  // of the latencies
	RateDuration time.Duration
	Engines      int         // of every row
	CacheGrid    string      // the ledger's page cache
	Mix          string      // of every row that has none of its own
	Room         bool        // the control room runs in every row
	Archive      bool        // the archiver does
	Environment  environment // more variables of every row
	Log          *os.File
}

const (
	// outstandingMax is how many payments are in flight at a maximum: eleven full requests to the ledger.
	outstandingMax = 30_000
	// busyMax is the share of the processors that other programs may use before a run.
	busyMax = 0.1
)

// Measure runs every row of the config in every pass. Each run has a stack of its own, so that
// it inherits no data. A row that fails gives no figure; the others go on.
func Measure(ctx context.Context, config Config) (*Result, error) {
	r := &Result{StartedAt: time.Now().UTC(),
		Hardware: meter.Hardware() + ", everything on it, load generator included", Settings: config.settings()}
	rows := config.rows()

	for _, row := range rows {
		r.Rows = append(r.Rows, Row{Part: row.part, Name: row.name, Differs: row.differs()})
	}

	var failed error

	for pass := range config.Passes {
		of := references{ceiling: map[time.Duration]float64{}}

		for i, row := range rows {
			fmt.Fprintf(config.Log, "pass %d of %d: %s: %s payments\n", pass+1, config.Passes, row.name,
				pix.Thousands(row.payments))

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
		of.ceiling[r.answers] = run.figures[perSecond]
	case r.does == payBare && r.rate > 0:
		of.bare, of.bareRow = run, r
	case r.does != "" && r.does != payBare:
		return // its figures count other things
	case r.rate == 0 && of.ceiling[r.answers] > 0:
		run.set(ofCeiling.group, ofCeiling.name, run.figures[perSecond]/of.ceiling[r.answers])
	case r.rate > 0 && r.rate == of.bareRow.rate && r.part == of.bareRow.part:
		for _, f := range []figure{p50, p99, cpu} {
			run.set(bareFigures, f.name, run.figures[f]/of.bare.figures[f])
		}
	}

	if ledger := run.figures[figure{cpuFigures, "ledger"}]; ledger > 0 {
		run.set(runFigures, "cpu_to_ledger", run.figures[cpu]/ledger)
	}
}

// reservedFor is an upper bound of what the ledger's file grows by: at first nothing of it is used again. It is
// reserved for all of a row, so that a row without room fails at once, and a full disk harms nobody.
func reservedFor(payments int) int64 {
	return int64(12_000*min(payments, 2_000_000) + 5_000*max(payments-2_000_000, 0))
}

// session is a row while it is measured, on a stack of its own.
type session struct {
	Config
	row
	*stack.Stack
	population sandbox.Population
	keys       map[string]string // of the HTTP API, by ISPB
	callers    *load.Callers     // of the first front door
	options    []kgo.Opt
	run        *Run

	reads, refused atomic.Int64 // of the flood of reads

	processes     []meter.Process
	before, after meter.Sample
}

// measure runs one row on a fresh stack, and removes the stack.
func (c Config) measure(ctx context.Context, r row) (run *Run, err error) {
	if err := stack.Clean(c.Dir); err != nil {
		return nil, err
	}

	debug.FreeOSMemory() // the memory of the last audit does not count for this row

	busy := meter.BusyShare()
	if busy > busyMax {
		fmt.Fprintf(c.Log, "the machine is not quiet: other programs use %.0f %% of it\n", 100*busy)
	}

	m := &session{Config: c, row: r, population: c.Population, run: &Run{figures: map[figure]float64{}}}
	m.population.Banks = cmp.Or(r.banks, m.population.Banks)

	defer func() { err = errors.Join(err, os.RemoveAll(filepath.Join(c.Dir, "data"))) }()

	if m.Stack, err = stack.Start(ctx, m.stackConfig()); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Stop(context.WithoutCancel(ctx))) }()
	slow(m.Stack, r.apart)

	if m.keys, err = m.Keys(); err != nil {
		return nil, err
	}

	if m.options, err = m.Kafka().Options(); err != nil {
		return nil, err
	}
	m.options = slices.Clip(m.options) // all append to it
	m.callers = load.NewCallers(m.ProducerURL(), m.keys)
	defer m.callers.Close()

	if err := m.do(ctx); err != nil {
		return nil, err
	}
	m.run.set(runFigures, "busy_share_before", busy)

	return m.run, nil
}

// do measures what the row does.
func (m *session) do(ctx context.Context) error {
	switch m.does {
	case "", payBare:
		return m.pipeline(ctx)
	case fillLedger:
		return m.ledgerAlone()
	case rest:
		return m.idle(ctx)
	case readFloods:
		return m.underReads(ctx)
	}

	return m.frontDoor(ctx)
}

func (m *session) stackConfig() stack.Config {
	people := []string{fmt.Sprint("SANDBOX_BANKS=", m.population.Banks),
		fmt.Sprint("SANDBOX_CUSTOMERS=", m.population.Customers)}

	env := environment{stack.Bootstrap: people, stack.Room: slices.Clone(people)}
	for _, more := range []environment{m.Environment, m.env} {
		for process, variables := range more {
			env[process] = append(env[process], variables...)
		}
	}

	config := stack.Config{
		Dir: m.Dir, BinDir: m.BinDir, Ports: stack.FreePorts, Engines: m.Engines, CacheGrid: m.CacheGrid,
		Kafka: m.kafka, Env: env,
		Room: m.Room || m.does == rest, Archive: m.Archive || m.does == rest,
		LedgerReserve: reservedFor(m.payments), LedgerCore: !m.sharedCores,
		ReadyWithin: 5 * time.Minute, StopWithin: time.Minute,
	}
	if m.apart > 0 {
		config.Replicas, config.Linked = 3, far
	}

	return config
}

// begin samples what the processes have used until now, the load generator and those given included.
func (m *session) begin(more ...meter.Process) (err error) {
	m.processes = append(more, meter.Process{Name: loadGenerator, PID: os.Getpid()})
	for _, name := range m.Names() {
		if pid := m.PID(name); pid != 0 && name != stack.Bootstrap {
			m.processes = append(m.processes, meter.Process{Name: name, PID: pid})
		}
	}
	m.before, err = meter.Read(m.processes, filepath.Join(m.Dir, "data"))

	return err
}

func (m *session) end() (err error) {
	m.after, err = meter.Read(m.processes, filepath.Join(m.Dir, "data"))
	return err
}

// costs takes what each payment cost between begin and end.
func (m *session) costs(payments int) {
	m.run.set(runFigures, "stored_bytes", float64(m.after.Stored-m.before.Stored)/float64(payments))
	m.run.setCosts(m.after.Since(m.before), payments)
}

func (c Config) settings() string {
	text := fmt.Sprintf("TigerBeetle %s, %s; as shipped but for what a row says: embedded broker without fsync, %d engines, %s of cache for TigerBeetle, its file reserved for the payments of the run, a processor of its own for it, %d PSPs, %s customers, payments of the mix %s, banks that answer at once, fresh data in every run; at a maximum %s payments in flight",
		tigerbeetle.Version, runtime.Version(), c.Engines, c.CacheGrid, c.Population.Banks,
		pix.Thousands(c.Population.Customers), c.Mix, pix.Thousands(outstandingMax))
	for _, process := range slices.Sorted(maps.Keys(c.Environment)) {
		text += fmt.Sprintf("; %s %s", process, strings.Join(c.Environment[process], " "))
	}

	return text
}
