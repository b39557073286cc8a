package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/liquida/liquida/deploy/docker"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/stream"
)

// containers are a clearing house that `docker compose up` has started on this machine. It
// must be idle. After the run it is left running as it was.
type containers struct {
	secrets  string // folder with the password of Kafka's admin; Stop removes it
	watching func() // ends the watch
	watched  chan struct{}

	mu      sync.Mutex
	known   map[string]*docker.Container // by name
	engines []string                     // names, also of added ones
	added   []string
	dying   map[string]int // by id: expected deaths that the watch has not seen yet
	crashes []stack.Crash
}

// findContainers finds the running stack as docker compose does: by the compose file in this
// folder, or COMPOSE_FILE.
func findContainers(ctx context.Context) (*containers, error) {
	listed, err := docker.Run(ctx, "compose", "ps", "--quiet")
	if err != nil {
		return nil, fmt.Errorf("cannot list the compose stack (run this in its folder, or name its files in COMPOSE_FILE): %w", err)
	}
	c := &containers{known: map[string]*docker.Container{}, dying: map[string]int{}, watched: make(chan struct{})}
	for _, id := range strings.Fields(listed) {
		if err := c.look(ctx, id); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{stack.Broker, stack.Simulator, stack.Producer, stack.TigerBeetle} {
		if c.known[name] == nil {
			return nil, fmt.Errorf("the compose stack has no running %s: start it first (docker compose up -d --wait)", name)
		}
	}
	if len(c.engines) == 0 {
		return nil, errors.New("the compose stack has no running clearing-engine: start it first (docker compose up -d --wait)")
	}
	if c.secrets, err = os.MkdirTemp("", "liquida-keys-"); err != nil {
		return nil, err
	}
	if err := docker.CopyFromBootstrap(ctx, "/keys/kafka/admin", c.secrets); err != nil {
		return nil, errors.Join(err, os.RemoveAll(c.secrets))
	}
	if err := c.watch(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(c.secrets))
	}
	return c, nil
}

// look inspects a container.
func (c *containers) look(ctx context.Context, id string) error {
	inspected, err := docker.Inspect(ctx, id)
	if err != nil {
		return err
	}
	c.take(inspected[0])
	return nil
}

func (c *containers) take(found *docker.Container) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := found.Process()
	if found.IsEngine() && !slices.Contains(c.engines, name) {
		c.engines = append(c.engines, name)
		slices.Sort(c.engines)
	}
	c.known[name] = found
}

// watch follows starts and deaths of the stack's containers until Stop.
func (c *containers) watch(ctx context.Context) error {
	ctx, c.watching = context.WithCancel(context.WithoutCancel(ctx))
	project := c.known[stack.Broker].Config.Labels["com.docker.compose.project"]
	command := docker.Command(ctx, "events", "--filter", "type=container", "--filter", "event=die", "--filter", "event=start",
		"--filter", "label=com.docker.compose.project="+project, "--format", `{{.Action}} {{.Actor.ID}} {{index .Actor.Attributes "exitCode"}}`)
	output, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("cannot follow docker's events: %w", err)
	}
	go func() {
		defer close(c.watched)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			var action, id, code string
			_, _ = fmt.Sscan(lines.Text(), &action, &id, &code)
			name := c.nameOf(id)
			if name == "" {
				continue // not of the clearing house, or a load
			}
			if action == "start" { // its address may be another one
				_ = c.look(ctx, id)
				continue
			}
			c.mu.Lock()
			asked := c.dying[id] > 0
			if asked {
				c.dying[id]--
			}
			c.mu.Unlock()
			if !asked {
				log, _ := docker.Run(ctx, "logs", "--tail", "15", id)
				c.mu.Lock()
				c.crashes = append(c.crashes, stack.Crash{Name: name, At: time.Now(), How: "exit code " + code, Log: log})
				c.mu.Unlock()
			}
		}
		_ = command.Wait()
	}()
	return nil
}

func (c *containers) nameOf(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, one := range c.known {
		if one.ID == id {
			return name
		}
	}
	return ""
}

func (c *containers) container(name string) (*docker.Container, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := c.known[name]; found != nil {
		return found, nil
	}
	return nil, fmt.Errorf("the compose stack has no %q", name)
}

// do runs a docker command on a container.
func (c *containers) do(name string, arguments ...string) error {
	found, err := c.container(name)
	if err != nil {
		return err
	}
	_, err = docker.Run(context.Background(), append(arguments, found.ID)...)
	return err
}

// Kill ends a container with SIGKILL. Docker does not restart a killed container.
func (c *containers) Kill(name string) error {
	return c.die(name, "kill", "--signal", "KILL")
}

// StopProcess stops a container in order.
func (c *containers) StopProcess(_ context.Context, name string) error {
	return c.die(name, "stop")
}

func (c *containers) die(name string, arguments ...string) error {
	found, err := c.container(name)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.dying[found.ID]++
	c.mu.Unlock()
	return c.do(name, arguments...)
}

// StartProcess starts a container that a fault ended.
func (c *containers) StartProcess(name string) error { return c.do(name, "start") }

// Pause freezes all processes of a container. SIGSTOP would freeze only the first, which may
// be an init process.
func (c *containers) Pause(name string) error { return c.do(name, "pause") }

// Resume continues a paused container.
func (c *containers) Resume(name string) error { return c.do(name, "unpause") }

// WaitReady runs a container's own health check until it passes. Docker's own runs are rare.
func (c *containers) WaitReady(ctx context.Context, name string) error {
	found, err := c.container(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, recoveryMax, fmt.Errorf("not healthy within %v", recoveryMax))
	defer cancel()
	if err := persist(ctx, 200*time.Millisecond, func() error { return found.CheckHealth(ctx) }); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// AddEngine creates one more container of the engine's service, starts it and waits for it.
func (c *containers) AddEngine(ctx context.Context) (string, error) {
	c.mu.Lock()
	var before []string
	for _, name := range c.engines {
		before = append(before, c.known[name].ID)
	}
	c.mu.Unlock()
	created, err := docker.CreateEngine(ctx, before)
	if err != nil {
		return "", err
	}
	c.take(created)
	name := created.Process()
	c.mu.Lock()
	c.added = append(c.added, name)
	c.mu.Unlock()
	if err := c.StartProcess(name); err != nil {
		return "", err
	}
	return name, errors.Join(c.look(ctx, created.ID), c.WaitReady(ctx, name))
}

// Stop leaves the stack as it was found: it continues frozen containers, starts ended ones,
// and removes added engines.
func (c *containers) Stop(ctx context.Context) error {
	var problems []error
	c.mu.Lock()
	names, added := make([]string, 0, len(c.known)), slices.Clone(c.added)
	for name := range c.known {
		names = append(names, name)
	}
	c.mu.Unlock()
	for _, name := range names {
		found, err := c.container(name)
		if err != nil || slices.Contains(added, name) {
			continue
		}
		text, err := docker.Run(ctx, "inspect", "--format", "{{.State.Paused}} {{.State.Running}}", found.ID)
		switch {
		case err != nil:
			problems = append(problems, err)
		case strings.HasPrefix(text, "true"):
			problems = append(problems, c.Resume(name))
		case strings.HasSuffix(strings.TrimSpace(text), "false"):
			problems = append(problems, c.StartProcess(name))
		}
	}
	for _, name := range added {
		problems = append(problems, c.StopProcess(ctx, name), c.do(name, "rm"))
	}
	c.watching()
	<-c.watched
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
	return slices.Clone(c.engines)
}

// Replicas returns the names of the ledger's containers.
func (c *containers) Replicas() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for name, found := range c.known {
		if found.IsReplica() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Kafka is at the published address, which the broker also advertises there.
func (c *containers) Kafka() stream.Config {
	return stream.Config{
		Brokers:  []string{c.published(stack.Broker, docker.KafkaPort)},
		SASLUser: stream.Admin, SASLPasswordFile: filepath.Join(c.secrets, "password"),
	}
}

// TigerBeetleAddresses returns the published addresses of all replicas.
func (c *containers) TigerBeetleAddresses() string {
	var all []string
	for _, name := range c.Replicas() {
		all = append(all, c.published(name, docker.LedgerPort))
	}
	return strings.Join(all, ",")
}

// ProducerURL is where payments are posted.
func (c *containers) ProducerURL() string {
	return "http://" + c.published(stack.Producer, docker.ProducerPort)
}

// Keys returns the API keys, from where bootstrap wrote them.
func (c *containers) Keys() (map[string]string, error) {
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

// SimulatorURL is where the banks' profiles are set.
func (c *containers) SimulatorURL() string {
	return "http://" + c.published(stack.Simulator, docker.SimulatorPort)
}

// published returns where this machine reaches a container's port.
func (c *containers) published(name, port string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[name].Published(port)
}

// address is the container's own address; empty while it does not run.
func (c *containers) address(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := c.known[name]; found != nil {
		return found.Address()
	}
	return ""
}

// TelemetryURL is empty while the container does not run.
func (c *containers) TelemetryURL(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := c.known[name]; found != nil && found.Telemetry() != "" {
		return "http://" + found.Telemetry()
	}
	return ""
}

// deadline is the engines' deadline: from their environment, or the default.
func (c *containers) deadline() (time.Duration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, entry := range c.known[c.engines[0]].Config.Env {
		if value, found := strings.CutPrefix(entry, "ENGINE_DEADLINE="); found {
			return time.ParseDuration(value)
		}
	}
	return engineDeadline, nil
}

// engineDeadline is the default of the engine.
const engineDeadline = 40 * time.Second

func (c *containers) image(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[name].Config.Image
}
