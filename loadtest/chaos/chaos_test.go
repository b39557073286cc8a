package chaos

import (
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
	}

	for _, c := range []struct {
		why string
		Event
	}{
		{"partition 2 is the first, partition 1 stands longest",
			Event{Began: 3.5, Ended: 6, Partitions: []int32{1, 2}, FirstSettled: 1.5, Standstill: 3}},
		{"all partitions, of which one is as always",
			Event{Began: 3.5, Ended: 6, FirstSettled: 0.5, Standstill: 3}},
		{"what stands still much later is not the fault's doing",
			Event{Began: 3.5, Ended: 6, Partitions: []int32{0}, FirstSettled: 0.5, Standstill: 1}},
		{"nothing settles afterwards", Event{Began: 40, Ended: 41, FirstSettled: -1e-9}},
	} {
		got := Event{Began: c.Began, Ended: c.Ended, Partitions: c.Partitions}
		if o.recovery(&got); !reflect.DeepEqual(got, c.Event) {
			t.Errorf("%s: %+v, must be %+v", c.why, got, c.Event)
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
