package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/liquida/liquida/loadtest/audit"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/meter"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/loadtest/report"
	"github.com/liquida/liquida/platform/pix"
)

// settling is the mix of payments that all settle.
const settling = "settling"

// reportsMax is how long settlement reports may take after the last payment.
const reportsMax = 5 * time.Minute

// load sends payments of a mix: at the rate of the config, or, at 0, as fast as so many in flight allow. A load that is
// not valid is an error.
func (m *session) load(ctx context.Context, mixName string, config load.Config) (*load.Result, error) {
	weights, err := mix.Parse(mixName)
	if err != nil {
		return nil, err
	}

	config.Stream, config.Population, config.Mix, config.MixName, config.DrainTimeout = m.Kafka(), m.population,
		weights, mixName, reportsMax
	if config.OutstandingMax = 1_000_000; config.Rate == 0 {
		config.Rate, config.WaitForRoom, config.OutstandingMax = 1e6, true, cmp.Or(m.outstanding, outstandingMax)
	}

	result, err := load.Run(ctx, config)
	if err == nil && !result.Passed {
		report.WriteLoad(m.Config.Log, result)
		err = errors.New("the run is not valid: " + result.Verdict())
	}

	return result, err
}

// pipeline sends payments through the whole system, or through the bare pipeline in its place.
func (m *session) pipeline(ctx context.Context) error {
	running, end := context.WithCancel(ctx)
	defer end()

	engines, bare, err := m.prepare(running)
	if err != nil {
		return err
	}

	if err := m.begin(bare...); err != nil {
		return err
	}

	countedBefore, err := meter.ReadEngines(ctx, engines)
	if err != nil {
		return err
	}

	stopFlood := m.startFlood(ctx)
	var counted meter.Engines
	var unmeasured error

	config := load.Config{Rate: float64(m.rate), Payments: m.payments, Seed: 1, AtEnd: func() {
		if unmeasured = m.end(); unmeasured == nil {
			counted, unmeasured = meter.ReadEngines(ctx, engines)
		}
	}}
	config.Progress, config.ProgressEvery = load.ProgressOn(m.Config.Log)

	result, err := m.load(running, cmp.Or(m.mix, m.Mix), config)
	if err := errors.Join(err, unmeasured, stopFlood()); err != nil {
		return err
	}

	m.run.verdict = result.Verdict() + "; not audited"
	if m.does != payBare {
		verdict, err := m.audit(ctx)
		if err != nil {
			return err
		}
		m.run.verdict = result.Verdict() + ". " + verdict.String()
	}
	m.sumUp(result, counted.Since(countedBefore))

	return nil
}

// prepare makes the stack what the row says. It returns the telemetry of the engines, and the processes that take their
// place in a bare pipeline.
func (m *session) prepare(ctx context.Context) (engines []string, bare []meter.Process, err error) {
	if m.does == payBare {
		bare, err = m.startBare(ctx)
		return nil, bare, err
	}

	for _, name := range m.Names() {
		if strings.HasPrefix(name, "engine-") {
			engines = append(engines, m.TelemetryURL(name))
		}
	}

	if m.capped {
		err = m.capBanks(ctx)
	}

	return engines, nil, err
}

func (m *session) sumUp(result *load.Result, counted meter.Engines) {
	run := m.run
	run.set(offered.group, offered.name, float64(m.rate))
	// A short run has no steady window, and where all is refused nothing settles.
	run.set(perSecond.group, perSecond.name,
		cmp.Or(result.SteadyPerSecond, result.SettledPerSecond, float64(result.Rejected)/result.Seconds))

	if m.part == growthPart {
		for i, rate := range rates(result.PerSecond, m.Payments) {
			run.set(growthFigures, fmt.Sprint(i+1), rate)
		}
	}
	run.set(runFigures, "transfers_per_request", counted.Mean(meter.LedgerRequestEvents, "write"))
	run.setLatency(result.Latency("settled"))

	for _, hop := range meter.HopNames {
		run.set(hopMeanFigures, hop, 1e3*counted.Mean(meter.HopSeconds, hop))
	}
	m.costs(m.payments)
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

// startFlood sends the flood of the row, if there is one, until stop is called.
func (m *session) startFlood(ctx context.Context) (stop func() error) {
	if m.flood.Kind == "" {
		return func() error { return nil }
	}
	flood := m.flood
	flood.Population, flood.Bank, flood.Random = m.population, m.population.Banks-1, rand.New(rand.NewPCG(2, 0))
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		sent, err := flood.Run(ctx, m.options)
		fmt.Fprintf(m.Config.Log, "the flood sent %s %s\n", pix.Thousands(sent), flood.Kind)
		ended <- err
	}()

	return func() error { cancel(); return <-ended }
}

func (m *session) audit(ctx context.Context) (verdict audit.Verdict, err error) {
	client, err := connect(m.TigerBeetleAddresses())
	if err != nil {
		return verdict, err
	}
	defer client.Close()

	secrets, err := audit.ReadSecrets(m.AnswerKeysFile())
	if err != nil {
		return verdict, err
	}

	verdict, err = audit.Run(ctx, audit.Config{
		Kafka: m.options, Ledger: client, Secrets: secrets, Behind: m.Kafka().Behind, Wait: 70 * time.Second,
		Log: func(string, ...any) {},
	})
	if err == nil && !verdict.Clean {
		verdict.Write(m.Config.Log)
		err = errors.New("the run is not valid: " + verdict.String())
	}

	return verdict, err
}
