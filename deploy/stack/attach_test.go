package stack

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/liquida/liquida/platform/kit"
)

// statusByName returns what an attached program sees.
func statusByName(t *testing.T, a *Attached) map[string]Status {
	t.Helper()
	all, err := a.Status(t.Context())
	kit.Must(t, err)

	byName := map[string]Status{}
	for _, s := range all {
		byName[s.Name] = s
	}

	return byName
}

// Another program acts on a stack in the foreground, as on one in the background.
func TestAttached(t *testing.T) {
	config := standIns(t)
	config.Room, config.Cuts = true, true
	owner := started(t, config)
	a := Attach(config.Dir)
	kit.Eventually(t, "the room is ready", func() bool { return statusByName(t, a)[Room].State == Ready })

	first := statusByName(t, a)
	for name, s := range first {
		if s.State != Ready || s.Optional != (name == Room) ||
			s.MemoryBytes < 1<<20 {
			t.Errorf("after the start: %+v", s)
		}
	}

	kit.Must(t, a.Act(t.Context(), ActKill, "engine-0", ""))

	killed := statusByName(t, a)["engine-0"]
	if killed.State != Dead || !strings.HasPrefix(killed.Problem, "killed by signal 9 at 20") {
		t.Errorf("killed: %+v", killed)
	}
	kit.Says(t, a.Act(t.Context(), ActKill, "engine-0", ""), "not running")
	kit.Must(t, a.Act(t.Context(), ActStart, "engine-0", ""))

	again := statusByName(t, a)["engine-0"]
	if again.State != Ready || again.PID == killed.PID ||
		again.Telemetry != killed.Telemetry {
		t.Errorf("started again: %+v; it was %+v", again, killed)
	}
	kit.Says(t, a.Act(t.Context(), ActStart, "engine-0", ""), "already running")

	kit.Must(t, a.Act(t.Context(), ActFreeze, Producer, ""))
	kit.Eventually(t, "the producer is frozen", func() bool { return statusByName(t, a)[Producer].State == Frozen })
	kit.Must(t, a.Act(t.Context(), ActThaw, Producer, ""))
	kit.Eventually(t, "the producer is ready", func() bool { return statusByName(t, a)[Producer].State == Ready })

	kit.Must(t, errors.Join(a.Act(t.Context(), ActCut, "engine-0", FromLedger),
		a.Act(t.Context(), ActCut, "engine-0", FromBroker),
		a.Act(t.Context(), ActMend, "engine-0", FromLedger)))

	if all := statusByName(t, a); !slices.Equal(all["engine-0"].Cut, []string{FromBroker}) || all[Producer].Cut != nil ||
		!all[Producer].Cuttable || all[Simulator].Cuttable {
		t.Errorf("the engine is cut from the broker: %+v", all)
	}
	kit.Says(t, a.Act(t.Context(), ActCut, Simulator, FromBroker), "has no links")

	post(t, "http://"+first[Simulator].Telemetry+"/unready")

	if s := statusByName(t, a)[Simulator]; s.State != NotReady || s.Problem != "ledger: not reached yet" {
		t.Errorf("a simulator that was ready is %+v", s)
	}
	kit.Must(t, a.Act(t.Context(), ActAddEngine, "", ""))

	if s := statusByName(t, a)["engine-1"]; s.State != Ready {
		t.Errorf("the added engine: %+v", s)
	}

	for name, want := range map[string]string{"engine-7": "no process", Room: "itself"} {
		kit.Says(t, a.Act(t.Context(), ActKill, name, ""), want)
	}
	post(t, "http://"+first[Producer].Telemetry+"/exit")
	kit.Eventually(t, "the exit counts as a crash, and as the only one", func() bool {
		return len(owner.Crashes()) == 1
	})

	if s := statusByName(t, a)[Producer]; !strings.HasPrefix(s.Problem, "exited with code 7 at 20") {
		t.Errorf("the producer has crashed: %+v", s)
	}

	if socket, err := os.Stat(socketIn(config.Dir)); err != nil || socket.Mode().Perm() != 0o600 {
		t.Errorf("others may give orders: %v, %v", socket.Mode(), err)
	}
	kit.Says(t, Down(t.Context(), config.Dir), "end that") // it is not in the background
	kit.Must(t, owner.Stop(t.Context()))

	if _, err := a.Status(t.Context()); !errors.Is(err, ErrNotRunning) {
		t.Errorf("after the stop: %v", err)
	}
}

// TestUpRightAfterAKill: to free its memory a killed ledger takes a moment. It must not look ready.
func TestUpRightAfterAKill(t *testing.T) {
	config := standIns(t)
	config.Env = map[string][]string{TigerBeetle: {"STAND_IN_MEGABYTES=512"}}
	t.Setenv("TIGERBEETLE_BIN", config.TigerBeetleBin) // found at the start, as with make up
	config.TigerBeetleBin = ""
	t.Cleanup(func() { _ = Down(context.Background(), config.Dir) })
	kit.Must(t, Up(t.Context(), config))

	a := Attach(config.Dir)
	for _, all := range []bool{false, true} {
		before := statusByName(t, a)
		for name, s := range before {
			if all || name == TigerBeetle {
				kit.Must(t, syscall.Kill(s.PID, syscall.SIGKILL))
			}
		}
		kit.Must(t, Up(t.Context(), config))

		for name, s := range statusByName(t, a) {
			if s.State != Ready || (s.PID == before[name].PID) == (all || name == TigerBeetle) {
				t.Errorf("after up %+v; before the kill %+v", s, before[name])
			}
		}
	}
}
