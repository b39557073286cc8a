package engine

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/services/clearing-engine/payment"
)

// metrics are what an engineer on call looks at. Label values come from closed sets:
// reason codes that banks invent are counted as "other".
type metrics struct {
	paymentOutcomes outcomes
	returnOutcomes  outcomes
	returned        prometheus.Counter
	deadLetters     *prometheus.CounterVec
	redelivered     prometheus.Counter
	joined          prometheus.Counter
	skipped         prometheus.Counter
	refusals        *prometheus.CounterVec
	responses       responses
	forged          prometheus.Counter
	recoded         prometheus.Counter
	chains          chains
	hops            hops
	acceptToReport  prometheus.Histogram
	firstSettled    prometheus.Gauge
	lastSettled     prometheus.Gauge
	commits         *prometheus.CounterVec
	commitSeconds   prometheus.Histogram
	rebalances      *prometheus.CounterVec
	partitions      prometheus.Gauge
	standing        *prometheus.GaugeVec
	clockSkew       prometheus.Gauge

	firstSettledOnce sync.Once
}

func newMetrics(registry prometheus.Registerer, r *room, p *participants, s *shares) *metrics {
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
	m := &metrics{
		paymentOutcomes: newOutcomes(counters("pix_payments_total",
			"Payments reported by this engine, by status (ACSC, RJCT) and reason code; a redelivery that reports again counts again.", "status", "reason"), pix.ReasonsOf(pix.OfPayment)),
		returnOutcomes: newOutcomes(counters("pix_returns_total",
			"Returns reported by this engine, by status (ACSC, RJCT) and reason code; a redelivery that reports again counts again.", "status", "reason"), pix.ReasonsOf(pix.OfReturn)),
		returned: counter("pix_returned_centavos_total",
			"Money given back by returns that were reported as settled; a redelivery that reports again counts again. The ledger has the true sum."),
		deadLetters: counters("pix_dead_letters_total", "Messages that could not become a payment, by reason code.", "reason"),
		redelivered: counter("pix_payments_redelivered_total", "Payments whose phase 1 was in the ledger already when they arrived: absorbed, not repeated."),
		joined:      counter("pix_payments_joined_total", "Messages that met a payment in flight with the same EndToEndId and waited for it."),
		skipped:     counter("pix_payments_skipped_total", "Records delivered again although the last commit knew them as finished."),
		refusals: counters("pix_refused_total",
			"Orders and copies that this engine refused to protect others, by the PSP that sent them (other: none of its accounts has been met here) and reason code: LQ02, LQ09, LQ10, LQ11.", "ispb", "reason"),
		responses: newResponses(counters("pix_authorization_responses_total",
			"Responses of receiving PSPs: used, late (the payment no longer waits, or its deadline has passed), unknown (no such payment in flight), invalid (undecodable, or of another PSP), unreadable (a batch that no client can read, counted once).", "fate")),
		forged:  counter("pix_responses_forged_total", "Responses without the seal of the bank that they name: not used, and some of them kept as dead letters."),
		recoded: counter("pix_responses_recoded_total", "Rejections by a bank with a reason code of the ledger or the engine: reported as LQ03."),
		chains:  newChains(counters("pix_ledger_chains_total", "Chains of transfers by purpose and by the ledger's one real status.", "kind", "status")),
		hops: newHops(register.NewHistogramVec(prometheus.HistogramOpts{Name: "pix_hop_seconds",
			Help: "Time of each hop of a payment: queue (written to pix.payments to arrival here), reserve (arrival to held), authorize (asked to responded), resolve (responded to posted or voided), report (to acknowledged by Kafka).", Buckets: seconds}, []string{"hop"})),
		acceptToReport: histogram("pix_payment_seconds", "Time from a payment's acceptance by the payer's PSP to its acknowledged report."),
		firstSettled:   gauge("pix_first_settled_timestamp_seconds", "When this process settled its first payment, as Unix time; 0 before."),
		lastSettled:    gauge("pix_last_settled_timestamp_seconds", "When this process settled its latest payment, as Unix time; 0 before."),
		commits:        counters("pix_offset_commits_total", "Offset commits by result (ok, failed).", "result"),
		commitSeconds:  histogram("pix_offset_commit_seconds", "Time of an offset commit."),
		rebalances:     counters("pix_rebalances_total", "Changes of this engine's partitions: assigned, revoked (handed over), lost (taken away).", "kind"),
		partitions:     gauge("pix_partitions_owned", "Partitions of pix.payments that this engine clears."),
		standing: register.NewGaugeVec(prometheus.GaugeOpts{Name: "pix_partitions_standing",
			Help: "Of each partition of this engine: 1 if it stands still although there is work; /readyz and the log say at which record, and why."}, []string{"partition"}),
		clockSkew: gauge("pix_ledger_clock_skew_seconds", "This machine's clock minus the ledger's."),
	}
	registry.MustRegister(newByPSP(p, s))
	register.NewGaugeFunc(prometheus.GaugeOpts{Name: "pix_payments_in_flight",
		Help: "Payments fetched and not finished."}, func() float64 { n, _ := r.inFlight(); return float64(n) })
	register.NewGaugeFunc(prometheus.GaugeOpts{Name: "pix_in_flight_bytes",
		Help: "Bytes of the messages of payments in flight."}, func() float64 { _, b := r.inFlight(); return float64(b) })
	// Known from the start: a rate does not see the first event of a counter that appears with it.
	for _, result := range []string{"ok", "failed"} {
		m.commits.WithLabelValues(result)
	}
	for _, kind := range []string{"assigned", "revoked", "lost"} {
		m.rebalances.WithLabelValues(kind)
	}
	for _, reason := range protecting {
		m.refusals.WithLabelValues(otherPSP, reason.String())
	}
	for _, reason := range pix.ReasonsOf(pix.OfDeadLetter) {
		m.deadLetters.WithLabelValues(reason.String())
	}
	return m
}

// settled notes that a payment was settled and its report acknowledged.
func (m *metrics) settled(now time.Time) {
	at := float64(now.UnixMilli()) / 1000
	m.lastSettled.Set(at)
	m.firstSettledOnce.Do(func() { m.firstSettled.Set(at) })
}

// hops are the observers of pix_hop_seconds, looked up once.
type hops struct{ queue, reserve, authorize, resolve, report prometheus.Observer }

func newHops(v *prometheus.HistogramVec) hops {
	return hops{v.WithLabelValues("queue"), v.WithLabelValues("reserve"), v.WithLabelValues("authorize"), v.WithLabelValues("resolve"), v.WithLabelValues("report")}
}

// responses are the counters of pix_authorization_responses_total, looked up once.
type responses struct{ used, late, unknown, invalid, unreadable prometheus.Counter }

func newResponses(v *prometheus.CounterVec) responses {
	return responses{v.WithLabelValues("used"), v.WithLabelValues("late"), v.WithLabelValues("unknown"), v.WithLabelValues("invalid"), v.WithLabelValues("unreadable")}
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

// chains counts the ledger's results of chains.
type chains struct {
	ok    [chainPurposes]prometheus.Counter
	other *prometheus.CounterVec
}

func newChains(v *prometheus.CounterVec) chains {
	c := chains{other: v}
	for purpose := chainReserve; purpose < chainPurposes; purpose++ {
		c.ok[purpose] = v.WithLabelValues(chainNames[purpose], "ok")
	}
	return c
}

func (c *chains) count(purpose chainPurpose, status tb.CreateTransferResult) {
	if status == tb.TransferOK {
		c.ok[purpose].Inc()
		return
	}
	c.other.WithLabelValues(chainNames[purpose], status.String()).Inc()
}

// protecting are the reasons with which an engine refuses orders to protect others.
var protecting = []pix.Reason{pix.ReasonPayeePSPBusy, pix.ReasonTooManyCopies, pix.ReasonTooLate, pix.ReasonTooManyReturns}

// byPSP collects what participants have of the room when it is scraped.
type byPSP struct {
	participants                    *participants
	shares                          *shares
	waiting, stuck, taken, takenMax *prometheus.Desc
}

func newByPSP(p *participants, s *shares) byPSP {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return byPSP{p, s,
		describe("pix_payments_waiting_for_psp", "Payments that wait for the response of a receiving PSP.", "ispb"),
		describe("pix_payments_stuck_at_psp", "Of the payments that wait for a receiving PSP, those that make it a silent one: older than 5 s, or all of them if it answers nothing.", "ispb"),
		describe("pix_payer_share_taken", "Places of the room that are taken because of a sending PSP (other: none of its accounts has been met here): by waiting (copies, returns, dead letters on their way), by questions (to silent PSPs).", "ispb", "by"),
		describe("pix_payer_share_size", "Places of the room that each sending PSP may have, for each value of the label by of pix_payer_share_taken."),
	}
}

func (c byPSP) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.waiting, c.stuck, c.taken, c.takenMax} {
		ch <- d
	}
}

func (c byPSP) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	taken := map[string][2]int{otherPSP: {}}
	for h, places := range c.shares.now() {
		label, by := c.participants.label(h.bank), 0
		if h.questions {
			by = 1
		}
		sum := taken[label]
		sum[by] += places
		taken[label] = sum
	}
	for label, places := range taken {
		gauge(c.taken, places[0], label, "waiting")
		gauge(c.taken, places[1], label, "questions")
	}
	gauge(c.takenMax, c.shares.ofOneMax)
	c.participants.mu.RLock()
	defer c.participants.mu.RUnlock()
	for psp, asked := range c.participants.questions {
		open, stuck := asked.count()
		gauge(c.waiting, open, string(psp))
		gauge(c.stuck, stuck, string(psp))
	}
}
