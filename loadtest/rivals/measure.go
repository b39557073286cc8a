package rivals

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/jackc/pgx/v5"

	"github.com/liquida/liquida/deploy/ledgertest"
	"github.com/liquida/liquida/deploy/postgres"
	"github.com/liquida/liquida/deploy/tigerbeetle"
	"github.com/liquida/liquida/loadtest/meter"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
)

// The compared systems.
const (
	OnTigerBeetle = "TigerBeetle"
	OnPostgreSQL  = "PostgreSQL"
	EarlyRelease  = "PostgreSQL, locks released early"
)

// Systems lists all of them.
var Systems = []string{OnTigerBeetle, OnPostgreSQL, EarlyRelease}

// Config says what to measure.
type Config struct {
	Dir           string // for data; removed afterwards
	Population    sandbox.Population
	Systems       []string
	Clients       []int // that send payments one by one
	Batches       []int // payments in a batch
	BatchClients  []int // that send batches
	Duration      time.Duration
	VoidedPercent int
	CacheGrid     string   // of TigerBeetle
	Settings      []string // of PostgreSQL
	Log           io.Writer
}

// Tuning is the default configuration of PostgreSQL. A commit is on disk before its result,
// and checkpoints are rare. Statistics follow the data within a second: a plan for empty tables
// would scan whole tables for the rest of a short run, which no long run would do. Pages are in
// memory, so a random page costs hardly more than the next one.
var Tuning = []string{
	"fsync=on", "synchronous_commit=on", "full_page_writes=on", "wal_compression=lz4",
	"shared_buffers=2GB", "wal_buffers=64MB", "max_wal_size=8GB", "min_wal_size=1GB", "checkpoint_timeout=15min",
	"commit_delay=0", "commit_siblings=5", "max_connections=200", "jit=off",
	"autovacuum_naptime=1s", "random_page_cost=1.1",
}

// Run is one valid run of one system.
type Run struct {
	System            string  `json:"system"`
	Clients           int     `json:"clients"`
	Batch             int     `json:"payments_per_batch"`
	Payments          int     `json:"payments"`
	PaymentsPerSecond float64 `json:"payments_per_second"`
	P50               float64 `json:"p50_ms"` // of both phases of a payment together
	P99               float64 `json:"p99_ms"`
	Max               float64 `json:"max_ms"`
	ServerCPU         float64 `json:"server_cpu_microseconds_per_payment"`
	ClientCPU         float64 `json:"client_cpu_microseconds_per_payment"`
	DeviceBytes       float64 `json:"device_bytes_written_per_payment"` // of the whole device; -1: unknown
	StoredBytes       float64 `json:"bytes_stored_per_payment"`
	DeviceFlushes     float64 `json:"device_flushes_per_payment"` // of the whole device; -1: unknown
}

// Result is what was measured.
type Result struct {
	StartedAt time.Time `json:"started_at"`
	Hardware  string    `json:"hardware"`
	Workload  string    `json:"workload"`
	Settings  []string  `json:"settings"`
	Runs      []Run     `json:"runs"`
}

// Measure runs everything in the config, each run on a fresh server.
func Measure(ctx context.Context, config Config) (*Result, error) {
	r := &Result{StartedAt: time.Now().UTC(), Hardware: meter.Hardware() + ", clients included", Workload: config.workload()}
	var shapes [][2]int // clients, batch
	for _, clients := range config.Clients {
		shapes = append(shapes, [2]int{clients, 1})
	}
	for _, batch := range config.Batches {
		for _, clients := range config.BatchClients {
			shapes = append(shapes, [2]int{clients, batch})
		}
	}
	for _, shape := range shapes { // the systems in turn, so that all run in the same hour
		for _, system := range config.Systems {
			run := &Run{System: system, Clients: shape[0], Batch: shape[1]}
			if err := config.measure(ctx, run, r); err != nil {
				return r, fmt.Errorf("%s, %d clients, batches of %d: %w", system, run.Clients, run.Batch, err)
			}
			r.Runs = append(r.Runs, *run)
			fmt.Fprintf(config.Log, "%-34s %3d clients  batches of %4d  %7.0f payments/s  p50 %7.2f ms  p99 %7.2f ms\n",
				system, run.Clients, run.Batch, run.PaymentsPerSecond, run.P50, run.P99)
		}
	}
	return r, nil
}

func (c Config) measure(ctx context.Context, run *Run, r *Result) (err error) {
	if err := os.RemoveAll(c.Dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.Dir)) }()
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return err
	}
	if run.System == OnTigerBeetle {
		return c.measureTigerBeetle(ctx, run, r)
	}
	return c.measurePostgreSQL(ctx, run, r)
}

func (c Config) measureTigerBeetle(ctx context.Context, run *Run, r *Result) error {
	server, err := ledgertest.StartCached(c.Dir, c.CacheGrid)
	if err != nil {
		return err
	}
	defer server.Stop()
	store, err := CreateTigerBeetle(server.Config, c.Population)
	if err != nil {
		return err
	}
	defer store.Close()
	r.settings(OnTigerBeetle, tigerbeetle.Version, "--cache-grid="+c.CacheGrid, "one replica, O_DIRECT and O_DSYNC, no pending timeout")
	before, after, err := c.measured(ctx, run, store, server.PID)
	if err != nil {
		return err
	}
	run.written(before, after)
	return c.checkBooks(ctx, run, store)
}

func (c Config) measurePostgreSQL(ctx context.Context, run *Run, r *Result) (err error) {
	server, err := postgres.Start(ctx, filepath.Join(c.Dir, "postgres"), append(append([]string{}, Tuning...), c.Settings...))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	if err := CreatePostgreSQL(ctx, server.URL, c.Population); err != nil {
		return err
	}
	db, err := pgx.Connect(ctx, server.URL)
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	var settings string
	var size int64
	if err := db.QueryRow(ctx, `SELECT string_agg(name || '=' || current_setting(name), ' ' ORDER BY name), pg_database_size(current_database())
		FROM pg_settings WHERE name IN ('wal_sync_method', 'autovacuum', 'wal_level') OR source = 'command line'
		AND name NOT IN ('listen_addresses', 'port', 'unix_socket_directories', 'config_file', 'data_directory', 'hba_file', 'ident_file')`).Scan(&settings, &size); err != nil {
		return err
	}
	r.settings(OnPostgreSQL, server.Version, settings)
	if _, err := db.Exec(ctx, "CHECKPOINT"); err != nil {
		return err
	}
	store, err := OpenPostgreSQL(ctx, server.URL, run.Clients, run.System == EarlyRelease)
	if err != nil {
		return err
	}
	defer store.Close()
	before, _, err := c.measured(ctx, run, store, server.PID)
	if err != nil {
		return err
	}
	if err := c.checkBooks(ctx, run, store); err != nil {
		return err
	}
	store.Close() // connections report their statistics when they end
	// Dirty pages belong to the cost: a checkpoint writes them.
	if _, err := db.Exec(ctx, "CHECKPOINT"); err != nil {
		return err
	}
	after, err := usageOf(server.PID, c.Dir)
	if err != nil {
		return err
	}
	before.stored = size // its tables and indexes, without its log
	if err := db.QueryRow(ctx, "SELECT pg_database_size(current_database())").Scan(&after.stored); err != nil {
		return err
	}
	run.written(before, after)
	return checkPostgreSQL(ctx, db, Opening(c.Population), run.Payments)
}

// measured fires at a server, and returns what was used before and after.
func (c Config) measured(ctx context.Context, run *Run, store Ledger, pid int) (before, after usage, err error) {
	if before, err = usageOf(pid, c.Dir); err == nil {
		err = c.fire(ctx, run, store)
	}
	if err == nil {
		after, err = usageOf(pid, c.Dir)
	}
	if err == nil {
		run.cost(before, after)
	}
	return before, after, err
}

// fire is a closed loop: each client holds some payments, resolves them, and takes the next.
// The first fifth of the time is not measured.
func (c Config) fire(ctx context.Context, run *Run, store Ledger) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	started := time.Now()
	from, until := started.Add(c.Duration/5), started.Add(c.Duration)
	var next, measured atomic.Int64
	latencies := hdrhistogram.New(1, time.Minute.Microseconds(), 3)
	var merge sync.Mutex
	var clients sync.WaitGroup
	for client := range run.Clients {
		clients.Go(func() {
			own := hdrhistogram.New(1, time.Minute.Microseconds(), 3)
			ids := rand.New(rand.NewPCG(uint64(client), uint64(started.UnixNano())))
			for ctx.Err() == nil && time.Now().Before(until) {
				first := int(next.Add(int64(run.Batch))) - run.Batch
				payments, decisions := c.take(first, run.Batch, ids)
				sent := time.Now()
				if err := bothPhases(ctx, store, payments, decisions); err != nil {
					cancel(err)
					return
				}
				if ended := time.Now(); sent.After(from) && ended.Before(until) {
					if err := own.RecordValues(ended.Sub(sent).Microseconds(), int64(run.Batch)); err != nil {
						cancel(err)
						return
					}
				}
				if ended := time.Now(); ended.After(from) && ended.Before(until) {
					measured.Add(int64(run.Batch))
				}
			}
			merge.Lock()
			defer merge.Unlock()
			latencies.Merge(own)
		})
	}
	clients.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if measured.Load() == 0 || latencies.TotalCount() == 0 {
		return fmt.Errorf("no payment began and ended in the measured part of %v: make the run longer", c.Duration)
	}
	ms := func(quantile float64) float64 { return float64(latencies.ValueAtQuantile(quantile)) / 1e3 }
	run.Payments = int(next.Load())
	run.PaymentsPerSecond = float64(measured.Load()) / until.Sub(from).Seconds()
	run.P50, run.P99, run.Max = ms(50), ms(99), float64(latencies.Max())/1e3
	return nil
}

// bothPhases holds and resolves payments. All must be new.
func bothPhases(ctx context.Context, store Ledger, payments []Payment, decisions []Decision) error {
	results, err := store.Hold(ctx, payments)
	if err != nil {
		return err
	}
	for i, result := range results {
		if result != (PaymentResult{Outcome: Held}) {
			return fmt.Errorf("the result of phase 1 of %s is %+v", payments[i].ID, result)
		}
	}
	if results, err = store.Resolve(ctx, decisions); err != nil {
		return err
	}
	for i, result := range results {
		want := PaymentResult{Outcome: Posted}
		if !decisions[i].Accept {
			want = PaymentResult{Outcome: Voided, Reason: decisions[i].Reason}
		}
		if result != want {
			return fmt.Errorf("the result of phase 2 of %s is %+v", payments[i].ID, result)
		}
	}
	return nil
}

// take creates n payments, from number first on.
func (c Config) take(first, n int, ids *rand.Rand) ([]Payment, []Decision) {
	payments, decisions := make([]Payment, n), make([]Decision, n)
	for i := range n {
		content, accept := c.content(first + i)
		payments[i] = Payment{pix.NewEndToEndID(content.Payer.ISPB, time.Now(), ids), content}
		decisions[i] = Decision{Payment: payments[i], Accept: accept}
		if !accept {
			decisions[i].Reason = pix.ReasonPayeeBlocked
		}
	}
	return payments, decisions
}

// content depends on the payment's number alone, so that every system gets the same. The payee
// is at another bank, so there are three legs.
func (c Config) content(number int) (content pix.Content, accept bool) {
	random := rand.New(rand.NewPCG(1, uint64(number)))
	payer, payee := random.IntN(c.Population.Customers), random.IntN(c.Population.Customers)
	for payee%c.Population.Banks == payer%c.Population.Banks {
		payee = random.IntN(c.Population.Customers)
	}
	content = pix.Content{Payer: c.Population.Customer(payer), Payee: c.Population.Customer(payee), AmountCentavos: 1 + random.Uint64N(10_000)}
	return content, random.IntN(100) >= c.VoidedPercent
}

// checkBooks compares the balances with those that the payments must leave.
func (c Config) checkBooks(ctx context.Context, run *Run, store Ledger) error {
	opening, want := Opening(c.Population), Opening(c.Population)
	for number := range run.Payments {
		if content, accept := c.content(number); accept {
			want.Settle(content)
		}
	}
	books, err := store.Balances(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(books.Check(opening), books.Differ(want)); err != nil {
		return fmt.Errorf("the run is not valid: %w", err)
	}
	return nil
}

func (c Config) workload() string {
	return fmt.Sprintf("%d banks, %d customers, every payment between two banks, %d %% voided; closed loop, %v each of which the first fifth is not measured; TCP on loopback, fresh data each",
		c.Population.Banks, c.Population.Customers, c.VoidedPercent, c.Duration)
}
