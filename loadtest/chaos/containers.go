package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/liquida/liquida/deploy/docker"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/stream"
)

// containers are a clearing house that `docker compose up` has started on this machine. It must be
// idle. After the run it is left running as it was.
type containers struct {
	attached *docker.Attached
	addresses
	stopWatching func()
	watched      chan struct{}
	adding       sync.Mutex
	added        []string // engines

	mu      sync.Mutex
	seen    map[string]stack.Status // by name, at the last look
	asked   map[string]bool         // by run: a fault ended it
	crashes []stack.Crash
}

// addresses are where this machine reaches the containers. They survive restarts.
type addresses struct {
	secrets                     string // folder with the password of Kafka's admin; Stop removes it
	kafka, producer, simulator  string
	ledger, replicas            []string
	brokerImage, engineDeadline string
}

// findContainers finds the running stack as docker compose does: by the compose file in this
// folder, or COMPOSE_FILE.
func findContainers(ctx context.Context) (_ *containers, err error) {
	c := &containers{asked: map[string]bool{}, watched: make(chan struct{})}
	if c.attached, err = docker.Attach(ctx); err != nil {
		return nil, err
	}
	if err := c.look(ctx); err != nil {
		return nil, err
	}
	for name, status := range c.seen {
		if status.State != stack.Ready && !status.Optional {
			return nil, fmt.Errorf("%s of the compose stack is not ready (%s): start it first (docker compose up -d --wait)", name, status.Problem)
		}
	}
	if len(c.Engines()) == 0 {
		return nil, errors.New("the compose stack has no clearing-engine: start it first (docker compose up -d --wait)")
	}
	if c.addresses, err = findAddresses(ctx, c.attached, c.Engines()[0]); err != nil {
		return nil, err
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stopWatching = stop
	go c.watch(watching)
	return c, nil
}

func findAddresses(ctx context.Context, attached *docker.Attached, engine string) (a addresses, err error) {
	found := map[string]*docker.Container{}
	for _, name := range []string{stack.Broker, stack.Producer, stack.Simulator, engine} {
		if found[name], err = attached.Container(ctx, name); err != nil {
			return a, err
		}
	}
	a.kafka, a.brokerImage = found[stack.Broker].Published(docker.KafkaPort), found[stack.Broker].Config.Image
	a.producer, a.simulator = found[stack.Producer].Published(docker.ProducerPort), found[stack.Simulator].Published(docker.SimulatorPort)
	a.engineDeadline = "40s" // the engine's own
	for _, entry := range found[engine].Config.Env {
		if value, set := strings.CutPrefix(entry, "ENGINE_DEADLINE="); set {
			a.engineDeadline = value
		}
	}
	if a.replicas, err = attached.Replicas(ctx); err != nil {
		return a, err
	}
	if a.ledger, err = attached.LedgerAddresses(ctx); err != nil {
		return a, err
	}
	if a.secrets, err = os.MkdirTemp("", "liquida-keys-"); err != nil {
		return a, err
	}
	if err := docker.CopyFromBootstrap(ctx, "/keys/kafka/admin", a.secrets); err != nil {
		return a, errors.Join(err, os.RemoveAll(a.secrets))
	}
	return a, nil
}

const lookEvery = time.Second

// watch looks for deaths that no fault caused.
func (c *containers) watch(ctx context.Context) {
	defer close(c.watched)
	for host.Sleep(ctx, lookEvery) {
		_ = c.look(ctx) // the next one sees more
	}
}

// look notes what the containers do. One that died may run again already.
func (c *containers) look(ctx context.Context) error {
	all, err := c.attached.Status(ctx)
	if err == nil {
		c.note(ctx, all)
	}
	return err
}

func (c *containers) note(ctx context.Context, all []stack.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := map[string]stack.Status{}
	for _, status := range all {
		before, known := c.seen[status.Name]
		died := status.State == stack.Dead && before.State != stack.Dead || status.Run != before.Run
		if known && died && !status.Optional && !c.asked[before.Run] {
			log, _ := docker.Run(ctx, "logs", "--tail", "15", status.Instance)
			c.crashes = append(c.crashes, stack.Crash{Name: status.Name, At: time.Now(), How: status.Problem, Log: log})
			c.asked[before.Run] = true
		}
		now[status.Name] = status
	}
	c.seen = now
}

// Kill ends a container with SIGKILL. Docker does not restart a killed container.
func (c *containers) Kill(name string) error {
	return c.end(context.Background(), name, c.attached.Kill)
}

// StopProcess stops a container in order.
func (c *containers) StopProcess(ctx context.Context, name string) error {
	return c.end(ctx, name, c.attached.Stop)
}

func (c *containers) end(ctx context.Context, name string, end func(context.Context, string) error) error {
	if err := c.look(ctx); err != nil { // which run it is
		return err
	}
	c.mu.Lock()
	c.asked[c.seen[name].Run] = true
	c.mu.Unlock()
	return end(ctx, name)
}

// StartProcess starts a container that a fault ended.
func (c *containers) StartProcess(name string) error {
	return c.attached.Launch(context.Background(), name)
}

// Pause freezes all processes of a container. SIGSTOP would freeze only the first, which may
// be an init process.
func (c *containers) Pause(name string) error { return c.attached.Freeze(context.Background(), name) }

// Resume continues a paused container.
func (c *containers) Resume(name string) error { return c.attached.Thaw(context.Background(), name) }

// WaitReady runs a container's own health check until it passes.
func (c *containers) WaitReady(ctx context.Context, name string) error {
	return c.attached.WaitReady(ctx, name)
}

// AddEngine starts one more engine in a container of its own, and waits for it.
func (c *containers) AddEngine(ctx context.Context) (string, error) {
	c.adding.Lock()
	defer c.adding.Unlock()
	before := c.Engines()
	if err := errors.Join(c.attached.AddEngine(ctx), c.look(ctx)); err != nil {
		return "", err
	}
	name := slices.DeleteFunc(c.Engines(), func(name string) bool { return slices.Contains(before, name) })[0]
	c.added = append(c.added, name)
	return name, nil
}

// Stop leaves the stack as it was found: it continues frozen containers, starts ended ones,
// and removes added engines.
func (c *containers) Stop(ctx context.Context) error {
	problems := []error{c.look(ctx)}
	c.stopWatching()
	<-c.watched
	for name, status := range c.seen {
		switch {
		case slices.Contains(c.added, name):
			problems = append(problems, c.StopProcess(ctx, name), c.attached.Remove(ctx, name))
		case status.State == stack.Frozen:
			problems = append(problems, c.Resume(name))
		case status.State == stack.Dead:
			problems = append(problems, c.StartProcess(name))
		}
	}
	return errors.Join(append(problems, os.RemoveAll(c.secrets))...)
}

// Crashes returns the deaths that no fault caused.
func (c *containers) Crashes() []stack.Crash {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.crashes)
}

// Engines returns the names of all engines.
func (c *containers) Engines() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := slices.Sorted(maps.Keys(c.seen))
	return slices.DeleteFunc(names, func(name string) bool { return !c.seen[name].IsEngine })
}

// instance is the name of an engine in its group.
func (c *containers) instance(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[name].Instance
}

// TelemetryURL is empty while the container does not run.
func (c *containers) TelemetryURL(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.seen[name].Telemetry; at != "" {
		return "http://" + at
	}
	return ""
}

// Replicas returns the names of the ledger's containers.
func (a *addresses) Replicas() []string { return a.replicas }
func (a *addresses) Brokers() []string  { return []string{stack.Broker} }

// Kafka is at the published address, which the broker also advertises there.
func (a *addresses) Kafka() stream.Config {
	return stream.Config{Brokers: []string{a.kafka}, SASLUser: stream.Admin, SASLPasswordFile: filepath.Join(a.secrets, "password")}
}

// TigerBeetleAddresses returns the published addresses of all replicas.
func (a *addresses) TigerBeetleAddresses() string { return strings.Join(a.ledger, ",") }

// ProducerURL is where payments are posted.
func (a *addresses) ProducerURL() string { return "http://" + a.producer }

// SimulatorURL is where the banks' profiles are set.
func (a *addresses) SimulatorURL() string { return "http://" + a.simulator }

// Keys returns the API keys, from where bootstrap wrote them.
func (a *addresses) Keys() (map[string]string, error) {
	folder, err := os.MkdirTemp("", "liquida-keys-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	if err := docker.CopyFromBootstrap(context.Background(), "/keys/clients", folder); err != nil {
		return nil, err
	}
	return keys.ReadAll(folder)
}
