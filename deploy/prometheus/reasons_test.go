package prometheus

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/pix"
)

// TestTheRulesKnowWhoDecidesEachReason keeps the label by of pix:rejected:rate30s and the
// definitions of the reasons equal. What the rule does not name is the engine's.
func TestTheRulesKnowWhoDecidesEachReason(t *testing.T) {
	rules, err := os.ReadFile("rules.yml")
	kit.Must(t, err)
	named := map[string]pix.Decider{}

	for _, by := range []pix.Decider{pix.ByBank, pix.ByLedger} {
		_, rest, found := strings.Cut(string(rules), `"by", "`+string(by)+`", "reason", "`)

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
		if by != pix.ByEngine && named[reason.String()] != by {
			t.Errorf("%s is decided by the %s; rules.yml says %q", reason, by, named[reason.String()])
		}

		if by == pix.ByEngine && named[reason.String()] != "" {
			t.Errorf("%s is decided by the engine; rules.yml says %q", reason, named[reason.String()])
		}
		delete(named, reason.String())
	}

	for reason := range named {
		t.Errorf("rules.yml names %s, which no payment is rejected with", reason)
	}
}
