package bench

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/settings"
)

// row is a row of the bench: what is measured, and how its settings differ from the shipped ones.
type row struct {
	part, name  string
	payments    int       // 0: those of the config, at a rate as many as its time takes
	rate        int       // payments a second; 0: as fast as it goes
	does        operation // what is measured; empty: the pipeline
	outstanding int       // in flight at a maximum; 0: outstandingMax
	mix         string    // empty: that of the config
	kafka       string
	capped      bool          // every bank has a cap on outflow
	answers     time.Duration // after which banks answer, on average; 0: at once
	apart       time.Duration // three replicas of the ledger, and banks far from the broker; 0: neither
	sharedCores bool          // the ledger has no processor of its own; always so at a rate
	banks       int
	flood       load.Flood // sent by others meanwhile
	env         environment
}

// environment holds variables by process.
type environment = map[string][]string

// operation is what a row does. Of the HTTP API it is asked for again and again: each connection sends its
// next request after the whole response to the last.
type operation string

const (
	fillLedger operation = "the ledger alone"
	payBare    operation = "payments through a bare pipeline"
	rest       operation = "nothing"
	payOne     operation = "payments accepted"
	payBatch   operation = "payments accepted in batches"
	readStates operation = "states of settled payments read"
	readFloods operation = "payments while others read"
)

const (
	ceilingPart  = "ceiling"
	maximumPart  = "maximum"
	latencyPart  = "latency"
	doorPart     = "door"
	floodPart    = "flood"
	distancePart = "distance"
	slowPart     = "slow-banks"
	growthPart   = "growth"
	capsPart     = "caps"
	idlePart     = "idle"
	gatePart     = "gate"
)

// parts are the values of --parts, in the order of measuring.
var parts = []struct{ name, what string }{
	{ceilingPart, "the ledger alone, with the transfers of payments in full requests"},
	{maximumPart, "the most that the whole pipeline settles: embedded broker without and with fsync, all processors shared, Apache Kafka, a bare pipeline"},
	{latencyPart, "latencies at fixed rates, all processors shared; the lowest also of a bare pipeline: two consumers, two requests to the ledger, four hops, nothing else"},
	{doorPart, "the HTTP API as fast as its connections go: payments one by one and in batches, and states"},
	{floodPart, "1,000 payments/s to a good bank: alone, while another bank floods conflicts (also 38,000 of one id at once) or copies of a payment that waits, and while four of five banks are silent; 200/s alone, and beside 3,000/s to one account, and to any; 100/s at two front doors while others read all they may"},
	{slowPart, "banks that answer after 1.0 to 2.5 s, as in PIX: the ledger alone, which posts in the order of their answers, and the maximum, also of a bare pipeline, with 80,000 payments in flight"},
	{growthPart, "the maximum through five times --payments: payments/s of each part, as the ledger's file grows (43 GB of disk)"},
	{capsPart, "the maximum with a cap on outflow on every bank: a fourth leg, whose holds all stay alive"},
	{distancePart, "three replicas of the ledger, and banks far from the broker, 1, 20 and 60 ms there and back: latency at 1,000/s, and the maximum"},
	{idlePart, "what a ready system takes while nobody pays, the control room included"},
	{gatePart, "short rows whose ratios make bench-gate compares with those in findings/bench.json"},
}

// Of the part gate, which must be short.
const (
	gatePayments = 300_000
	gateSeconds  = 15
	gateCeiling  = "gate, ledger alone"
)

// DefaultParts take a quarter of an hour.
var DefaultParts = []string{ceilingPart, maximumPart, latencyPart, doorPart, gatePart}

// PartsHelp explains the parts.
func PartsHelp() string {
	var text strings.Builder
	for _, part := range parts {
		text.WriteString(settings.Beside(fmt.Sprintf("  %-10s ", part.name), part.what))
	}

	return text.String()
}

// CheckParts rejects unknown parts.
func CheckParts(names []string) error {
	known := AllParts()

	if len(names) == 0 || slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(known, name) }) {
		return fmt.Errorf("--parts is %q: it must be all, or some of\n%s", strings.Join(names, ","), PartsHelp())
	}

	return nil
}

// AllParts names every part.
func AllParts() (names []string) {
	for _, part := range parts {
		names = append(names, part.name)
	}

	return names
}

const (
	// growthTimes is how many parts of --payments the part growth settles.
	growthTimes = 5
	// Slow banks take 1.47 s on average, 2.5 s at most: about as the banks of PIX.
	slowAnswers     = 1470 * time.Millisecond
	slowOutstanding = 80_000
)

// Environments of rows.
var (
	// The front door refuses nothing: it accepts faster than payments settle.
	acceptsAll = environment{stack.Producer: {"CALLER_RATE_MAX=1000000", "CALLER_BURST_MAX=1000000", "SHED_AGE=10m"}}
	slowBanks  = environment{
		stack.Simulator: {"KAFKA_LINGER=15ms", // as the bare bank's
			`SIMULATOR_PROFILES={"default": {"delay": {"min_ms": 1000, "mean_ms": 1470, "max_ms": 2500}}}`}}
	// All of five banks but the first. Payments to them would fill the engine's room within 10 s, if they could.
	silentBanks = environment{stack.Engine: {"ENGINE_IN_FLIGHT_MAX=20000"},
		stack.Simulator: {`SIMULATOR_PROFILES={"10000002": {"silent_share": 1}, "10000003": {"silent_share": 1}, "10000004": {"silent_share": 1}, "10000005": {"silent_share": 1}}`}}
)

// rows returns the rows of the chosen parts.
func (c Config) rows() (chosen []row) {
	add := func(part, name string, r row) {
		r.part, r.name, r.sharedCores = part, name, r.sharedCores || r.rate > 0
		if r.payments == 0 && r.does != rest {
			if r.payments = c.Payments; r.rate > 0 {
				r.payments = int(float64(r.rate) * c.RateDuration.Seconds())
			}
		}

		if slices.Contains(c.Parts, part) && strings.Contains(name, c.Rows) {
			chosen = append(chosen, r)
		}
	}
	add(ceilingPart, "ledger alone", row{does: fillLedger})
	add(maximumPart, "maximum", row{})
	add(maximumPart, "maximum, broker with fsync", row{env: environment{stack.Broker: {"BROKER_SYNC_WRITES=true"}}})
	add(maximumPart, "maximum, shared cores", row{sharedCores: true})
	add(maximumPart, "maximum, Apache Kafka", row{kafka: stack.Apache})
	add(maximumPart, "maximum, bare pipeline", row{does: payBare})

	for i, rate := range c.Rates {
		name := pix.Thousands(rate) + "/s"
		if i == 0 {
			add(latencyPart, "bare pipeline, "+name, row{rate: rate, does: payBare})
		}
		add(latencyPart, name, row{rate: rate})
	}

	add(doorPart, "front door, payments one by one", row{does: payOne, payments: doorPayments, env: acceptsAll})
	add(doorPart, fmt.Sprintf("front door, payments in batches of %d", batchLines),
		row{does: payBatch, payments: doorPayments, env: acceptsAll})
	add(doorPart, "front door, states", row{does: readStates, payments: doorPayments, env: acceptsAll})

	add(slowPart, "ledger alone, slow banks", row{does: fillLedger, answers: slowAnswers})
	add(slowPart, "bare pipeline, slow banks", row{does: payBare, answers: slowAnswers, outstanding: slowOutstanding})
	add(slowPart, "maximum, slow banks", row{answers: slowAnswers, outstanding: slowOutstanding, env: slowBanks})
	add(growthPart, fmt.Sprintf("maximum, %s payments", pix.Thousands(growthTimes*c.Payments)),
		row{payments: growthTimes * c.Payments})
	add(capsPart, "maximum, capped banks", row{capped: true})

	for _, apart := range distances {
		add(distancePart, fmt.Sprintf("%d ms apart, 1,000/s", apart.Milliseconds()), row{rate: 1000, apart: apart})
		add(distancePart, fmt.Sprintf("%d ms apart, maximum", apart.Milliseconds()),
			row{payments: c.Payments / 2, sharedCores: true, apart: apart})
	}

	add(floodPart, "payments while others read",
		row{does: readFloods, rate: readPayRate, payments: c.Payments, banks: 5,
			flood: load.Flood{Kind: load.Payments, PerSecond: readBeside}})

	floods := func(rate int, mix, name string, f load.Flood) {
		env := map[load.FloodKind]environment{load.ToSilentBanks: silentBanks}[f.Kind]
		add(floodPart, pix.Thousands(rate)+"/s, "+name, row{rate: rate, mix: mix, banks: 5, flood: f, env: env})
	}
	// those of the mix hottest go to the first bank
	floods(1000, "hottest", "nobody else", load.Flood{})
	floods(1000, "hottest", "6,000 conflicts/s", load.Flood{Kind: load.Conflicts, PerSecond: 6000})
	// into a system that stands still
	floods(1000, "hottest", "38,000 conflicts of one id at once",
		load.Flood{Kind: load.Conflicts, PerSecond: 1_000_000, Most: 38_000})
	floods(1000, "hottest", "2,000 copies/s", load.Flood{Kind: load.Copies, PerSecond: 2000})
	floods(1000, "hottest", "2,000/s to 4 silent banks of 5", load.Flood{Kind: load.ToSilentBanks, PerSecond: 2000})
	floods(200, "plain", "nobody else", load.Flood{})
	floods(200, "plain", "3,000/s of others to one account", load.Flood{Kind: load.HotAccount, PerSecond: 3000})
	floods(200, "plain", "3,000/s of others to any account", load.Flood{Kind: load.Payments, PerSecond: 3000})

	add(idlePart, "nobody pays", row{does: rest, sharedCores: true})
	add(gatePart, gateCeiling, row{does: fillLedger, payments: gatePayments})
	add(gatePart, "gate, maximum", row{payments: gatePayments})
	add(gatePart, "gate, bare pipeline", row{does: payBare, rate: 1000, payments: 1000 * gateSeconds})
	add(gatePart, "gate, 1,000/s", row{rate: 1000, payments: 1000 * gateSeconds})

	return chosen
}

// differs names the settings that differ from the shipped ones, and that the name does not say.
func (r row) differs() string {
	var all []string
	if r.sharedCores {
		all = append(all, "all share the processors")
	}

	for _, process := range []string{stack.Broker, stack.Engine, stack.Producer, stack.Simulator} {
		for _, variable := range r.env[process] {
			all = append(all, process+" "+variable)
		}
	}

	return strings.Join(all, ", ")
}
