package load

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Threshold is a condition under which a run fails, although every outcome is right.
type Threshold struct {
	Text   string // as it was given, like p99>500ms
	metric metric
	above  bool // it is broken above the limit, else below
	limit  float64
}

// Reading is what a run measured for a threshold.
type Reading struct {
	Threshold string `json:"threshold"`
	Broken    bool   `json:"broken"`
	Measured  string `json:"measured"`
}

// metric is what a threshold can be about.
type metric struct {
	name, meaning, unit string
	of                  func(*Result) float64
}

// Units of metrics. Latencies have one, and shares are of the payments sent.
const (
	inMilliseconds = "ms"
	inShare        = "%"
	inPerSecond    = "/s"
)

var metrics = []metric{
	{"p50", "latency of settled payments: their median", inMilliseconds, func(r *Result) float64 {
		return r.Latency(settledKind).P50
	}},
	{"p99", "the 99th percentile", inMilliseconds, func(r *Result) float64 { return r.Latency(settledKind).P99 }},
	{"max", "the slowest", inMilliseconds, func(r *Result) float64 { return r.Latency(settledKind).Max }},
	{"excused", "payments rejected with a reason of --allow", inShare, func(r *Result) float64 {
		excused := 0
		for _, o := range r.Outcomes {
			excused += o.Excused
		}

		return r.share(excused)
	}},
	{"late", "payments sent later than planned by more than " + LateAfter.String(), inShare,
		func(r *Result) float64 { return r.share(r.Late) }},
	{"rate", "payments settled per second", inPerSecond, func(r *Result) float64 { return r.SettledPerSecond }},
}

// share returns n in percent of the payments sent.
func (r *Result) share(n int) float64 { return 100 * float64(n) / float64(max(1, r.Sent)) }

// Metrics lists the metrics and their meanings, for --help.
func Metrics() (all [][2]string) {
	for _, m := range metrics {
		all = append(all, [2]string{m.name, m.meaning})
	}

	return all
}

var thresholdForm = regexp.MustCompile(`^\s*([a-z0-9]+)\s*([<>])\s*([0-9.]+)(ms|s|%|/s)?\s*$`)

// ParseThreshold reads a condition like p99>500ms, excused>1% or rate<900.
func ParseThreshold(text string) (t Threshold, err error) {
	parts := thresholdForm.FindStringSubmatch(text)
	if parts == nil {
		return t, fmt.Errorf("%q must be a metric, > or <, and a limit, like p99>500ms, late>1%% or rate<900", text)
	}

	i := slices.IndexFunc(metrics, func(m metric) bool { return m.name == parts[1] })
	if i < 0 {
		var names []string
		for _, m := range metrics {
			names = append(names, m.name)
		}

		return t, fmt.Errorf("%q has the unknown metric %q: the metrics are %s", text, parts[1],
			strings.Join(names, ", "))
	}
	t = Threshold{Text: strings.TrimSpace(text), metric: metrics[i], above: parts[2] == ">"}
	t.limit, err = strconv.ParseFloat(parts[3], 64)

	switch unit := parts[4]; {
	case unit == t.metric.unit, unit == "" && t.metric.unit == inPerSecond:
	case unit == "s" && t.metric.unit == inMilliseconds:
		t.limit *= 1e3
	default:
		err = fmt.Errorf("%s is in %s", t.metric.name, t.metric.unit)
	}

	if err != nil {
		return t, fmt.Errorf("%q has the limit %q: %w", text, parts[3]+parts[4], err)
	}

	return t, nil
}

// Read says what a run measured, and whether that breaks the threshold. A latency breaks it also if no
// payment settled: nothing is known about it.
func (t Threshold) Read(r *Result) Reading {
	if l := r.Latency(settledKind); t.metric.unit == inMilliseconds && (l == nil || l.Count == 0) {
		return Reading{t.Text, true, "no payment settled"}
	}
	measured := t.metric.of(r)

	broken := measured < t.limit
	if t.above {
		broken = measured > t.limit
	}

	return Reading{t.Text, broken, fmt.Sprintf("%s was %.1f %s", t.metric.name, measured, t.metric.unit)}
}
