package stack

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/liquida/liquida/platform/ports"
)

// Ports says where the stack listens.
type Ports int

const (
	// FixedPorts are the documented ones, the same at every start: Kafka 9092, TigerBeetle 3001 and on, producer 8080
	// (a second one 8082), bank simulator 8081, control room 8090; telemetry of the producer 9101 (9100), of the bank
	// simulator 9102, of the archiver 9098, of engine n 9103+n.
	FixedPorts Ports = iota
	// FreePorts are picked at the start, so that any number of stacks fit on a machine.
	FreePorts
)

var fixedPorts = fixed()

func fixed() map[string]int {
	all := map[string]int{
		Broker: 9092, controllerOf(Broker): 9093, TigerBeetle: 3001, Producer: 8080, Simulator: 8081,
		telemetryOf(Producer): 9101, telemetryOf(Simulator): 9102, telemetryOf(Archiver): 9098,
		SecondProducer: 8082, telemetryOf(SecondProducer): 9100,
		Room: 8090,
	}
	for n := range 3 {
		all[fmt.Sprint(TigerBeetle, "-", n)] = all[TigerBeetle] + n
	}

	for n := range EnginesMax {
		all[telemetryOf(EngineName(n))] = 9103 + n
	}

	return all
}

// controllerOf is the role of the address where brokers of Apache Kafka talk to each other.
func controllerOf(broker string) string { return broker + " controller" }

// telemetryOf is the role of the address where a process serves its telemetry.
func telemetryOf(name string) string { return name + " telemetry" }

// addresses gives each role an address once. After that it stays.
type addresses struct {
	mu    sync.Mutex
	ports Ports
	given map[string]string // role → IP:port
}

// begin gives addresses anew.
func (a *addresses) begin(ports Ports) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ports, a.given = ports, map[string]string{}
}

func (a *addresses) of(role string) string {
	a.mu.Lock()
	defer a.mu.Unlock()

	if address, ok := a.given[role]; ok {
		return address
	}

	address := ports.Loopback(fixedPorts[role])
	if a.ports == FreePorts {
		address = ports.Free()
	}
	a.given[role] = address

	return address
}

// held is how long a port may stay taken after its listener was closed: a process that starts just then
// has a copy of the listener until it executes its program.
const held = 2 * time.Second

// available returns an error if somebody listens on the address.
func available(role, address string) error {
	for until := time.Now().Add(held); ; time.Sleep(10 * time.Millisecond) {
		listener, err := net.Listen("tcp", address)
		if err == nil {
			return listener.Close()
		}

		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(until) {
			return fmt.Errorf("%s cannot have its port: %w; stop what listens there (`ss -ltnp` shows it), or use free ports",
				role, err)
		}
	}
}
