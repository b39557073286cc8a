package engine

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/services/clearing-engine/payment"
)

// metrics are what an engineer on call looks at. Label values come from closed sets:
// reason codes that banks invent are folded into "other".
type metrics struct {
	payments       *prometheus.CounterVec
	returns        *prometheus.CounterVec
	returned       prometheus.Counter
	deadLetters    *prometheus.CounterVec
	redelivered    prometheus.Counter
	joined         prometheus.Counter
	skipped        prometheus.Counter
	responses      *prometheus.CounterVec
	forged         prometheus.Counter
	statuses       *prometheus.CounterVec
	hops           *prometheus.HistogramVec
	acceptToReport prometheus.Histogram
	firstSettled   prometheus.Gauge
	lastSettled    prometheus.Gauge
	commits        *prometheus.CounterVec
	commitSeconds  prometheus.Histogram
	rebalances     *prometheus.CounterVec
	partitions     prometheus.Gauge
	clockSkew      prometheus.Gauge

	firstSettledOnce sync.Once
}

func newMetrics(registry prometheus.Registerer, r *room) *metrics {
	seconds := prometheus.ExponentialBuckets(0.0005, 2, 18) // 0.5 ms to 65 s
	m := &metrics{
		payments: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pix_payments_total",
			Help: "Payments reported by this engine, by status (ACSC, RJCT) and reason code; a redelivery that reports again counts again."}, []string{"status", "reason"}),
		returns: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pix_returns_total",
			Help: "Returns reported by this engine, by status (ACSC, RJCT) and reason code; a redelivery that reports again counts again."}, []string{"status", "reason"}),
		returned: prometheus.NewCounter(prometheus.CounterOpts{Name: "pix_returned_centavos_total",
			Help: "What returns that were reported as settled have given back; a redelivery that reports again counts again. The ledger says what was."}),
		deadLetters: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pix_dead_letters_total",
			Help: "Messages that could not become a payment, by reason code."}, []string{"reason"}),
		redelivered: prometheus.NewCounter(prometheus.CounterOpts{Name: "pix_payments_redelivered_total",
			Help: "Payments whose phase 1 was in the ledger already when they arrived: absorbed, not repeated."}),
		joined: prometheus.NewCounter(prometheus.CounterOpts{Name: "pix_payments_joined_total",
			Help: "Messages that met a payment in flight with the same EndToEndId and waited for it."}),
		skipped: prometheus.NewCounter(prometheus.CounterOpts{Name: "pix_payments_skipped_total",
			Help: "Records delivered again although the last commit knew them as finished."}),
		responses: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pix_authorization_responses_total",
			Help: "Answers of receiving PSPs: used, late (the payment no longer waits), unknown (no such payment in flight), invalid (undecodable, or of another PSP)."}, []string{"fate"}),
		forged: prometheus.NewCounter(prometheus.CounterOpts{Name: "pix_responses_forged_total",
			Help: "Answers without the seal of the bank that they name: not used, and some of them kept as dead letters."}),
		statuses: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pix_ledger_chains_total",
			Help: "Chains of transfers by what they were for and the ledger's one real status."}, []string{"kind", "status"}),
		hops: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "pix_hop_seconds",
			Help: "Time of each hop of a payment: queue (written to pix.payments to arrival here), reserve (arrival to held), authorize (asked to answered), resolve (answered to posted or voided), report (to acknowledged by Kafka).", Buckets: seconds}, []string{"hop"}),
		acceptToReport: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "pix_payment_seconds",
			Help: "Time from a payment's acceptance by the payer's PSP to its acknowledged report.", Buckets: seconds}),
		firstSettled: prometheus.NewGauge(prometheus.GaugeOpts{Name: "pix_first_settled_timestamp_seconds",
			Help: "When this process settled its first payment, as Unix time; 0 before."}),
		lastSettled: prometheus.NewGauge(prometheus.GaugeOpts{Name: "pix_last_settled_timestamp_seconds",
			Help: "When this process settled its latest payment, as Unix time; 0 before."}),
		commits: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pix_offset_commits_total",
			Help: "Offset commits by result (ok, failed)."}, []string{"result"}),
		commitSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "pix_offset_commit_seconds",
			Help: "Time of an offset commit.", Buckets: seconds}),
		rebalances: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pix_rebalances_total",
			Help: "Changes of this engine's partitions: assigned, revoked (handed over), lost (taken away)."}, []string{"kind"}),
		partitions: prometheus.NewGauge(prometheus.GaugeOpts{Name: "pix_partitions_owned",
			Help: "Partitions of pix.payments that this engine clears."}),
		clockSkew: prometheus.NewGauge(prometheus.GaugeOpts{Name: "pix_ledger_clock_skew_seconds",
			Help: "This machine's clock minus the ledger's."}),
	}
	registry.MustRegister(m.payments, m.returns, m.returned, m.deadLetters, m.redelivered, m.joined, m.skipped, m.responses, m.forged, m.statuses, m.hops,
		m.acceptToReport, m.firstSettled, m.lastSettled, m.commits, m.commitSeconds, m.rebalances, m.partitions, m.clockSkew,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "pix_payments_in_flight",
			Help: "Payments fetched and not finished."}, func() float64 { n, _ := r.inFlight(); return float64(n) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "pix_in_flight_bytes",
			Help: "Bytes of the messages of payments in flight."}, func() float64 { _, b := r.inFlight(); return float64(b) }),
	)
	// Known from the start: a rate does not see the first event of a counter that appears with it.
	for _, result := range []string{"ok", "failed"} {
		m.commits.WithLabelValues(result)
	}
	for _, kind := range []string{"assigned", "revoked", "lost"} {
		m.rebalances.WithLabelValues(kind)
	}
	for _, reason := range []pix.Reason{pix.ReasonMalformed, pix.ReasonBadEndToEndID, pix.ReasonBadAcceptance, pix.ReasonConflict} {
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

func (m *metrics) hopObservers() hops {
	return hops{m.hops.WithLabelValues("queue"), m.hops.WithLabelValues("reserve"), m.hops.WithLabelValues("authorize"), m.hops.WithLabelValues("resolve"), m.hops.WithLabelValues("report")}
}

// responseFates are the counters of pix_authorization_responses_total, looked up once.
type responseFates struct{ used, late, unknown, invalid prometheus.Counter }

func (m *metrics) responseFates() responseFates {
	return responseFates{m.responses.WithLabelValues("used"), m.responses.WithLabelValues("late"), m.responses.WithLabelValues("unknown"), m.responses.WithLabelValues("invalid")}
}

// outcomes counts reported payments, or returns. The set of reasons is closed.
type outcomes struct {
	known    map[payment.Outcome]prometheus.Counter
	rejected prometheus.Counter // with a code that a bank made up
}

func outcomesOf(counters *prometheus.CounterVec, reasons []pix.Reason) outcomes {
	o := outcomes{known: map[payment.Outcome]prometheus.Counter{
		{Settled: true}: counters.WithLabelValues("ACSC", ""),
	}, rejected: counters.WithLabelValues("RJCT", "other")}
	for _, reason := range reasons {
		o.known[payment.Outcome{Reason: reason}] = counters.WithLabelValues("RJCT", reason.String())
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

// chainStatuses counts the ledger's answers to chains.
type chainStatuses struct {
	ok    [chainKinds]prometheus.Counter
	other *prometheus.CounterVec
}

func (m *metrics) chainStatuses() chainStatuses {
	s := chainStatuses{other: m.statuses}
	for kind, name := range chainNames {
		s.ok[kind] = m.statuses.WithLabelValues(name, "ok")
	}
	return s
}

func (s *chainStatuses) count(kind uint16, status tb.CreateTransferResult) {
	if status == tb.TransferOK {
		s.ok[kind].Inc()
		return
	}
	s.other.WithLabelValues(chainNames[kind], status.String()).Inc()
}

// waitingForPSP is collected when scraped, from the counts that the engine keeps anyway.
type waitingForPSP struct {
	participants *participants
	description  *prometheus.Desc
}

func newWaitingForPSP(p *participants) waitingForPSP {
	return waitingForPSP{p, prometheus.NewDesc("pix_payments_waiting_for_psp", "Payments that wait for the answer of a receiving PSP.", []string{"ispb"}, nil)}
}

func (w waitingForPSP) Describe(ch chan<- *prometheus.Desc) { ch <- w.description }

func (w waitingForPSP) Collect(ch chan<- prometheus.Metric) {
	w.participants.mu.RLock()
	defer w.participants.mu.RUnlock()
	for psp, waiting := range w.participants.waiting {
		ch <- prometheus.MustNewConstMetric(w.description, prometheus.GaugeValue, float64(waiting.Load()), string(psp))
	}
}
