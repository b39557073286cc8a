// Package grafana holds the dashboards, which Grafana reads, and tests them.
package grafana

import (
	"cmp"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/liquida/liquida/platform/kit"
)

type dashboard struct {
	UID         string
	Panels      []panel
	Annotations struct{ List []annotation }
}

type panel struct {
	Type, Title, Description string
	Panels                   []json.RawMessage // of a row that is closed
	Targets                  []struct{ Expr, LegendFormat string }
	FieldConfig              struct {
		Defaults struct {
			Unit       string
			Thresholds struct{ Steps []step }
		}
	}
}

type step struct{ Value float64 }

type annotation struct {
	Name   string
	Target struct{ Expr string }
}

// datasources finds the uid of each data source in a file whose keys are sorted.
var datasources = regexp.MustCompile(`"datasource": \{\s*"type": "[^"]*",\s*"uid": "([^"]*)"`)

// dashboards reads the files, by their names.
func dashboards(t *testing.T) map[string]dashboard {
	files, err := filepath.Glob("dashboards/*.json")
	kit.Must(t, err)
	all := map[string]dashboard{}

	for _, file := range files {
		text, err := os.ReadFile(file)
		kit.Must(t, err)

		for _, source := range datasources.FindAllStringSubmatch(string(text), -1) {
			if source[1] != "prometheus" {
				t.Errorf("%s asks the data source %s, not prometheus, which provisioning makes", file, source[1])
			}
		}
		var d dashboard
		kit.Must(t, json.Unmarshal(text, &d))
		all[file] = d
	}

	if len(all) < 5 {
		t.Fatalf("only %d dashboards were read", len(all))
	}

	return all
}

// panels returns those of all dashboards by title, each once, without the headings of rows.
func panels(t *testing.T) map[string]panel {
	byTitle := map[string]panel{}

	for file, d := range dashboards(t) {
		for _, p := range d.Panels {
			if len(p.Panels) > 0 {
				t.Errorf("%s: open the row %s before you copy the dashboard: nothing reads what is in it", file, p.Title)
			}

			if p.Type == "row" {
				continue
			}

			if before, known := byTitle[p.Title]; known && !reflect.DeepEqual(before, p) {
				t.Errorf("%s: %s is not what another dashboard shows under this title", file, p.Title)
			}
			byTitle[p.Title] = p
		}
	}

	return byTitle
}

// TestPanelsExplainThemselves checks that every panel asks a question, and says how to read the answer.
func TestPanelsExplainThemselves(t *testing.T) {
	uids := map[string]string{}

	for file, d := range dashboards(t) {
		if d.UID == "" || uids[d.UID] != "" {
			t.Errorf("%s has the uid %q of %s", file, d.UID, uids[d.UID])
		}
		uids[d.UID] = file
	}

	for title, p := range panels(t) {
		shown := p.FieldConfig.Defaults
		if !strings.HasSuffix(title, "?") || !strings.HasSuffix(p.Description, ".") || shown.Unit == "" ||
			len(p.Targets) == 0 || len(shown.Thresholds.Steps) == 0 {
			t.Errorf("%s: needs a question as title, a description in whole sentences, a unit, a query and thresholds", title)
			continue
		}
		steps := shown.Thresholds.Steps[1:] // the first is the floor

		if !slices.IsSortedFunc(steps, func(a, b step) int { return cmp.Compare(a.Value, b.Value) }) ||
			p.Type == "stat" && len(steps) == 0 {
			t.Errorf("%s: thresholds must ascend, and a single value needs some", title)
		}
	}
}

// TestExpressionsReadWhatThereIs checks that programs or rules define each metric of the dashboards and of the rules.
func TestExpressionsReadWhatThereIs(t *testing.T) {
	var defined strings.Builder

	for _, folder := range []string{"../../services", "../../platform"} {
		kit.Must(t, filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			defined.Write(text)

			return err
		}))
	}
	all := expressions(t)

	for _, rule := range rules(t) {
		defined.WriteString(`"` + rule.Record + `"`)
		all["rule "+rule.Alert+rule.Record] = rule.Expr
	}
	// What others name: Kafka's client, TigerBeetle, Prometheus. make test-dashboards proves these too.
	foreign, parts := regexp.MustCompile(`^(pix_kafka_|tb_|up|process_|ALERTS)`),
		regexp.MustCompile(`_(bucket|sum|count)$`)

	for where, expr := range all {
		read := selectors(t, expr)
		if len(read) == 0 && !strings.Contains(expr, "vector(") {
			t.Errorf("%s reads nothing: %s", where, expr)
		}

		for _, selector := range read {
			name, _, _ := strings.Cut(selector, "{")
			ofHistogram := parts.ReplaceAllString(name, "")

			if !foreign.MatchString(name) && !strings.Contains(defined.String(), `"`+name+`"`) &&
				!strings.Contains(defined.String(), `"`+ofHistogram+`"`) {
				t.Errorf("%s reads %s, which no program and no rule defines", where, name)
			}
		}
	}
}

// expressions returns those of all panels and annotations, by where they stand.
func expressions(t *testing.T) map[string]string {
	all := map[string]string{}

	for title, p := range panels(t) {
		for _, target := range p.Targets {
			all[title+" "+target.LegendFormat] = target.Expr
		}
	}

	for name, expr := range annotations(t) {
		all["annotation "+name] = expr
	}

	return all
}

// annotations returns their expressions by name.
func annotations(t *testing.T) map[string]string {
	all := map[string]string{}

	for _, d := range dashboards(t) {
		for _, a := range d.Annotations.List {
			all[a.Name] = a.Target.Expr
		}
	}

	return all
}

// selectors returns the series that an expression reads.
func selectors(t *testing.T, expr string) (all []string) {
	tree, err := parser.ParseExpr(forPrometheus(expr))
	kit.Must(t, err)
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			bare := *selector
			bare.OriginalOffset, bare.Offset, bare.Timestamp = 0, 0, nil
			all = append(all, bare.String())
		}

		return nil
	})

	return all
}

// forPrometheus puts in what Grafana would, for the last five minutes.
func forPrometheus(expr string) string {
	return strings.NewReplacer("$__range", "5m", "$__interval", "5s", "$__rate_interval", "20s").Replace(expr)
}
