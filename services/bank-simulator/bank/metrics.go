package bank

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	responses *prometheus.CounterVec
	series    map[label]prometheus.Counter // only for the goroutine of the Kafka client's callbacks
	seriesMax int
	silent    prometheus.Counter
	foreign   prometheus.Counter
	invalid   prometheus.Counter
	refused   prometheus.Counter
	abandoned prometheus.Counter
}

// label is one series of the counted responses. An empty reason means accepted.
type label struct{ ispb, reason string }

// others is the label of every combination past the limit on series.
const others = "others"

// newMetrics returns the metrics of all banks that run one after the other in this process.
func newMetrics(registry prometheus.Registerer, seriesMax int, running *atomic.Pointer[bank]) *metrics {
	register := promauto.With(registry)
	counter := func(name, help string) prometheus.Counter {
		return register.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	register.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pix_simulator_delayed_answers", Help: "Responses that are not due yet.",
	}, func() float64 {
		if b := running.Load(); b != nil {
			return float64(b.delayed.length())
		}

		return 0
	})
	register.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pix_simulator_unanswered_requests",
		Help: "Responses that Kafka has not acknowledged yet; at the limit no requests are fetched.",
	}, func() float64 {
		b := running.Load()
		if b == nil {
			return 0
		}
		b.mu.Lock()
		defer b.mu.Unlock()

		return float64(b.unanswered)
	})

	return &metrics{
		series: map[label]prometheus.Counter{}, seriesMax: seriesMax,
		responses: register.NewCounterVec(prometheus.CounterOpts{
			Name: "pix_simulator_answers_total",
			Help: "Responses that Kafka has acknowledged, by the PSP that responds, status (ACSP or RJCT) and reason code.",
		}, []string{"ispb", "status", "reason"}),
		silent: counter("pix_simulator_silent_total", "Requests to which the bank stays silent."),
		foreign: counter("pix_simulator_foreign_requests_total",
			"Requests to banks whose secret is not in ANSWER_KEYS_FILE. They are skipped: such a bank answers by itself."),
		invalid: counter("pix_simulator_invalid_requests_total", "Requests that cannot be read. They are skipped."),
		refused: counter("pix_simulator_refused_answers_total", "Responses that Kafka refused, once for each try."),
		abandoned: counter("pix_simulator_abandoned_answers_total",
			"Responses given up after Kafka refused them for a minute."),
	}
}

// answered counts a response. It builds no label set for each payment. It bounds the number
// of series, because codes and banks come from outside.
func (m *metrics) answered(l label) {
	counter, known := m.series[l]
	if !known {
		status, reason, ispb := "ACSP", l.reason, l.ispb
		if l.reason != "" {
			status = "RJCT"
		}

		if len(m.series) >= m.seriesMax {
			ispb = others
			if reason != "" {
				reason = others
			}
			m.responses.WithLabelValues(ispb, status, reason).Inc()

			return
		}
		counter = m.responses.WithLabelValues(ispb, status, reason)
		m.series[l] = counter
	}
	counter.Inc()
}
