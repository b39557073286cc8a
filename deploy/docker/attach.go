package docker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/platform/host"
)

// Attached is a clearing house in containers. It is what stack.Attached is of a local stack.
type Attached struct {
	mu      sync.Mutex
	looked  map[string]looked // by id
	healthy map[string]string // by id: the run whose health check passed
}

// looked is a container, and how it was listed when it was inspected.
type looked struct {
	*Container
	as listed
	at time.Time
}

// listed is a line of docker compose ps.
type listed struct {
	ID       string
	State    string // running, paused, restarting, exited, created, dead
	Health   string // healthy, unhealthy, starting; empty without a health check
	ExitCode int
}

const (
	// inspectEvery is how old what is known of a container may be: it may start again between two looks.
	inspectEvery = 10 * time.Second
	// readyWithin bounds the wait for a started container.
	readyWithin = 90 * time.Second
)

// Attach finds the running stack as docker compose does: by the compose file in this folder, or
// COMPOSE_FILE.
func Attach(ctx context.Context) (*Attached, error) {
	a := &Attached{looked: map[string]looked{}, healthy: map[string]string{}}
	all, err := a.look(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot list the compose stack (run this in its folder, or name its files in COMPOSE_FILE): %w", err)
	}
	for _, name := range []string{stack.Broker, stack.TigerBeetle, stack.Producer, stack.Simulator} {
		if !slices.ContainsFunc(all, func(l looked) bool {
			return l.Process() == name || name == stack.TigerBeetle && l.IsReplica()
		}) {
			return nil, fmt.Errorf("the compose stack has no %s: start it first (docker compose up -d --wait)", name)
		}
	}
	return a, nil
}

// look returns the containers that are to run, in the order of names.
func (a *Attached) look(ctx context.Context) ([]looked, error) {
	text, err := Run(ctx, "compose", "ps", "--all", "--format", "json")
	if err != nil {
		return nil, err
	}
	all, err := parseListed(text)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	var ids []string
	for _, l := range all {
		if known, ok := a.looked[l.ID]; !ok || known.as != l || now.Sub(known.at) > inspectEvery {
			ids = append(ids, l.ID)
		}
	}
	if len(ids) > 0 {
		inspected, err := Inspect(ctx, ids...)
		if err != nil {
			return nil, err
		}
		for i, c := range inspected {
			at := slices.IndexFunc(all, func(l listed) bool { return l.ID == ids[i] })
			a.looked[ids[i]] = looked{c, all[at], now}
		}
	}
	var found []looked
	kept := map[string]looked{}
	for _, l := range all {
		kept[l.ID] = a.looked[l.ID]
		// Others do their work once and end, as bootstrap does.
		if policy := kept[l.ID].HostConfig.RestartPolicy.Name; policy == "unless-stopped" || policy == "always" {
			found = append(found, kept[l.ID])
		}
	}
	a.looked = kept
	slices.SortFunc(found, func(x, y looked) int {
		return cmp.Or(cmp.Compare(rank(x.Container), rank(y.Container)), cmp.Compare(x.Process(), y.Process()))
	})
	return found, nil
}

// parseListed reads what docker compose ps prints as JSON: an object in each line.
func parseListed(text string) (all []listed, err error) {
	for lines := json.NewDecoder(strings.NewReader(text)); lines.More(); {
		var l listed
		if err := lines.Decode(&l); err != nil {
			return nil, fmt.Errorf("cannot read docker compose ps: %w", err)
		}
		all = append(all, l)
	}
	return all, nil
}

// rank orders containers as a local stack starts its processes.
func rank(c *Container) int {
	switch {
	case c.IsReplica():
		return 0
	case c.Process() == stack.Broker:
		return 1
	case c.Process() == stack.Simulator:
		return 2
	case c.IsEngine():
		return 3
	case c.Process() == stack.Producer:
		return 4
	}
	return 5
}

// Status returns the containers that are to run.
func (a *Attached) Status(ctx context.Context) ([]stack.Status, error) {
	found, err := a.look(ctx)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make([]stack.Status, len(found))
	for i, l := range found {
		all[i] = stack.Status{Name: l.Process(), Instance: short(l.Container), Run: l.run(), IsEngine: l.IsEngine(), Optional: rank(l.Container) > 4}
		s := &all[i]
		s.State, s.Problem = l.state()
		if s.State != stack.Ready && a.healthy[l.ID] == l.run() && l.as.State == "running" {
			s.State, s.Problem = stack.Ready, ""
		}
		if s.State == stack.Dead {
			continue
		}
		s.PID = l.State.Pid
		s.MemoryBytes, s.CPU = stack.Usage(s.PID)
		if l.hasTelemetry() {
			s.Telemetry = l.Telemetry()
		}
	}
	return all, nil
}

// state returns what a container does, and why it is not ready.
func (l looked) state() (stack.State, string) {
	switch l.as.State {
	case "running":
		if l.as.Health == "" || l.as.Health == "healthy" {
			return stack.Ready, ""
		}
		if l.as.Health == "unhealthy" {
			return stack.NotReady, "its health check: unhealthy"
		}
		return stack.Starting, "its health check: " + l.as.Health
	case "paused":
		return stack.Frozen, "paused"
	case "restarting":
		return stack.Starting, fmt.Sprintf("it restarts after its exit with code %d", l.as.ExitCode)
	case "created":
		return stack.Dead, "never started"
	}
	at := l.State.FinishedAt.UTC().Format("2006-01-02 15:04:05 UTC")
	if l.as.ExitCode > 128 {
		return stack.Dead, fmt.Sprintf("killed by signal %d at %s", l.as.ExitCode-128, at)
	}
	return stack.Dead, fmt.Sprintf("exited with code %d at %s", l.as.ExitCode, at)
}

// run differs from that of any other run of the container.
func (c *Container) run() string { return c.ID + " " + c.State.StartedAt.String() }

// short is the id that the container's host name is.
func short(c *Container) string { return c.ID[:min(len(c.ID), 12)] }

// Container returns the container of a process.
func (a *Attached) Container(ctx context.Context, name string) (*Container, error) {
	found, err := a.look(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range found {
		if l.Process() == name {
			return l.Container, nil
		}
	}
	return nil, fmt.Errorf("the compose stack has no process %q", name)
}

func (a *Attached) do(ctx context.Context, name string, arguments ...string) error {
	c, err := a.Container(ctx, name)
	if err != nil {
		return err
	}
	if name == stack.Room {
		return errors.New("the room does not act on itself")
	}
	_, err = Run(ctx, append(arguments, c.ID)...)
	return err
}

// Kill ends a container with SIGKILL. Docker does not restart it.
func (a *Attached) Kill(ctx context.Context, name string) error {
	return a.do(ctx, name, "kill", "--signal", "KILL")
}

// Freeze pauses all processes of a container.
func (a *Attached) Freeze(ctx context.Context, name string) error { return a.do(ctx, name, "pause") }

// Thaw continues a frozen container.
func (a *Attached) Thaw(ctx context.Context, name string) error { return a.do(ctx, name, "unpause") }

// Stop stops a container in order. Docker does not restart it.
func (a *Attached) Stop(ctx context.Context, name string) error { return a.do(ctx, name, "stop") }

// Remove removes a container that has ended.
func (a *Attached) Remove(ctx context.Context, name string) error { return a.do(ctx, name, "rm") }

// Launch starts a container that has ended, and does not wait for it.
func (a *Attached) Launch(ctx context.Context, name string) error { return a.do(ctx, name, "start") }

// Start starts a container that has ended, and waits until it is ready.
func (a *Attached) Start(ctx context.Context, name string) error {
	if err := a.Launch(ctx, name); err != nil {
		return err
	}
	return a.WaitReady(ctx, name)
}

// WaitReady runs a container's own health check until it passes. Docker's own runs are rare.
func (a *Attached) WaitReady(ctx context.Context, name string) error {
	c, err := a.Container(ctx, name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin, fmt.Errorf("not healthy within %v", readyWithin))
	defer cancel()
	for c.Config.Healthcheck != nil {
		err := c.CheckHealth(ctx)
		if err == nil {
			break
		}
		if !host.Sleep(ctx, 200*time.Millisecond) {
			return fmt.Errorf("%s: %w: %w", c.Process(), context.Cause(ctx), err)
		}
	}
	started, err := Inspect(ctx, c.ID)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.healthy[started[0].ID] = started[0].run()
	a.looked = map[string]looked{} // to be inspected anew
	return nil
}

// AddEngine starts one more engine in a container of its own, and waits until it is ready. `up --scale`
// would also start those that are to stay down.
func (a *Attached) AddEngine(ctx context.Context) error {
	engines, err := a.Engines(ctx)
	if err != nil {
		return err
	}
	if _, err := Run(ctx, "compose", "create", "--no-recreate", "--no-build", "--pull", "never",
		"--scale", stack.Engine+"="+strconv.Itoa(len(engines)+1), stack.Engine); err != nil {
		return err
	}
	now, err := a.Engines(ctx)
	if err != nil {
		return err
	}
	for _, name := range now {
		if !slices.Contains(engines, name) {
			return a.Start(ctx, name)
		}
	}
	return fmt.Errorf("docker compose created no %s beside %s", stack.Engine, strings.Join(engines, ", "))
}

var errNoLinks = errors.New("containers have no links that can be cut: use make up CUTS=on")

// Cut refuses: containers have no links.
func (a *Attached) Cut(context.Context, string, string) error { return errNoLinks }

// Mend refuses: containers have no links.
func (a *Attached) Mend(context.Context, string, string) error { return errNoLinks }

// Published returns where this machine reaches a port of a process.
func (a *Attached) Published(ctx context.Context, name, port string) (string, error) {
	c, err := a.Container(ctx, name)
	if err != nil {
		return "", err
	}
	return c.Published(port), nil
}

// of returns something of each container of a kind.
func (a *Attached) of(ctx context.Context, kind func(*Container) bool, what func(*Container) string) (all []string, err error) {
	found, err := a.look(ctx)
	for _, l := range found {
		if kind(l.Container) {
			all = append(all, what(l.Container))
		}
	}
	return all, err
}

// Engines returns the names of the clearing engines.
func (a *Attached) Engines(ctx context.Context) ([]string, error) {
	return a.of(ctx, (*Container).IsEngine, (*Container).Process)
}

// Replicas returns the names of the ledger's containers.
func (a *Attached) Replicas(ctx context.Context) ([]string, error) {
	return a.of(ctx, (*Container).IsReplica, (*Container).Process)
}

// LedgerAddresses returns the published addresses of all replicas.
func (a *Attached) LedgerAddresses(ctx context.Context) ([]string, error) {
	return a.of(ctx, (*Container).IsReplica, func(c *Container) string { return c.Published(LedgerPort) })
}
