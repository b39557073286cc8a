package docker

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/platform/kit"
)

// There is no Docker here. The tests put a program called docker first in PATH: this test binary, which
// keeps a few containers in a file and answers as docker and docker compose do.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "docker" {
		if err := pretend(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// pretended is the state of the pretended daemon.
type pretended struct {
	Containers []pretendedContainer
	Calls      []string
	Sick       int // health checks that fail before one passes
}

type pretendedContainer struct {
	ID, Service, Name, State, Policy string
	ExitCode                         int
	Runs                             int
	Ready                            bool // it has the health check of our programs
}

const stateFile = "PRETENDED_DOCKER"

func readState() (s pretended, err error) {
	text, err := os.ReadFile(os.Getenv(stateFile))
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	return s, err
}

func (s *pretended) write() error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	file := os.Getenv(stateFile)
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

func (s *pretended) container(id string) (*pretendedContainer, error) {
	for i := range s.Containers {
		if c := &s.Containers[i]; len(id) >= 12 && strings.HasPrefix(c.ID, id) {
			return c, nil
		}
	}
	return nil, fmt.Errorf("Error: No such object: %s", id)
}

func pretend(arguments []string) error {
	s, err := readState()
	if err != nil {
		return err
	}
	s.Calls = append(s.Calls, strings.Join(arguments, " "))
	if err := s.write(); err != nil {
		return err
	}
	from := func(want string, next pretendedContainer) error {
		c, err := s.container(arguments[len(arguments)-1])
		if err != nil {
			return err
		}
		if c.State != want {
			return fmt.Errorf("Error response from daemon: container %s is not %s", c.ID, want)
		}
		c.State, c.ExitCode = next.State, next.ExitCode
		c.Runs += next.Runs
		return s.write()
	}
	switch call := strings.Join(arguments, " "); {
	case call == "compose ps --all --format json":
		var lines []string
		for _, c := range s.Containers {
			health := ""
			if c.State == "running" && c.Ready {
				health = "healthy"
				if c.Runs > 1 {
					health = "starting" // its own check runs seldom
				}
			}
			lines = append(lines, fmt.Sprintf(`{"ID":%q,"Name":%q,"Service":%q,"State":%q,"Health":%q,"ExitCode":%d,"Publishers":null}`, c.ID[:12], c.Name, c.Service, c.State, health, c.ExitCode))
		}
		fmt.Println(strings.Join(lines, "\n"))
	case strings.HasPrefix(call, "compose create --no-recreate --no-build --pull never --scale "+stack.Engine+"=3 "):
		s.Containers = append(s.Containers, pretendedContainer{ID: strings.Repeat("e3", 32), Service: stack.Engine, Name: "liquida-clearing-engine-3", State: "created", Policy: "unless-stopped", Ready: true})
		return s.write()
	case arguments[0] == "inspect":
		var all []string
		for _, id := range arguments[1:] {
			c, err := s.container(id)
			if err != nil {
				return err
			}
			test, address := "null", ""
			if c.Ready {
				test = `{"Test":["CMD","ready","http://127.0.0.1:9100/readyz"]}`
			}
			if c.State == "running" || c.State == "paused" {
				address = fmt.Sprintf("172.28.86.%d", 100+c.Runs)
			}
			all = append(all, fmt.Sprintf(`{"Id":%q,"Name":%q,"State":{"Running":%t,"Paused":%t,"Pid":%d,"StartedAt":"2026-11-23T12:00:0%d.5Z","FinishedAt":"2026-11-23T12:00:00Z"},
				"HostConfig":{"RestartPolicy":{"Name":%q}},"Config":{"Image":"liquida:local","Labels":{"com.docker.compose.service":%q},"Healthcheck":%s},
				"NetworkSettings":{"Ports":{"19092/tcp":[{"HostIp":"127.0.0.1","HostPort":"19092"}],"3001/tcp":[{"HostIp":"127.0.0.1","HostPort":"3001"}]},"Networks":{"other":{"IPAddress":""},"kafka":{"IPAddress":%q}}}}`,
				c.ID, "/"+c.Name, c.State == "running", c.State == "paused", os.Getppid(), c.Runs, c.Policy, c.Service, test, address))
		}
		fmt.Printf("[%s]\n", strings.Join(all, ","))
	case strings.HasPrefix(call, "kill --signal KILL "):
		return from("running", pretendedContainer{State: "exited", ExitCode: 137})
	case arguments[0] == "stop":
		return from("running", pretendedContainer{State: "exited"})
	case arguments[0] == "rm":
		s.Containers = slices.DeleteFunc(s.Containers, func(c pretendedContainer) bool { return c.ID == arguments[1] && c.State == "exited" })
		return s.write()
	case arguments[0] == "pause":
		return from("running", pretendedContainer{State: "paused"})
	case arguments[0] == "unpause":
		return from("paused", pretendedContainer{State: "running"})
	case arguments[0] == "start":
		c, err := s.container(arguments[1])
		if err != nil {
			return err
		}
		return from(c.State, pretendedContainer{State: "running", Runs: 1})
	case arguments[0] == "exec":
		if strings.Join(arguments[2:], " ") != "ready http://127.0.0.1:9100/readyz" {
			return fmt.Errorf("no such check: %s", call)
		}
		if s.Sick > 0 {
			s.Sick--
			_ = s.write()
			return fmt.Errorf("ready: 503")
		}
	default:
		return fmt.Errorf("unknown call: %s", call)
	}
	return nil
}

// pretendDocker starts from a clearing house with two engines.
func pretendDocker(t *testing.T) *pretended {
	dir := t.TempDir()
	kit.Must(t, os.Symlink(os.Args[0], filepath.Join(dir, "docker")))
	t.Setenv("PATH", dir)
	t.Setenv(stateFile, filepath.Join(dir, "state"))
	s := &pretended{}
	for i, service := range []string{"clearing-engine", "clearing-engine", "redpanda", "tigerbeetle", "bank-simulator", "producer", "bootstrap", "prometheus"} {
		c := pretendedContainer{
			ID: strings.Repeat(fmt.Sprintf("%x%x", i+1, i+1), 32), Service: service, Name: fmt.Sprintf("liquida-%s-%d", service, i+1), State: "running", Policy: "unless-stopped", Runs: 1,
			Ready: strings.Contains("clearing-engine bank-simulator producer", service),
		}
		if service == "bootstrap" {
			c.State, c.Policy = "exited", "on-failure"
		}
		s.Containers = append(s.Containers, c)
	}
	kit.Must(t, s.write())
	return s
}

// TestAttached acts on containers as the control room does.
func TestAttached(t *testing.T) {
	pretendDocker(t)
	a, err := Attach(t.Context())
	kit.Must(t, err)
	status := func(name string) stack.Status {
		t.Helper()
		all, err := a.Status(t.Context())
		kit.Must(t, err)
		for _, one := range all {
			if one.Name == name {
				return one
			}
		}
		t.Fatalf("no %s in %+v", name, all)
		return stack.Status{}
	}
	all, err := a.Status(t.Context())
	kit.Must(t, err)
	var names []string
	for _, one := range all {
		names = append(names, one.Name)
		if one.State != stack.Ready || one.Optional != (one.Name == "prometheus") {
			t.Errorf("at the start %+v", one)
		}
	}
	if want := []string{"tigerbeetle", stack.Broker, "bank-simulator", "liquida-clearing-engine-1", "liquida-clearing-engine-2", "producer", "prometheus"}; !slices.Equal(names, want) {
		t.Errorf("the processes are %q, but they must be %q", names, want)
	}
	const engine = "liquida-clearing-engine-1"
	first := status(engine)
	if !first.IsEngine || first.Instance != "111111111111" || first.Telemetry != "172.28.86.101:9100" || first.PID != os.Getpid() || first.MemoryBytes == 0 || status("prometheus").Telemetry != "" {
		t.Errorf("the engine is %+v", first)
	}

	kit.Must(t, a.Kill(t.Context(), engine))
	if killed := status(engine); killed.State != stack.Dead || killed.Problem != "killed by signal 9 at 2026-11-23 12:00:00 UTC" || killed.MemoryBytes != 0 {
		t.Errorf("after the kill %+v", killed)
	}
	kit.Says(t, a.Kill(t.Context(), engine), "not running") // a second kill
	s2, err := readState()
	kit.Must(t, err)
	s2.Sick = 2
	kit.Must(t, s2.write())
	kit.Must(t, a.Start(t.Context(), engine))
	again := status(engine)
	if again.State != stack.Ready || again.Run == first.Run || again.Telemetry == first.Telemetry {
		t.Errorf("started again it is %+v; it was %+v", again, first)
	}

	kit.Must(t, a.Freeze(t.Context(), stack.Producer))
	if frozen := status(stack.Producer); frozen.State != stack.Frozen {
		t.Errorf("paused it is %+v", frozen)
	}
	kit.Must(t, a.Thaw(t.Context(), stack.Producer))
	if thawed := status(stack.Producer); thawed.State != stack.Ready {
		t.Errorf("continued it is %+v", thawed)
	}

	kit.Must(t, a.AddEngine(t.Context()))
	if added := status("liquida-clearing-engine-3"); added.State != stack.Ready || !added.IsEngine {
		t.Errorf("the added engine is %+v", added)
	}
	kit.Must(t, a.Stop(t.Context(), "liquida-clearing-engine-3"))
	kit.Must(t, a.Remove(t.Context(), "liquida-clearing-engine-3"))
	if left, err := a.Engines(t.Context()); err != nil || len(left) != 2 {
		t.Errorf("the engines that are left are %q: %v", left, err)
	}
	for name, err := range map[string]error{"no process": a.Kill(t.Context(), "bootstrap"), "make up CUTS=on": a.Cut(t.Context(), engine, stack.FromBroker)} {
		kit.Says(t, err, name)
	}
	if at, err := a.Published(t.Context(), stack.Broker, KafkaPort); err != nil || at != "127.0.0.1:19092" {
		t.Errorf("the broker is at %q: %v", at, err)
	}
	if at, err := a.LedgerAddresses(t.Context()); err != nil || !slices.Equal(at, []string{"127.0.0.1:3001"}) {
		t.Errorf("the ledger is at %q: %v", at, err)
	}
	done, err := readState()
	kit.Must(t, err)
	for _, call := range []string{"kill --signal KILL " + strings.Repeat("1", 64), "start " + strings.Repeat("1", 64), "pause " + strings.Repeat("6", 64), "start " + strings.Repeat("e3", 32)} {
		if !slices.Contains(done.Calls, call) {
			t.Errorf("docker was not called with %q", call)
		}
	}
}

// TestAttachSaysWhatIsMissing covers a machine without docker, and one whose stack is not up.
func TestAttachSaysWhatIsMissing(t *testing.T) {
	s := pretendDocker(t)
	s.Containers = s.Containers[:3]
	kit.Must(t, s.write())
	_, err := Attach(t.Context())
	kit.Says(t, err, "no tigerbeetle: start it first")
	t.Setenv("PATH", t.TempDir())
	_, err = Attach(t.Context())
	kit.Says(t, err, `"docker": executable file not found`)
}

func TestStates(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		as    listed
		state stack.State
		says  string
	}{
		{listed{State: "running"}, stack.Ready, ""},
		{listed{State: "running", Health: "unhealthy"}, stack.NotReady, "its health check: unhealthy"},
		{listed{State: "restarting", ExitCode: 2}, stack.Starting, "exit with code 2"},
		{listed{State: "exited", ExitCode: 1}, stack.Dead, "exited with code 1 at 2026-11-23 12:00:00 UTC"},
		{listed{State: "dead", ExitCode: 137}, stack.Dead, "killed by signal 9"},
		{listed{State: "created"}, stack.Dead, "never started"},
	} {
		l := looked{Container: &Container{}, as: c.as}
		l.State.FinishedAt = at
		if state, says := l.state(); state != c.state || !strings.Contains(says, c.says) {
			t.Errorf("%+v is %s, %q", c.as, state, says)
		}
	}
}
