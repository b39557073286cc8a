// Package bench measures how much the clearing house can do on this machine, everything
// included, and what the ledger alone could do. A figure counts only when every payment
// of its run ended as it must, none was dropped and the audit is clean.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/audit"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/stream"
)

// Config says what to measure.
type Config struct {
	Dir, BinDir      string
	Population       sandbox.Population
	Payments         int   // of the pipeline's maximum
	CeilingPayments  int   // of each ceiling
	CeilingIDs       []IDs // the first is what the pipeline is compared with
	OutstandingMax   int   // in flight while the maximum is searched
	Rates            []int // of the latencies
	RateDuration     time.Duration
	Engines          int
	CacheGrid        string
	Kafka            string              // stack.Embedded or stack.Apache
	Environment      map[string][]string // more variables, by process
	ProgressOn, Tell io.Writer
}

// Result is what was measured.
type Result struct {
	StartedAt time.Time `json:"started_at"`
	Hardware  string    `json:"hardware"`
	Settings  string    `json:"settings"`
	Ceilings  []Ceiling `json:"ledger_ceilings"`
	Pipeline  *Run      `json:"pipeline_maximum,omitempty"`
	Latencies []Run     `json:"latencies"`
}

// Run is one valid run of the whole pipeline.
type Run struct {
	RatePerSecond    int          `json:"rate_per_second,omitempty"` // 0: as fast as it goes
	Payments         int          `json:"payments"`
	SettledPerSecond float64      `json:"settled_per_second_steady"`
	RatioToCeiling   float64      `json:"ratio_to_ceiling,omitempty"`
	Latency          load.Latency `json:"latency"`
	LateSends        int          `json:"late_sends"`
	Costs            []Cost       `json:"costs"`
	Audit            string       `json:"audit"`
}

// Measure runs everything that config asks for. Each part has a stack of its own, so
// that none inherits the data of another.
func Measure(ctx context.Context, config Config) (*Result, error) {
	r := &Result{StartedAt: time.Now().UTC(), Hardware: hardware(), Settings: config.settings()}
	for _, ids := range config.CeilingIDs {
		fmt.Fprintf(config.Tell, "ledger ceiling, %s ids: %d payments\n", ids, config.CeilingPayments)
		err := config.onStack(ctx, func(s *stack.Stack) error {
			ceiling, err := measureCeiling(ledgerConfig(s), config.Population, ids, config.CeilingPayments)
			r.Ceilings = append(r.Ceilings, ceiling)
			return err
		})
		if err != nil {
			return r, fmt.Errorf("ledger ceiling with %s ids: %w", ids, err)
		}
	}
	if config.Payments > 0 {
		fmt.Fprintf(config.Tell, "pipeline maximum: %d payments, at most %d in flight\n", config.Payments, config.OutstandingMax)
		err := config.onStack(ctx, func(s *stack.Stack) error {
			run, err := config.run(ctx, s, 0, config.Payments)
			r.Pipeline = run
			return err
		})
		if err != nil {
			return r, fmt.Errorf("pipeline maximum: %w", err)
		}
		if len(r.Ceilings) > 0 {
			r.Pipeline.RatioToCeiling = r.Pipeline.SettledPerSecond / r.Ceilings[0].PaymentsPerSecond
		}
	}
	for _, rate := range config.Rates {
		fmt.Fprintf(config.Tell, "latency at %d/s for %v\n", rate, config.RateDuration)
		err := config.onStack(ctx, func(s *stack.Stack) error {
			run, err := config.run(ctx, s, rate, int(float64(rate)*config.RateDuration.Seconds()))
			if err == nil {
				r.Latencies = append(r.Latencies, *run)
			}
			return err
		})
		if err != nil {
			return r, fmt.Errorf("latency at %d/s: %w", rate, err)
		}
	}
	return r, nil
}

// onStack starts a fresh stack, measures on it and removes it.
func (c Config) onStack(ctx context.Context, measure func(*stack.Stack) error) (err error) {
	if err := os.RemoveAll(c.Dir); err != nil {
		return err
	}
	s, err := stack.Start(ctx, stack.Config{
		Dir: c.Dir, BinDir: c.BinDir, Ports: stack.FreePorts, Engines: c.Engines, CacheGrid: c.CacheGrid, Kafka: c.Kafka, Env: c.Environment,
	})
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, s.Stop(context.WithoutCancel(ctx)), os.RemoveAll(filepath.Join(c.Dir, "data")))
	}()
	return measure(s)
}

// run sends payments and refuses to give a figure unless the run is valid.
func (c Config) run(ctx context.Context, s *stack.Stack, rate, payments int) (*Run, error) {
	weights, err := mix.Parse("settling")
	if err != nil {
		return nil, err
	}
	config := load.Config{
		Stream: stream.Config{Brokers: []string{s.KafkaAddress()}}, Population: c.Population, Mix: weights, MixName: "settling",
		Rate: float64(rate), Payments: payments, Seed: 1, DrainTimeout: 5 * time.Minute, OutstandingMax: 1_000_000,
	}
	if rate == 0 {
		config.Rate, config.WaitForRoom, config.OutstandingMax = 1e6, true, c.OutstandingMax
	}
	if file, ok := c.ProgressOn.(*os.File); ok {
		config.Progress, config.ProgressEvery = load.ProgressOn(file)
	}
	pids, order := map[string]int{"load generator": os.Getpid()}, []string{"load generator"}
	for _, name := range s.Names() {
		if pid := s.PID(name); pid != 0 && name != stack.Bootstrap {
			pids[name] = pid
			order = append(order, name)
		}
	}
	meter, err := startMeter(pids, order)
	if err != nil {
		return nil, err
	}
	result, err := load.Run(ctx, config)
	if err != nil {
		return nil, err
	}
	if !result.Passed {
		result.Write(c.Tell)
		return nil, errors.New("the run is not valid: " + result.Verdict())
	}
	costs, err := meter.costs(payments)
	if err != nil {
		return nil, err
	}
	verdict, err := c.audit(ctx, s)
	if err != nil {
		return nil, err
	}
	run := &Run{
		RatePerSecond: rate, Payments: payments, SettledPerSecond: result.SteadyPerSecond,
		LateSends: result.Late, Costs: costs, Audit: verdict,
	}
	if run.SettledPerSecond == 0 { // too short for a steady window
		run.SettledPerSecond = result.SettledPerSecond
	}
	for _, latency := range result.Latencies {
		if latency.Kind == "settled" {
			run.Latency = latency
		}
	}
	return run, nil
}

func (c Config) audit(ctx context.Context, s *stack.Stack) (string, error) {
	client, err := ledger.Connect(ledgerConfig(s))
	if err != nil {
		return "", err
	}
	defer client.Close()
	verdict, err := audit.Run(ctx, audit.Config{
		Brokers: []string{s.KafkaAddress()}, Ledger: client, Wait: 70 * time.Second, Tell: func(string, ...any) {},
	})
	if err != nil {
		return "", err
	}
	if !verdict.Clean {
		verdict.Write(c.Tell)
		return "", errors.New("the run is not valid: " + verdict.String())
	}
	return verdict.String(), nil
}

func ledgerConfig(s *stack.Stack) ledger.Config {
	return ledger.Config{Addresses: strings.Split(s.TigerBeetleAddresses(), ",")}
}

func (c Config) settings() string {
	text := fmt.Sprintf("%s Kafka, %d engine(s), TigerBeetle %s of cache, fresh data each, %d PSPs, %d customers, banks answer at once", c.Kafka, c.Engines, c.CacheGrid, c.Population.Banks, c.Population.Customers)
	for process, variables := range c.Environment {
		text += fmt.Sprintf("; %s %s", process, strings.Join(variables, " "))
	}
	return text
}

func hardware() string {
	memory := "unknown memory"
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kib int64
		if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kib); err == nil {
			memory = fmt.Sprintf("%.0f GiB", float64(kib)/(1<<20))
		}
	}
	return fmt.Sprintf("%d cores, %s, %s/%s, load generator included", runtime.NumCPU(), memory, runtime.GOOS, runtime.GOARCH)
}
