package stack

import (
	"context"
	"strings"
	"syscall"
	"testing"
)

// statusByName returns what an attached program sees.
func statusByName(t *testing.T, a *Attached) map[string]Status {
	t.Helper()
	all, err := a.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]Status{}
	for _, s := range all {
		byName[s.Name] = s
	}
	return byName
}

// TestAttached acts on a background stack that another program started, and on a foreground one.
func TestAttached(t *testing.T) {
	for _, where := range []string{"background", "foreground"} {
		t.Run(where, func(t *testing.T) {
			config := standIns(t)
			var owner *Stack
			if where == "background" {
				t.Cleanup(func() { _ = Down(context.Background(), config.Dir) })
				if err := Up(t.Context(), config); err != nil {
					t.Fatal(err)
				}
			} else {
				config.Room = true
				owner = started(t, config)
			}
			a := Attach(config.Dir)
			first := statusByName(t, a)
			for name, s := range first {
				if s.State != Ready && name != Room || s.MemoryBytes < 1<<20 {
					t.Errorf("after the start: %+v", s)
				}
			}
			if !first["engine-0"].IsEngine || first[Producer].IsEngine {
				t.Error("the engine is not told from the producer")
			}

			act := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			act(a.Kill(t.Context(), "engine-0"))
			killed := statusByName(t, a)["engine-0"]
			if killed.State != Dead || !strings.HasPrefix(killed.Problem, "killed by signal 9 at 20") {
				t.Errorf("after the kill: %+v", killed)
			}
			if err := a.Kill(t.Context(), "engine-0"); err == nil || !strings.Contains(err.Error(), "not running") {
				t.Errorf("a second kill: %v", err)
			}
			act(a.Start(t.Context(), "engine-0"))
			again := statusByName(t, a)["engine-0"]
			if again.State != Ready || again.PID == killed.PID || again.Run == killed.Run || again.Telemetry != killed.Telemetry {
				t.Errorf("started again: %+v; it was %+v", again, killed)
			}
			if err := a.Start(t.Context(), "engine-0"); err == nil || !strings.Contains(err.Error(), "already running") {
				t.Errorf("a start of a running engine: %v", err)
			}

			act(a.Freeze(t.Context(), Producer))
			eventually(t, "the producer is frozen", func() bool { return statusByName(t, a)[Producer].State == Frozen })
			act(a.Thaw(t.Context(), Producer))
			eventually(t, "the producer is ready", func() bool { return statusByName(t, a)[Producer].State == Ready })

			act(a.AddEngine(t.Context()))
			if s := statusByName(t, a)["engine-1"]; s.State != Ready {
				t.Errorf("the added engine: %+v", s)
			}
			for name, want := range map[string]string{"engine-7": "no process", Room: "itself"} {
				if err := a.Kill(t.Context(), name); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("kill %s: %v; want %q", name, err, want)
				}
			}
			post(t, "http://"+first[Producer].Telemetry+"/exit")
			eventually(t, "the producer's exit is seen", func() bool {
				return strings.HasPrefix(statusByName(t, a)[Producer].Problem, "exited with code 7 at 20")
			})
			if owner == nil {
				return
			}
			if crashes := owner.Crashes(); len(crashes) != 1 || crashes[0].Name != Producer {
				t.Errorf("what the room did counts as a crash: %+v", crashes)
			}
			stranger := control{Address: owner.control.Address, Token: "guessed"}
			if err := stranger.ask(t.Context(), actKill, "engine-0"); err == nil || !strings.Contains(err.Error(), "token") {
				t.Errorf("an act without the token: %v", err)
			}
			if err := owner.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			if s := statusOrNone(t, a); s != nil {
				t.Errorf("after the stop: %+v", s)
			}
		})
	}
}

func statusOrNone(t *testing.T, a *Attached) []Status {
	all, err := a.Status(t.Context())
	if err != ErrNotRunning {
		t.Errorf("got %v; want %v", err, ErrNotRunning)
	}
	return all
}

// TestUpRightAfterAKill: to free its memory a killed ledger takes a moment. It must not look ready.
func TestUpRightAfterAKill(t *testing.T) {
	config := standIns(t)
	config.Env = map[string][]string{TigerBeetle: {"STAND_IN_MEGABYTES=512"}}
	t.Cleanup(func() { _ = Down(context.Background(), config.Dir) })
	if err := Up(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	a := Attach(config.Dir)
	for _, all := range []bool{false, true} {
		for range 3 {
			before := statusByName(t, a)
			for name, s := range before {
				if all || name == TigerBeetle {
					if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := Up(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			for name, s := range statusByName(t, a) {
				if s.State != Ready || (s.PID == before[name].PID) == (all || name == TigerBeetle) {
					t.Errorf("after up %+v; before the kill %+v", s, before[name])
				}
			}
		}
	}
}
