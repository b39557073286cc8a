package meter

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Engines sums up what all engines counted since their start.
type Engines struct {
	hops      map[string]histogram
	requests  histogram // transfers in a write request to the ledger
	durations histogram // time of a write request
	counters  map[string]float64
	labelled  map[[2]string]float64 // counters by name and the value of their one label
}

// histogram is a histogram of Prometheus: the number of values up to each bound.
type histogram struct {
	count   uint64
	sum     float64
	buckets map[float64]uint64
}

// Hop is one stage of a payment's time. Its percentiles are as exact as the buckets of the
// engine's histogram, whose bounds double.
type Hop struct {
	Name   string  `json:"hop"`
	Count  uint64  `json:"count"`
	MeanMs float64 `json:"mean_ms"`
	P50Ms  float64 `json:"p50_ms"`
	P99Ms  float64 `json:"p99_ms"`
}

// Ledger sums up the engines' write requests to the ledger.
type Ledger struct {
	Requests            uint64  `json:"requests"`
	TransfersPerRequest float64 `json:"transfers_per_request"`
	MeanMs              float64 `json:"mean_ms"`
	P99Ms               float64 `json:"p99_ms"`
}

// HopNames are the hops, in the order of a payment's life.
var HopNames = []string{"queue", "reserve", "authorize", "resolve", "report"}

// Get returns what a service's telemetry has at a URL.
func Get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s responds %s", url, response.Status)
	}
	return io.ReadAll(response.Body)
}

// Families reads the metrics at a telemetry URL, by name.
func Families(ctx context.Context, url string) (map[string]*dto.MetricFamily, error) {
	text, err := Get(ctx, url+"/metrics")
	if err != nil {
		return nil, fmt.Errorf("cannot read metrics: %w", err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("cannot read %s/metrics: %w", url, err)
	}
	return families, nil
}

// ReadEngines reads the metrics of engines from their telemetry URLs.
func ReadEngines(ctx context.Context, urls []string) (Engines, error) {
	e := Engines{hops: map[string]histogram{}, counters: map[string]float64{}, labelled: map[[2]string]float64{}}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for _, url := range urls {
		families, err := Families(ctx, url)
		if err != nil {
			return e, err
		}
		for name, family := range families {
			for _, metric := range family.Metric {
				e.add(name, metric)
			}
		}
	}
	return e, nil
}

func (e *Engines) add(name string, metric *dto.Metric) {
	label := ""
	if len(metric.Label) == 1 {
		label = metric.Label[0].GetValue()
	}
	switch {
	case name == "pix_hop_seconds":
		e.hops[label] = e.hops[label].with(metric.Histogram)
	case name == "pix_ledger_request_events" && label == "write":
		e.requests = e.requests.with(metric.Histogram)
	case name == "pix_ledger_request_seconds" && label == "write":
		e.durations = e.durations.with(metric.Histogram)
	case metric.Counter != nil:
		e.counters[name] += metric.Counter.GetValue()
		e.labelled[[2]string{name, label}] += metric.Counter.GetValue()
	}
}

func (h histogram) with(more *dto.Histogram) histogram {
	if h.buckets == nil {
		h.buckets = map[float64]uint64{}
	}
	h.count += more.GetSampleCount()
	h.sum += more.GetSampleSum()
	for _, bucket := range more.GetBucket() {
		h.buckets[bucket.GetUpperBound()] += bucket.GetCumulativeCount()
	}
	return h
}

// Since returns what the same engines counted since an earlier reading.
func (e Engines) Since(before Engines) Engines {
	d := Engines{hops: map[string]histogram{}, counters: map[string]float64{}, requests: e.requests.since(before.requests), durations: e.durations.since(before.durations)}
	for name, h := range e.hops {
		d.hops[name] = h.since(before.hops[name])
	}
	for name, value := range e.counters {
		d.counters[name] = value - before.counters[name]
	}
	return d
}

func (h histogram) since(before histogram) histogram {
	d := histogram{count: h.count - before.count, sum: h.sum - before.sum, buckets: map[float64]uint64{}}
	for bound, n := range h.buckets {
		d.buckets[bound] = n - before.buckets[bound]
	}
	return d
}

// Counter is the sum of a counter over its labels.
func (e Engines) Counter(name string) float64 { return e.counters[name] }

// Labelled is a counter whose one label has a value; "" for a counter without labels.
func (e Engines) Labelled(name, value string) float64 { return e.labelled[[2]string{name, value}] }

// Hops returns where the time of a payment goes in the engines.
func (e Engines) Hops() (hops []Hop) {
	for _, name := range HopNames {
		if h := e.hops[name]; h.count > 0 {
			hops = append(hops, Hop{name, h.count, 1e3 * h.mean(), 1e3 * h.quantile(0.5), 1e3 * h.quantile(0.99)})
		}
	}
	return hops
}

// Ledger sums up the write requests.
func (e Engines) Ledger() Ledger {
	return Ledger{e.requests.count, e.requests.mean(), 1e3 * e.durations.mean(), 1e3 * e.durations.quantile(0.99)}
}

func (h histogram) mean() float64 {
	if h.count == 0 {
		return 0
	}
	return h.sum / float64(h.count)
}

// quantile assumes, as Prometheus does, that values are evenly spread in a bucket.
func (h histogram) quantile(q float64) float64 {
	rank, below, floor := q*float64(h.count), 0.0, 0.0
	for _, bound := range slices.Sorted(maps.Keys(h.buckets)) {
		if n := float64(h.buckets[bound]); n >= rank && n > below {
			if math.IsInf(bound, 1) {
				break
			}
			return floor + (bound-floor)*(rank-below)/(n-below)
		}
		below, floor = float64(h.buckets[bound]), bound
	}
	return floor // more than the last bound
}
