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
	payments    int
	rate        int       // payments a second; 0: as fast as it goes
	does        operation // what is measured; empty: the pipeline
	times       float64   // of the maximum that is offered
	outstanding int       // in flight at a maximum; 0: that of the config
	mix         string    // empty: that of the config
	kafka       string
	capped      bool          // every bank has a cap on outflow
	answers     time.Duration // after which banks answer, on average; 0: at once
	apart       time.Duration // three replicas of the ledger, and banks far from the broker; 0: neither
	sharedCores bool          // the ledger has no processor of its own
	banks       int
	flood       load.Flood // sent by others meanwhile
	answering   int        // banks that answer over HTTP; if any do, the others hang
	env         map[string][]string
}

const (
	ceilingPart   = "ceiling"
	doorPart      = "door"
	overloadPart  = "overload"
	floodPart     = "flood"
	questionsPart = "questions"
	distancePart  = "distance"
	slowPart      = "slow-banks"
	idlePart      = "idle"
	profilePart   = "profile"
	gatePart      = "gate"
)

// parts are the values of --parts, in the order of measuring.
var parts = []struct{ name, what string }{
	{ceilingPart, "the ledger alone, with the transfers of payments in full requests"},
	{"maximum", "the most that the whole pipeline settles: embedded broker without and with fsync, all processors shared, Apache Kafka"},
	{"latency", "latencies at fixed rates, all processors shared; the lowest also of a bare pipeline: two consumers, two requests to the ledger, four hops, nothing else"},
	{doorPart, "the HTTP API as fast as its connections go: payments one by one and in batches, states, balances while payments settle"},
	{overloadPart, "two and three times the maximum, in batches over HTTP and straight to Kafka: what settles, how fast, what a refusal costs, when the system is normal again; last, orders that are all refused: what one costs"},
	{floodPart, "1,000 payments/s to a good bank: alone, while another bank floods conflicts (also 38,000 of one id at once) or copies of a payment that waits, and while four of five banks are silent; 200/s alone, and beside 3,000/s to one account, and to any; 100/s at two front doors while others read all they may"},
	{questionsPart, "banks that answer over HTTP beside banks over Kafka: how long an answer takes at 1,000/s with all processors shared, also while four of five banks hang; the maximum"},
	{slowPart, "banks that answer after 1.0 to 2.5 s, as in PIX: the ledger alone with posts as late, and the maximum with 80,000 payments in flight"},
	{"growth", "the maximum through five times --payments: payments/s of each part, as the ledger's file grows (55 GB of disk)"},
	{"caps", "the maximum with a cap on outflow on every bank: a fourth leg, whose holds all stay alive"},
	{distancePart, "three replicas of the ledger, and banks far from the broker, 1, 20 and 60 ms there and back: latency at 1,000/s, and the maximum"},
	{idlePart, "what a ready system takes while nobody pays, the control room included"},
	{profilePart, "the maximum while the engine is profiled"},
	{gatePart, "short rows whose ratios make bench-gate compares with those in findings/ratios.json"},
}

// Of the part gate, which must be short.
const (
	gatePayments = 300_000
	gateRate     = 1000
	gateSeconds  = 15
)

// DefaultParts take a quarter of an hour.
var DefaultParts = []string{ceilingPart, "maximum", "latency", doorPart, gatePart}

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
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("--parts holds %q: it must be all, or some of\n%s", name, PartsHelp())
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("--parts is empty: it must be all, or some of\n%s", PartsHelp())
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

// rows returns the rows of the chosen parts.
func (c Config) rows() (chosen []row) {
	maximum := row{part: "maximum", name: "maximum", payments: c.Payments}
	with := func(part, name string, change func(*row)) row {
		r := maximum
		r.part, r.name = part, "maximum, "+name
		change(&r)
		return r
	}
	all := []row{
		{part: ceilingPart, name: "ledger alone", does: fillLedger, payments: c.Payments},
		maximum,
		with("maximum", "broker with fsync", func(r *row) { r.env = map[string][]string{stack.Broker: {"BROKER_SYNC_WRITES=true"}} }),
		with("maximum", "shared cores", func(r *row) { r.sharedCores = true }),
		with("maximum", "Apache Kafka", func(r *row) { r.kafka = stack.Apache }),
	}
	for i, rate := range c.Rates {
		at := row{part: "latency", name: pix.Thousands(rate) + "/s", rate: rate, payments: int(float64(rate) * c.RateDuration.Seconds()), sharedCores: true}
		if i == 0 {
			bare := at
			bare.name, bare.does = "bare pipeline, "+at.name, payBare
			all = append(all, bare)
		}
		all = append(all, at)
	}
	all = append(all,
		c.door("payments one by one", payOne, min(c.DoorPayments, waitingMax)),
		c.door(fmt.Sprintf("payments in batches of %d", batchLines), payBatch, min(c.DoorPayments, waitingMax)),
		c.door("states", readStates, c.DoorPayments),
		c.door(fmt.Sprintf("balances while %s/s settle", pix.Thousands(settlingRate)), readBalances, int(settlingRate*c.RateDuration.Seconds())))
	for _, way := range []operation{overBatches, overKafka} {
		for _, times := range []float64{2, 3} {
			all = append(all, row{part: overloadPart, name: fmt.Sprintf("overload, %s, %g times the maximum", way, times), does: way, times: times, payments: c.OverloadPayments,
				env: map[string][]string{stack.Producer: {"CALLER_RATE_MAX=1000000", "CALLER_BURST_MAX=1000000"}}})
		}
	}
	all = append(all, row{part: slowPart, name: "ledger alone, slow banks", does: fillLedger, payments: c.Payments, answers: slowAnswers},
		with(slowPart, "slow banks", func(r *row) {
			r.answers, r.outstanding, r.env = slowAnswers, slowOutstanding, map[string][]string{stack.Simulator: {slowBanks}}
		}),
		with("growth", pix.Thousands(growthTimes*c.Payments)+" payments", func(r *row) { r.payments = growthTimes * c.Payments }),
		with("caps", "capped banks", func(r *row) { r.capped = true }))
	for _, apart := range distances {
		far := row{part: distancePart, name: fmt.Sprintf("%d ms apart, 1,000/s", apart.Milliseconds()), rate: 1000, payments: int(1000 * c.RateDuration.Seconds()), sharedCores: true, apart: apart}
		most := far
		most.name, most.rate, most.payments = fmt.Sprintf("%d ms apart, maximum", apart.Milliseconds()), 0, c.Payments/2
		all = append(all, far, most)
	}
	all = append(all, c.questionRows(with)...)
	all = append(all, with(overloadPart, "all refused", func(r *row) { r.mix, r.payments = "too-old=1", c.OverloadPayments }),
		row{part: floodPart, name: "payments while others read", does: readFloods, rate: readPayRate, payments: c.Payments / 4, banks: 5, sharedCores: true},
		c.flooded("nobody else", load.Flood{}),
		c.flooded("6,000 conflicts/s", load.Flood{Kind: load.Conflicts, PerSecond: 6000}),
		c.flooded("38,000 conflicts of one id at once", load.Flood{Kind: load.Conflicts, PerSecond: 1_000_000, Most: 38_000}), // into a system that stands still
		c.flooded("2,000 copies/s", load.Flood{Kind: load.Copies, PerSecond: 2000}),
		c.flooded("2,000/s to 4 silent banks of 5", load.Flood{Kind: load.ToSilentBanks, PerSecond: 2000}),
		c.besidePayments("nobody else", load.Flood{}),
		c.besidePayments("3,000/s of others to one account", load.Flood{Kind: load.HotAccount, PerSecond: 3000}),
		c.besidePayments("3,000/s of others to any account", load.Flood{Kind: load.Payments, PerSecond: 3000}),
		row{part: idlePart, name: "nobody pays", does: rest, sharedCores: true},
		with(profilePart, "while profiled", func(*row) {}),
		row{part: gatePart, name: "gate, ledger alone", does: fillLedger, payments: gatePayments},
		row{part: gatePart, name: "gate, maximum", payments: gatePayments},
		row{part: gatePart, name: "gate, bare pipeline", does: payBare, rate: gateRate, payments: gateRate * gateSeconds, sharedCores: true},
		row{part: gatePart, name: "gate, 1,000/s", rate: gateRate, payments: gateRate * gateSeconds, sharedCores: true})
	for _, r := range all {
		if slices.Contains(c.Parts, r.part) && strings.Contains(r.name, c.Rows) {
			chosen = append(chosen, r)
		}
	}
	return chosen
}

// door is a row of the HTTP API, without rate limits for callers, and without refusals: it
// accepts faster than payments settle.
func (c Config) door(name string, does operation, payments int) row {
	return row{part: doorPart, name: "front door, " + name, does: does, payments: payments,
		env: map[string][]string{stack.Producer: {"CALLER_RATE_MAX=1000000", "CALLER_BURST_MAX=1000000", "SHED_AGE=10m"}}}
}

// flooded is a row of payments to the first bank, while others send a flood.
func (c Config) flooded(name string, flood load.Flood) row {
	r := row{part: floodPart, name: "1,000/s, " + name, rate: 1000, payments: int(1000 * c.RateDuration.Seconds()), mix: "hottest", banks: 5, sharedCores: true, flood: flood}
	if flood.Kind == load.ToSilentBanks {
		// A room that they would fill within 10 s, if they could.
		r.env = map[string][]string{stack.Simulator: {silentBanks}, stack.Engine: {"ENGINE_IN_FLIGHT_MAX=20000"}}
	}
	return r
}

// besidePayments is a row of payments between any two banks, while others pay, too.
func (c Config) besidePayments(name string, flood load.Flood) row {
	return row{part: floodPart, name: "200/s, " + name, rate: 200, payments: int(200 * c.RateDuration.Seconds()), mix: "plain", banks: 5, sharedCores: true, flood: flood}
}

// growthTimes is how many parts of --payments the part growth settles.
const growthTimes = 5

// Slow banks take 1.47 s on average, 2.5 s at most: about as the banks of PIX.
const (
	slowAnswers     = 1470 * time.Millisecond
	slowOutstanding = 80_000
	slowBanks       = `SIMULATOR_PROFILES={"default": {"delay": {"min_ms": 1000, "mean_ms": 1470, "max_ms": 2500}}}`
)

// silentBanks are all of five but the first.
const silentBanks = `SIMULATOR_PROFILES={"10000002": {"silent_share": 1}, "10000003": {"silent_share": 1}, "10000004": {"silent_share": 1}, "10000005": {"silent_share": 1}}`

// differs names the settings that differ from the shipped ones.
func (r row) differs() string {
	var all []string
	if r.sharedCores {
		all = append(all, "all share the processors")
	}
	if r.capped {
		all = append(all, "a cap on outflow on every bank")
	}
	if r.outstanding > 0 {
		all = append(all, fmt.Sprintf("%s payments in flight", pix.Thousands(r.outstanding)))
	}
	for _, process := range []string{stack.Broker, stack.Engine, stack.Producer, stack.Simulator} {
		for _, variable := range r.env[process] {
			all = append(all, process+" "+variable)
		}
	}
	return strings.Join(all, ", ")
}
