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

// Services of docker-compose.yml whose process in a local stack has another name.
const (
	kafkaService  = "redpanda"
	ledgerService = stack.TigerBeetle
)

// dockerTimeout bounds a call of docker. An orderly stop waits for its grace period.
const dockerTimeout = time.Minute

// containers are a clearing house that `docker compose up` has started on this machine. It
// must be idle. After the run it is left running as it was.
type containers struct {
	secrets  string // folder with the password of Kafka's admin; Stop removes it
	watching func() // ends the watch
	watched  chan struct{}

	mu      sync.Mutex
	known   map[string]*container // by name
	engines []string              // names, also of added ones
	added   []string
	dying   map[string]int // by id: expected deaths that the watch has not seen yet
	crashes []stack.Crash
}

// container is the part of docker inspect that is used here.
type container struct {
	ID   string `json:"Id"`
	Name string
	// State at the beginning must be the state at the end.
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

// findContainers finds the running stack as docker compose does: by the compose file in this
// folder, or COMPOSE_FILE.
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

// look inspects a container. An engine is named as its container, the broker as in a local
// stack, everything else as its service.
func (c *containers) look(ctx context.Context, id string) error {
	text, err := docker(ctx, "inspect", id)
	if err != nil {
		return err
	}
	var inspected []*container
	if err := json.Unmarshal([]byte(text), &inspected); err != nil || len(inspected) != 1 {
		return fmt.Errorf("cannot read docker inspect %s: %w", id, err)
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

// watch follows starts and deaths of the stack's containers until Stop.
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

// do runs a docker command on a container.
func (c *containers) do(name string, arguments ...string) error {
	found, err := c.container(name)
	if err != nil {
		return err
	}
	_, err = docker(context.Background(), append(arguments, found.ID)...)
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
	if found.Config.Healthcheck == nil || len(found.Config.Healthcheck.Test) < 2 {
		return fmt.Errorf("%s has no health check in the compose file", name)
	}
	kind, test := found.Config.Healthcheck.Test[0], found.Config.Healthcheck.Test[1:]
	if kind == "CMD-SHELL" {
		test = []string{"/bin/sh", "-c", test[0]}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, recoveryMax, fmt.Errorf("not healthy within %v", recoveryMax))
	defer cancel()
	if err := persist(ctx, 200*time.Millisecond, func() error {
		_, err := docker(ctx, append([]string{"exec", found.ID}, test...)...)
		return err
	}); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// AddEngine creates one more container of the engine's service, starts it and waits for it.
// `up --scale` would also start engines that a fault keeps down.
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
	return "", fmt.Errorf("docker compose created no %s beside %s", stack.Engine, strings.Join(before, ", "))
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

// Kafka is at the published address, which the broker also advertises there.
func (c *containers) Kafka() stream.Config {
	return stream.Config{
		Brokers:  []string{c.published(stack.Broker, "19092/tcp")},
		SASLUser: stream.Admin, SASLPasswordFile: filepath.Join(c.secrets, "password"),
	}
}

// TigerBeetleAddresses returns the published addresses of all replicas.
func (c *containers) TigerBeetleAddresses() string {
	var all []string
	for _, name := range c.Replicas() {
		all = append(all, c.published(name, "3001/tcp"))
	}
	return strings.Join(all, ",")
}

// ProducerURL is where payments are posted.
func (c *containers) ProducerURL() string { return "http://" + c.published(stack.Producer, "8080/tcp") }

// Keys returns the API keys, from where bootstrap wrote them.
func (c *containers) Keys() (map[string]string, error) {
	folder, err := copyFromBootstrap(context.Background(), "/keys/clients")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	return keys.ReadAll(folder)
}

// copyFromBootstrap copies a folder of bootstrap's container to a new folder. The container
// has ended, but its volumes still exist.
func copyFromBootstrap(ctx context.Context, from string) (folder string, err error) {
	if folder, err = os.MkdirTemp("", "liquida-keys-"); err != nil {
		return "", err
	}
	if _, err := docker(ctx, "compose", "cp", stack.Bootstrap+":"+from+"/.", folder); err != nil {
		return "", errors.Join(fmt.Errorf("cannot copy %s of the bootstrap: %w", from, err), os.RemoveAll(folder))
	}
	return folder, nil
}

// SimulatorURL is where the banks' profiles are set.
func (c *containers) SimulatorURL() string {
	return "http://" + c.published(stack.Simulator, "8081/tcp")
}

// published returns where this machine reaches a container's port. Unlike the container's own
// address it survives restarts.
func (c *containers) published(name, port string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range c.known[name].NetworkSettings.Ports[port] {
		return net.JoinHostPort(at.HostIP, at.HostPort)
	}
	return name + " does not publish " + port
}

// TelemetryURL is at the container's own address, because its port is not published. On Linux
// this machine reaches it.
func (c *containers) TelemetryURL(name string) string {
	if address := c.address(name); address != "" {
		return "http://" + net.JoinHostPort(address, "9100")
	}
	return ""
}

// address is the container's own address; empty while it does not run.
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

// docker runs the docker command, which knows where the daemon is.
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
