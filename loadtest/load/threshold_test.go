package load

import (
	"strings"
	"testing"
)

func TestThresholds(t *testing.T) {
	r := &Result{Sent: 200, Late: 3, SettledPerSecond: 950.5,
		Latencies: []Latency{{Kind: settledKind, Count: 150, P50: 20, P99: 500, Max: 16_600}},
		Outcomes:  []Outcome{{Count: Count{Sent: 100, Wrong: 1}}, {Count: Count{Sent: 100, Excused: 5}}}}

	for _, c := range []struct {
		text, measured string // or what is wrong with it
		broken         bool
	}{
		{" p99 > 0.4s ", "p99 was 500.0 ms", true},
		{"max>16.7s", "max was 16600.0 ms", false},
		{"excused>2%", "excused was 2.5 %", true},
		{"late>2%", "late was 1.5 %", false},
		{"rate<950.6", "rate was 950.5 /s", true},
		{"p99", "must be a metric", false},
		{"p98>1ms", `unknown metric "p98"`, false},
		{"p99>500", `limit "500": p99 is in ms`, false},
		{"late>1.2.3%", `limit "1.2.3%"`, false},
	} {
		threshold, err := ParseThreshold(c.text)
		if err != nil {
			if !strings.Contains(err.Error(), c.measured) {
				t.Errorf("%s: %v; want %s in it", c.text, err, c.measured)
			}

			continue
		}

		if got, want := threshold.Read(r), (Reading{strings.TrimSpace(c.text), c.broken, c.measured}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}

		if nothing := threshold.Read(&Result{}); strings.HasPrefix(threshold.Text, "p") && !nothing.Broken {
			t.Errorf("where nothing settled: %+v", nothing)
		}
	}
}
