// Package docker knows the containers of a clearing house that `docker compose up` has started on
// this machine, and acts on them with the docker command. It needs no access to Docker's socket.
package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/liquida/liquida/deploy/stack"
)

// Services of docker-compose.yml whose process in a local stack has another name.
const kafkaService = "redpanda"

// dockerTimeout bounds a call of docker. An orderly stop waits for its grace period.
const dockerTimeout = time.Minute

// Run runs the docker command, which knows where the daemon is, and returns what it prints.
func Run(ctx context.Context, arguments ...string) (string, error) {
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

// Container is the part of docker inspect that is used here.
type Container struct {
	ID    string `json:"Id"`
	Name  string
	State struct {
		Running, Paused       bool
		Pid                   int
		StartedAt, FinishedAt time.Time
	}
	HostConfig struct{ RestartPolicy struct{ Name string } }
	Config     struct {
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

// Inspect returns containers by their ids, in that order.
func Inspect(ctx context.Context, ids ...string) ([]*Container, error) {
	text, err := Run(ctx, append([]string{"inspect"}, ids...)...)
	if err != nil {
		return nil, err
	}
	var inspected []*Container
	if err := json.Unmarshal([]byte(text), &inspected); err != nil || len(inspected) != len(ids) {
		return nil, fmt.Errorf("cannot read docker inspect of %d containers, it shows %d: %w", len(ids), len(inspected), err)
	}
	return inspected, nil
}

// Process names a container as its process is named in a local stack: an engine as its container, the
// broker as there, everything else as its service.
func (c *Container) Process() string {
	switch service := c.Config.Labels["com.docker.compose.service"]; service {
	case kafkaService:
		return stack.Broker
	case stack.Engine:
		return strings.TrimPrefix(c.Name, "/")
	default:
		return service
	}
}

// IsEngine reports whether the container is one of the clearing engines.
func (c *Container) IsEngine() bool {
	return c.Config.Labels["com.docker.compose.service"] == stack.Engine
}

// IsReplica reports whether the container is one of the ledger.
func (c *Container) IsReplica() bool {
	number, numbered := strings.CutPrefix(c.Process(), stack.TigerBeetle+"-")
	_, err := strconv.ParseUint(number, 10, 8)
	return c.Process() == stack.TigerBeetle || numbered && err == nil
}

// Published returns where this machine reaches a port, such as "8080/tcp". Unlike the container's own
// address it survives restarts.
func (c *Container) Published(port string) string {
	for _, at := range c.NetworkSettings.Ports[port] {
		return net.JoinHostPort(at.HostIP, at.HostPort)
	}
	return c.Process() + " does not publish " + port
}

// The ports of the compose file.
const (
	KafkaPort     = "19092/tcp"
	LedgerPort    = "3001/tcp"
	ProducerPort  = "8080/tcp"
	SimulatorPort = "8081/tcp"
)

// Address is the container's own address; empty while it does not run.
func (c *Container) Address() string {
	for _, network := range c.NetworkSettings.Networks {
		if network.IPAddress != "" {
			return network.IPAddress
		}
	}
	return ""
}

// Telemetry is at the container's own address, because its port is not published. On Linux this machine
// reaches it. It is empty while the container does not run.
func (c *Container) Telemetry() string {
	if address := c.Address(); address != "" {
		return net.JoinHostPort(address, "9100")
	}
	return ""
}

// hasTelemetry reports whether the container is a program of this repository: their health checks ask
// for their telemetry.
func (c *Container) hasTelemetry() bool {
	return c.Config.Healthcheck != nil && slices.Contains(c.Config.Healthcheck.Test, "http://127.0.0.1:9100/readyz")
}

// CheckHealth runs a container's own health check. Docker's own runs are rare.
func (c *Container) CheckHealth(ctx context.Context) error {
	if c.Config.Healthcheck == nil || len(c.Config.Healthcheck.Test) < 2 {
		return fmt.Errorf("%s has no health check in the compose file", c.Process())
	}
	kind, test := c.Config.Healthcheck.Test[0], c.Config.Healthcheck.Test[1:]
	if kind == "CMD-SHELL" {
		test = []string{"/bin/sh", "-c", test[0]}
	}
	_, err := Run(ctx, append([]string{"exec", c.ID}, test...)...)
	return err
}

// CopyFromBootstrap copies a folder of bootstrap's container to one that only its owner reads. The
// container has ended, but its volumes still exist.
func CopyFromBootstrap(ctx context.Context, from, to string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	if _, err := Run(ctx, "compose", "cp", stack.Bootstrap+":"+from+"/.", to); err != nil {
		return fmt.Errorf("cannot copy %s of the bootstrap: %w", from, err)
	}
	return nil
}
