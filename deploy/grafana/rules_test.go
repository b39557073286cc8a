package grafana

import (
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

// TestTheRulesKnowWhoDecidesEachReason keeps the label by of pix:rejected:rate30s and the
// definitions of the reasons equal. What the rule does not name is the engine's.
func TestTheRulesKnowWhoDecidesEachReason(t *testing.T) {
	rules := read(t, "../prometheus/rules.yml")
	named := map[string]pix.Decider{}

	for _, by := range []pix.Decider{pix.ByBank, pix.ByLedger} {
		_, rest, found := strings.Cut(rules, `"by", "`+string(by)+`", "reason", "`)

		list, _, closed := strings.Cut(rest, `"`)
		if !found || !closed {
			t.Fatalf("the rules have no reasons by the %s", by)
		}

		for reason := range strings.SplitSeq(list, "|") {
			if reason != "other" { // codes that banks make up
				named[reason] = by
			}
		}
	}

	for _, reason := range pix.ReasonsOf(pix.OfPayment) {
		i := slices.IndexFunc(pix.Definitions, func(d pix.Definition) bool { return d.Reason == reason })

		by := pix.Definitions[i].By
		if by == pix.ByEngine {
			by = "" // the rule does not name it
		}

		if named[reason.String()] != by {
			t.Errorf("%s is decided by %q (by \"\": the engine); rules.yml says %q", reason, by,
				named[reason.String()])
		}
		delete(named, reason.String())
	}

	for reason := range named {
		t.Errorf("rules.yml names %s, which no payment is rejected with", reason)
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
