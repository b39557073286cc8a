package stack

import (
	"fmt"
	"os/exec"
	"path/filepath"

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
	find := func(name string) string {
		path, err := exec.LookPath(name)
		if err != nil {
			return ""
		}
		return path
	}
	return Observers{Prometheus: find("prometheus"), StatsdBridge: find("statsd_exporter")}
}

// statsd is the role of the address to which TigerBeetle sends its metrics, over UDP.
const statsd = "statsd"

func (s *Stack) prometheusFolder() string { return filepath.Join(s.config().Dir, "data", "prometheus") }

func (s *Stack) specifyPrometheus(p *spec) {
	address := s.addresses.of(Prometheus)
	p.command = []string{
		s.config().Observers.Prometheus,
		"--config.file=" + filepath.Join(s.prometheusFolder(), prometheus.ConfigFile),
		"--storage.tsdb.path=" + filepath.Join(s.prometheusFolder(), "tsdb"),
		"--web.listen-address=" + address,
	}
	p.serve(s, Prometheus)
	p.ready = httpReady("http://" + address + "/-/ready")
}

func (s *Stack) specifyBridge(p *spec) {
	p.telemetry = s.addresses.of(telemetryOf(StatsdBridge))
	p.command = []string{
		s.config().Observers.StatsdBridge,
		"--statsd.mapping-config=" + filepath.Join(s.prometheusFolder(), prometheus.BridgeFile),
		"--statsd.listen-udp=" + s.addresses.of(statsd),
		"--statsd.listen-tcp=",
		"--web.listen-address=" + p.telemetry,
	}
	p.listens = append(p.listens, telemetryOf(StatsdBridge))
	p.ready = httpReady("http://" + p.telemetry + "/-/ready")
}

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
	if err := prometheus.Local(s.prometheusFolder(), targets); err != nil {
		return fmt.Errorf("cannot configure Prometheus: %w", err)
	}
	return nil
}

// PrometheusAddress is where Prometheus answers, host:port, if it watches the stack.
func (s *Stack) PrometheusAddress() string { return s.addresses.of(Prometheus) }
