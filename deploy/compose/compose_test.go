// Package compose holds the tests of docker-compose.yml, its overlays, the Dockerfile and
// preflight.sh, as far as they need no Docker. deploy/verify-compose.sh runs them.
package compose

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/liquida/liquida/platform/kit"
)

const (
	root  = "../.."
	image = "liquida:local"
)

// file is a compose file, as far as the tests read it.
type file struct {
	Services map[string]service
	Networks map[string]any
}

type service struct {
	Image      string
	Build      any
	PullPolicy string `yaml:"pull_policy"`
	DependsOn  map[string]struct {
		Condition string
	} `yaml:"depends_on"`
	Networks yaml.Node
	// Environment of the base is one with <<, which yaml merges.
	Environment map[string]string
	Ports       []string
	Volumes     []string
	CPUs        any    `yaml:"cpus"`
	CPUQuota    int    `yaml:"cpu_quota"`
	MemLimit    string `yaml:"mem_limit"`
	Deploy      struct{ Resources any }
	Ulimits     map[string]struct{ Soft, Hard int }
	Command     []string
	Logging     struct{ Driver string }
	Healthcheck struct{ Test []string }
	Extends     struct{ Service string }
	ReadOnly    bool     `yaml:"read_only"`
	CapDrop     []string `yaml:"cap_drop"`
	NetworkIn   string   `yaml:"network_mode"`
}

// networks returns the names of the networks that s joins.
func (s service) networks() []string {
	var names []string
	switch s.Networks.Kind {
	case yaml.SequenceNode:
		for _, name := range s.Networks.Content {
			names = append(names, name.Value)
		}
	case yaml.MappingNode:
		for i := 0; i < len(s.Networks.Content); i += 2 {
			names = append(names, s.Networks.Content[i].Value)
		}
	}
	slices.Sort(names)
	return names
}

func load(t *testing.T, path string) file {
	t.Helper()
	var f file
	if err := yaml.Unmarshal([]byte(read(t, path)), &f); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return f
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	kit.Must(t, err)
	return string(text)
}

const base = "docker-compose.yml"

// files returns the compose file and its overlays.
func files(t *testing.T) map[string]file {
	t.Helper()
	all := map[string]file{base: load(t, base)}
	paths, err := filepath.Glob(filepath.Join(root, "deploy/compose/*.yml"))
	kit.Must(t, err)
	for _, path := range paths {
		path, _ = filepath.Rel(root, path)
		if strings.Contains(read(t, path), "\nservices:") {
			all[path] = load(t, path)
		}
	}
	if len(all) < 3 {
		t.Fatalf("found only %d compose files, not the overlays", len(all))
	}
	return all
}

// Two services that build the same tag side by side fail on current engines with "image
// already exists", and an old engine cannot show it.
func TestOneServiceBuildsTheImage(t *testing.T) {
	var builders []string
	for path, f := range files(t) {
		for name, s := range f.Services {
			if s.Build != nil {
				builders = append(builders, path+" "+name)
			}
		}
	}
	if want := []string{base + " bootstrap"}; !slices.Equal(builders, want) {
		t.Errorf("these services build an image: %q, want %q only", builders, want)
	}

	f := load(t, base)
	if s := f.Services["bootstrap"]; s.Image != image || s.PullPolicy != "" {
		t.Errorf("bootstrap builds image %q with pull_policy %q, want %q without one: docker compose up must build it where it is missing", s.Image, s.PullPolicy, image)
	}
	users := 0
	for name, s := range f.Services {
		if s.Image != image || name == "bootstrap" {
			continue
		}
		users++
		if s.PullPolicy != "never" {
			t.Errorf("%s has pull_policy %q, want never: no registry has the image", name, s.PullPolicy)
		}
		if !f.waitsFor(name, "bootstrap") {
			t.Errorf("%s does not depend on bootstrap, so docker compose run %s does not build the image", name, name)
		}
	}
	if users < 4 {
		t.Errorf("only %d services use the image: the test no longer sees them", users)
	}
	for path, f := range files(t) {
		for name, s := range f.Services {
			if path != base && s.Image == image {
				t.Errorf("%s: %s uses the image: extend a service of %s, so that the rules above hold for it", path, name, base)
			}
		}
	}
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

// The ledger asks for no password, so its network is its access control.
func TestNetworks(t *testing.T) {
	for path, f := range files(t) {
		members := map[string][]string{}
		for name, s := range f.Services {
			if s.Extends.Service != "" && s.Networks.Kind == 0 {
				t.Errorf("%s: %s extends %s and names no networks: it would have the same address", path, name, s.Extends.Service)
			}
			for _, network := range s.networks() {
				members[network] = append(members[network], name)
			}
		}
		allowed := map[string][]string{
			"ledger": {"archiver", "bootstrap", "clearing-engine", "loadtest", "producer", "room", "tigerbeetle", "tigerbeetle-1", "tigerbeetle-2"},
			"statsd": {"statsd-exporter", "tigerbeetle", "tigerbeetle-1", "tigerbeetle-2"},
			"kafka": {"bank-simulator", "bootstrap", "clearing-engine", "console", "loadtest", "producer",
				"redpanda", "redpanda-1", "redpanda-2", "room"},
			"metrics": {"archiver", "bank-simulator", "clearing-engine", "grafana", "producer", "prometheus",
				"redpanda", "redpanda-1", "redpanda-2", "statsd-exporter"},
		}
		for network, names := range members {
			for _, name := range names {
				if !slices.Contains(allowed[network], name) {
					t.Errorf("%s: %s is on the network %s and must not be", path, name, network)
				}
			}
			if path != base {
				continue
			}
			for _, name := range allowed[network] {
				if _, there := f.Services[name]; there && !slices.Contains(names, name) {
					t.Errorf("%s: %s is not on the network %s", path, name, network)
				}
			}
		}
		if path == base && len(members) != len(allowed) {
			t.Errorf("%s has the networks %v, the test knows %v", path, members, allowed)
		}
	}
}

// What Docker or Podman refuses on some hosts must not be in the file: processors that a host does not
// have (cpus), locked memory that rootless Docker may not raise (ulimits), log drivers that Podman does not know.
func TestEveryServiceHasLimits(t *testing.T) {
	for path, f := range files(t) {
		for name, s := range f.Services {
			_, locks := s.Ulimits["memlock"]
			if s.CPUs != nil || s.Deploy.Resources != nil || locks {
				t.Errorf("%s: %s sets cpus, deploy.resources or memlock: use cpu_quota, mem_limit and memswap_limit, which every host accepts", path, name)
			}
			if s.Image == "" {
				continue // adds to a service of the base
			}
			if s.Logging.Driver != "json-file" {
				t.Errorf("%s: %s logs to the driver %q, want json-file, which Podman knows too", path, name, s.Logging.Driver)
			}
			if s.CPUQuota == 0 || s.MemLimit == "" {
				t.Errorf("%s: %s has cpu_quota %d and mem_limit %q: it needs both", path, name, s.CPUQuota, s.MemLimit)
			}
			if !slices.Equal(s.CapDrop, []string{"ALL"}) {
				t.Errorf("%s: %s drops the capabilities %q, want ALL", path, name, s.CapDrop)
			}
			if !s.ReadOnly && name != "redpanda" {
				t.Errorf("%s: %s may write to its root file system", path, name)
			}
			if s.NetworkIn != "" && s.NetworkIn != "none" {
				t.Errorf("%s: %s has network_mode %q", path, name, s.NetworkIn)
			}
		}
	}
}

// Each engine of containers gives other numbers of open files, new ones 1,024. Redpanda counts ten for a partition, and
// refuses topics for which they do not suffice.
func TestRedpandaMayOpenItsFiles(t *testing.T) {
	if files := load(t, base).Services["redpanda"].Ulimits["nofile"]; files.Soft < 10_000 || files.Soft > files.Hard {
		t.Errorf("redpanda may open %+v files", files)
	}
}

// Requests without a password to what needs one are warnings in Redpanda's log, and rpk makes some.
func TestHealthChecksNeedNoPassword(t *testing.T) {
	for path, f := range files(t) {
		for name, s := range f.Services {
			if check := strings.Join(s.Healthcheck.Test, " "); strings.Contains(check, "rpk ") {
				t.Errorf("%s: the health check of %s is %q", path, name, check)
			}
		}
	}
}

// No program reports its usage to its maker: nothing leaves the machine.
func TestNothingReportsToItsMaker(t *testing.T) {
	for path, says := range map[string]string{
		"deploy/compose/redpanda-bootstrap.yaml": "\nenable_metrics_reporter: false\n",
		"deploy/kustomize/redpanda-values.yaml":  "\n    enable_metrics_reporter: false ",
		"deploy/compose/console-config.yml":      "\nanalytics: {enabled: false}",
		base:                                     "GF_ANALYTICS_REPORTING_ENABLED: \"false\"",
	} {
		if !strings.Contains(read(t, path), says) {
			t.Errorf("%s does not say %q", path, strings.TrimSpace(says))
		}
	}
}

// Every client knows all brokers and all replicas of the cluster: the first of each may be the one that is down.
func TestClientsOfTheClusterKnowAllOfIt(t *testing.T) {
	cluster := load(t, "deploy/compose/cluster.yml")
	clients := 0
	for name, s := range load(t, base).Services {
		for _, setting := range []string{"KAFKA_BROKERS", "TIGERBEETLE_ADDRESSES"} {
			if s.Environment[setting] == "" {
				continue
			}
			clients++
			if got := cluster.Services[name].Environment[setting]; strings.Count(got, ",") != 2 {
				t.Errorf("%s of %s is %q in the cluster, want three", setting, name, got)
			}
		}
	}
	if clients < 12 {
		t.Errorf("found only %d settings of clients", clients)
	}
}

func TestPortsAndMounts(t *testing.T) {
	mounted := map[string][]string{} // by service, in all files together
	for path, f := range files(t) {
		for name, s := range f.Services {
			for _, port := range s.Ports {
				if !strings.HasPrefix(port, "127.0.0.1:") {
					t.Errorf("%s: %s publishes %s on more than loopback", path, name, port)
				}
			}
			for _, volume := range s.Volumes {
				at := strings.Split(volume, ":")[1]
				for _, other := range mounted[name] {
					if strings.HasPrefix(at, other+"/") || strings.HasPrefix(other, at+"/") {
						t.Errorf("%s: %s mounts %s over %s: Docker Desktop cannot mount into a mounted folder", path, name, at, other)
					}
				}
				mounted[name] = append(mounted[name], at)
				// SELinux keeps containers from files without the label, which z gives.
				if strings.HasPrefix(volume, ".") && !strings.HasSuffix(volume, ":ro,z") {
					t.Errorf("%s: %s mounts %s, want :ro,z at its end", path, name, volume)
				}
			}
		}
	}
}

// The simulator asks the front door which accounts are blocked, as each bank. It must not hold the
// central bank's key, which is in the volume of all keys.
func TestTheSimulatorHasTheBanksKeysOnly(t *testing.T) {
	f := load(t, base)
	simulator, bootstrap := f.Services["bank-simulator"], f.Services["bootstrap"]
	folder := simulator.Environment["SIMULATOR_API_KEYS_DIR"]
	if folder == "" || folder != bootstrap.Environment["SIMULATOR_API_KEYS_DIR"] || simulator.Environment["SIMULATOR_API_URL"] != "http://producer:8080" {
		t.Errorf("keys in %q and %q, front door %q", folder, bootstrap.Environment["SIMULATOR_API_KEYS_DIR"], simulator.Environment["SIMULATOR_API_URL"])
	}
	if !slices.Contains(simulator.Volumes, "bank-keys:"+folder+":ro") || !slices.Contains(bootstrap.Volumes, "bank-keys:"+folder) {
		t.Errorf("%q %q", simulator.Volumes, bootstrap.Volumes)
	}
	for _, volume := range simulator.Volumes {
		if strings.HasPrefix(volume, "client-keys:") {
			t.Errorf("it mounts %s, where the central bank's key is", volume)
		}
	}
}

// The programs are linked to the glibc of the build image, and run on that of the other.
func TestBuildAndRuntimeImageAreTheSameDebian(t *testing.T) {
	codenames := map[string]string{"12": "bookworm", "13": "trixie", "14": "forky"}
	match := regexp.MustCompile(`FROM golang:\S+-(\w+) AS build[\s\S]*FROM gcr\.io/distroless/base-debian(\d+):`).FindStringSubmatch(read(t, "Dockerfile"))
	if match == nil {
		t.Fatal("the Dockerfile does not build on golang and run on distroless")
	}
	if match[1] != codenames[match[2]] {
		t.Errorf("built on Debian %s, run on Debian %s (%s)", match[1], match[2], codenames[match[2]])
	}
}

// The overlays load from one version of Compose on, which verify-compose.sh tries.
func TestOneOldestCompose(t *testing.T) {
	for path, says := range map[string]string{
		"deploy/verify-compose.sh": `(?m)^oldest-compose .* v(\S+)$`,
		"deploy/preflight.sh":      `at_least "\$compose" ([\d.]+);`,
		base:                       `Docker Compose ([\d.]+) or later`,
		"deploy/README.md":         `Compose before ([\d.]+),`,
	} {
		match := regexp.MustCompile(says).FindStringSubmatch(read(t, path))
		if match == nil || match[1] != "2.25.0" {
			t.Errorf("%s names Compose %v, want 2.25.0", path, match)
		}
	}
}

// Each pinned image has a row in deploy/README.md that names what it was held against.
func TestEveryImageIsInTheReadme(t *testing.T) {
	images := map[string]bool{}
	for _, f := range files(t) {
		for _, s := range f.Services {
			if s.Image != "" && s.Image != image {
				images[s.Image] = true
			}
		}
	}
	for _, match := range regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(read(t, "Dockerfile"), -1) {
		images[match[1]] = true
	}
	if len(images) < 8 {
		t.Errorf("found only the images %v", images)
	}
	readme := read(t, "deploy/README.md")
	for name := range images {
		short := name
		for _, registry := range []string{"docker.redpanda.com/", "ghcr.io/", "gcr.io/"} {
			short = strings.TrimPrefix(short, registry)
		}
		if !strings.Contains(readme, "| `"+short+"`") {
			t.Errorf("deploy/README.md has no row for `%s`", short)
		}
	}
}
