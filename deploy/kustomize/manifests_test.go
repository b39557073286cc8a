// Package kustomize holds the manifests for Kubernetes. Its tests check what no schema can:
// that names, labels, ports, settings and policies agree with each other and with the programs.
package kustomize

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/liquida/liquida/deploy/tigerbeetle"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/stream"
)

// The parts of an object that the tests read.
type (
	object struct {
		Kind     string
		Metadata metadata
		Spec     spec
		Data     map[string]string
	}
	metadata struct {
		Name, Namespace string
		Labels          map[string]string
	}
	spec struct {
		// of workloads
		Replicas             int
		ServiceName          string     `yaml:"serviceName"`
		Template             template   `yaml:"template"`
		VolumeClaimTemplates []struct{} `yaml:"volumeClaimTemplates"`
		JobTemplate          struct {
			Spec struct{ Template template }
		} `yaml:"jobTemplate"`
		// of Services, which select by labels, and of the others, which select by a selector
		Selector  yaml.Node
		ClusterIP string `yaml:"clusterIP"`
		Ports     []struct {
			Port       int
			TargetPort string `yaml:"targetPort"`
		}
		// of NetworkPolicies
		PodSelector selector `yaml:"podSelector"`
		PolicyTypes []string `yaml:"policyTypes"`
		Ingress     []rule
		Egress      []rule
	}
	template struct {
		Metadata metadata
		Spec     podSpec
	}
	podSpec struct {
		AutomountServiceAccountToken *bool `yaml:"automountServiceAccountToken"`
		SecurityContext              struct {
			RunAsNonRoot   bool                  `yaml:"runAsNonRoot"`
			SeccompProfile struct{ Type string } `yaml:"seccompProfile"`
		} `yaml:"securityContext"`
		InitContainers []container `yaml:"initContainers"`
		Containers     []container
		Volumes        []volume
	}
	container struct {
		Name, Image   string
		Command, Args []string
		Env           []struct {
			Name, Value string
			ValueFrom   struct {
				ConfigMapKeyRef struct {
					Name     string
					Optional bool
				} `yaml:"configMapKeyRef"`
			} `yaml:"valueFrom"`
		}
		EnvFrom []struct {
			ConfigMapRef struct{ Name string } `yaml:"configMapRef"`
		} `yaml:"envFrom"`
		Ports []struct {
			Name          string
			ContainerPort int `yaml:"containerPort"`
		}
		VolumeMounts []struct {
			Name      string
			MountPath string `yaml:"mountPath"`
		} `yaml:"volumeMounts"`
		ReadinessProbe, LivenessProbe *probe
		SecurityContext               struct {
			AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
			ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
			Capabilities             struct{ Drop []string }
		} `yaml:"securityContext"`
		Resources struct{ Requests, Limits map[string]string }
	}
	probe struct {
		HTTPGet struct{ Port string } `yaml:"httpGet"`
	}
	volume struct {
		Name   string
		Secret struct {
			SecretName string `yaml:"secretName"`
		}
		ConfigMap struct{ Name string } `yaml:"configMap"`
		Projected struct {
			Sources []struct{ Secret projection }
		}
	}
	projection struct {
		Name  string
		Items []struct{ Key, Path string }
	}
)

func (c *container) UnmarshalYAML(node *yaml.Node) error {
	type plain container // the probes' keys begin with a small letter
	probes := struct {
		Readiness *probe `yaml:"readinessProbe"`
		Liveness  *probe `yaml:"livenessProbe"`
	}{}
	if err := errors.Join(node.Decode((*plain)(c)), node.Decode(&probes)); err != nil {
		return err
	}
	c.ReadinessProbe, c.LivenessProbe = probes.Readiness, probes.Liveness
	return nil
}

// workload is an object that makes pods.
type workload struct {
	object
	pod template
}

func (w *workload) containers() []container {
	return slices.Concat(w.pod.Spec.InitContainers, w.pod.Spec.Containers)
}

// lasting reports whether the pods run until they are stopped.
func (w *workload) lasting() bool { return w.Kind != "CronJob" }

type manifests struct {
	name    string
	objects []object
}

func (m *manifests) of(kind string) []object {
	var found []object
	for _, one := range m.objects {
		if one.Kind == kind {
			found = append(found, one)
		}
	}
	return found
}

func (m *manifests) names(kind string) []string {
	var names []string
	for _, one := range m.of(kind) {
		names = append(names, one.Metadata.Name)
	}
	return names
}

func (m *manifests) workloads() []workload {
	var all []workload
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		for _, one := range m.of(kind) {
			all = append(all, workload{one, one.Spec.Template})
		}
	}
	for _, one := range m.of("CronJob") {
		all = append(all, workload{one, one.Spec.JobTemplate.Spec.Template})
	}
	return all
}

const component = "tigerbeetle" // the one that is on

// each runs a test on what kustomize makes with each of the two components for the ledger.
func each(t *testing.T, test func(t *testing.T, m *manifests)) {
	folder := os.Getenv("LIQUIDA_MANIFESTS")
	if folder == "" {
		t.Skip("needs what kustomize makes of the manifests: make check-manifests")
	}
	for _, name := range []string{component, "ledger-elsewhere"} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(folder, name+".yaml"))
			kit.Must(t, err)
			m := manifests{name: name}
			for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
				var one object
				err := decoder.Decode(&one)
				if errors.Is(err, io.EOF) {
					break
				}
				kit.Must(t, err)
				m.objects = append(m.objects, one)
			}
			if len(m.workloads()) < 6 {
				t.Fatalf("only %d workloads", len(m.workloads()))
			}
			test(t, &m)
		})
	}
}

// The template of a Job is immutable, so applying it a second time fails with a new image.
// Deleting the manifests must not delete the namespace, which holds the ledger's volumes.
func TestWhatIsAppliedCanBeAppliedAgain(t *testing.T) {
	each(t, func(t *testing.T, m *manifests) {
		for _, kind := range []string{"Job", "Pod", "Namespace", "PersistentVolumeClaim"} {
			if found := m.names(kind); len(found) > 0 {
				t.Errorf("%s %v must not be applied", kind, found)
			}
		}
		for _, one := range m.objects {
			if one.Metadata.Namespace != "liquida" {
				t.Errorf("%s %s is in the namespace %q", one.Kind, one.Metadata.Name, one.Metadata.Namespace)
			}
		}
	})
}

func TestEveryContainerIsConfinedAndWatched(t *testing.T) {
	each(t, func(t *testing.T, m *manifests) {
		for _, w := range m.workloads() {
			pod := w.pod.Spec
			if !pod.SecurityContext.RunAsNonRoot || pod.SecurityContext.SeccompProfile.Type == "" {
				t.Errorf("%s: runAsNonRoot and a seccompProfile are missing", w.Metadata.Name)
			}
			if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
				t.Errorf("%s: no pod of ours talks to the API server: automountServiceAccountToken must be false", w.Metadata.Name)
			}
			for _, c := range w.containers() {
				name := w.Metadata.Name + "/" + c.Name
				if image, tag, found := strings.Cut(c.Image[strings.LastIndex(c.Image, "/")+1:], ":"); !found || tag == "" || tag == "latest" || image == "" {
					t.Errorf("%s: the image %q has no fixed tag", name, c.Image)
				}
				security := c.SecurityContext
				if security.AllowPrivilegeEscalation == nil || *security.AllowPrivilegeEscalation || !security.ReadOnlyRootFilesystem || !slices.Equal(security.Capabilities.Drop, []string{"ALL"}) {
					t.Errorf("%s: securityContext is %+v", name, security)
				}
				// No limit of CPU: a throttled engine loses its session.
				if c.Resources.Limits["memory"] == "" || c.Resources.Requests["memory"] == "" || c.Resources.Requests["cpu"] == "" {
					t.Errorf("%s: a limit of memory, or a request of memory or cpu is missing", name)
				}
			}
			if !w.lasting() {
				continue
			}
			for _, c := range pod.Containers {
				// The ledger ends itself, and must not be killed while it is busy.
				if c.ReadinessProbe == nil || c.LivenessProbe == nil && c.Name != "tigerbeetle" {
					t.Errorf("%s/%s: a probe is missing", w.Metadata.Name, c.Name)
				}
				for _, p := range []*probe{c.ReadinessProbe, c.LivenessProbe} {
					if p != nil && p.HTTPGet.Port != "" && portOf([]container{c}, p.HTTPGet.Port) == 0 {
						t.Errorf("%s/%s: a probe asks port %q, which it does not have", w.Metadata.Name, c.Name, p.HTTPGet.Port)
					}
				}
			}
		}
	})
}

// portOf is the number of a container port that has this name or number, or 0.
func portOf(containers []container, port string) int {
	for _, c := range containers {
		for _, p := range c.Ports {
			if p.Name == port || string(yamlOf(p.ContainerPort)) == port+"\n" {
				return p.ContainerPort
			}
		}
	}
	return 0
}

func yamlOf(value any) []byte {
	text, err := yaml.Marshal(value)
	if err != nil {
		panic(err)
	}
	return text
}

func TestSelectorsFindPods(t *testing.T) {
	each(t, func(t *testing.T, m *manifests) {
		for _, w := range m.workloads() {
			if !w.lasting() {
				continue
			}
			var own selector
			if err := w.Spec.Selector.Decode(&own); err != nil || len(own.MatchLabels) == 0 || !own.matches(w.pod.Metadata.Labels) {
				t.Errorf("%s does not select its own pods: %+v, %v", w.Metadata.Name, own, err)
			}
			if w.Kind == "StatefulSet" && !slices.Contains(m.names("Service"), w.Spec.ServiceName) {
				t.Errorf("%s: there is no Service %q", w.Metadata.Name, w.Spec.ServiceName)
			}
		}
		pods := m.pods()
		for _, service := range m.of("Service") {
			var labels map[string]string
			kit.Must(t, service.Spec.Selector.Decode(&labels))
			selected := slices.DeleteFunc(slices.Clone(pods), func(p pod) bool { return !(selector{MatchLabels: labels}).matches(p.labels) })
			if len(labels) == 0 || len(selected) == 0 {
				t.Errorf("Service %s selects no pod: %v", service.Metadata.Name, labels)
			}
			for _, port := range service.Spec.Ports {
				for _, p := range selected {
					if portOf(p.containers, port.TargetPort) == 0 {
						t.Errorf("Service %s: %s has no port %q", service.Metadata.Name, p.name, port.TargetPort)
					}
				}
			}
		}
		for _, budget := range m.of("PodDisruptionBudget") {
			var chosen selector
			if err := budget.Spec.Selector.Decode(&chosen); err != nil || !slices.ContainsFunc(pods, func(p pod) bool { return chosen.matches(p.labels) }) {
				t.Errorf("PodDisruptionBudget %s selects no pod", budget.Metadata.Name)
			}
		}
	})
}

// Every secret is made by the commands of README.md, every ConfigMap by kustomize, or it is optional.
func TestWhatIsReferencedExists(t *testing.T) {
	secrets := documentedSecrets(t)
	each(t, func(t *testing.T, m *manifests) {
		configMap := func(owner, name string, optional bool) {
			if name != "" && !optional && !slices.Contains(m.names("ConfigMap"), name) {
				t.Errorf("%s: there is no ConfigMap %q", owner, name)
			}
		}
		secret := func(owner, name string, keys ...string) {
			for _, key := range keys {
				if name != "" && !slices.Contains(secrets[name], key) {
					t.Errorf("%s: README.md makes no secret %q with the key %q", owner, name, key)
				}
			}
		}
		for _, w := range m.workloads() {
			volumes := map[string]string{} // name, and its secret
			for _, v := range w.pod.Spec.Volumes {
				volumes[v.Name] = v.Secret.SecretName
				configMap(w.Metadata.Name, v.ConfigMap.Name, false)
				secret(w.Metadata.Name, v.Secret.SecretName) // which keys: below
				for _, source := range v.Projected.Sources {
					for _, item := range source.Secret.Items {
						secret(w.Metadata.Name, source.Secret.Name, item.Key)
					}
				}
			}
			if len(w.Spec.VolumeClaimTemplates) > 0 {
				volumes["data"] = ""
			}
			for _, c := range w.containers() {
				owner := w.Metadata.Name + "/" + c.Name
				settings := map[string]string{}
				for _, from := range c.EnvFrom {
					configMap(owner, from.ConfigMapRef.Name, false)
					maps.Copy(settings, m.data(from.ConfigMapRef.Name))
				}
				for _, env := range c.Env {
					configMap(owner, env.ValueFrom.ConfigMapKeyRef.Name, env.ValueFrom.ConfigMapKeyRef.Optional)
					settings[env.Name] = env.Value
				}
				for _, mount := range c.VolumeMounts {
					name, found := volumes[mount.Name]
					if !found {
						t.Errorf("%s: there is no volume %q", owner, mount.Name)
					}
					if name == "" {
						continue
					}
					// Every file that a setting names, below a secret's folder, is a key of it.
					used := 0
					for setting, path := range settings {
						if folder, key := filepath.Split(path); strings.HasSuffix(setting, "_FILE") && filepath.Clean(folder) == mount.MountPath {
							secret(owner+" "+setting, name, key)
							used++
						}
					}
					if used == 0 {
						t.Errorf("%s: no setting names a file in %s", owner, mount.MountPath)
					}
				}
				for setting, path := range settings {
					if strings.HasSuffix(setting, "_FILE") && !slices.ContainsFunc(c.VolumeMounts, func(mount struct {
						Name      string
						MountPath string `yaml:"mountPath"`
					}) bool {
						return mount.MountPath == filepath.Dir(path)
					}) {
						t.Errorf("%s: %s is %s, and nothing is mounted there", owner, setting, path)
					}
				}
			}
		}
	})
}

func (m *manifests) data(configMap string) map[string]string {
	for _, one := range m.of("ConfigMap") {
		if one.Metadata.Name == configMap {
			return one.Data
		}
	}
	return nil
}

// documentedSecrets runs the commands of README.md that make secrets in our namespace, with
// stand-ins for what talks to a cluster, and returns their names and keys.
func documentedSecrets(t *testing.T) map[string][]string {
	folder := t.TempDir()
	bin := filepath.Join(folder, "bin")
	calls := filepath.Join(folder, "calls")
	for name, script := range map[string]string{
		"kubectl": "#!/bin/sh\ncase \"$*\" in *' get secret '*) echo certificate ;; *) echo \"$*\" >>" + calls + " ;; esac\nfor a; do case $a in --from-file=*) [ -s \"${a#--from-file=}\" ] || echo \"empty ${a#--from-file=}\" >>" + calls + " ;; esac; done\n",
		"helm":    "#!/bin/sh\n",
		"docker":  "#!/bin/sh\n",
	} {
		kit.Must(t, errors.Join(os.MkdirAll(bin, 0o755), os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755)))
	}
	run := exec.Command("bash", "-euc", strings.Join(documentedCommands(t), "\n"))
	run.Dir, run.Env = folder, append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	if output, err := run.CombinedOutput(); err != nil {
		t.Fatalf("the commands of README.md fail: %v\n%s", err, output)
	}
	text, err := os.ReadFile(calls)
	kit.Must(t, err)
	secrets := map[string][]string{}
	namespace, applied := false, false
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		switch {
		case words[0] == "empty":
			t.Errorf("README.md makes a secret of a file that is missing or empty: %s", words[1])
		case strings.HasPrefix(line, "apply -f deploy/kustomize/namespace.yaml"):
			namespace = true
		case strings.HasPrefix(line, "apply -k deploy/kustomize"):
			applied = true
		case strings.HasPrefix(line, "-n liquida create secret generic "):
			if !namespace || applied {
				t.Errorf("README.md: the namespace comes before secrets, and secrets before the rest: %s", line)
			}
			for _, word := range words[6:] {
				if file, found := strings.CutPrefix(word, "--from-file="); found {
					secrets[words[5]] = append(secrets[words[5]], file)
				}
			}
		}
	}
	if !applied {
		t.Error("README.md never applies the manifests")
	}
	return secrets
}

// documentedCommands are the blocks below "From nothing" in README.md.
func documentedCommands(t *testing.T) []string {
	text, err := os.ReadFile("README.md")
	kit.Must(t, err)
	_, section, _ := strings.Cut(string(text), "\n## From nothing\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var blocks []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1) {
		blocks = append(blocks, block[1])
	}
	if len(blocks) < 5 {
		t.Fatalf("README.md has only %d blocks of commands", len(blocks))
	}
	return blocks
}

// Every variable is a setting of the program that gets it, and the bootstrap knows every user.
func TestSettingsAreTheProgramsOwn(t *testing.T) {
	known := map[string]map[string]bool{}
	settingsOf := func(t *testing.T, program ...string) map[string]bool {
		name := strings.Join(program, " ")
		if known[name] == nil {
			known[name] = map[string]bool{"GOMEMLIMIT": true} // of Go's runtime
			help, err := exec.Command(filepath.Join("../../bin", program[0]), append(slices.Clone(program[1:]), "--help")...).Output()
			if err != nil {
				t.Fatalf("%s --help: %v; make build", name, err)
			}
			for _, setting := range regexp.MustCompile(`(?m)^  ([A-Z][A-Z0-9_]+)  `).FindAllStringSubmatch(string(help), -1) {
				known[name][setting[1]] = true
			}
			if len(known[name]) < 5 {
				t.Fatalf("%s --help shows only %d settings", name, len(known[name]))
			}
		}
		return known[name]
	}
	each(t, func(t *testing.T, m *manifests) {
		shared := map[string]bool{} // settings of settings.env that nobody takes
		for _, w := range m.workloads() {
			for _, c := range w.containers() {
				if len(c.EnvFrom) == 0 {
					continue // not ours
				}
				program := c.Args[:1]
				if program[0] == "loadtest" {
					program = c.Args[:2]
				}
				takes := settingsOf(t, program...)
				given := map[string]bool{}
				for setting := range m.data(c.EnvFrom[0].ConfigMapRef.Name) {
					given[setting] = true
					shared[setting] = shared[setting] || takes[setting]
				}
				for _, env := range c.Env {
					given[env.Name] = true
					if !takes[env.Name] {
						t.Errorf("%s: %v has no setting %s", w.Metadata.Name, program, env.Name)
					}
				}
				for _, needed := range []string{"KAFKA_BROKERS", "KAFKA_TLS", "KAFKA_SASL_USER", "KAFKA_SASL_PASSWORD_FILE", "TIGERBEETLE_ADDRESSES"} {
					if takes[needed] && !given[needed] {
						t.Errorf("%s: %s is missing", w.Metadata.Name, needed)
					}
				}
			}
			if w.Metadata.Name != "bootstrap" {
				continue
			}
			var users, wanted []string
			for _, v := range w.pod.Spec.Volumes {
				for _, source := range v.Projected.Sources {
					users = append(users, source.Secret.Items[0].Path)
				}
			}
			for _, access := range stream.Accesses {
				wanted = append(wanted, access.User+"/password")
			}
			if slices.Sort(users); !slices.Equal(users, slices.Sorted(slices.Values(wanted))) {
				t.Errorf("the bootstrap gets the passwords %v, and Kafka's users need %v", users, wanted)
			}
		}
		for setting, taken := range shared {
			if !taken {
				t.Errorf("settings.env: no program has a setting %s", setting)
			}
		}
	})
}

// An image that compose runs too has the same pin there, which says why it is this one.
func TestPinsAreThoseOfCompose(t *testing.T) {
	compose, err := os.ReadFile("../../docker-compose.yml")
	kit.Must(t, err)
	each(t, func(t *testing.T, m *manifests) {
		for _, w := range m.workloads() {
			for _, c := range w.containers() {
				if !strings.HasSuffix(c.Image, "/liquida:local") && !strings.Contains(string(compose), "image: "+c.Image+"\n") {
					t.Errorf("%s/%s: docker-compose.yml has no image %s", w.Metadata.Name, c.Name, c.Image)
				}
				if strings.Contains(c.Image, "/tigerbeetle:") && !strings.HasSuffix(c.Image, ":"+tigerbeetle.Version) {
					t.Errorf("%s: the image %s does not fit the client, %s", w.Metadata.Name, c.Image, tigerbeetle.Version)
				}
			}
		}
	})
}

// Redpanda's cluster settings are those of compose. Its chart drops a 0 without a word.
func TestRedpandaIsSetAsInCompose(t *testing.T) {
	var values struct {
		Config struct{ Cluster map[string]any }
	}
	var compose map[string]any
	for file, target := range map[string]any{"redpanda-values.yaml": &values, "../compose/redpanda-bootstrap.yaml": &compose} {
		text, err := os.ReadFile(file)
		kit.Must(t, errors.Join(err, yaml.Unmarshal(text, target)))
	}
	// The chart derives these: from auth.sasl, and from the size of the volume.
	for _, ofTheChart := range []string{"enable_sasl", "superusers", "storage_min_free_bytes"} {
		delete(compose, ofTheChart)
	}
	for name, value := range compose {
		if value == 0 {
			value = 1
		}
		if values.Config.Cluster[name] != value {
			t.Errorf("%s is %v for the chart; it must be %v", name, values.Config.Cluster[name], value)
		}
	}
	for name, value := range values.Config.Cluster {
		if value == 0 || value == "" {
			t.Errorf("%s is %#v, and the chart drops it", name, value)
		}
	}
}
