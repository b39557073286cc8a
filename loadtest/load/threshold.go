package load

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Threshold is a condition under which a run fails, although every outcome is right.
type Threshold struct {
	Text   string // as it was given, like p99>500ms
	metric metric
	above  bool // it is broken above the limit, else below
	orAt   bool // also at the limit
	limit  float64
}

// Reading is what a run measured for a threshold.
type Reading struct {
	Threshold string `json:"threshold"`
	Broken    bool   `json:"broken"`
	Measured  string `json:"measured"`
}

// metric is what a threshold can be about. Its unit is that of its limits: ms, a share of the
// payments sent, or none.
type metric struct {
	name, meaning, unit string
	of                  func(*Result) float64
}

// Units of metrics.
const (
	inMilliseconds = "ms"
	inPayments     = "payments"
	inPerSecond    = "/s"
)

var metrics = []metric{
	settledLatency("p50", "latency of settled payments: their median", func(l *Latency) float64 { return l.P50 }),
	settledLatency("p90", "the 90th percentile", func(l *Latency) float64 { return l.P90 }),
	settledLatency("p95", "the 95th percentile", func(l *Latency) float64 { return l.P95 }),
	settledLatency("p99", "the 99th percentile", func(l *Latency) float64 { return l.P99 }),
	settledLatency("p99.9", "the 99.9th percentile", func(l *Latency) float64 { return l.P999 }),
	settledLatency("max", "the slowest", func(l *Latency) float64 { return l.Max }),
	counted("failed", "payments with a wrong outcome or none", func(c Count) int { return c.Wrong + c.Missing }),
	counted("undecided", "payments without an outcome", func(c Count) int { return c.Missing }),
	counted("excused", "payments rejected with a reason of --allow", func(c Count) int { return c.Excused }),
	{"late", "payments sent later than planned by more than " + LateAfter.String(), inPayments,
		func(r *Result) float64 {
			return float64(r.Late)
		}},
	{"rate", "payments settled per second", inPerSecond, func(r *Result) float64 { return r.SettledPerSecond }},
}

func settledLatency(name, meaning string, of func(*Latency) float64) metric {
	return metric{name, meaning, inMilliseconds, func(r *Result) float64 { return of(r.Latency(settledKind)) }}
}

func counted(name, meaning string, of func(Count) int) metric {
	return metric{name, meaning, inPayments, func(r *Result) (sum float64) {
		for _, o := range r.Outcomes {
			sum += float64(of(o.Count))
		}

		return sum
	}}
}

// Metrics lists the metrics and their meanings, for --help.
func Metrics() (all [][2]string) {
	for _, m := range metrics {
		all = append(all, [2]string{m.name, m.meaning})
	}

	return all
}

var thresholdForm = regexp.MustCompile(`^\s*([a-z0-9.]+)\s*(>=|<=|>|<)\s*([0-9.]+)\s*(%|[a-zµ]+|/s)?\s*$`)

// ParseThreshold reads a condition like p99>500ms, failed>0, excused>1% or rate<900.
func ParseThreshold(text string) (t Threshold, err error) {
	parts := thresholdForm.FindStringSubmatch(text)
	if parts == nil {
		return t, fmt.Errorf("%q must be a metric, one of > >= < <=, and a limit, like p99>500ms or rate<900", text)
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
	t = Threshold{Text: strings.TrimSpace(text), metric: metrics[i], above: parts[2][0] == '>',
		orAt: strings.HasSuffix(parts[2], "=")}

	number, unit := parts[3], parts[4]
	switch t.metric.unit {
	case inMilliseconds:
		limit, err := time.ParseDuration(number + unit)
		if err != nil || unit == "" {
			return t, fmt.Errorf("%q has the limit %q: a latency needs a number and a unit, like 500ms or 2s", text,
				number+unit)
		}
		t.limit = limit.Seconds() * 1e3

		return t, nil
	case inPayments:
		if unit == "%" {
			share := t.metric.of
			t.metric.unit, t.metric.of = unit, func(r *Result) float64 {
				return 100 * share(r) / float64(max(1, r.Sent))
			}
			unit = ""
		}
	case inPerSecond:
		unit = strings.TrimSuffix(unit, inPerSecond)
	}

	if t.limit, err = strconv.ParseFloat(number, 64); err != nil || unit != "" {
		return t, fmt.Errorf("%q has the limit %q: %s needs a plain number%s", text, number+unit, t.metric.name,
			map[bool]string{true: ", or a share of the payments like 1%"}[t.metric.unit == inPayments])
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

	figure := strconv.FormatFloat(measured, 'f', 1, 64)
	if t.metric.unit == inPayments {
		figure = strconv.Itoa(int(measured))
	}

	return Reading{t.Text, broken || t.orAt && measured == t.limit,
		fmt.Sprintf("%s was %s %s", t.metric.name, figure, t.metric.unit)}
}
