package stack

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Ports says where the stack listens.
type Ports int

const (
	// FixedPorts are the documented ones, the same at every start: Kafka 9092,
	// TigerBeetle 3001 and on, producer 8080, bank simulator 8081; telemetry of the producer
	// 9101, of the bank simulator 9102, of engine n 9103+n; Prometheus 9090, its bridge
	// from TigerBeetle 9099 and, over UDP, 8125.
	FixedPorts Ports = iota
	// FreePorts are picked at the start, so that any number of stacks fit on a machine.
	FreePorts
)

var fixedPorts = map[string]int{
	Broker: 9092, controllerOf(Broker): 9093, TigerBeetle: 3001, Producer: 8080, Simulator: 8081,
	telemetryOf(Producer): 9101, telemetryOf(Simulator): 9102,
	Prometheus: 9090, telemetryOf(StatsdBridge): 9099, statsd: 8125,
}

const (
	firstReplica         = 3001
	firstEngineTelemetry = 9103
)

// controllerOf is the role of the address where Apache Kafka talks to itself.
func controllerOf(name string) string { return name + " controller" }

// telemetryOf is the role of the address where a process serves its telemetry.
func telemetryOf(name string) string { return name + " telemetry" }

// addresses gives each role an address once. After that it stays.
type addresses struct {
	mu    sync.Mutex
	ports Ports
	given map[string]string // role → IP:port
	locks *os.File          // with a locked byte for each free port that was picked
}

func newAddresses(ports Ports) *addresses {
	return &addresses{ports: ports, given: map[string]string{}}
}

func (a *addresses) of(role string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if address, ok := a.given[role]; ok {
		return address
	}
	port, ok := fixedPorts[role]
	if replica, is := strings.CutPrefix(role, TigerBeetle+"-"); is {
		number, _ := strconv.Atoi(replica)
		port = firstReplica + number
	} else if !ok { // "engine-3 telemetry"
		instance, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(role, "engine-"), " telemetry"))
		port = firstEngineTelemetry + instance
	}
	address := loopback(port)
	if a.ports == FreePorts {
		address = a.free()
	}
	a.given[role] = address
	return address
}

// free picks a port below the range of outgoing connections. Otherwise a client's connection
// could take the port of a process that is being restarted, or even connect to itself.
func (a *addresses) free() string {
	for {
		port := 20000 + rand.IntN(10000)
		address := loopback(port)
		given := slices.Contains(slices.Collect(maps.Values(a.given)), address)
		if !given && a.reserve(port) && available("", address) == nil {
			return address
		}
	}
}

// reserve keeps other stacks of this machine from picking a port while the process that listens
// there is down. It returns false if one has it. Locks end with the process. Without a file for
// them, two stacks rarely meet.
func (a *addresses) reserve(port int) bool {
	if a.locks == nil {
		file, err := os.OpenFile(filepath.Join(os.TempDir(), fmt.Sprintf("liquida-ports-%d", os.Getuid())), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return true
		}
		a.locks = file
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: int64(port), Len: 1}
	return unix.FcntlFlock(a.locks.Fd(), unix.F_OFD_SETLK, &lock) == nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// available returns an error if somebody listens on the address.
func available(role, address string) error {
	listener, err := net.Listen("tcp", address)
	if err == nil {
		return listener.Close()
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		_, port, _ := net.SplitHostPort(address)
		return fmt.Errorf("port %s, for %s, is taken: stop what listens there (`ss -ltnp` shows it), or run the stack on free ports", port, role)
	}
	return fmt.Errorf("cannot listen on %s, for %s: %w", address, role, err)
}
