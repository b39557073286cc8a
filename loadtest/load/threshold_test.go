package load

import (
	"strings"
	"testing"
)

func TestThresholds(t *testing.T) {
	r := &Result{Sent: 200, Late: 3, SettledPerSecond: 950.5,
		Latencies: []Latency{{Kind: settledKind, Count: 150, P50: 20, P99: 500, Max: 16_600}},
		Outcomes:  []Outcome{{Count: Count{Sent: 100, Wrong: 1, Missing: 2}}, {Count: Count{Sent: 100, Excused: 5}}}}

	for _, c := range []struct {
		text, measured string
		broken         bool
	}{
		{"p50>=20ms", "p50 was 20.0 ms", true},
		{" p99 > 0.4s ", "p99 was 500.0 ms", true},
		{"max>16.7s", "max was 16600.0 ms", false},
		{"failed>2", "failed was 3 payments", true},
		{"excused>2%", "excused was 2.5 %", true},
		{"late>2", "late was 3 payments", true},
		{"rate<950.6", "rate was 950.5 /s", true},
	} {
		threshold, err := ParseThreshold(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}

		if got, want := threshold.Read(r), (Reading{strings.TrimSpace(c.text), c.broken, c.measured}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}

		if nothing := threshold.Read(&Result{}); strings.HasPrefix(threshold.Text, "p") &&
			(!nothing.Broken || nothing.Measured != "no payment settled") {
			t.Errorf("where nothing settled: %+v", nothing)
		}
	}

	for text, say := range map[string]string{
		"": "must be a metric", "p99": "must be a metric", "p99==3ms": "must be a metric",
		"p99>-1ms": "must be a metric", "p98>1ms": `unknown metric "p98"`,
		"p99>500": `limit "500"`, "p99>5%": `limit "5%"`, "p99>1.2.3ms": `limit "1.2.3ms"`, "failed>1ms": `limit "1ms"`,
		"rate<5%": `limit "5%"`, "failed>1..2": `limit "1..2"`,
	} {
		if _, err := ParseThreshold(text); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%q: %v; want %s in it", text, err, say)
		}
	}
}
