package stack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/liquida/liquida/deploy/tigerbeetle"
	"github.com/liquida/liquida/platform/kit"
	"github.com/twmb/franz-go/pkg/kfake"
)

// TestMain lets the test's own binary stand in for every program of the stack: called by
// the name of one, it keeps that program's contract with the stack and nothing else.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == Supervisor {
		if err := Supervise(os.Args[2]); err != nil {
			panic(err)
		}

		return
	}

	switch filepath.Base(os.Args[0]) {
	case TigerBeetle:
		standInLedger()
	case Broker:
		standInBroker()
	case Bootstrap:
		fmt.Println("bootstrapped")
	case Producer, Simulator, Engine:
		standInService()
	case "loadtest":
		if os.Args[1] == Room {
			os.Exit(serveAt(os.Getenv("ROOM_ADDRESS"), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
		}
	default:
		os.Exit(m.Run())
	}
}

func serveAt(address string, handler http.Handler) (code int) {
	fmt.Println(http.ListenAndServe(address, handler))
	return 1
}

func standInLedger() {
	switch os.Args[1] {
	case "version":
		fmt.Println("TigerBeetle version " + tigerbeetle.Version)
	case "format":
		if err := os.WriteFile(os.Args[len(os.Args)-1], nil, 0o644); err != nil {
			panic(err)
		}
	case "start":
		megabytes, _ := strconv.Atoi(os.Getenv("STAND_IN_MEGABYTES"))

		memory := make([]byte, megabytes<<20)
		for i := 0; i < len(memory); i += os.Getpagesize() {
			memory[i] = 1
		}
		fmt.Println(os.Args[1:], "transition_to_normal")

		select {}
	}
}

func standInBroker() {
	_, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ListenFn(func(network, _ string) (net.Listener, error) {
		return net.Listen(network, os.Getenv("BROKER_ADDRESS"))
	}))
	if err != nil {
		panic(err)
	}
	// The broker's data folder holds something, for the tests to see that it stays.
	if err := os.MkdirAll(os.Getenv("BROKER_DATA_DIR"), 0o755); err != nil {
		panic(err)
	}

	select {}
}

// standInService serves readiness, and obeys POST /exit and POST /unready.
func standInService() {
	if wrong := os.Getenv("STAND_IN_FAILS"); wrong != "" {
		fmt.Println(wrong)
		os.Exit(1)
	}

	var unready atomic.Bool
	unready.Store(os.Getenv("STAND_IN_NEVER_READY") != "")
	http.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if unready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"problems": map[string]string{"ledger": "not reached yet"}})
	})
	http.HandleFunc("POST /exit", func(http.ResponseWriter, *http.Request) { os.Exit(7) })
	http.HandleFunc("POST /unready", func(http.ResponseWriter, *http.Request) { unready.Store(true) })

	if err := http.ListenAndServe(os.Getenv("TELEMETRY_ADDRESS"), nil); err != nil {
		panic(err)
	}
}

// standIns returns a configuration whose programs are all stand-ins.
func standIns(t *testing.T) Config {
	t.Helper()
	bin := t.TempDir()
	t.Setenv("TMPDIR", bin) // stand-ins take no memory: they need not wait for the servers of other tests

	for _, name := range []string{TigerBeetle, Broker, Bootstrap, Producer, Simulator, Engine, "loadtest"} {
		kit.Must(t, os.Symlink(os.Args[0], filepath.Join(bin, name)))
	}

	return Config{
		Dir: filepath.Join(t.TempDir(), "stack"), BinDir: bin, TigerBeetleBin: filepath.Join(bin, TigerBeetle),
		Ports: FreePorts, Progress: t.Output(),
	}
}

func started(t *testing.T, config Config) *Stack {
	t.Helper()
	s, err := Start(t.Context(), config)
	kit.Must(t, err)
	t.Cleanup(func() { _ = s.Stop(context.Background()) })

	return s
}

func post(t *testing.T, url string) {
	t.Helper()

	if response, err := http.Post(url, "", nil); err == nil { // POST /exit answers nothing
		response.Body.Close()
	}
}

func anyAlive(pids []int) bool {
	return slices.ContainsFunc(pids, func(pid int) bool { return syscall.Kill(pid, 0) == nil })
}

// The kernel holds a killed server's data file for a while. The next server starts after that.
func TestTheLedgerStartsWhenItsDataFileIsReleased(t *testing.T) {
	s := started(t, standIns(t))
	kit.Must(t, s.Kill(TigerBeetle))
	file, err := os.Open(tigerbeetle.DataFile(s.ledgerFolder(), 0))
	kit.Must(t, err)
	kit.Must(t, syscall.Flock(int(file.Fd()), syscall.LOCK_EX))
	var released atomic.Bool
	time.AfterFunc(300*time.Millisecond, func() { released.Store(true); file.Close() })

	if err := s.StartProcess(TigerBeetle); err != nil || !released.Load() {
		t.Errorf("started while the data file was held: %v, %v", !released.Load(), err)
	}
}

// TestFailedStart: the error says why, and nothing is left.
func TestFailedStart(t *testing.T) {
	for name, c := range map[string]struct {
		process, env string
		says         []string
	}{
		"no such process": {"enginee", "A=b", []string{`--env names the process "enginee": it must be one of tigerbeetle`}},
		"it ends": {"", "STAND_IN_FAILS=KAFKA_BROKERS is wrong",
			[]string{"engine-0", "exit status 1", "KAFKA_BROKERS is wrong"}},
		"it never is": {"", "STAND_IN_NEVER_READY=1",
			[]string{"engine-0", "not ready within", "ledger: not reached yet"}},
		"no environment": {"", "ENGINE_DEADLINE", []string{"clearing-engine:ENGINE_DEADLINE", "NAME=value"}},
	} {
		t.Run(name, func(t *testing.T) {
			config := standIns(t)
			// a busy machine takes seconds to start a program that then says why it is not ready
			config.ReadyWithin = 10 * time.Second
			config.Env = map[string][]string{cmp.Or(c.process, Engine): {c.env}}
			_, err := Start(t.Context(), config)
			kit.Says(t, err, c.says...)
			again := config
			again.Env = nil
			again.ReadyWithin = 0
			started(t, again) // it fails if anything held the folder
		})
	}
}

func TestFixedPortTaken(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:3001")
	if err == nil { // else someone else has taken it, which serves as well
		defer listener.Close()
	}
	config := standIns(t)
	config.Ports = FixedPorts
	_, err = Start(t.Context(), config)
	kit.Says(t, err, "3001", "tigerbeetle", "in use")
}

func TestBackground(t *testing.T) {
	config := standIns(t)
	dir := config.Dir
	ctx := t.Context()
	t.Cleanup(func() { _ = Down(context.Background(), dir) })

	if _, err := Attach(dir).Status(ctx); !errors.Is(err, ErrNotRunning) {
		t.Fatalf("status before up: %v", err)
	}
	config.Cuts = true
	kit.Must(t, Up(ctx, config))
	config.Cuts = false // what nobody says stays: the links, too
	status := func() map[string]Status {
		t.Helper()
		return statusByName(t, Attach(dir))
	}

	first := status()
	if len(first) != 5 {
		t.Fatalf("up started %v", first)
	}

	for _, s := range first {
		if s.Problem != "" {
			t.Errorf("%s is not ready after up: %s", s.Name, s.Problem)
		}
	}
	kit.Says(t, kit.ErrorOf(Start(ctx, config)), "in use") // a foreground stack in the same folder
	kit.Says(t, Clean(dir), "in use")                      // clean of a running stack

	// Up again starts what is missing and leaves the rest alone.
	kit.Must(t, syscall.Kill(first["engine-0"].PID, syscall.SIGKILL))
	kit.Eventually(t, "status sees the killed engine", func() bool { return status()["engine-0"].Problem != "" })
	kit.Must(t, Up(ctx, config))

	second := status()
	for name, s := range second {
		if s.Problem != "" || (s.PID == first[name].PID) != (name != "engine-0") ||
			s.Telemetry != first[name].Telemetry {
			t.Errorf("%s was %+v and is %+v", name, first[name], s)
		}
	}

	// Settings that change restart what has them. They stay for the next call.
	changing := config
	changing.Env = map[string][]string{"engine-0": {"ENGINE_DEADLINE=9s"}}

	for _, restarts := range []bool{true, false} {
		kit.Must(t, Up(ctx, changing))

		third := status()
		for name, s := range third {
			if s.Problem != "" || (s.PID != second[name].PID) != (restarts && name == "engine-0") {
				t.Errorf("%s was %+v and is %+v", name, second[name], s)
			}
		}

		second, changing.Env = third, nil
	}

	// Another kind of data is refused while it runs, and after.
	other := config
	other.KafkaSecured = true
	kit.Says(t, Up(ctx, other), "down", "the embedded Kafka:")

	// A call that fails leaves all else as it is.
	kit.Must(t, syscall.Kill(second[Producer].PID, syscall.SIGKILL))
	kit.Eventually(t, "status sees the killed producer", func() bool { return status()[Producer].Problem != "" })
	failing := config

	failing.Env = map[string][]string{Producer: {"STAND_IN_FAILS=no"}, "engine-0": {"ENGINE_DEADLINE=9s"}}
	if err := Up(ctx, failing); err == nil {
		t.Error("up with a failing producer succeeded")
	}

	if failed := status()[Producer]; !strings.HasPrefix(failed.Problem, "exited with code 1 at ") ||
		!strings.HasSuffix(failed.Problem, "; it said last: no") {
		t.Errorf("status says %q", failed.Problem)
	}

	config.Env = map[string][]string{"engine-0": {"ENGINE_DEADLINE=9s"}} // the producer's goes
	if err := Up(ctx, config); err != nil {
		t.Errorf("after up with a failing producer: %v", err)
	}

	if s := status()["engine-0"]; s.Problem != "" || s.PID != second["engine-0"].PID {
		t.Errorf("a failed up has touched the engine: %+v", s)
	}

	kit.Must(t, Down(ctx, dir))

	for _, s := range second {
		if anyAlive([]int{s.PID}) {
			t.Errorf("%s is left after down", s.Name)
		}
	}

	if err := Down(ctx, dir); !errors.Is(err, ErrNotRunning) {
		t.Errorf("a second down: %v", err)
	}
	kit.Says(t, Up(ctx, other), "clean", "the embedded Kafka:")

	if _, err := os.Stat(filepath.Join(dir, "data", "kafka")); err != nil {
		t.Errorf("the data did not survive down: %v", err)
	}

	// No process outlives the one that runs the stack.
	kit.Must(t, Up(ctx, config))

	var children []int
	for _, s := range status() {
		children = append(children, s.PID)
	}
	parent, err := exec.Command("ps", "-o", "ppid=", "-p", fmt.Sprint(children[0])).Output()
	kit.Must(t, err)
	supervisor, err := strconv.Atoi(strings.TrimSpace(string(parent)))
	kit.Must(t, err)
	kit.Must(t, syscall.Kill(supervisor, syscall.SIGKILL))
	kit.Eventually(t, "all children have died with the parent", func() bool { return !anyAlive(children) })

	kit.Must(t, Clean(dir))

	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("clean left %s: %v", dir, err)
	}
}
