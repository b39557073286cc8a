package audit

import (
	"os/exec"
	"strings"
	"testing"
)

// A bug in a shared package cannot hide in the audit as long as it shares none: only the
// schema of the messages, and with other judges how findings are put together.
func TestTheAuditSharesOnlyTheSchema(t *testing.T) {
	output, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range strings.Fields(string(output)) {
		ours := strings.HasPrefix(path, "github.com/liquida/liquida/")
		if ours && path != "github.com/liquida/liquida/loadtest/audit" && path != "github.com/liquida/liquida/proto/pix/v1" && path != "github.com/liquida/liquida/loadtest/form" {
			t.Errorf("the audit depends on %s", path)
		}
	}
}
