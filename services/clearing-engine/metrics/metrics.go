// Package metrics has what an engineer on call looks at in an engine. Label values come from closed sets: reason
// codes that banks invent are counted as "other". Of the engine it knows only the room, which it shows when it is
// scraped.
package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/services/clearing-engine/payment"
	"github.com/liquida/liquida/services/clearing-engine/room"
)

// Metrics are those of one engine.
type Metrics struct {
	DeadLetters    *prometheus.CounterVec
	Redelivered    prometheus.Counter
	Joined         prometheus.Counter
	Skipped        prometheus.Counter
	Responses      responses
	Forged         prometheus.Counter
	Recoded        prometheus.Counter
	Hops           hops
	AcceptToReport Stopwatch
	Commits        *prometheus.CounterVec
	CommitSeconds  prometheus.Histogram
	Rebalances     *prometheus.CounterVec
	Partitions     prometheus.Gauge
	Standing       *prometheus.GaugeVec
	ClockSkew      prometheus.Gauge

	outcomes map[pix.Where]outcomes
	returned prometheus.Counter
	refusals *prometheus.CounterVec
	chains   chains
	room     *room.Room

	began            time.Time
	firstSettledOnce sync.Once
	startToSettled   prometheus.Gauge
	lastSettled      prometheus.Gauge
}

// New registers the metrics of an engine with this room, that writes chains of these names.
func New(registry prometheus.Registerer, r *room.Room, chains []string) *Metrics {
	register, seconds := promauto.With(registry), prometheus.ExponentialBuckets(0.0005, 2, 18) // 0.5 ms to 65 s
	counter := func(name, help string) prometheus.Counter {
		return register.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return register.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return register.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	histogram := func(name, help string) prometheus.Histogram {
		return register.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: seconds})
	}
	wrongTimes := counters("pix_wrong_times_total",
		"Times that were left out of pix_hop_seconds and of pix_payment_seconds (of: payment), because a clock or a sender's timestamp must be wrong: future (it began more than 5 s after its end), past (it took more than a day).",
		"of", "begin")
	m := &Metrics{
		room: r, began: time.Now(),
		outcomes: map[pix.Where]outcomes{
			pix.OfPayment: newOutcomes(counters("pix_payments_total",
				"Payments reported by this engine, by status (ACSC, RJCT) and reason code; a redelivery that reports again counts again.",
				"status", "reason"), pix.ReasonsOf(pix.OfPayment)),
			pix.OfReturn: newOutcomes(counters("pix_returns_total",
				"Returns reported by this engine, by status (ACSC, RJCT) and reason code; a redelivery that reports again counts again.",
				"status", "reason"), pix.ReasonsOf(pix.OfReturn)),
		},
		returned: counter("pix_returned_centavos_total",
			"Money given back by returns that were reported as settled; a redelivery that reports again counts again. The ledger has the true sum."),
		DeadLetters: counters("pix_dead_letters_total",
			"Messages that could not become a payment, by reason code.", "reason"),
		Redelivered: counter("pix_payments_redelivered_total",
			"Payments whose phase 1 was in the ledger already when they arrived: absorbed, not repeated."),
		Joined: counter("pix_payments_joined_total",
			"Messages that ended with an order in flight of the same EndToEndId and content: its report is theirs. Together with reports and dead letters, each message that ends counts once."),
		Skipped: counter("pix_payments_skipped_total",
			"Records delivered again although the last commit knew them as finished."),
		refusals: counters("pix_refused_total",
			"Orders and copies that this engine refused to protect others, by the PSP that sent them (other: none of its accounts has been met here) and reason code: LQ02, LQ09, LQ10, LQ11.",
			"ispb", "reason"),
		Responses: newResponses(counters("pix_authorization_responses_total",
			"Responses of receiving PSPs: used, late (the payment no longer waits, or its deadline has passed), unknown (no such payment in flight), invalid (undecodable, or of another PSP), unreadable (a batch that no client can read, counted once).",
			"fate")),
		Forged: counter("pix_responses_forged_total",
			"Responses without the seal of the bank that they name: not used, and some of them kept as dead letters."),
		Recoded: counter("pix_responses_recoded_total",
			"Rejections by a bank with a reason code of the ledger or the engine: reported as LQ03."),
		chains: newChains(counters("pix_ledger_chains_total",
			"Chains of transfers by purpose and by the ledger's one real status.", "kind", "status"), chains),
		Hops: newHops(register.NewHistogramVec(prometheus.HistogramOpts{Name: "pix_hop_seconds",
			Help:    "Time of each hop of a payment: queue (written to pix.payments to arrival here), reserve (arrival to held), authorize (asked to responded), resolve (responded to posted or voided), report (to acknowledged by Kafka).",
			Buckets: seconds}, []string{"hop"}), wrongTimes),
		AcceptToReport: newStopwatch(
			histogram("pix_payment_seconds",
				"Time from a payment's acceptance by the payer's PSP to its acknowledged report."),
			wrongTimes, "payment"),
		startToSettled: gauge("pix_start_to_settled_seconds",
			"Time from the start of this process, or from the writing of the payment if that was later, to its first settlement; 0 before."),
		lastSettled: gauge("pix_last_settled_timestamp_seconds",
			"When this process settled its latest payment, as Unix time; 0 before."),
		Commits: counters("pix_offset_commits_total",
			"Offset commits by result (ok, failed), and those met that are not of an engine (foreign): they count for nothing.",
			"result"),
		CommitSeconds: histogram("pix_offset_commit_seconds", "Time of an offset commit."),
		Rebalances: counters("pix_rebalances_total",
			"Changes of this engine's partitions: assigned, revoked (handed over), lost (taken away).", "kind"),
		Partitions: gauge("pix_partitions_owned", "Partitions of pix.payments that this engine clears."),
		Standing: register.NewGaugeVec(prometheus.GaugeOpts{Name: "pix_partitions_standing",
			Help: "Of each partition of this engine: 1 if it stands still although there is work; /readyz and the log say at which record, and why."},
			[]string{"partition"}),
		ClockSkew: gauge("pix_ledger_clock_skew_seconds", "This machine's clock minus the ledger's."),
	}
	registry.MustRegister(newByPSP(r))
	register.NewGaugeFunc(prometheus.GaugeOpts{Name: "pix_payments_in_flight",
		Help: "Payments fetched and not finished."}, func() float64 { n, _ := r.InFlight(); return float64(n) })
	register.NewGaugeFunc(prometheus.GaugeOpts{Name: "pix_in_flight_bytes",
		Help: "Bytes of the messages of payments in flight."}, func() float64 {
		_, b := r.InFlight()
		return float64(b)
	})
	// Known from the start: a rate does not see the first event of a counter that appears with it.
	for _, result := range []string{"ok", "failed"} {
		m.Commits.WithLabelValues(result)
	}

	for _, kind := range []string{"assigned", "revoked", "lost"} {
		m.Rebalances.WithLabelValues(kind)
	}

	for _, reason := range protecting {
		m.refusals.WithLabelValues(otherPSP, reason.String())
	}

	for _, reason := range pix.ReasonsOf(pix.OfDeadLetter) {
		m.DeadLetters.WithLabelValues(reason.String())
	}

	return m
}

// Ended counts a reported outcome of a payment or a return.
func (m *Metrics) Ended(of pix.Where, outcome payment.Outcome, centavos uint64) {
	m.outcomes[of].count(outcome)

	if of == pix.OfReturn && outcome.Settled {
		m.returned.Add(float64(centavos))
	}
}

// Settled notes that a payment was settled and its report acknowledged. written is the sender's time.
func (m *Metrics) Settled(written, now time.Time) {
	m.lastSettled.Set(float64(now.UnixMilli()) / 1000)
	m.firstSettledOnce.Do(func() {
		began := m.began
		if written.After(began) { // there was nothing to settle before
			began = written
		}
		m.startToSettled.Set(max(0, now.Sub(began).Seconds()))
	})
}

// hops are the stopwatches of pix_hop_seconds.
type hops struct{ Queue, Reserve, Authorize, Resolve, Report Stopwatch }

func newHops(v *prometheus.HistogramVec, wrong *prometheus.CounterVec) hops {
	of := func(hop string) Stopwatch { return newStopwatch(v.WithLabelValues(hop), wrong, hop) }
	return hops{of("queue"), of("reserve"), of("authorize"), of("resolve"), of("report")}
}

// Stopwatch observes times that may begin with a foreign timestamp, or by a clock that is set meanwhile. A
// negative one would bend the sum of the histogram backwards, which Prometheus takes for a restart. One of years
// would be the mean of everything, and raise alerts. So what cannot be is left out, and counted apart.
type Stopwatch struct {
	seconds      prometheus.Observer
	future, past prometheus.Counter
}

const (
	// clocksDiffer is how far the clock of an honest sender may be ahead, as for acceptances.
	clocksDiffer = pix.AcceptanceAheadSecondsMax * time.Second
	// tookMax is longer than outages are.
	tookMax = 24 * time.Hour
)

func newStopwatch(seconds prometheus.Observer, wrong *prometheus.CounterVec, of string) Stopwatch {
	return Stopwatch{seconds, wrong.WithLabelValues(of, "future"), wrong.WithLabelValues(of, "past")}
}

// Observe takes a time.
func (s Stopwatch) Observe(took time.Duration) {
	switch {
	case took < -clocksDiffer:
		s.future.Inc()
	case took > tookMax:
		s.past.Inc()
	default:
		s.seconds.Observe(max(0, took).Seconds())
	}
}

// responses are the counters of pix_authorization_responses_total, looked up once.
type responses struct{ Used, Late, Unknown, Invalid, Unreadable prometheus.Counter }

func newResponses(v *prometheus.CounterVec) responses {
	return responses{v.WithLabelValues("used"), v.WithLabelValues("late"), v.WithLabelValues("unknown"),
		v.WithLabelValues("invalid"), v.WithLabelValues("unreadable")}
}

// outcomes counts reported payments, or returns. The set of reasons is closed.
type outcomes struct {
	known    map[payment.Outcome]prometheus.Counter
	rejected prometheus.Counter // with a code that a bank invented
}

func newOutcomes(v *prometheus.CounterVec, reasons []pix.Reason) outcomes {
	o := outcomes{known: map[payment.Outcome]prometheus.Counter{
		{Settled: true}: v.WithLabelValues("ACSC", ""),
	}, rejected: v.WithLabelValues("RJCT", "other")}
	for _, reason := range reasons {
		o.known[payment.Outcome{Reason: reason}] = v.WithLabelValues("RJCT", reason.String())
	}

	return o
}

func (o outcomes) count(outcome payment.Outcome) {
	if counter := o.known[outcome]; counter != nil {
		counter.Inc()
		return
	}
	o.rejected.Inc()
}

// chains counts the ledger's results of chains, by what those are for.
type chains struct {
	ok    map[string]prometheus.Counter
	other *prometheus.CounterVec
}

func newChains(v *prometheus.CounterVec, names []string) chains {
	c := chains{ok: map[string]prometheus.Counter{}, other: v}
	for _, name := range names {
		c.ok[name] = v.WithLabelValues(name, "ok")
	}

	return c
}

// Chain counts the ledger's result of a chain.
func (m *Metrics) Chain(name string, status tb.CreateTransferResult) {
	if status == tb.TransferOK {
		m.chains.ok[name].Inc()
		return
	}
	m.chains.other.WithLabelValues(name, status.String()).Inc()
}
