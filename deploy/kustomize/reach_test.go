package kustomize

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/liquida/liquida/platform/kit"
)

type (
	selector struct {
		MatchLabels      map[string]string `yaml:"matchLabels"`
		MatchExpressions []struct {
			Key, Operator string
			Values        []string
		} `yaml:"matchExpressions"`
	}
	rule struct {
		From, To []peer
		Ports    []struct{ Protocol, Port string }
	}
	peer struct {
		PodSelector       *selector              `yaml:"podSelector"`
		NamespaceSelector *selector              `yaml:"namespaceSelector"`
		IPBlock           *struct{ CIDR string } `yaml:"ipBlock"`
	}
	// pod is one end of a connection: of ours, of another namespace, or outside the cluster.
	pod struct {
		name, namespace string
		labels          map[string]string
		containers      []container
		address         string // outside only
	}
)

func (s selector) matches(labels map[string]string) bool {
	for key, value := range s.MatchLabels {
		if labels[key] != value {
			return false
		}
	}
	for _, expression := range s.MatchExpressions {
		if expression.Operator != "In" {
			panic("the test does not know the operator " + expression.Operator)
		}
		if !slices.Contains(expression.Values, labels[expression.Key]) {
			return false
		}
	}
	return true
}

// pods lists the pods that the workloads make, with the labels that Kubernetes adds.
func (m *manifests) pods() []pod {
	var all []pod
	for _, w := range m.workloads() {
		for i := range max(w.Spec.Replicas, 1) {
			labels := maps.Clone(w.pod.Metadata.Labels)
			name := w.Metadata.Name
			if w.Kind == "StatefulSet" {
				name = fmt.Sprint(name, "-", i)
				labels["statefulset.kubernetes.io/pod-name"] = name
			}
			all = append(all, pod{name: name, namespace: w.Metadata.Namespace, labels: labels, containers: w.containers()})
		}
	}
	return all
}

func (r peer) is(p pod) bool {
	if r.IPBlock != nil {
		address, err := netip.ParseAddr(p.address)
		return err == nil && netip.MustParsePrefix(r.IPBlock.CIDR).Contains(address)
	}
	if p.address != "" {
		return false
	}
	namespaced := p.namespace == "liquida"
	if r.NamespaceSelector != nil {
		namespaced = r.NamespaceSelector.matches(map[string]string{"kubernetes.io/metadata.name": p.namespace})
	}
	return namespaced && (r.PodSelector == nil || r.PodSelector.matches(p.labels))
}

// allows evaluates the policies for one end of a connection, as the API's documentation of NetworkPolicy says:
// a pod that a policy selects for a direction may do there what one of these policies lists.
func (m *manifests) allows(direction string, own, other pod, server pod, port int) bool {
	if own.namespace != "liquida" || own.address != "" {
		return true // our policies do not apply to it
	}
	selected := false
	for _, policy := range m.of("NetworkPolicy") {
		if !policy.Spec.PodSelector.matches(own.labels) || !slices.Contains(policy.Spec.PolicyTypes, direction) {
			continue
		}
		selected = true
		rules := policy.Spec.Ingress
		if direction == "Egress" {
			rules = policy.Spec.Egress
		}
		for _, r := range rules {
			peers := slices.Concat(r.From, r.To)
			to := len(peers) == 0 || slices.ContainsFunc(peers, func(p peer) bool { return p.is(other) })
			on := len(r.Ports) == 0
			for _, p := range r.Ports {
				on = on || p.Port == fmt.Sprint(port) || portOf(server.containers, p.Port) == port
			}
			if to && on {
				return true
			}
		}
	}
	return !selected
}

func (m *manifests) reaches(from, to pod, port int) bool {
	return m.allows("Egress", from, to, to, port) && m.allows("Ingress", to, from, to, port)
}

// The table of README.md, "Who may reach what".
func TestWhoReachesWhat(t *testing.T) {
	each(t, func(t *testing.T, m *manifests) {
		outside := []pod{
			{name: "a pod of ours that nobody knows", namespace: "liquida", labels: map[string]string{"app.kubernetes.io/name": "debug"}},
			{name: "a pod elsewhere", namespace: "default", labels: map[string]string{"app.kubernetes.io/name": "clearing-engine"}},
			{name: "prometheus", namespace: "monitoring", labels: map[string]string{"app.kubernetes.io/name": "prometheus"}},
			{name: "the internet", address: "203.0.113.7"},
		}
		kafka := pod{name: "kafka", namespace: "redpanda", labels: map[string]string{"app.kubernetes.io/name": "redpanda"}}
		names := pod{name: "DNS", namespace: "kube-system", labels: map[string]string{"k8s-app": "kube-dns"}}
		callers := slices.Concat(m.pods(), outside)
		servers := append(m.pods(), kafka, names, pod{name: "a ledger elsewhere", address: "10.0.0.10"}, pod{name: "the internet", address: "203.0.113.7"}, pod{name: "the API server", namespace: "default", labels: map[string]string{}})
		may := readTable(t)
		all := []int{3001, 8080, 8081, 8125, 9093, 9100, 9102, 53, 443, 6443, 9644}
		tried, allowed := 0, 0
		for _, from := range callers {
			for _, to := range servers {
				for _, port := range all {
					if from.namespace != "liquida" && to.namespace != "liquida" {
						continue
					}
					tried++
					got, want := m.reaches(from, to, port), may.reach(from, to, port)
					if got != want {
						t.Errorf("%s reaches %s on %d: %v, must be %v", from.name, to.name, port, got, want)
					}
					if want {
						allowed++
					}
				}
			}
		}
		t.Logf("%d of %d connections are allowed", allowed, tried)
		if allowed == 0 {
			t.Error("nothing is allowed")
		}
	})
}

// table is that of README.md, "Who may reach what": what the policies must say, by caller and server.
type table map[string]map[string]bool

const (
	elsePod   = "other pods of this namespace"
	elseWhere = "other namespaces, and from outside"
)

func readTable(t *testing.T) table {
	t.Helper()
	text, err := os.ReadFile("README.md")
	kit.Must(t, err)
	_, section, _ := strings.Cut(string(text), "\n## Who may reach what\n")
	all := table{}
	var servers []string
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if strings.HasPrefix(line, "#") {
			break
		}
		if len(cells) != 7 { // caller, four servers, and nothing around
			continue
		}
		if servers == nil {
			for _, cell := range cells[2:6] {
				server, _, _ := strings.Cut(strings.TrimSpace(cell), " ")
				servers = append(servers, server)
			}
			continue
		}
		callers := []string{strings.TrimSpace(cells[1])}
		if callers[0] != elseWhere {
			callers = strings.Split(callers[0], ", ")
		}
		for _, caller := range callers {
			all[caller] = map[string]bool{}
			for i, server := range servers {
				all[caller][server] = strings.TrimSpace(cells[i+2]) == "yes"
			}
		}
	}
	if len(all) < 9 || !slices.Equal(servers, []string{"ledger", "Kafka", "front", "metrics"}) {
		t.Fatalf("the table of README.md is not read: %v, %v", servers, all)
	}
	return all
}

func (rights table) reach(from, to pod, port int) bool {
	part := func(p pod) string {
		if p.namespace != "liquida" {
			return ""
		}
		return p.labels["app.kubernetes.io/name"]
	}
	caller := elseWhere
	switch {
	case from.namespace == "monitoring":
		caller = "namespace `monitoring`"
	case rights[part(from)] != nil:
		caller = part(from)
	case from.namespace == "liquida":
		caller = elsePod
	}
	may := rights[caller]
	switch {
	case part(to) == "tigerbeetle" && port == 3001:
		return may["ledger"]
	case to.name == "a ledger elsewhere" && port == 3001:
		return may["ledger"] && part(from) != "tigerbeetle" && elsewhere(from)
	case to.name == "kafka" && port == 9093:
		return may["Kafka"]
	case to.name == "DNS" && port == 53:
		return from.namespace == "liquida"
	case part(to) == "producer" && port == 8080:
		return may["front"]
	case part(to) == "tigerbeetle" && port == 9102, slices.Contains([]string{"producer", "clearing-engine", "bank-simulator", "archiver"}, part(to)) && port == 9100:
		return may["metrics"]
	}
	return false
}

// elsewhere reports whether the pod's ledger is outside the cluster.
func elsewhere(p pod) bool {
	for _, c := range p.containers {
		for _, env := range c.Env {
			if env.Name == "TIGERBEETLE_ADDRESSES" && strings.Contains(env.Value, "SERVICE_HOST") {
				return false
			}
		}
	}
	return true
}

// Every name and port in a policy belongs to a pod. Otherwise a renamed label would leave a
// policy that selects nothing.
func TestPoliciesSelectPods(t *testing.T) {
	each(t, func(t *testing.T, m *manifests) {
		named := map[string]bool{}
		for _, p := range m.pods() {
			named[p.labels["app.kubernetes.io/name"]] = true
		}
		for _, policy := range m.of("NetworkPolicy") {
			selectors := []selector{policy.Spec.PodSelector}
			for _, r := range slices.Concat(policy.Spec.Ingress, policy.Spec.Egress) {
				for _, p := range slices.Concat(r.From, r.To) {
					if p.PodSelector != nil && p.NamespaceSelector == nil {
						selectors = append(selectors, *p.PodSelector)
					}
				}
			}
			for _, s := range selectors {
				values := slices.Collect(maps.Values(s.MatchLabels))
				for _, expression := range s.MatchExpressions {
					values = append(values, expression.Values...)
				}
				for _, value := range values {
					// If the ledger is outside the cluster it has no pods here, but policies still name them.
					if away := value == "tigerbeetle" && m.name != component; !named[value] && !away {
						t.Errorf("policy %s: there is no pod %q", policy.Metadata.Name, value)
					}
				}
			}
		}
	})
}
