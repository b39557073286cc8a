package bench

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/flood"
	"github.com/liquida/liquida/platform/settings"
)

// row is a row of the bench: what is measured, and how its settings differ from the shipped
// ones.
type row struct {
	part, name string

	ids      IDs   // the ledger alone, with ids of this kind; empty: the whole pipeline
	mixed    bool  // ledger alone: holds and posts share requests
	delay    delay // of the banks: the ledger alone posts that much later than it holds
	payments int
	rate     int       // payments a second; 0: as fast as it goes
	half     bool      // the rate is half of the maximum of the same pass
	reads    int       // balance reads a second meanwhile; payments come over HTTP, too
	asks     operation // of the HTTP API, as fast as its connections allow; empty: none
	stage    int       // payments in each stage; the costs of each stage are shown
	profiled bool      // the engine is profiled meanwhile
	capped   bool      // every bank has a cap on outflow
	over     operation // how more than the maximum is offered; empty: it is not
	times    float64   // the maximum
	inFlight int       // payments in flight at a maximum; 0: as for the other rows
	room     bool      // the control room runs, and a page reads its picture each second

	kafka       string
	sharedCores bool // the ledger has no processor of its own
	growingFile bool // no room is reserved for the ledger's file
	engines     int
	banks       int
	customers   int
	cacheGrid   string
	mix         string
	flood       flood.Kind // sent by others meanwhile; empty: nothing
	floodRate   int        // messages a second
	floodMost   int        // messages in all; 0: no limit
	env         map[string][]string
}

// ledgerAlone begins the names of the rows without the rest of the pipeline.
const ledgerAlone = "ledger alone"

func (r Row) isLedgerAlone() bool { return strings.HasPrefix(r.Name, ledgerAlone) }

// isCeiling reports whether the row measures what the whole pipeline is compared with.
func (r row) isCeiling() bool { return r.part == "ceiling" || r.part == slowBanksPart && r.ids != "" }

const (
	doorPart      = "door"
	slowBanksPart = "slow-banks"
	overloadPart  = "overload"
	floodPart     = "flood"
)

// slowBanks take 1.45 s on average, p50 1.3 s, p95 2.4 s: about as the banks of PIX.
var slowBanks = delay{1000 * time.Millisecond, 1470 * time.Millisecond, 2500 * time.Millisecond}

// profiles returns the setting of the simulator by which all of its banks take that long.
func (d delay) profiles() string {
	return fmt.Sprintf(`SIMULATOR_PROFILES={"default": {"delay": {"min_ms": %d, "mean_ms": %d, "max_ms": %d}}}`, d.min.Milliseconds(), d.mean.Milliseconds(), d.max.Milliseconds())
}

// parts are the values of --parts, in the order of measuring.
var parts = []struct{ name, what string }{
	{"ceiling", "the ledger alone, with the transfers of payments in full requests"},
	{"maximum", "the most that the whole pipeline settles: embedded broker without and with fsync, all processors shared, the ledger's file growing, Apache Kafka"},
	{"latency", "latencies at fixed rates, the lowest also without a pause between requests to the ledger and with all processors shared"},
	{"half", "latency at half of the maximum; needs maximum"},
	{"reads", "1,200 payments/s and 3,600 balance reads/s at once, over HTTP"},
	{doorPart, "the HTTP API as fast as its connections go: payments one by one and in batches, states, balances while payments settle"},
	{"ids", "the ledger alone with sequential and with random ids, and with holds and posts in one request"},
	{"engines", "the maximum with two and with four engines"},
	{"banks", "the maximum with 50 and with 500 banks"},
	{slowBanksPart, "the maximum with banks that answer after 1.0 to 2.5 s, as in PIX, beside one with banks that answer at once; both beside the ledger alone; the memory of a payment in flight"},
	{overloadPart, "two and three times the maximum, in batches and in single requests over HTTP, and straight to Kafka: what settles, how fast, what a refusal costs, when the system is normal again; last, orders that are all refused: what one costs"},
	{floodPart, "1,000 payments/s to a good bank: alone, while another bank floods conflicts (also 38,000 of one id at once) or copies of a payment that waits, and while four of five banks are silent"},
	{capsPart, "the maximum without caps and with a cap on outflow on every bank, in four stages: the allowance holds of all payments stay alive"},
	{roomPart, "the maximum without the control room, and with it and a page that reads its picture each second: what the room costs, how far its light lags"},
	{"hottest", "the maximum with all payments to one payee"},
	{"customers", "the maximum with many customers"},
	{"growth", "rate and costs from million to million, with two sizes of the ledger's cache"},
	{"profile", "profiles of the engine at the maximum"},
}

// DefaultParts take a quarter of an hour. All parts take about three times as long.
var DefaultParts = []string{"ceiling", "maximum", "latency", "half", "reads", doorPart}

// PartsHelp explains the parts.
func PartsHelp() string {
	var text strings.Builder
	for _, part := range parts {
		text.WriteString(settings.Beside(fmt.Sprintf("  %-10s ", part.name), part.what))
	}
	return text.String()
}

// CheckParts rejects unknown parts, and parts whose prerequisites are missing.
func CheckParts(names []string) error {
	if len(names) == 0 {
		return fmt.Errorf("--parts is empty: it must be all, or some of\n%s", PartsHelp())
	}
	for _, name := range names {
		if !slices.ContainsFunc(parts, func(p struct{ name, what string }) bool { return p.name == name }) {
			return fmt.Errorf("--parts holds %q: it must be all, or some of\n%s", name, PartsHelp())
		}
	}
	if slices.Contains(names, "half") && !slices.Contains(names, "maximum") {
		return fmt.Errorf("--parts holds half without maximum: half needs the maximum of the same pass, so name both")
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
		{part: "ceiling", name: ledgerAlone, ids: OurIDs, payments: c.CeilingPayments},
		{part: "ids", name: ledgerAlone + ", sequential ids", ids: SequentialIDs, payments: c.CeilingPayments},
		{part: "ids", name: ledgerAlone + ", random ids", ids: RandomIDs, payments: c.CeilingPayments},
		{part: "ids", name: ledgerAlone + ", holds and posts mixed", ids: OurIDs, mixed: true, payments: c.CeilingPayments},
		maximum,
		with("maximum", "broker with fsync", func(r *row) { r.env = map[string][]string{stack.Broker: {"BROKER_SYNC_WRITES=true"}} }),
		with("maximum", "shared cores", func(r *row) { r.sharedCores = true }),
		with("maximum", "growing file", func(r *row) { r.growingFile = true }),
		with("maximum", "Apache Kafka", func(r *row) { r.kafka = stack.Apache }),
	}
	at := func(rate int) row {
		return row{part: "latency", name: thousands(rate) + "/s", rate: rate, payments: int(float64(rate) * c.RateDuration.Seconds())}
	}
	for i, rate := range c.Rates {
		if i == 0 {
			unpaused := at(rate)
			unpaused.name += ", no pause"
			unpaused.env = map[string][]string{stack.Engine: {"LEDGER_REQUEST_PAUSE=0s"}}
			shared := at(rate)
			shared.name, shared.sharedCores = shared.name+", shared cores", true
			all = append(all, unpaused, shared)
		}
		all = append(all, at(rate))
	}
	reads := at(1200)
	reads.part, reads.name, reads.reads = "reads", "1,200/s and 3,600 reads/s", 3600
	reads.sharedCores = true // HTTP needs more than the one processor that the ledger leaves of two
	all = append(all,
		row{part: "half", name: "half of the maximum", half: true},
		reads,
		c.door("payments one by one", payOne, min(c.DoorPayments, waitingMax)),
		c.door(fmt.Sprintf("payments in batches of %d", c.BatchLines), payBatch, min(c.DoorPayments, waitingMax)),
		c.door("states", readStates, c.DoorPayments),
		c.door(fmt.Sprintf("balances while %s/s settle", thousands(settlingRate)), readBalances, int(settlingRate*c.RateDuration.Seconds())),
		with("engines", "2 engines", func(r *row) { r.engines = 2 }),
		with("engines", "4 engines", func(r *row) { r.engines = 4 }),
		with("banks", "50 banks", func(r *row) { r.banks = 50 }),
		with("banks", "500 banks", func(r *row) { r.banks = 500 }),
		row{part: slowBanksPart, name: ledgerAlone + ", posts at once", ids: OurIDs, payments: c.CeilingPayments},
		with(slowBanksPart, "banks that answer at once", func(*row) {}),
		row{part: slowBanksPart, name: ledgerAlone + ", posts 1.0 to 2.5 s after holds", ids: OurIDs, payments: c.CeilingPayments, delay: slowBanks},
		with(slowBanksPart, "banks of 1.0 to 2.5 s", func(r *row) {
			r.inFlight, r.delay = c.SlowOutstandingMax, slowBanks
			r.env = map[string][]string{stack.Simulator: {slowBanks.profiles()}}
		}),
		c.flooded("nobody else", "", 0, 0),
		c.flooded("6,000 conflicts/s", flood.Conflicts, 6000, 0),
		c.flooded("38,000 conflicts of one id at once", flood.Conflicts, 1_000_000, 38_000), // into a system that stands still
		c.flooded("2,000 copies/s", flood.Copies, 2000, 0),
		c.flooded("2,000/s to 4 silent banks of 5", flood.ToSilentBanks, 2000, 0),
		with(capsPart, "no caps", func(r *row) { r.stage = c.Payments / 4 }),
		with(capsPart, "a cap on every bank", func(r *row) { r.stage, r.capped = c.Payments/4, true }),
		with(roomPart, "no room", func(*row) {}),
		with(roomPart, "control room and page", func(r *row) { r.room = true }),
		with("hottest", "one payee", func(r *row) {
			r.mix = "hottest" // all wait for one bank, which must not count as busy
			r.env = map[string][]string{stack.Engine: {"ENGINE_IN_FLIGHT_PSP_SHARE=1"}}
		}),
		with("customers", thousands(c.Customers)+" customers", func(r *row) { r.customers = c.Customers }),
	)
	for _, way := range []operation{overBatches, overSingles, overKafka} {
		for _, times := range []float64{2, 3} {
			over := row{part: overloadPart, name: fmt.Sprintf("overload, %s, %g times the maximum", way, times), over: way, times: times, payments: c.OverloadPayments}
			over.env = map[string][]string{stack.Producer: {"CALLER_RATE_MAX=1000000", "CALLER_BURST_MAX=1000000"}}
			all = append(all, over)
		}
	}
	all = append(all, with(overloadPart, "all refused", func(r *row) { r.mix, r.payments = "too-old=1", c.OverloadPayments }))
	for _, cache := range c.GrowthCaches {
		all = append(all, row{part: "growth", name: fmt.Sprintf("%s payments, %s of cache", thousands(c.GrowthPayments), cache),
			payments: c.GrowthPayments, stage: c.GrowthPayments / 4, cacheGrid: cache})
	}
	all = append(all, with("profile", "while profiled", func(r *row) { r.profiled = true }))
	for _, r := range all {
		if slices.Contains(c.Parts, r.part) && strings.Contains(r.name, c.Rows) {
			chosen = append(chosen, r)
		}
	}
	return chosen
}

// door is a row of the HTTP API, without rate limits for callers, and without refusals: it
// accepts faster than payments settle.
func (c Config) door(name string, asks operation, payments int) row {
	return row{part: doorPart, name: "front door, " + name, asks: asks, payments: payments,
		env: map[string][]string{stack.Producer: {"CALLER_RATE_MAX=1000000", "CALLER_BURST_MAX=1000000", "SHED_AGE=10m"}}}
}

// flooded is a row of payments to the first bank, while others send a flood: rate messages a
// second, at most so many in all.
func (c Config) flooded(name string, kind flood.Kind, rate, most int) row {
	r := row{part: floodPart, name: "1,000/s, " + name, rate: 1000, payments: int(1000 * c.RateDuration.Seconds()), mix: "hottest",
		banks: 5, sharedCores: true, flood: kind, floodRate: rate, floodMost: most}
	if kind == flood.ToSilentBanks {
		// A room that they would fill within 10 s, if they could.
		r.env = map[string][]string{stack.Simulator: {silentBanks}, stack.Engine: {"ENGINE_IN_FLIGHT_MAX=20000"}}
	}
	return r
}

// silentBanks are all of five but the first.
const silentBanks = `SIMULATOR_PROFILES={"10000002": {"silent_share": 1}, "10000003": {"silent_share": 1}, "10000004": {"silent_share": 1}, "10000005": {"silent_share": 1}}`

// differs names the settings that differ from the shipped ones.
func (r row) differs() string {
	var all []string
	if r.inFlight > 0 {
		all = append(all, thousands(r.inFlight)+" payments in flight")
	}
	if r.capped {
		all = append(all, "a cap on outflow on every bank")
	}
	if r.room {
		all = append(all, "the control room runs, a page reads its picture each second")
	}
	if r.sharedCores {
		all = append(all, "all share the processors")
	}
	if r.growingFile {
		all = append(all, "no room is reserved for the ledger's file")
	}
	for _, process := range []string{stack.Broker, stack.Engine, stack.Producer, stack.Simulator} {
		for _, variable := range r.env[process] {
			all = append(all, process+" "+variable)
		}
	}
	return strings.Join(all, ", ")
}

// thousands writes 1000000 as 1,000,000.
func thousands(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
