package chaos

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/answers"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

func all(t *testing.T) []string {
	t.Helper()
	names, err := ParseKinds("all")
	kit.Must(t, err)
	return names
}

func TestPlanFollowsFromItsSeed(t *testing.T) {
	one, same, other := Plan(1, time.Hour, all(t)), Plan(1, time.Hour, all(t)), Plan(2, time.Hour, all(t))
	if !slices.Equal(one, same) {
		t.Error("the same seed gave two plans")
	}
	if slices.Equal(one, other) {
		t.Error("two seeds gave one plan")
	}
}

func TestPlanDealsEveryKindBeforeAnyAgain(t *testing.T) {
	names := all(t)
	plan := Plan(3, time.Hour, names)
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
}

func TestScript(t *testing.T) {
	plan, err := ParseScript("20s pause-broker # later\n\n 12s kill-engine, 15s bank-silent", 1)
	kit.Must(t, err)
	var got []string
	for _, p := range plan {
		got = append(got, p.At.String()+" "+p.Kind)
	}
	if want := []string{"12s kill-engine", "15s bank-silent", "20s pause-broker"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, bad := range []string{"", "kill-engine", "soon kill-engine", "-1s kill-engine", "1s kill-everything", "1s kill-engine now"} {
		if _, err := ParseScript(bad, 1); err == nil || !strings.Contains(err.Error(), "script") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// What forged answers may and may not do is what makes them a test: each lie is of a
// kind that must have no effect, but for the one that races with the truth.
func TestLies(t *testing.T) {
	const id = "E1000000120260504120000000abcdef"
	account := func(ispb, branch string) *pixv1.Account {
		return &pixv1.Account{Ispb: ispb, Branch: branch, Number: "1"}
	}
	request := func(branch string) *kgo.Record {
		value, err := (&pixv1.AuthorizationRequest{EndToEndId: id, Payer: account("10000001", "0001"), Payee: account("10000002", branch), AmountCentavos: 1}).MarshalVT()
		kit.Must(t, err)
		return &kgo.Record{Topic: stream.AuthorizationRequests, Partition: 7, Value: value}
	}
	read := func(records []*kgo.Record) *pixv1.AuthorizationResponse {
		t.Helper()
		if len(records) != 1 || records[0].Topic != stream.AuthorizationResponses || records[0].Partition != 7 {
			t.Fatalf("%d lies, or not into the partition of the request", len(records))
		}
		a := &pixv1.AuthorizationResponse{}
		kit.Must(t, a.UnmarshalVT(records[0].Value))
		return a
	}
	if a := read(lies(request("0001"), 0)); a.Ispb != "10000001" || a.ReasonCode != forged.String() || a.EndToEndId != id {
		t.Errorf("of a bank that was not asked: %v", a)
	}
	if a := read(lies(request("0001"), 1)); a.EndToEndId == id || len(a.EndToEndId) != len(id) {
		t.Errorf("about an unknown payment: %v", a)
	}
	if a := (&pixv1.AuthorizationResponse{}); a.UnmarshalVT(lies(request("0001"), 2)[0].Value) == nil {
		t.Error("what must be no answer can be read")
	}
	if a := read(lies(request("0001"), 3)); a.Ispb != "10000002" || a.ReasonCode != rejectedByRace.String() {
		t.Errorf("that races: %v", a)
	}
	if n := len(lies(request("9003"), 3)); n != 0 {
		t.Errorf("%d answers race about a payee that the bank rejects for another reason", n)
	}
	for _, status := range []pixv1.SettlementStatus{pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC, pixv1.SettlementStatus_SETTLEMENT_STATUS_RJCT} {
		value, err := (&pixv1.SettlementReport{EndToEndId: id, Status: status, ReasonCode: "AC06", Payer: account("10000001", "0001"), Payee: account("10000002", "0001")}).MarshalVT()
		kit.Must(t, err)
		a := read(lies(&kgo.Record{Topic: stream.Settlements, Partition: 7, Value: value}, 0))
		settled := status == pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC
		if accepts := a.Status == pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_ACSP; accepts == settled {
			t.Errorf("after %v: %v does not contradict it", status, a)
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
		settled: map[int32][]time.Duration{0: s(1, 2, 3, 4, 5, 6, 7, 8, 9, 30), 1: s(1, 2, 3, 6.5, 6.6, 8), 2: s(1, 2, 3, 5, 7, 8)},
		sent:    map[int32][]time.Duration{0: s(1, 2, 3, 4, 5, 6, 7, 8, 9, 30), 1: s(.9, 1.9, 2.9, 3.9, 4, 7.9), 2: s(.9, 1.9, 2.9, 3.8, 6.9, 7.9)},
	}
	for _, c := range []struct {
		why string
		Event
	}{
		{"partition 2 is the first, partition 1 stands longest, and one payment waits as before once its first has settled",
			Event{Began: 3.5, Ended: 6, Partitions: []int32{1, 2}, FirstSettled: 1.5, Standstill: 3, CaughtUp: 3}},
		{"all partitions, of which one is as always", Event{Began: 3.5, Ended: 6, FirstSettled: 0.5, Standstill: 3, CaughtUp: 3}},
		{"what stands still much later is not the fault's doing", Event{Began: 3.5, Ended: 6, Partitions: []int32{0}, FirstSettled: 0.5, Standstill: 1, CaughtUp: 1.5}},
		{"nothing settles afterwards", Event{Began: 40, Ended: 41, FirstSettled: -1e-9, CaughtUp: -1}},
	} {
		got := Event{Began: c.Began, Ended: c.Ended, Partitions: c.Partitions}
		if o.recovery(&got); !reflect.DeepEqual(got, c.Event) {
			t.Errorf("%s: %+v, must be %+v", c.why, got, c.Event)
		}
	}
}

// Every program has links of its own, and a broken one is broken for it alone.
func TestLinksOfEachProgram(t *testing.T) {
	l := &links{of: map[string]*programLinks{}}
	defer l.close()
	addresses := map[string]bool{}
	for _, process := range []string{"engine-0", "engine-1", "producer", "bank-simulator"} {
		for _, server := range []string{"broker", "tigerbeetle-0", "tigerbeetle-1"} {
			address, err := l.via(process, server, "127.0.0.1:1")
			kit.Must(t, err)
			if process == "bank-simulator" && server != "broker" {
				if address != "127.0.0.1:1" {
					t.Errorf("the bank simulator, which has no ledger, has a link to %s", server)
				}
				continue
			}
			if addresses[address] || address == "127.0.0.1:1" {
				t.Errorf("%s reaches %s at %s: not over a link of its own", process, server, address)
			}
			addresses[address] = true
		}
	}
	if address, err := l.via("broker", "tigerbeetle-0", "127.0.0.1:1"); err != nil || address != "127.0.0.1:1" {
		t.Errorf("the broker has a link: %s, %v", address, err)
	}
	if both, err := l.between("engine-1", toLedger); err != nil || len(both) != 2 {
		t.Errorf("%d links to two servers, %v", len(both), err)
	}
	if _, err := l.between("bank-simulator", toLedger); err == nil {
		t.Error("links of the bank simulator to the ledger")
	}
}

// The page shows a failure's reason, whatever characters it has, and the way to repeat it.
func TestReport(t *testing.T) {
	r := &Result{Seed: 7, Repeat: "loadtest chaos --seed 7", Load: &load.Result{Sent: 10, Rate: 95, PerSecond: []load.Second{
		{Settled: 100, P50: 5, P99: 50, Max: 60}, {}, {Settled: 90, P50: 6, P99: 5000, Max: 6000}},
		Latencies: []load.Latency{{Kind: "settled", Count: 10, P50: 5, P99: 5000.4, Max: 6000.5}}}, Events: []Event{
		{Kind: "kill-engine", Target: "engine-0", Began: 1, Ended: 2, FirstSettled: 0.5, Standstill: 1.5},
		{Kind: "kill-engine", Target: "engine-1", Began: 1.5, Ended: 1.6, FirstSettled: -1, Problem: "it did not <come> back"},
	}}
	r.judge()
	path := filepath.Join(t.TempDir(), "new folder", "report.html")
	kit.Must(t, r.Page().Write(path, ""))
	text, err := os.ReadFile(path)
	kit.Must(t, err)
	kit.Holds(t, string(text), "it did not &lt;come&gt; back", "loadtest chaos --seed 7", "✗ Failed", "<svg", "never", "1 kill-engine engine-0", "caught up", "5.00 s", "6.00 s", "TigerBeetle 0.16", "Linux")
	for _, never := range []string{"http://", "https://", "NaN", "Inf", "<come>", "ZgotmplZ"} {
		if strings.Contains(string(text), never) {
			t.Errorf("the report holds %q", never)
		}
	}
	// The note says that the offered rate is dashed. Two faults are dashed in each of two panels.
	if dashed := strings.Count(string(text), `class="limit"`); dashed != 1+2*2 {
		t.Errorf("%d lines are dashed", dashed)
	}
	if r.Passed {
		t.Error("a run with a problem has passed")
	}
	if k := r.Kinds(); len(k) != 1 || k[0].Times != 2 || k[0].Problems != 1 || k[0].Standstill != 1.5 {
		t.Errorf("the faults add up to %+v", k)
	}
}

// Beside each payment that failed stand the faults that were active while it was open.
func TestFaultsBesideFailures(t *testing.T) {
	start := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	r := &Result{
		Events: []Event{{Kind: "kill-engine", Target: "engine-0", Began: 5, Ended: 6, Ready: 8}, {Kind: "pause", Target: "broker", Began: 20, Ended: 25, Ready: 26}},
		Load:   &load.Result{Failures: []load.Failure{{Sent: at(1), Ended: at(4)}, {Sent: at(7), Ended: at(9)}, {Sent: at(2), Ended: at(30)}}},
	}
	r.nameFaults(start)
	for i, want := range []string{"no fault", "kill-engine engine-0 (5.0 to 8.0 s of the run)", "kill-engine engine-0 (5.0 to 8.0 s of the run), pause broker (20.0 to 26.0 s of the run)"} {
		if got := strings.Join(r.Load.Failures[i].During, ", "); got != want {
			t.Errorf("failure %d: %s; it must be %s", i, got, want)
		}
	}
}

// A contradiction of the HTTP API fails the run, and the result says which.
func TestAContradictionFailsTheRun(t *testing.T) {
	for _, told := range []answers.Verdict{{Clean: true}, {Contradictions: []answers.Contradiction{{Subject: "E1", What: "the end has changed"}}}} {
		r := &Result{Load: &load.Result{Passed: true, Sent: 10, Settled: 10}, Answers: told}
		r.Audit.Clean = true
		r.judge()
		var text strings.Builder
		r.Write(&text)
		if r.Passed != told.Clean || strings.Contains(text.String(), "WRONG E1: the end has changed") == told.Clean || strings.Contains(text.String(), "the answers") == told.Clean {
			t.Errorf("passed %v:\n%s", r.Passed, text.String())
		}
	}
}

// A container that died by itself is a crash, also if docker has started it again; what a fault killed is none.
func TestContainersThatDie(t *testing.T) {
	t.Setenv("PATH", "") // no docker, so no log
	c := &containers{asked: map[string]bool{"2": true}}
	status := func(name string, state stack.State, run string) stack.Status {
		return stack.Status{Name: name, State: state, Run: run, Optional: name == "room"}
	}
	for _, looks := range [][]stack.Status{
		{status("killed", stack.Ready, "2"), status("crashed", stack.Ready, "3"), status("ended", stack.Ready, "4"), status("room", stack.Ready, "5")},
		{status("killed", stack.Dead, "2"), status("crashed", stack.Starting, "6"), status("ended", stack.Dead, "4"), status("room", stack.Dead, "5")},
		{status("killed", stack.Ready, "7"), status("crashed", stack.Ready, "6"), status("ended", stack.Ready, "8"), status("added", stack.Ready, "9")},
	} {
		c.note(t.Context(), looks)
	}
	var names []string
	for _, crash := range c.Crashes() {
		names = append(names, crash.Name)
	}
	if want := []string{"crashed", "ended"}; !slices.Equal(names, want) {
		t.Errorf("the crashes are of %q, but they must be of %q", names, want)
	}
}

// An engine dies in every twelfth of the time, however long it is, and all else is a fault that there is.
func TestTheHourIsStretched(t *testing.T) {
	for _, duration := range []time.Duration{time.Minute, time.Hour} {
		kills, before := 0, time.Duration(0)
		for _, planned := range HourPlan(1, duration) {
			if _, err := kindsNamed(planned.Kind); err != nil || planned.At < before || planned.At > duration {
				t.Errorf("%v of %v, after %v: %v", planned, duration, before, err)
			}
			if before = planned.At; strings.HasPrefix(planned.Kind, "kill-engine") {
				if kills++; planned.At.Round(time.Millisecond) != (duration * time.Duration(kills) / 12).Round(time.Millisecond) {
					t.Errorf("kill %d of %v is at %v", kills, duration, planned.At)
				}
			}
		}
		if kills != 11 {
			t.Errorf("%d kills in %v", kills, duration)
		}
	}
}
