package meter

import (
	"context"
	"fmt"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// HopNames are the values of the label of HopSeconds, in the order of a payment's life.
var HopNames = []string{"queue", "reserve", "authorize", "resolve", "report"}

// Histograms of an engine.
const (
	HopSeconds          = "pix_hop_seconds"
	LedgerRequestEvents = "pix_ledger_request_events"
)

// Engines sums up what all engines counted since their start.
type Engines map[sample]float64

// sample is a counter, or of a histogram its sum or its count.
type sample struct{ name, label string } // the value of the only label

// Families reads the metrics at a telemetry URL, by name.
func Families(ctx context.Context, url string) (map[string]*dto.MetricFamily, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return nil, err
	}

	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("cannot read metrics: %w", err)
	}
	defer response.Body.Close()

	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s/metrics responds %s", url, response.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)

	return parser.TextToMetricFamilies(response.Body)
}

// ReadEngines reads the metrics of engines from their telemetry URLs.
func ReadEngines(ctx context.Context, urls []string) (Engines, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	e := Engines{}

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

func (e Engines) add(name string, metric *dto.Metric) {
	label := ""
	if len(metric.Label) == 1 {
		label = metric.Label[0].GetValue()
	}

	e[sample{name, label}] += metric.GetCounter().GetValue()
	e[sample{name + "_count", label}] += float64(metric.GetHistogram().GetSampleCount())
	e[sample{name + "_sum", label}] += metric.GetHistogram().GetSampleSum()
}

// Since returns what the same engines counted since an earlier reading.
func (e Engines) Since(before Engines) Engines {
	d := Engines{}
	for s, value := range e {
		d[s] = value - before[s]
	}

	return d
}

// Labelled is a counter whose one label has a value; "" for a counter without labels.
func (e Engines) Labelled(name, value string) float64 { return e[sample{name, value}] }

// Mean is that of a histogram; 0 without values.
func (e Engines) Mean(name, label string) float64 {
	return e.Labelled(name+"_sum", label) / max(1, e.Labelled(name+"_count", label))
}
