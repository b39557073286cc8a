package dashboards

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// libraryVariable names the folder of Grafana's npm packages, which `.ci/tools.sh grafana` makes.
const libraryVariable = "GRAFANA_LIBRARY"

func grafanaLibrary(t *testing.T) string {
	t.Helper()
	library := os.Getenv(libraryVariable)
	if library == "" {
		t.Skipf("%s is not set: make test-grafana installs Grafana's packages and runs this test", libraryVariable)
	}
	return library
}

// TestDashboardsInGrafana checks the files against Grafana's types: it would ignore an option that it does not know.
func TestDashboardsInGrafana(t *testing.T) {
	arguments := []string{filepath.Join("testdata", "types.cjs"), grafanaLibrary(t)}
	for _, d := range All {
		arguments = append(arguments, d.file())
	}
	if output, err := exec.Command("node", arguments...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}

// TestSameVersionInGrafana compares the packages with the server's image: both are of one minor version.
func TestSameVersionInGrafana(t *testing.T) {
	image := regexp.MustCompile(`image: grafana/grafana:(\d+\.\d+)\.`).FindStringSubmatch(read(t, "../../docker-compose.yml"))
	var module struct{ Version string }
	if err := json.Unmarshal([]byte(read(t, filepath.Join(grafanaLibrary(t), "node_modules/@grafana/prometheus/package.json"))), &module); err != nil {
		t.Fatal(err)
	}
	if image == nil || !strings.HasPrefix(module.Version, image[1]+".") {
		t.Errorf("docker-compose.yml has Grafana %q, .ci/tools.sh has its packages in version %s", image, module.Version)
	}
}

// inGrafana asks testdata/grafana.cjs, which runs Grafana's own code.
func inGrafana(t *testing.T, command string, cases, answers any) {
	t.Helper()
	input, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	node := exec.Command("node", filepath.Join("testdata", "grafana.cjs"), grafanaLibrary(t), command)
	node.Stdin = bytes.NewReader(input)
	var complaint bytes.Buffer
	node.Stderr = &complaint
	output, err := node.Output()
	if err != nil {
		t.Fatalf("Grafana's code failed: %v\n%s", err, complaint.String())
	}
	if err := json.Unmarshal(output, answers); err != nil {
		t.Fatal(err)
	}
}

// TestStatsInGrafana checks the color that single values get: green while all is right, and grey, neither
// green nor red, while nobody knows.
func TestStatsInGrafana(t *testing.T) {
	const none = "none"
	type look struct{ Text, Color string }
	colors := map[string]string{"#73BF69": green, "#FF9830": orange, "#F2495C": red, grey: grey}
	var cases []object
	var want []look
	try := func(p Panel, value any, text, color string) {
		if value == none {
			value = nil
		}
		cases = append(cases, object{"panel": p.json(), "value": value})
		want = append(want, look{text, color})
	}
	for _, d := range All {
		for _, row := range d.Rows {
			for _, p := range row.Panels {
				if p.Kind == Stat {
					try(p, none, p.noData(), grey)
				}
			}
		}
	}
	stats := map[string]Panel{}
	for _, p := range payments.Rows[0].Panels {
		stats[p.Title] = p
	}
	try(stats["Is everything all right?"], 0, "YES", green)
	try(stats["Is everything all right?"], 1, "LOOK", orange)
	try(stats["Is everything all right?"], 2, "NO?", red)
	try(stats["Is everything all right?"], 3, "NO", red)
	try(stats["Does the money add up?"], 0, "YES", green)
	try(stats["Does the money add up?"], 0.01, "0.0100", red)
	try(stats["Does every message end?"], 1, "100", green)
	try(stats["Does every message end?"], 0.85, "85", orange)
	try(stats["Do payments settle?"], 0.7, "0.700", green)
	try(stats["Do payments settle?"], 20, "20", red)

	var answers []look
	inGrafana(t, "stat", cases, &answers)
	for i, answer := range answers {
		if got := (look{answer.Text, colors[answer.Color]}); got != want[i] {
			t.Errorf("%s with %v looks like %v (%s), want %v", cases[i]["panel"].(object)["title"], cases[i]["value"], got, answer.Color, want[i])
		}
	}
}
