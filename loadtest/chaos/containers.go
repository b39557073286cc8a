package chaos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/stream"
)

// Services of docker-compose.yml whose name is not that of their process in a local stack.
const (
	kafkaService  = "redpanda"
	ledgerService = stack.TigerBeetle
)

// dockerTimeout bounds one call of docker. An ordered stop waits for its grace period.
const dockerTimeout = time.Minute

// containers are a clearing house that `docker compose up` has started, on this machine.
// It must be idle; when it has been broken, it is left running as it was.
type containers struct {
	secrets  string // a folder with the password of Kafka's admin, until Stop
	watching func() // ends the watch for deaths
	watched  chan struct{}

	mu      sync.Mutex
	known   map[string]*container // by name
	engines []string              // their names, those that were added too
	added   []string
	dying   map[string]int // by id: deaths that faults have ordered and nobody has seen yet
	crashes []stack.Crash
}

// container is what docker inspect tells, as far as it matters here.
type container struct {
	ID   string `json:"Id"`
	Name string
	// State of a container that was there at the beginning is what it must be at the end.
	State struct {
		Running, Paused bool
	}
	Config struct {
		Image       string
		Env         []string
		Labels      map[string]string
		Healthcheck *struct{ Test []string }
	}
	NetworkSettings struct {
		Ports    map[string][]struct{ HostIP, HostPort string }
		Networks map[string]struct{ IPAddress string }
	}
}

// findContainers looks at what docker compose has started: as it would itself, by the
// compose file of this folder or COMPOSE_FILE.
func findContainers(ctx context.Context) (*containers, error) {
	listed, err := docker(ctx, "compose", "ps", "--quiet")
	if err != nil {
		return nil, fmt.Errorf("cannot list the compose stack (run this in its folder, or name its files in COMPOSE_FILE): %w", err)
	}
	c := &containers{known: map[string]*container{}, dying: map[string]int{}, watched: make(chan struct{})}
	for _, id := range strings.Fields(listed) {
		if err := c.look(ctx, id); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{stack.Broker, stack.Simulator, stack.Producer, ledgerService} {
		if c.known[name] == nil {
			return nil, fmt.Errorf("the compose stack has no running %s: start it first (docker compose up -d --wait)", name)
		}
	}
	if len(c.engines) == 0 {
		return nil, errors.New("the compose stack has no running clearing-engine: start it first (docker compose up -d --wait)")
	}
	if c.secrets, err = copyFromBootstrap(ctx, "/keys/kafka/admin"); err != nil {
		return nil, err
	}
	if err := c.watch(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(c.secrets))
	}
	return c, nil
}

// look notes a container as it is now. An engine has the name of its container, everything
// else that of its service, and the broker that of the local stack's.
func (c *containers) look(ctx context.Context, id string) error {
	text, err := docker(ctx, "inspect", id)
	if err != nil {
		return err
	}
	var inspected []*container
	if err := json.Unmarshal([]byte(text), &inspected); err != nil || len(inspected) != 1 {
		return fmt.Errorf("cannot read what docker says of %s: %w", id, err)
	}
	found := inspected[0]
	name := found.Config.Labels["com.docker.compose.service"]
	c.mu.Lock()
	defer c.mu.Unlock()
	switch name {
	case kafkaService:
		name = stack.Broker
	case stack.Engine:
		name = strings.TrimPrefix(found.Name, "/")
		if !slices.Contains(c.engines, name) {
			c.engines = append(c.engines, name)
			slices.Sort(c.engines)
		}
	}
	c.known[name] = found
	return nil
}

// watch follows the deaths and starts of the stack's containers until Stop.
func (c *containers) watch(ctx context.Context) error {
	ctx, c.watching = context.WithCancel(context.WithoutCancel(ctx))
	project := c.known[stack.Broker].Config.Labels["com.docker.compose.project"]
	command := exec.CommandContext(ctx, "docker", "events", "--filter", "type=container", "--filter", "event=die", "--filter", "event=start",
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
				continue // not of the clearing house, or a load's
			}
			if action == "start" { // perhaps with another address
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
				log, _ := docker(ctx, "logs", "--tail", "15", id)
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

func (c *containers) container(name string) (*container, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := c.known[name]; found != nil {
		return found, nil
	}
	return nil, fmt.Errorf("the compose stack has no %q", name)
}

// do carries out a command of docker on one container.
func (c *containers) do(name string, arguments ...string) error {
	found, err := c.container(name)
	if err != nil {
		return err
	}
	_, err = docker(context.Background(), append(arguments, found.ID)...)
	return err
}

// Kill ends a container with SIGKILL. Docker does not start it again: it was asked for.
func (c *containers) Kill(name string) error {
	return c.die(name, "kill", "--signal", "KILL")
}

// StopProcess ends a container in order.
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

// StartProcess starts a container that a fault has ended.
func (c *containers) StartProcess(name string) error { return c.do(name, "start") }

// Pause freezes all processes of a container. SIGSTOP would reach its first one only,
// which may be an init that stands before the program.
func (c *containers) Pause(name string) error { return c.do(name, "pause") }

// Resume lets a paused container go on.
func (c *containers) Resume(name string) error { return c.do(name, "unpause") }

// WaitReady asks a container's own health check until it is content, without waiting for
// its interval.
func (c *containers) WaitReady(ctx context.Context, name string) error {
	found, err := c.container(name)
	if err != nil {
		return err
	}
	if found.Config.Healthcheck == nil || len(found.Config.Healthcheck.Test) < 2 {
		return fmt.Errorf("%s has no health check in the compose file", name)
	}
	kind, test := found.Config.Healthcheck.Test[0], found.Config.Healthcheck.Test[1:]
	if kind == "CMD-SHELL" {
		test = []string{"/bin/sh", "-c", test[0]}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, recoveryMax, fmt.Errorf("not healthy within %v", recoveryMax))
	defer cancel()
	for {
		_, err := docker(ctx, append([]string{"exec", found.ID}, test...)...)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", name, context.Cause(ctx), err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// AddEngine makes one more container of the engine's service, starts it and waits for it.
// `up --scale` would also start those that a fault keeps down.
func (c *containers) AddEngine(ctx context.Context) (string, error) {
	c.mu.Lock()
	before := slices.Clone(c.engines)
	c.mu.Unlock()
	if _, err := docker(ctx, "compose", "create", "--no-recreate", "--no-build", "--pull", "never",
		"--scale", stack.Engine+"="+strconv.Itoa(len(before)+1), stack.Engine); err != nil {
		return "", err
	}
	listed, err := docker(ctx, "compose", "ps", "--all", "--quiet", stack.Engine)
	if err != nil {
		return "", err
	}
	for _, id := range strings.Fields(listed) {
		if c.nameOf(id) != "" {
			continue
		}
		if err := c.look(ctx, id); err != nil {
			return "", err
		}
		name := c.nameOf(id)
		c.mu.Lock()
		c.added = append(c.added, name)
		c.mu.Unlock()
		if err := c.StartProcess(name); err != nil {
			return "", err
		}
		return name, errors.Join(c.look(ctx, id), c.WaitReady(ctx, name))
	}
	return "", fmt.Errorf("docker compose made no further %s beside %s", stack.Engine, strings.Join(before, ", "))
}

// Stop leaves the stack as it was found: what a fault left frozen or ended goes on, and
// the engines that were added are removed.
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
		text, err := docker(ctx, "inspect", "--format", "{{.State.Paused}} {{.State.Running}}", found.ID)
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

// Crashes are the deaths that no fault has ordered.
func (c *containers) Crashes() []stack.Crash {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.crashes)
}

// Engines are the containers of all engines.
func (c *containers) Engines() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.engines)
}

// Replicas are the containers of the ledger.
func (c *containers) Replicas() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for name := range c.known {
		if number, numbered := strings.CutPrefix(name, ledgerService+"-"); name == ledgerService || numbered && digits(number) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func digits(text string) bool {
	_, err := strconv.ParseUint(text, 10, 8)
	return err == nil
}

// Kafka is at the published address: the broker sends clients that come there to it again.
func (c *containers) Kafka() stream.Config {
	return stream.Config{
		Brokers:  []string{c.published(stack.Broker, "19092/tcp")},
		SASLUser: stream.Admin, SASLPasswordFile: filepath.Join(c.secrets, "password"),
	}
}

// TigerBeetleAddresses are the published ones of all replicas.
func (c *containers) TigerBeetleAddresses() string {
	var all []string
	for _, name := range c.Replicas() {
		all = append(all, c.published(name, "3001/tcp"))
	}
	return strings.Join(all, ",")
}

// ProducerURL is where payments are posted.
func (c *containers) ProducerURL() string { return "http://" + c.published(stack.Producer, "8080/tcp") }

// Keys are those to the front door, from where bootstrap has put them.
func (c *containers) Keys() (map[string]string, error) {
	folder, err := copyFromBootstrap(context.Background(), "/keys/clients")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	return keys.ReadAll(folder)
}

// copyFromBootstrap copies what is in a folder of bootstrap's container to a new one here.
// The container has ended; its volumes are still there.
func copyFromBootstrap(ctx context.Context, from string) (folder string, err error) {
	if folder, err = os.MkdirTemp("", "liquida-keys-"); err != nil {
		return "", err
	}
	if _, err := docker(ctx, "compose", "cp", stack.Bootstrap+":"+from+"/.", folder); err != nil {
		return "", errors.Join(fmt.Errorf("cannot copy %s of the bootstrap: %w", from, err), os.RemoveAll(folder))
	}
	return folder, nil
}

// SimulatorURL is where the banks' behaviour is changed.
func (c *containers) SimulatorURL() string {
	return "http://" + c.published(stack.Simulator, "8081/tcp")
}

// published is where a container's port is reached from this machine. Publishing stays
// over restarts, unlike the container's own address.
func (c *containers) published(name, port string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range c.known[name].NetworkSettings.Ports[port] {
		return net.JoinHostPort(at.HostIP, at.HostPort)
	}
	return name + " does not publish " + port
}

// TelemetryURL is at the container's own address, for no port of it is published: on Linux
// this machine reaches it.
func (c *containers) TelemetryURL(name string) string {
	if address := c.address(name); address != "" {
		return "http://" + net.JoinHostPort(address, "9100")
	}
	return ""
}

// address is the container's own, empty while it does not run.
func (c *containers) address(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := c.known[name]; found != nil {
		for _, network := range found.NetworkSettings.Networks {
			return network.IPAddress
		}
	}
	return ""
}

// deadline is the engines', as their environment says, or their default.
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

// engineDeadline is that of an engine that is told none.
const engineDeadline = 40 * time.Second

func (c *containers) image(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[name].Config.Image
}

// docker runs the client of the Docker daemon, which knows where the daemon is.
func docker(ctx context.Context, arguments ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, dockerTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, "docker", arguments...)
	var output, problems bytes.Buffer
	command.Stdout, command.Stderr = &output, &problems
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("docker %s: %w: %s", strings.Join(arguments, " "), err, strings.TrimSpace(problems.String()))
	}
	return output.String(), nil
}
