package stack

import (
	"fmt"
	"os/exec"

	"github.com/liquida/liquida/deploy/prometheus"
)

// The programs that watch a stack. The clearing house works without them.
const (
	Prometheus   = "prometheus"
	StatsdBridge = "statsd-exporter" // takes TigerBeetle's metrics to Prometheus
)

// Observers are the paths of the programs that watch a stack. An empty one is not started.
type Observers struct {
	Prometheus   string
	StatsdBridge string // https://github.com/prometheus/statsd_exporter
}

// InstalledObservers returns those that are on PATH.
func InstalledObservers() Observers {
	prometheus, _ := exec.LookPath("prometheus") // an error comes with no path
	bridge, _ := exec.LookPath("statsd_exporter")
	return Observers{Prometheus: prometheus, StatsdBridge: bridge}
}

// statsd is the role of the address to which TigerBeetle sends its metrics, over UDP.
const statsd = "statsd"

// configureObservers writes the targets of Prometheus, again for each new process.
func (s *Stack) configureObservers() error {
	if s.config().Observers == (Observers{}) {
		return nil
	}
	targets := map[string][]string{}

	for _, p := range s.all() {
		job, address := kindOf(p.name), p.program().telemetry
		switch job {
		case StatsdBridge:
			job = TigerBeetle
		case Prometheus:
			address = p.program().address
		}

		if address != "" {
			targets[job] = append(targets[job], address)
		}
	}

	if err := prometheus.Local(s.data(Prometheus), targets); err != nil {
		return fmt.Errorf("cannot configure Prometheus: %w", err)
	}

	return nil
}

// PrometheusAddress is where Prometheus answers, host:port, if it watches the stack.
func (s *Stack) PrometheusAddress() string { return s.addresses.of(Prometheus) }
