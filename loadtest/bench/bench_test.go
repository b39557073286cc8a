package bench

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/meter"
	"github.com/liquida/liquida/loadtest/report"
	"github.com/liquida/liquida/platform/sandbox"
)

var everything = Config{
	Parts: AllParts(), Payments: 1_000_000, CeilingPayments: 500_000, GrowthPayments: 4_000_000, GrowthCaches: []string{"1GiB", "6GiB"},
	Customers: 1_000_000, Rates: []int{1000, 20_000}, RateDuration: 30 * time.Second, DoorPayments: 200_000, OverloadPayments: 800_000, DoorConnections: 64, BatchLines: 500, Population: sandbox.Population{Banks: 5, Customers: 5000},
}

// Results are compared by the names of their rows.
func TestRowsHaveNamesOfTheirOwnAndEveryPartHasSome(t *testing.T) {
	seen, covered := map[string]bool{}, map[string]bool{}
	for _, row := range everything.rows() {
		if seen[row.name] {
			t.Errorf("two rows are named %q", row.name)
		}
		seen[row.name], covered[row.part] = true, true
		if row.payments == 0 && !row.half {
			t.Errorf("%s sends nothing", row.name)
		}
	}
	for _, part := range AllParts() {
		if !covered[part] {
			t.Errorf("the part %s has no rows", part)
		}
	}
	if err := CheckParts(DefaultParts); err != nil {
		t.Error(err)
	}
	for _, bad := range [][]string{{"speed"}, {"half"}, {""}, nil} {
		if CheckParts(bad) == nil {
			t.Errorf("%q is taken for parts", bad)
		}
	}
}

func TestRowWithoutRoomOnTheDiskIsRefused(t *testing.T) {
	config := Config{Dir: t.TempDir()}
	if err := config.roomFor(row{name: "small", payments: 1}); err != nil && !strings.Contains(err.Error(), "GB of room") {
		t.Error(err)
	}
	err := config.roomFor(row{name: "huge", payments: 1_000_000_000_000})
	if err == nil || !strings.Contains(err.Error(), "huge") || !strings.Contains(err.Error(), "1,000,000,000,000") {
		t.Errorf("the error is %v: it must name the row and its payments", err)
	}
}

// A figure of a busy machine is told for what it is.
func TestABusyMachineIsTold(t *testing.T) {
	row := runs("maximum", 20_000, 30_000)
	row.Figures[runFigures]["busy_share_before"] = []float64{0, 0.55}
	var text bytes.Buffer
	(&Result{Rows: []Row{row}}).Write(&text)
	if n := strings.Count(text.String(), "NOT QUIET maximum: others used 55 % of the machine before it"); n != 1 {
		t.Errorf("said %d times in %s", n, &text)
	}
	if share := meter.BusyShare(); share < 0 || share > 1 {
		t.Errorf("the machine is used by %v", share)
	}
}

// How dear a wake-up is on this machine, this hour, stands beside the figures.
func TestWakeUpsAreTold(t *testing.T) {
	w, err := measureWakeUp()
	if err != nil || w.SameProcessor <= 0 || (w.OtherProcessor <= 0) != (len(processors) < 2) {
		t.Errorf("%+v, %v", w, err)
	}
	row := runs("1,000/s", 1000)
	row.add(Run{WakeUp: &WakeUp{2, 40}})
	row.add(Run{WakeUp: &WakeUp{1.5, 18}})
	if text := (&Result{Rows: []Row{row}}).wakeUps(); !strings.Contains(text, "1.5 to 2.0 µs on its own processor, in 18.0 to 40.0 µs on another") {
		t.Error(text)
	}
	if text := (&Result{Rows: []Row{runs("1,000/s", 1000)}}).wakeUps(); text != "" {
		t.Errorf("%q without any measured", text)
	}
}

// A report of nothing must not look like one of valid runs, nor replace an earlier one.
func TestNothingMeasuredIsNoValidResult(t *testing.T) {
	if p := (&Result{Rows: []Row{{Name: "maximum"}}}).page(); p.Passed {
		t.Errorf("a result without a run is valid: %s", p.Verdict)
	}
	config := everything
	config.Dir, config.Payments = t.TempDir(), 1_000_000_000_000
	if result, err := Measure(t.Context(), config); err == nil || result != nil {
		t.Errorf("without room on the disk the result is %+v, the error %v", result, err)
	}
}

// runs makes a row of one run for each rate, with latencies and costs that fit.
func runs(name string, rates ...float64) Row {
	row := Row{Name: name, Part: "maximum"}
	for _, rate := range rates {
		row.add(Run{Payments: 1000, PerSecond: rate, Latency: &load.Latency{P50: 10, P99: 20},
			Costs: []meter.Cost{{Process: "engine-0", CPUMicroseconds: 4}, {Process: "engine-1", CPUMicroseconds: 6}, {Process: "tigerbeetle", CPUMicroseconds: 20}}})
	}
	return row
}

func TestComparisonTellsChangesFromNoise(t *testing.T) {
	earlier := &Result{Rows: []Row{runs("maximum", 1000, 1010, 1020)}}
	for _, test := range []struct {
		name  string
		rates []float64
		worse float64 // of the one change; 0: none
	}{
		{"within the noise", []float64{960, 970, 980}, 0},
		{"its runs reach into the earlier ones", []float64{500, 600, 1005}, 0},
		{"slower", []float64{700, 800, 900}, 1 - 800.0/1010},
		{"faster", []float64{2000, 2020, 2040}, -1},
	} {
		changes, rows := (&Result{Rows: []Row{runs("maximum", test.rates...), runs("new", 1)}}).Compare(earlier)
		if rows != 1 {
			t.Errorf("%s: %d rows are compared", test.name, rows)
		}
		if test.worse == 0 && len(changes) > 0 || test.worse != 0 && (len(changes) != 1 || math.Abs(changes[0].Worse-test.worse) > 1e-9) {
			t.Errorf("%s: the changes are %+v", test.name, changes)
		}
	}
	var text bytes.Buffer
	slower := &Result{Rows: []Row{runs("maximum", 700)}}
	if err := slower.WriteComparison(&text, earlier, 0.1); err == nil || !strings.Contains(text.String(), "WORSE by 31 %") {
		t.Errorf("the error is %v, the text %s", err, &text)
	}
	if err := slower.WriteComparison(&text, earlier, 0.5); err != nil {
		t.Errorf("31 %% is less than the half that is allowed: %v", err)
	}
	if slower.WriteComparison(&text, &Result{Rows: []Row{runs("other", 1)}}, 0.1) == nil {
		t.Error("results without a row in common are compared")
	}
}

func TestTablesShowTheSpreadAndAddUpEngines(t *testing.T) {
	r := &Result{Rows: []Row{runs("maximum", 30_000, 10_000, 20_000), {Name: "broken", Invalid: []string{"broken: <the audit failed>"}}}}
	var text bytes.Buffer
	r.Write(&text)
	for _, want := range []string{"20000", "least", "10000", "most", "30000", "broken: INVALID, no figure", "INVALID broken: <the audit failed>"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in %s", want, &text)
		}
	}
	i := slices.Index(columns, "engines")
	for _, table := range r.Tables() {
		if strings.HasPrefix(table.Title, "CPU") && table.Rows[0][i+1] != "10.0" {
			t.Errorf("two engines of 4 and 6 µs are %s", table.Rows[0][i+1])
		}
	}
	path := filepath.Join(t.TempDir(), "new", "report.html")
	if err := r.WriteReport(path, filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	html, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(html, []byte("&lt;the audit failed&gt;")) || bytes.Contains(html, []byte("src=")) || bytes.Contains(html, []byte("href=")) || bytes.Contains(html, []byte("NaN")) || bytes.Contains(html, []byte("ZgotmplZ")) {
		t.Error("the report must say what failed, refer to nothing outside, and hold numbers only")
	}
}

// Results of several days count as passes of one, but only if they are of one machine and setting.
func TestResultsAreJoined(t *testing.T) {
	store := func(r Result) string {
		path := filepath.Join(t.TempDir(), "result.json")
		if err := report.WriteJSON(path, r); err != nil {
			t.Fatal(err)
		}
		return path
	}
	failed := runs("maximum", 10_000)
	failed.Invalid = []string{"the audit failed"}
	one := store(Result{Passes: 1, Settings: "as shipped", Rows: []Row{runs("maximum", 20_000)}})
	two := store(Result{Passes: 2, Settings: "as shipped", Rows: []Row{failed, runs("ceiling", 40_000)}})
	other := store(Result{Passes: 1, Settings: "changed", Rows: []Row{runs("maximum", 1)}})
	r, err := Read([]string{one, two})
	if err != nil {
		t.Fatal(err)
	}
	if r.Passes != 3 || len(r.Rows) != 2 || len(r.Rows[0].Verdicts) != 2 || len(r.Rows[0].Invalid) != 1 || len(r.Rows[1].Verdicts) != 1 {
		t.Errorf("joined to %+v", r)
	}
	if _, err := Read([]string{one, other}); err == nil || !strings.Contains(err.Error(), `"changed"`) || !strings.Contains(err.Error(), other) {
		t.Errorf("another setting: %v", err)
	}
}

// A stored result prints the same tables, and stays small enough to read.
func TestStoredResultPrintsTheSame(t *testing.T) {
	row := runs("maximum", 20_000.25, 30_000.75)
	row.add(Run{Payments: 1_000_000, OfferedPerSecond: 10, PerSecond: 25_000, Ratio: 0.875, BusyBefore: 0.25, Audit: "AUDIT CLEAN: {[1, 2]}",
		Reads: &load.Latency{Count: 7, P50: 1, Max: 9}, Hops: []meter.Hop{{Name: "queue", MeanMs: 1.25, P99Ms: 3}},
		Stages: []Stage{{Payments: 500_000, PerSecond: 24_000, StoredBytes: 7000, Costs: []meter.Cost{{Process: "load generator"}, {Process: "tigerbeetle", MemoryBytes: 3 << 30}, {Process: "broker"}, {Process: "bank-simulator"}, {Process: "engine-0"}, {Process: "producer"}}}}})
	want := &Result{Hardware: "2 × a processor", Settings: "as shipped", Passes: 3, Rows: []Row{row, {Name: "broken", Invalid: []string{"broken: <the audit failed>"}}}}
	path := filepath.Join(t.TempDir(), "result.json")
	if err := report.WriteJSON(path, want); err != nil {
		t.Fatal(err)
	}
	got, err := Read([]string{path})
	if err != nil {
		t.Fatal(err)
	}
	var before, after bytes.Buffer
	want.Write(&before)
	got.Write(&after)
	if before.String() != after.String() {
		t.Errorf("measured:%s\nstored:%s", &before, &after)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(text, []byte("\n")); lines > 50 {
		t.Errorf("two rows take %d lines:\n%s", lines, text)
	}
	if err := os.WriteFile(path, []byte(`{"rows": [{"name": "maximum", "runs": [{}]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read([]string{path}); err == nil {
		t.Error("a file without figures is read as a result")
	}
}
