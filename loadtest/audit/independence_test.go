package audit

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/liquida/liquida/platform/kit"
)

// A bug in a shared package cannot hide in the audit, nor in the live one, as long as they share none: only the
// schema of the messages.
func TestTheAuditSharesOnlyTheSchema(t *testing.T) {
	output, err := exec.Command("go", "list", "-deps", ".", "../live").Output()
	kit.Must(t, err)

	for _, path := range strings.Fields(string(output)) {
		rest, ours := strings.CutPrefix(path, "github.com/liquida/liquida/")
		if ours && !slices.Contains([]string{"loadtest/audit", "loadtest/audit/source", "loadtest/audit/spec",
			"loadtest/live", "proto/pix/v1"}, rest) {
			t.Errorf("the audit depends on %s", path)
		}
	}
}
