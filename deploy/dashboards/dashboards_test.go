package dashboards

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/pix"
)

// TestPanelsExplainThemselves checks that every panel asks a question, and says how to read the answer.
func TestPanelsExplainThemselves(t *testing.T) {
	for _, p := range panels() {
		if !strings.HasSuffix(p.Title, "?") || !strings.HasSuffix(p.Description, ".") || p.Unit == "" ||
			len(p.Queries) == 0 {
			t.Errorf("%s: needs a question as title, a description in whole sentences, a unit and a query", p.Title)
		}

		if !slices.IsSortedFunc(p.Thresholds, func(a, b Threshold) int {
			return cmp.Compare(a.From, b.From)
		}) || p.Kind == Stat && len(p.Thresholds) == 0 {
			t.Errorf("%s: thresholds must ascend, and a single value needs some", p.Title)
		}
	}
}

// panels returns those of all dashboards, each once.
func panels() (all []Panel) {
	for _, d := range All {
		for _, row := range d.Rows {
			for _, p := range row.Panels {
				if !slices.ContainsFunc(all, func(before Panel) bool { return before.Title == p.Title }) {
					all = append(all, p)
				}
			}
		}
	}

	return all
}

// TestFilesAreCurrent compares the files that Grafana reads with this package, which people review.
func TestFilesAreCurrent(t *testing.T) {
	for _, d := range All {
		if read(t, "../grafana/dashboards/"+strings.ToLower(d.Title)+".json") != string(d.JSON()) {
			t.Errorf("the file of %s is not what the package says: go run ./deploy/cmd/dashboards", d.Title)
		}
	}

	for where, expr := range expressions() {
		if len(selectors(t, expr)) == 0 {
			t.Errorf("%s reads nothing: %s", where, expr)
		}
	}
}

// TestAlertsExplainThemselves checks that each alert says what happened, what it means and what to
// do, and that it has an entry in the runbook and a test in which it fires.
func TestAlertsExplainThemselves(t *testing.T) {
	runbook := read(t, "../runbook.md")
	tests := read(t, "../prometheus/rules_test.yml")

	anchors := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(runbook, -1) {
		anchors[strings.ReplaceAll(strings.ToLower(heading[1]), " ", "-")] = true
	}

	for _, rule := range rules(t) {
		if rule.Alert == "" {
			continue
		}

		if len(rule.Annotations["summary"]) < 20 || len(rule.Annotations["description"]) < 60 {
			t.Errorf("%s must say what happened (summary), what it means and what to do (description)", rule.Alert)
		}

		file, anchor, _ := strings.Cut(rule.Annotations["runbook_url"], "#")
		if !strings.HasSuffix(file, "/deploy/runbook.md") || !anchors[anchor] || anchor != strings.ToLower(rule.Alert) {
			t.Errorf("%s: runbook_url %q leads to no entry of deploy/runbook.md", rule.Alert,
				rule.Annotations["runbook_url"])
		}
		// info does not show in the first panel. Only these alerts are about the trouble of others.
		severity := rule.Labels["severity"]
		if othersTrouble := rule.Alert == "DeadLetters" ||
			rule.Alert == "BankFloods"; othersTrouble != (severity == "info") || !othersTrouble &&
			severity != "critical" && severity != "warning" {
			t.Errorf("%s has severity %q", rule.Alert, severity)
		}

		if !strings.Contains(tests, `alertname="`+rule.Alert+`"`) {
			t.Errorf("%s fires in no test of rules_test.yml", rule.Alert)
		}
	}
}

// TestDeadLettersAreExplained checks that alert and runbook name every reason of a dead letter.
func TestDeadLettersAreExplained(t *testing.T) {
	_, entry, _ := strings.Cut(read(t, "../runbook.md"), "\n## DeadLetters\n")
	entry, _, _ = strings.Cut(entry, "\n## ")
	all := rules(t)

	alert := all[slices.IndexFunc(all, func(r rule) bool {
		return r.Alert == "DeadLetters"
	})].Annotations["description"]
	for _, reason := range pix.ReasonsOf(pix.OfDeadLetter) {
		if !strings.Contains(entry, reason.String()) || !strings.Contains(alert, reason.String()) {
			t.Errorf("%s is the reason of a dead letter, and the alert or the runbook does not explain it", reason)
		}
	}
}

// TestRules runs rules_test.yml: each alert fires on its fault, and none in a healthy system.
func TestRules(t *testing.T) {
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("promtool is not on PATH: make test-dashboards runs this with Debian's")
	}

	for _, arguments := range [][]string{{"check", "config", "prometheus.yml"}, {"test", "rules", "rules_test.yml"}} {
		promtool := exec.Command("promtool", arguments...)

		promtool.Dir = filepath.Join("..", "prometheus")
		if output, err := promtool.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(arguments, " "), err, output)
		}
	}
}

type rule struct {
	Alert, Record, Expr string
	Labels, Annotations map[string]string
}

func rules(t *testing.T) (all []rule) {
	var file struct{ Groups []struct{ Rules []rule } }
	kit.Must(t, yaml.Unmarshal([]byte(read(t, "../prometheus/rules.yml")), &file))

	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}

	if len(all) < 10 {
		t.Fatalf("only %d rules were read", len(all))
	}

	return all
}

func read(t *testing.T, path string) string {
	text, err := os.ReadFile(path)
	kit.Must(t, err)
	return string(text)
}

// expressions returns those of all panels and annotations, by where they stand.
func expressions() map[string]string {
	all := map[string]string{}

	for _, p := range panels() {
		for _, q := range p.Queries {
			all[p.Title+" "+q.Legend] = q.Expr
		}
	}

	for _, a := range Annotations {
		all["annotation "+a.Name] = a.Expr
	}

	return all
}

// forPrometheus puts in what Grafana would, for the last five minutes.
func forPrometheus(expr string) string {
	return strings.NewReplacer("$__range", "5m", "$__interval", "5s", "$__rate_interval", "20s").Replace(expr)
}
