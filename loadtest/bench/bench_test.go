package bench

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/meter"
	"github.com/liquida/liquida/loadtest/report"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/sandbox"
)

var everything = Config{
	Parts: AllParts(), Payments: 1_000_000, Engines: 1, Mix: "settling", Rates: []int{1000, 20_000},
	RateDuration: 30 * time.Second,
	Population:   sandbox.Population{Banks: 5, Customers: 5000},
}

func TestRatesOfEqualParts(t *testing.T) {
	got := rates([]load.Second{{Settled: 10}, {Settled: 10}, {Settled: 5}, {Settled: 5}, {Settled: 1}}, 10)
	if !slices.Equal(got, []float64{10, 10, 5}) {
		t.Errorf("%v", got)
	}
}

// Results are compared by the names of their rows.
func TestRowsHaveNamesOfTheirOwnAndEveryPartHasSome(t *testing.T) {
	seen, covered := map[string]bool{}, map[string]bool{}
	for _, row := range everything.rows() {
		if seen[row.name] {
			t.Errorf("two rows are named %q", row.name)
		}

		seen[row.name], covered[row.part] = true, true
		if row.payments == 0 && row.does != rest {
			t.Errorf("%s sends nothing", row.name)
		}
	}

	for _, part := range AllParts() {
		if !covered[part] {
			t.Errorf("the part %s has no rows", part)
		}
	}

	kit.Must(t, CheckParts(DefaultParts))

	for _, bad := range [][]string{{"speed"}, {""}, nil} {
		if CheckParts(bad) == nil {
			t.Errorf("%q is taken for parts", bad)
		}
	}
}

// runs makes a row of one run for each rate, with latencies and costs that fit.
func runs(name string, rates ...float64) Row {
	row := Row{Name: name, Part: maximumPart}

	for _, rate := range rates {
		run := &Run{figures: map[figure]float64{perSecond: rate, ofCeiling: rate / 40_000}}
		run.setLatency(&load.Latency{P50: 10, P99: 20})

		for process, cpu := range map[string]time.Duration{"engine-0": 4000, "engine-1": 6000, "tigerbeetle": 20_000} {
			run.setCosts([]meter.Usage{{Process: meter.Process{Name: process}, CPU: cpu}}, 1)
		}
		row.add(run)
	}

	return row
}

func TestComparisonTellsChangesFromNoise(t *testing.T) {
	earlier := &Result{Rows: []Row{runs(gateCeiling, 50_000), runs("maximum", 1000, 1010, 1020),
		runs("bare pipeline", 9)}}

	for _, test := range []struct {
		name  string
		alone float64
		rates []float64
		holds string
		fails bool
	}{
		{"within the noise", 49_000, []float64{960, 970, 980}, "nothing has changed", false},
		{"its runs reach into the earlier ones", 49_000, []float64{500, 600, 1005}, "nothing has changed", false},
		{"slower", 49_000, []float64{700, 800, 900}, "WORSE by 21 %", true},
		{"a little slower", 49_000, []float64{920}, "WORSE by 9 %", false},
		{"faster", 49_000, []float64{2000, 2020, 2040}, "better by 100 %", false},
		{"slower, as is the machine", 40_000, []float64{700, 800, 900}, "MACHINE IS SLOWER", false},
	} {
		var text bytes.Buffer

		err := (&Result{Rows: []Row{runs(gateCeiling, test.alone), runs("maximum", test.rates...), runs("new", 1)}}).
			WriteComparison(&text, earlier)
		if !strings.Contains(text.String(), test.holds) || !strings.Contains(text.String(), "2 rows") ||
			(err != nil) != test.fails {
			t.Errorf("%s: the error is %v, the text %s", test.name, err, &text)
		}
	}

	kit.Must(t, (&Result{Rows: []Row{runs("bare pipeline", 1)}}).WriteComparison(io.Discard, earlier)) // not ours

	if runs := (&Result{Rows: []Row{runs("other", 1)}}); runs.WriteComparison(io.Discard, earlier) == nil {
		t.Error("results without a row in common are compared")
	}
}

// Tables show the spread, add up engines, and are the same for a stored result.
func TestTablesOfWhatWasMeasuredAndOfWhatWasStored(t *testing.T) {
	want := &Result{Hardware: "2 × a processor", Settings: "as shipped",
		Rows: []Row{runs("maximum", 30_000, 10_000, 20_000.7),
			{Name: "broken", Invalid: []string{"broken: <the audit failed>"}}}}
	var before, after bytes.Buffer
	want.Write(&before)
	kit.Holds(t, before.String(), "20001", "least", "10000", "most", "30000",
		"INVALID, no figure: broken: <the audit failed>")

	i := slices.Index(columns, "engines")
	for _, table := range want.Tables() {
		if strings.HasPrefix(table.Title, "CPU") && table.Rows[0][i+1] != "10.0" {
			t.Errorf("two engines of 4 and 6 µs are %s", table.Rows[0][i+1])
		}
	}
	path := filepath.Join(t.TempDir(), "result.json")
	kit.Must(t, report.WriteJSON(path, want))
	got, err := Read(path)
	kit.Must(t, err)
	got.Write(&after)

	if before.String() != after.String() {
		t.Errorf("measured:%s\nstored:%s", &before, &after)
	}
	kit.Must(t, os.WriteFile(path, []byte(`{"rows": [{"name": "maximum", "runs": [{}]}]}`), 0o600))

	if _, err := Read(path); err == nil {
		t.Error("a file without figures is read as a result")
	}
}
