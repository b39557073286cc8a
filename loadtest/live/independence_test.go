package live

import (
	"os/exec"
	"strings"
	"testing"
)

// The live audit shares with the services what the audit does: the schema of the messages.
func TestTheLiveAuditSharesOnlyTheSchema(t *testing.T) {
	output, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	allowed := []string{"loadtest/live", "loadtest/audit", "loadtest/form", "proto/pix/v1"}
	for _, path := range strings.Fields(string(output)) {
		rest, ours := strings.CutPrefix(path, "github.com/liquida/liquida/")
		if ours && !strings.Contains(" "+strings.Join(allowed, " ")+" ", " "+rest+" ") {
			t.Errorf("the live audit depends on %s", path)
		}
	}
}
