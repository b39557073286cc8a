package chaos

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/loadtest/answers"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/platform/kit"
)

// A plan follows from its seed, deals every kind before any again, and leaves the load in peace at first and at last.
func TestPlan(t *testing.T) {
	names, err := new(Config).ParseKinds("all")
	kit.Must(t, err)

	plan := Plan(3, time.Hour, names)
	if !slices.Equal(plan, Plan(3, time.Hour, names)) || slices.Equal(plan, Plan(4, time.Hour, names)) {
		t.Error("the plan does not follow from its seed")
	}

	if len(plan) < 2*len(names) {
		t.Fatalf("%d faults in an hour", len(plan))
	}

	for deck := range 2 {
		var dealt []string
		for _, p := range plan[deck*len(names) : (deck+1)*len(names)] {
			dealt = append(dealt, p.Kind)
		}
		slices.Sort(dealt)

		if want := slices.Sorted(slices.Values(names)); !slices.Equal(dealt, want) {
			t.Errorf("deck %d has %v, not every kind once", deck, dealt)
		}
	}

	if first, last := plan[0].At, plan[len(plan)-1].At; first < quietBefore || last > time.Hour-quietAfter {
		t.Errorf("faults from %v to %v: the load must be seen to run before and after", first, last)
	}

	secured := Config{KafkaSecured: true, Plan: plan}
	if err := secured.CheckPlan(); err == nil {
		t.Error("a secured Kafka has links")
	}
	names, err = secured.ParseKinds("all")
	kit.Must(t, err)

	if secured.Plan = Plan(3, time.Hour, names); secured.CheckPlan() != nil || len(names) == 0 {
		t.Errorf("what a secured Kafka can have is refused: %v", names)
	}
}

func TestScript(t *testing.T) {
	plan, err := ParseScript("20s pause-broker, 12s kill-engine,15s bank-silent", 1)
	kit.Must(t, err)

	var got []string
	for _, p := range plan {
		got = append(got, p.At.String()+" "+p.Kind)
	}

	if want := []string{"12s kill-engine", "15s bank-silent", "20s pause-broker"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}

	for _, bad := range []string{"", "kill-engine", "soon kill-engine", "-1s kill-engine", "1s kill-everything",
		"1s kill-engine now"} {
		if _, err := ParseScript(bad, 1); err == nil || !strings.Contains(err.Error(), "script") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// Recovery figures on reports at known times.
func TestRecovery(t *testing.T) {
	s := func(seconds ...float64) (times []time.Duration) {
		for _, second := range seconds {
			times = append(times, time.Duration(second*float64(time.Second)))
		}

		return times
	}
	o := &observer{
		settled: map[int32][]time.Duration{0: s(1, 2, 3, 4, 5, 6, 7, 8, 9, 30), 1: s(1, 2, 3, 6.5, 6.6, 8),
			2: s(1, 2, 3, 5, 7, 8)},
		sent: map[int32][]time.Duration{0: s(1, 2, 3, 4, 5, 6, 7, 8, 9, 30), 1: s(.9, 1.9, 2.9, 3.9, 4, 7.9),
			2: s(.9, 1.9, 2.9, 3.8, 6.9, 7.9)},
	}

	for _, c := range []struct {
		why string
		Event
	}{
		{"partition 2 is the first, partition 1 stands longest, and one payment waits as before once its first has settled",
			Event{Began: 3.5, Ended: 6, Partitions: []int32{1, 2}, FirstSettled: 1.5, Standstill: 3, CaughtUp: 3}},
		{"all partitions, of which one is as always",
			Event{Began: 3.5, Ended: 6, FirstSettled: 0.5, Standstill: 3, CaughtUp: 3}},
		{"what stands still much later is not the fault's doing",
			Event{Began: 3.5, Ended: 6, Partitions: []int32{0}, FirstSettled: 0.5, Standstill: 1, CaughtUp: 1.5}},
		{"nothing settles afterwards", Event{Began: 40, Ended: 41, FirstSettled: -1e-9, CaughtUp: -1}},
	} {
		got := Event{Began: c.Began, Ended: c.Ended, Partitions: c.Partitions}
		if o.recovery(&got); !reflect.DeepEqual(got, c.Event) {
			t.Errorf("%s: %+v, must be %+v", c.why, got, c.Event)
		}
	}
}

// The page shows a failure's reason, whatever characters it has, and the way to repeat it.
func TestReport(t *testing.T) {
	r := &Result{Seed: 7, Repeat: "loadtest chaos --seed 7",
		Load: &load.Result{Sent: 10, Rate: 95, PerSecond: []load.Second{
			{Settled: 100, P50: 5, P99: 50, Max: 60}, {}, {Settled: 90, P50: 6, P99: 5000, Max: 6000}},
			Latencies: []load.Latency{{Kind: "settled", Count: 10, P50: 5, P99: 5000.4, Max: 6000.5}}}, Events: []Event{
			{Kind: "kill-engine", Target: "engine-0", Began: 1, Ended: 2, FirstSettled: 0.5, Standstill: 1.5},
			{Kind: "kill-engine", Target: "engine-1", Began: 1.5, Ended: 1.6, FirstSettled: -1,
				Problem: "it did not <come> back"},
		}}
	r.judge()
	path := filepath.Join(t.TempDir(), "new folder", "report.html")
	kit.Must(t, r.Page().Write(path, ""))
	text, err := os.ReadFile(path)
	kit.Must(t, err)
	kit.Holds(t, string(text), "it did not &lt;come&gt; back", "loadtest chaos --seed 7", "✗ Failed", "<svg", "never",
		"1 kill-engine engine-0", "caught up", "5.00 s", "6.00 s", "TigerBeetle 0.16", "Linux")

	for _, never := range []string{"http://", "https://", "NaN", "Inf", "<come>", "ZgotmplZ"} {
		if strings.Contains(string(text), never) {
			t.Errorf("the report holds %q", never)
		}
	}

	if r.Passed {
		t.Error("a run with a problem has passed")
	}
}

// Beside each payment that failed stand the faults that were active while it was open.
func TestFaultsBesideFailures(t *testing.T) {
	start := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	r := &Result{
		Events: []Event{{Kind: "kill-engine", Target: "engine-0", Began: 5, Ended: 6, Ready: 8},
			{Kind: "pause", Target: "broker", Began: 20, Ended: 25, Ready: 26}},
		Load: &load.Result{Failures: []load.Failure{{Sent: at(1), Ended: at(4)}, {Sent: at(7), Ended: at(9)},
			{Sent: at(2), Ended: at(30)}}},
	}
	r.nameFaults(start)

	for i, want := range []string{"no fault", "kill-engine engine-0 (5.0 to 8.0 s of the run)",
		"kill-engine engine-0 (5.0 to 8.0 s of the run), pause broker (20.0 to 26.0 s of the run)"} {
		if got := strings.Join(r.Load.Failures[i].During, ", "); got != want {
			t.Errorf("failure %d: %s; it must be %s", i, got, want)
		}
	}
}

// A contradiction of the HTTP API fails the run, and the result says which.
func TestAContradictionFailsTheRun(t *testing.T) {
	for _, told := range []answers.Verdict{{Clean: true},
		{Contradictions: []answers.Contradiction{{Subject: "E1", What: "the end has changed"}}}} {
		r := &Result{Load: &load.Result{Passed: true, Sent: 10, Settled: 10}, Answers: told}
		r.Audit.Clean = true
		r.judge()
		var text strings.Builder
		r.Write(&text)

		if r.Passed != told.Clean || strings.Contains(text.String(), "WRONG E1: the end has changed") == told.Clean ||
			strings.Contains(text.String(), "the answers") == told.Clean {
			t.Errorf("passed %v:\n%s", r.Passed, text.String())
		}
	}
}

// The hour has only faults that there are, however long it is.
func TestTheHourIsStretched(t *testing.T) {
	plan := HourPlan(1, 48*time.Minute)
	for i, planned := range plan {
		if _, err := parseKind(planned.Kind); err != nil || planned.At != time.Duration(2*i+4)*time.Minute {
			t.Errorf("%v: %v", planned, err)
		}
	}
}
