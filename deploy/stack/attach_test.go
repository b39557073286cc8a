package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/stream"
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

// TestAttached acts on a background stack that another program started, and on a foreground one.
func TestAttached(t *testing.T) {
	for _, where := range []string{"background", "foreground"} {
		t.Run(where, func(t *testing.T) {
			config := standIns(t)
			config.Room = true
			var owner *Stack
			if where == "background" {
				t.Cleanup(func() { _ = Down(context.Background(), config.Dir) })
				kit.Must(t, Up(t.Context(), config))
			} else {
				owner = started(t, config)
			}
			a := Attach(config.Dir)
			kit.Eventually(t, "the room is ready", func() bool { return statusByName(t, a)[Room].State == Ready })
			first := statusByName(t, a)
			for name, s := range first {
				if s.State != Ready || s.Optional != (name == Room) || s.MemoryBytes < 1<<20 {
					t.Errorf("after the start: %+v", s)
				}
			}
			if !first["engine-0"].IsEngine || first[Producer].IsEngine {
				t.Error("the engine is not told from the producer")
			}

			kit.Must(t, a.Kill(t.Context(), "engine-0"))
			killed := statusByName(t, a)["engine-0"]
			kit.Await(t, "how the engine ended", func() (bool, string) {
				killed = statusByName(t, a)["engine-0"]
				return killed.State == Dead && strings.HasPrefix(killed.Problem, "killed by signal 9 at 20"), fmt.Sprintf("%+v", killed)
			})
			kit.Says(t, a.Kill(t.Context(), "engine-0"), "not running") // a second kill
			kit.Must(t, a.Start(t.Context(), "engine-0"))
			again := statusByName(t, a)["engine-0"]
			if again.State != Ready || again.PID == killed.PID || again.Run == killed.Run || again.Telemetry != killed.Telemetry {
				t.Errorf("started again: %+v; it was %+v", again, killed)
			}
			kit.Says(t, a.Start(t.Context(), "engine-0"), "already running") // a start of a running engine

			kit.Must(t, a.Freeze(t.Context(), Producer))
			kit.Eventually(t, "the producer is frozen", func() bool { return statusByName(t, a)[Producer].State == Frozen })
			kit.Must(t, a.Thaw(t.Context(), Producer))
			kit.Eventually(t, "the producer is ready", func() bool { return statusByName(t, a)[Producer].State == Ready })

			post(t, "http://"+first[Simulator].Telemetry+"/unready")
			if s := statusByName(t, a)[Simulator]; s.State != NotReady || s.Problem != "ledger: not reached yet" {
				t.Errorf("a simulator that was ready is %+v", s)
			}
			kit.Must(t, a.AddEngine(t.Context()))
			if s := statusByName(t, a)["engine-1"]; s.State != Ready {
				t.Errorf("the added engine: %+v", s)
			}
			for name, want := range map[string]string{"engine-7": "no process", Room: "itself"} {
				kit.Says(t, a.Kill(t.Context(), name), want)
			}
			post(t, "http://"+first[Producer].Telemetry+"/exit")
			kit.Eventually(t, "the producer's exit is seen", func() bool {
				return strings.HasPrefix(statusByName(t, a)[Producer].Problem, "exited with code 7 at 20")
			})
			if owner == nil {
				return
			}
			kit.Eventually(t, "the exit counts as a crash", func() bool { return len(owner.Crashes()) > 0 }) // it is seen a moment before
			if crashes := owner.Crashes(); len(crashes) != 1 || crashes[0].Name != Producer {
				t.Errorf("what the room did counts as a crash: %+v", crashes)
			}
			if socket, err := os.Stat(socketIn(config.Dir)); err != nil || socket.Mode().Perm() != 0o600 {
				t.Errorf("others may give orders: %v, %v", socket.Mode(), err)
			}
			kit.Says(t, Down(t.Context(), config.Dir), "end that") // it is not in the background
			if err := owner.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := a.Status(t.Context()); !errors.Is(err, ErrNotRunning) {
				t.Errorf("after the stop: %v", err)
			}
		})
	}
}

// TestCuts cuts an engine from the broker, in a stack whose engines and producer have links.
func TestCuts(t *testing.T) {
	config := standIns(t)
	config.Cuts = true
	t.Cleanup(func() { _ = Down(context.Background(), config.Dir) })
	kit.Must(t, Up(t.Context(), config))
	a := Attach(config.Dir)
	kit.Must(t, a.AddEngine(t.Context()))
	// reaches asks the broker as a process does.
	reaches := func(process string) error {
		environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", statusByName(t, a)[process].PID))
		kit.Must(t, err)
		_, brokers, _ := strings.Cut(string(environment), "KAFKA_BROKERS=")
		brokers, _, _ = strings.Cut(brokers, "\x00")
		if direct := statusByName(t, a)[Broker].Address; (brokers == direct) != (process == Simulator) {
			t.Errorf("%s reaches the broker at %s, which is at %s", process, brokers, direct)
		}
		client, err := stream.Config{Brokers: []string{brokers}}.Client()
		if err != nil {
			return err
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		return stream.Reach(ctx, client)
	}
	expect := func(cut []string, reach map[string]bool) {
		t.Helper()
		for process, want := range reach {
			if err := reaches(process); (err == nil) != want {
				t.Errorf("%s reaches the broker: %v; want %t", process, err, want)
			}
		}
		all := statusByName(t, a)
		if !all["engine-1"].Cuttable || all[Simulator].Cuttable {
			t.Errorf("engine-1 can be cut: %t; the simulator: %t", all["engine-1"].Cuttable, all[Simulator].Cuttable)
		}
		if got := all["engine-1"].Cut; !slices.Equal(got, cut) || len(all["engine-0"].Cut) > 0 {
			t.Errorf("engine-1 is cut from %v; want %v; engine-0 from %v", got, cut, all["engine-0"].Cut)
		}
	}
	expect(nil, map[string]bool{"engine-0": true, "engine-1": true, Producer: true, Simulator: true})
	kit.Must(t, a.Cut(t.Context(), "engine-1", FromBroker))
	kit.Must(t, a.Cut(t.Context(), "engine-1", FromLedger))
	post(t, "http://"+statusByName(t, a)["engine-1"].Telemetry+"/unready")
	if s := statusByName(t, a)["engine-1"]; s.State != NotReady || s.Problem != "its connections are cut (links): broker, ledger" {
		t.Errorf("cut from all, engine-1 is %+v", s)
	}
	expect([]string{FromBroker, FromLedger}, map[string]bool{"engine-0": true, "engine-1": false, Producer: true})
	kit.Must(t, a.Mend(t.Context(), "engine-1", FromBroker))
	expect([]string{FromLedger}, map[string]bool{"engine-1": true})

	kit.Must(t, a.Mend(t.Context(), "engine-1", FromLedger))
	expect(nil, map[string]bool{"engine-1": true})
	for _, process := range []string{Simulator, "engine-7"} {
		kit.Says(t, a.Cut(t.Context(), process, FromBroker), "has no links")
	}
	kit.Says(t, a.Cut(t.Context(), "engine-0", "moon"), "moon") // cut from the moon
	config.KafkaSecured = true
	kit.Says(t, Up(t.Context(), config), "TLS") // links to a secured Kafka
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
		for range 3 {
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
}
