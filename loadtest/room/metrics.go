package room

import (
	"bytes"
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/liquida/liquida/loadtest/meter"
)

// metrics are what the services count. A service that starts again counts from zero.
type metrics struct {
	before map[string]reading // by address
}

// reading is one look at one service.
type reading struct {
	redelivered  float64
	buckets      map[float64]float64 // payments by time from order to report, cumulative
	held         float64
	heldCentavos float64
	engine       bool
	producer     bool
}

// measured is what happened since the last look; nil: not known.
type measured struct {
	p50, p99       *float64 // milliseconds
	held           *int64
	heldCentavos   *int64
	redelivered    int64
	slowestSeconds float64
}

func newMetrics() *metrics { return &metrics{before: map[string]reading{}} }

// metricsTimeout bounds a look: a frozen service does not answer.
const metricsTimeout = 700 * time.Millisecond

// read asks all services at once.
func (m *metrics) read(ctx context.Context, addresses []string) (now measured) {
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	var asked sync.WaitGroup
	var mu sync.Mutex
	read := map[string]reading{}
	for _, address := range addresses {
		asked.Go(func() {
			text, err := meter.Get(ctx, "http://"+address+"/metrics")
			if err != nil {
				return
			}
			parser := expfmt.NewTextParser(model.UTF8Validation)
			families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			read[address] = readingOf(families)
		})
	}
	asked.Wait()
	ended := map[float64]float64{}
	var held, heldCentavos int64
	for address, r := range read {
		before, known := m.before[address]
		if r.redelivered < before.redelivered { // a new life
			before = reading{}
		}
		if known {
			now.redelivered += int64(r.redelivered - before.redelivered)
			for bound, n := range r.buckets {
				ended[bound] += n - min(n, before.buckets[bound])
			}
		}
		if r.engine {
			held += int64(r.held)
			now.held = &held
		}
		if r.producer {
			heldCentavos = int64(r.heldCentavos) // each producer reads the same ledger
			now.heldCentavos = &heldCentavos
		}
	}
	maps.Copy(m.before, read)
	for address := range m.before { // of services that are gone for good
		if !slices.Contains(addresses, address) && len(m.before) > 1000 {
			delete(m.before, address)
		}
	}
	if all := ended[math.Inf(1)]; all > 0 {
		p50, p99 := 1e3*quantile(ended, 0.5), 1e3*quantile(ended, 0.99)
		now.p50, now.p99, now.slowestSeconds = &p50, &p99, highest(ended)
	}
	return now
}

func readingOf(families map[string]*dto.MetricFamily) reading {
	r := reading{buckets: map[float64]float64{}}
	for _, metric := range families["pix_payments_redelivered_total"].GetMetric() {
		r.redelivered += metric.GetCounter().GetValue()
	}
	for _, metric := range families["pix_payment_seconds"].GetMetric() {
		// An order above the last bound was too old when it arrived. It says nothing of the machine.
		bounded := 0.0
		for _, bucket := range metric.GetHistogram().GetBucket() {
			if bound := bucket.GetUpperBound(); !math.IsInf(bound, 1) {
				bounded = float64(bucket.GetCumulativeCount())
				r.buckets[bound] += bounded
			}
		}
		r.buckets[math.Inf(1)] += bounded
	}
	if family := families["pix_payments_in_flight"]; family != nil {
		r.engine = true
		for _, metric := range family.GetMetric() {
			r.held += metric.GetGauge().GetValue()
		}
	}
	if family := families["pix_reserve_held_centavos"]; family != nil {
		r.producer = true
		for _, metric := range family.GetMetric() {
			r.heldCentavos += metric.GetGauge().GetValue()
		}
	}
	return r
}

// quantile assumes, as Prometheus does, that values are evenly spread in a bucket.
func quantile(buckets map[float64]float64, q float64) float64 {
	rank, below, floor := q*buckets[math.Inf(1)], 0.0, 0.0
	for _, bound := range slices.Sorted(maps.Keys(buckets)) {
		if n := buckets[bound]; n >= rank && n > below {
			if math.IsInf(bound, 1) {
				break
			}
			return floor + (bound-floor)*(rank-below)/(n-below)
		}
		below = buckets[bound]
		if !math.IsInf(bound, 1) {
			floor = bound
		}
	}
	return floor // more than the last bound
}

// highest returns the upper bound of the slowest payment, in seconds; above the last bound, the last.
func highest(buckets map[float64]float64) (highest float64) {
	all := buckets[math.Inf(1)]
	for _, bound := range slices.Sorted(maps.Keys(buckets)) {
		if math.IsInf(bound, 1) {
			return highest
		}
		highest = bound
		if buckets[bound] >= all {
			return highest
		}
	}
	return highest
}
