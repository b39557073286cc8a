// Package compose holds the tests of docker-compose.yml, its overlays, preflight.sh and the ledger's scripts, as far as
// they need no Docker. deploy/verify-compose.sh runs them.
package compose

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/liquida/liquida/platform/kit"
)

const (
	root = "../.."
	base = "docker-compose.yml"
)

// file is a compose file, as far as the tests read it.
type file struct {
	Services map[string]service
	Volumes  map[string]any
}

type service struct {
	Image       string
	Build       any
	PullPolicy  string         `yaml:"pull_policy"`
	DependsOn   map[string]any `yaml:"depends_on"`
	Networks    any            // a list, or a map
	Environment map[string]string
	Ports       []string
	Volumes     []string
	CPUQuota    int    `yaml:"cpu_quota"`
	MemLimit    string `yaml:"mem_limit"`
	Command     []string
	ReadOnly    bool     `yaml:"read_only"`
	CapDrop     []string `yaml:"cap_drop"`
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	kit.Must(t, err)

	return string(text)
}

func load(t *testing.T, path string) (f file) {
	t.Helper()

	if err := yaml.Unmarshal([]byte(read(t, path)), &f); err != nil {
		t.Fatalf("%s: %v", path, err)
	}

	return f
}

// waitsFor reports whether a service depends on another, directly or over others.
func (f file) waitsFor(name, other string) bool {
	for next := range f.Services[name].DependsOn {
		if next == other || f.waitsFor(next, other) {
			return true
		}
	}

	return false
}

// onNetworks says on which networks a service may be. The ledger asks for no password, so its network is its access
// control.
var onNetworks = map[string]string{
	"archiver": "ledger metrics", "bank-simulator": "kafka metrics", "bootstrap": "kafka ledger",
	"clearing-engine": "kafka ledger metrics",
	"console":         "kafka", "grafana": "metrics", "kafka-admin": "", "ledger-format": "",
	"loadtest":   "kafka ledger",
	"producer":   "kafka ledger metrics",
	"prometheus": "metrics", "redpanda": "kafka metrics", "redpanda-1": "kafka metrics", "redpanda-2": "kafka metrics",
	"room":            "kafka ledger",
	"statsd-exporter": "statsd metrics", "tigerbeetle": "ledger statsd", "tigerbeetle-1": "ledger",
	"tigerbeetle-2": "ledger",
}

func (s service) networks() (names []string) {
	switch all := s.Networks.(type) {
	case []any:
		for _, name := range all {
			names = append(names, name.(string))
		}
	case map[string]any:
		for name := range all {
			names = append(names, name)
		}
	}

	return names
}

// What would harm somebody in the compose file or an overlay.
func TestServices(t *testing.T) {
	whole := load(t, base)
	for _, path := range []string{base, "deploy/compose/cluster.yml", "deploy/compose/console.yml"} {
		f, text := load(t, path), read(t, path)
		for name, s := range f.Services {
			may, known := onNetworks[name]
			for _, network := range s.networks() {
				if !slices.Contains(strings.Fields(may), network) {
					t.Errorf("%s: %s is on the network %s and must not be", path, name, network)
				}
			}

			if path == base && (!known || len(s.networks()) != len(strings.Fields(may))) {
				t.Errorf("%s: %s is on the networks %v, want %q", path, name, s.networks(), may)
			}
			// Limits that each host accepts, and no more rights than needed. Overlays add to services of the base.
			confined := slices.Equal(s.CapDrop, []string{"ALL"}) && (s.ReadOnly || name == "redpanda")
			if s.Image != "" && (s.CPUQuota == 0 || s.MemLimit == "" || !confined) {
				t.Errorf("%s: %s needs cpu_quota, mem_limit, cap_drop ALL and read_only", path, name)
			}
			// Services that build one tag side by side fail with "image already exists", and no registry has it.
			if (s.Build != nil) != (path == base && name == "bootstrap") {
				t.Errorf("%s: %s builds the image: only bootstrap may, and must", path, name)
			}

			if s.Image == "liquida:local" && name != "bootstrap" &&
				(path != base || s.PullPolicy != "never" || !f.waitsFor(name, "bootstrap")) {
				t.Errorf("%s: %s must never pull the image, and must wait for bootstrap, which builds it and prepares all",
					path, name)
			}

			if strings.Contains(strings.Join(s.Command, " "), "format --") && name != "ledger-format" {
				t.Errorf("%s: %s formats the ledger, too", path, name)
			}

			for _, port := range s.Ports {
				// preflight.sh finds ports and mounts with sed.
				if !strings.HasPrefix(port, "127.0.0.1:") || !strings.Contains(text, `"`+port+`"`) {
					t.Errorf("%s: %s publishes %s: on loopback only, in double quotes", path, name, port)
				}
			}

			for _, volume := range s.Volumes {
				source, _, _ := strings.Cut(volume, ":")
				_, here := f.Volumes[source]
				_, there := whole.Volumes[source]
				// SELinux keeps containers from files without the label, which z gives.
				if mounted := strings.HasPrefix(source, "./"); mounted && !strings.HasSuffix(volume, ":ro,z") ||
					!mounted && !here && !there {
					t.Errorf("%s: %s mounts %s: a volume must be declared, a file of ours must end with :ro,z", path,
						name, volume)
				}
				// It asks the front door as each bank, and must not hold the central bank's key.
				if name == "bank-simulator" && source == "client-keys" {
					t.Errorf("%s: the bank simulator has the central bank's key", path)
				}
			}
		}
	}

	// Every client knows all brokers and all replicas of the cluster: the first of each may be the one that is down.
	cluster := load(t, "deploy/compose/cluster.yml")

	for name, s := range whole.Services {
		for _, setting := range []string{"KAFKA_BROKERS", "TIGERBEETLE_ADDRESSES"} {
			if got := cluster.Services[name].Environment[setting]; s.Environment[setting] != "" &&
				strings.Count(got, ",") != 2 {
				t.Errorf("%s of %s is %q in the cluster, want three", setting, name, got)
			}
		}
	}
}
