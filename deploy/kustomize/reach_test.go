package kustomize

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pod is one end of a connection: of ours, of another namespace, or outside the cluster.
type pod struct {
	name, namespace string
	labels          map[string]string
	ports           map[string]int
	address         string // outside only
}

// pods lists the pods that the workloads make, by the label of their name, with the labels that Kubernetes adds.
func (m manifests) pods() (all []pod) {
	for _, w := range m.workloads() {
		ports := map[string]int{}
		for _, port := range find(w.pod, "containers ports") {
			ports[text(port, "name")], _ = strconv.Atoi(text(port, "containerPort"))
		}

		replicas, _ := strconv.Atoi(text(w.object, "spec replicas"))
		for i := range max(replicas, 1) {
			labels := fields(w.template, "metadata labels")
			labels["statefulset.kubernetes.io/pod-name"] = fmt.Sprint(w.name, "-", i)
			all = append(all, pod{labels["app.kubernetes.io/name"], "liquida", labels, ports, ""})
		}
	}

	return all
}

func matches(selector any, labels map[string]string) bool {
	for key, value := range fields(selector, "matchLabels") {
		if labels[key] != value {
			return false
		}
	}

	for _, expression := range find(selector, "matchExpressions") {
		if text(expression, "operator") != "In" {
			panic("the test does not know the operator " + text(expression, "operator"))
		}

		if !slices.Contains(find(expression, "values"), any(labels[text(expression, "key")])) {
			return false
		}
	}

	return true
}

// is reports whether a peer of a policy is a pod.
func is(peer any, p pod) bool {
	if cidr := text(peer, "ipBlock cidr"); cidr != "" {
		address, err := netip.ParseAddr(p.address)
		return err == nil && netip.MustParsePrefix(cidr).Contains(address)
	}

	if p.address != "" {
		return false
	}

	here := p.namespace == "liquida"
	for _, selector := range find(peer, "namespaceSelector") {
		here = matches(selector, map[string]string{"kubernetes.io/metadata.name": p.namespace})
	}

	for _, selector := range find(peer, "podSelector") {
		here = here && matches(selector, p.labels)
	}

	return here
}

// allows evaluates the policies for one end of a connection, as the API's documentation of NetworkPolicy says:
// a pod that a policy selects for a direction may do there what one of these policies lists.
func (m manifests) allows(direction string, own, other, server pod, port int) bool {
	if own.namespace != "liquida" {
		return true // our policies do not apply to it
	}
	selected := false

	for _, policy := range m.of("NetworkPolicy") {
		if !matches(find(policy, "spec podSelector")[0], own.labels) ||
			!slices.Contains(find(policy, "spec policyTypes"), any(direction)) {
			continue
		}
		selected = true

		for _, rule := range find(policy, "spec "+strings.ToLower(direction)) {
			peers, ports := slices.Concat(find(rule, "from"), find(rule, "to")), find(rule, "ports port")
			to := len(peers) == 0 || slices.ContainsFunc(peers, func(peer any) bool { return is(peer, other) })

			on := len(ports) == 0 || slices.ContainsFunc(ports, func(p any) bool {
				return fmt.Sprint(p) == fmt.Sprint(port) || server.ports[fmt.Sprint(p)] == port
			})
			if to && on {
				return true
			}
		}
	}

	return !selected
}

// mayReach is the table of README.md, "Who may reach what": by caller, whether it may reach each of four.
func mayReach(t *testing.T) map[string][]bool {
	_, section, _ := strings.Cut(readme(t), "\n## Who may reach what\n")
	rights := map[string][]bool{}

	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 7 { // caller, four servers, and nothing around
			continue
		}

		for caller := range strings.SplitSeq(strings.TrimSpace(cells[1]), ", ") {
			for _, cell := range cells[2:6] {
				rights[caller] = append(rights[caller], strings.TrimSpace(cell) == "yes")
			}
		}
	}

	return rights
}

// The policies allow what the table says, and names, and nothing else.
func TestWhoReachesWhat(t *testing.T) {
	rights := mayReach(t)
	const outside = "other namespaces and from outside"
	each(t, func(t *testing.T, m manifests) {
		columns := map[string]int{"kafka 9093": 1, "producer 8080": 2, "tigerbeetle 9102": 3}
		for _, p := range []string{"producer", "clearing-engine", "bank-simulator", "archiver"} {
			columns[p+" 9100"] = 3
		}
		columns[map[bool]string{true: "tigerbeetle 3001", false: "a ledger elsewhere 3001"}[m.name == inCluster]] = 0
		callers := append(m.pods(),
			pod{name: "other pods of this namespace", namespace: "liquida",
				labels: map[string]string{"app.kubernetes.io/name": "debug"}},
			pod{name: "namespace `monitoring`", namespace: "monitoring"}, pod{name: outside, address: "203.0.113.7"},
			pod{name: outside, namespace: "default",
				labels: map[string]string{"app.kubernetes.io/name": "clearing-engine"}})

		servers := append(m.pods(), pod{name: "a ledger elsewhere", address: "10.0.0.10"},
			pod{name: "the internet", address: "203.0.113.7"},
			pod{name: "kafka", namespace: "redpanda", labels: map[string]string{"app.kubernetes.io/name": "redpanda"}},
			pod{name: "DNS", namespace: "kube-system"}, pod{name: "the API server", namespace: "default"})
		for _, from := range callers {
			if len(rights[from.name]) != 4 {
				t.Fatalf("the table of README.md has no row of %s", from.name)
			}

			for _, to := range servers {
				for _, port := range []int{3001, 8080, 8081, 8125, 9093, 9100, 9102, 53, 443, 6443, 9644} {
					if from.namespace != "liquida" && to.namespace != "liquida" {
						continue
					}

					want := to.name == "DNS" && port == 53
					if column, there := columns[fmt.Sprint(to.name, " ", port)]; there {
						want = rights[from.name][column]
					}

					got := m.allows("Egress", from, to, to, port) && m.allows("Ingress", to, from, to, port)
					if got != want {
						t.Errorf("%s reaches %s on %d: %v, must be %v", from.name, to.name, port, got, want)
					}
				}
			}
		}
	})
}
