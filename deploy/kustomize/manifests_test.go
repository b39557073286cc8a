// Package kustomize holds the manifests for Kubernetes. Its tests check what no schema can, and what would harm
// somebody. Those of the ledger's scripts are in deploy/compose.
package kustomize

import (
	"bytes"
	"errors"
	"fmt"
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

// find returns what is at a path of keys. Lists on the way are taken apart.
func find(value any, path string) []any {
	found := []any{value}

	for key := range strings.FieldsSeq(path) {
		var below []any

		for _, one := range found {
			fields, _ := one.(map[string]any)
			if list, is := fields[key].([]any); is {
				below = append(below, list...)
			} else if fields[key] != nil {
				below = append(below, fields[key])
			}
		}
		found = below
	}

	return found
}

// text returns the one scalar at a path, or "".
func text(value any, path string) string {
	for _, one := range find(value, path) {
		return fmt.Sprint(one)
	}

	return ""
}

// fields returns the map of scalars at a path.
func fields(value any, path string) map[string]string {
	all := map[string]string{}

	for _, one := range find(value, path) {
		for key, scalar := range one.(map[string]any) {
			all[key] = fmt.Sprint(scalar)
		}
	}

	return all
}

const inCluster = "tigerbeetle" // the component that is on

// manifests are what kustomize makes with one of the two components for the ledger.
type manifests struct {
	name    string
	objects []any
}

func each(t *testing.T, test func(t *testing.T, m manifests)) {
	folder := os.Getenv("LIQUIDA_MANIFESTS")
	if folder == "" {
		t.Skip("needs what kustomize makes of the manifests: make check-manifests")
	}

	for _, name := range []string{inCluster, "ledger-elsewhere"} {
		t.Run(name, func(t *testing.T) {
			content, err := os.ReadFile(filepath.Join(folder, name+".yaml"))
			kit.Must(t, err)
			m := manifests{name: name}

			for decoder := yaml.NewDecoder(bytes.NewReader(content)); ; {
				var one any

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
			test(t, m)
		})
	}
}

func (m manifests) of(kind string) (found []any) {
	for _, one := range m.objects {
		if text(one, "kind") == kind {
			found = append(found, one)
		}
	}

	return found
}

// workload is the template of the pods of an object.
type workload struct {
	name                  string
	object, template, pod any
	containers            []any
}

func (m manifests) workloads() (all []workload) {
	for _, one := range m.objects {
		for _, template := range slices.Concat(find(one, "spec template"),
			find(one, "spec jobTemplate spec template")) {
			containers := slices.Concat(find(template, "spec initContainers"), find(template, "spec containers"))
			all = append(all, workload{text(one, "metadata name"), one, template, find(template, "spec")[0],
				containers})
		}
	}

	return all
}

// data returns the content of a ConfigMap.
func (m manifests) data(name string) map[string]string {
	for _, one := range m.of("ConfigMap") {
		if text(one, "metadata name") == name {
			return fields(one, "data")
		}
	}

	return nil
}

func readme(t *testing.T) string {
	content, err := os.ReadFile("README.md")
	kit.Must(t, err)
	return string(content)
}

// Applying must not fail the second time, as with the immutable template of a Job; deleting must not delete the
// namespace, which holds the ledger's volumes. Images that compose runs too have its pins.
func TestObjectsAndContainers(t *testing.T) {
	compose, err := os.ReadFile("../../docker-compose.yml")
	kit.Must(t, err)
	each(t, func(t *testing.T, m manifests) {
		for _, one := range m.objects {
			kind, namespace := text(one, "kind"), text(one, "metadata namespace")
			if slices.Contains([]string{"Job", "Pod", "Namespace", "PersistentVolumeClaim"}, kind) ||
				namespace != "liquida" {
				t.Errorf("%s %s in the namespace %q must not be applied", kind, text(one, "metadata name"), namespace)
			}
		}

		for _, w := range m.workloads() {
			if text(w.pod, "securityContext runAsNonRoot") != "true" ||
				text(w.pod, "automountServiceAccountToken") != "false" {
				t.Errorf("%s may run as root, or gets a token for the API server", w.name)
			}

			for _, c := range w.containers {
				image := text(c, "image")
				if !strings.HasSuffix(image, "/liquida:local") &&
					!strings.Contains(string(compose), "image: "+image+"\n") {
					t.Errorf("%s: docker-compose.yml has no image %s", w.name, image)
				}

				if strings.Contains(image, "/tigerbeetle:") && !strings.HasSuffix(image, ":"+tigerbeetle.Version) {
					t.Errorf("%s: the image %s does not fit the client, %s", w.name, image, tigerbeetle.Version)
				}

				for setting, want := range map[string]string{"allowPrivilegeEscalation": "false",
					"readOnlyRootFilesystem": "true", "capabilities drop": "ALL"} {
					if got := text(c, "securityContext "+setting); got != want {
						t.Errorf("%s: %s is %q, want %s", w.name, setting, got, want)
					}
				}
				// A limit of CPU would throttle engines, which then lose their session.
				if limits := fields(c, "resources limits"); limits["memory"] == "" || limits["cpu"] != "" {
					t.Errorf("%s: the limits are %v", w.name, limits)
				}
			}
		}

		for _, service := range m.of("Service") {
			selector := map[string]any{"matchLabels": find(service, "spec selector")[0]}

			serves := func(p pod) bool {
				return matches(selector, p.labels) && !slices.ContainsFunc(find(service, "spec ports targetPort"),
					func(port any) bool { return p.ports[fmt.Sprint(port)] == 0 })
			}
			if !slices.ContainsFunc(m.pods(), serves) {
				t.Errorf("Service %s selects no pod that has its ports", text(service, "metadata name"))
			}
		}
	})
}

// documentedSecrets returns the secrets that the commands of README.md make, as NAME/KEY.
func documentedSecrets(t *testing.T) map[string]bool {
	document := readme(t)

	users := regexp.MustCompile(`for user in ([a-z -]+);`).FindStringSubmatch(document)
	if users == nil {
		t.Fatal("README.md makes no passwords of users")
	}
	made := map[string]bool{}

	for _, secret := range regexp.MustCompile(`-n liquida create secret generic (\S+)(.*)`).FindAllStringSubmatch(
		document, -1) {
		names := []string{secret[1]}
		if secret[1] == "kafka-$user" {
			names = nil
			for user := range strings.FieldsSeq(users[1]) {
				names = append(names, "kafka-"+user)
			}
		}

		for _, key := range regexp.MustCompile(`--from-file=(\S+)`).FindAllStringSubmatch(secret[2], -1) {
			for _, name := range names {
				made[name+"/"+key[1]] = true
			}
		}
	}

	return made
}

// Every secret and ConfigMap that somebody needs is made, and every file that a setting names is in one.
func TestWhatIsReferencedExists(t *testing.T) {
	secrets := documentedSecrets(t)
	each(t, func(t *testing.T, m manifests) {
		for _, w := range m.workloads() {
			volumes := map[string]string{} // name, and its secret
			for _, volume := range find(w.pod, "volumes") {
				volumes[text(volume, "name")] = text(volume, "secret secretName")
				if name := text(volume, "configMap name"); name != "" && m.data(name) == nil {
					t.Errorf("%s: there is no ConfigMap %s", w.name, name)
				}

				for _, secret := range find(volume, "projected sources secret") {
					if key := text(secret, "name") + "/" + text(secret, "items key"); !secrets[key] {
						t.Errorf("%s: README.md makes no secret %s", w.name, key)
					}
				}
			}

			for _, c := range w.containers {
				mounts := map[string]string{} // path, and its secret
				for _, mount := range find(c, "volumeMounts") {
					mounts[text(mount, "mountPath")] = volumes[text(mount, "name")]
				}

				for setting, path := range m.settings(c) {
					if key := mounts[filepath.Dir(path)] + "/" +
						filepath.Base(path); strings.HasSuffix(setting, "_FILE") && !secrets[key] {
						t.Errorf("%s: %s is %s, which is in no secret that README.md makes", w.name, setting, path)
					}
				}
			}
		}
	})
}

// settings returns the environment of a container; what has no value here is "?".
func (m manifests) settings(c any) map[string]string {
	settings := map[string]string{}
	for _, from := range find(c, "envFrom configMapRef name") {
		maps.Copy(settings, m.data(from.(string)))
	}

	for _, env := range find(c, "env") {
		settings[text(env, "name")] = text(env, "value")
	}

	return settings
}

// Every variable is a setting of the program that gets it, and bootstrap knows every user of Kafka.
func TestSettingsAreTheProgramsOwn(t *testing.T) {
	known := map[string]string{}
	each(t, func(t *testing.T, m manifests) {
		for _, w := range m.workloads() {
			for _, c := range w.containers {
				if !strings.HasSuffix(text(c, "image"), "/liquida:local") {
					continue
				}

				var program []string
				for _, argument := range find(c, "args") {
					program = append(program, fmt.Sprint(argument))
				}
				program = program[:min(len(program), 2)]

				name := strings.Join(program, " ")
				if known[name] == "" {
					help, err := exec.Command("../../bin/"+program[0], append(program[1:], "--help")...).Output()
					if err != nil {
						t.Fatalf("%s --help: %v; make build", name, err)
					}
					known[name] = string(help)
				}
				takes := func(setting string) bool { return strings.Contains(known[name], "\n  "+setting+"  ") }

				given := m.settings(c)
				for _, env := range find(c, "env name") {
					if !takes(env.(string)) && env != "GOMEMLIMIT" {
						t.Errorf("%s: %s has no setting %s", w.name, name, env)
					}
				}

				for _, needed := range []string{"KAFKA_BROKERS", "KAFKA_TLS", "KAFKA_SASL_USER",
					"KAFKA_SASL_PASSWORD_FILE", "TIGERBEETLE_ADDRESSES"} {
					if _, has := given[needed]; takes(needed) && !has {
						t.Errorf("%s: %s is missing", w.name, needed)
					}
				}
			}

			if w.name != "bootstrap" {
				continue
			}

			users := find(w.pod, "volumes projected sources secret items path")
			for _, access := range stream.Accesses {
				if !slices.Contains(users, any(access.User+"/password")) {
					t.Errorf("bootstrap gets the passwords %v, and not that of %s", users, access.User)
				}
			}
		}
	})
}

// Redpanda's cluster settings are those of compose. Its chart drops a 0 without a word.
func TestRedpandaIsSetAsInCompose(t *testing.T) {
	read := func(file string) (value map[string]any) {
		content, err := os.ReadFile(file)
		kit.Must(t, errors.Join(err, yaml.Unmarshal(content, &value)))
		return value
	}

	chart := fields(read("redpanda-values.yaml"), "config cluster")
	for name, value := range read("../compose/redpanda-bootstrap.yaml") {
		// The chart derives these: from auth.sasl, and from the size of the volume.
		if slices.Contains([]string{"enable_sasl", "superusers", "storage_min_free_bytes"}, name) {
			continue
		}

		if value == 0 {
			value = 1
		}

		if chart[name] != fmt.Sprint(value) {
			t.Errorf("%s is %v for the chart; it must be %v", name, chart[name], value)
		}
	}
}
