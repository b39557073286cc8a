package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/liquida/liquida/platform/kit"
)

// An engine dies in the middle of make demo, here with a small load, and nothing is lost. What passed leaves a page
// that tells the run, and opens offline, without a script.
func TestDemo(t *testing.T) {
	t.Parallel()
	kit.Must(t, servers.Acquire(t.Context(), 1))
	defer servers.Release(1)
	folder := t.TempDir()
	said := kit.RunCommand(t, nil, filepath.Join(binaries, "loadtest"), "chaos", "--dir", folder, "--room",
		"--script", "6s kill-engine", "--engines", "1", "--rate", "100", "--duration", "15s", "--deadline", "10s",
		"--allow", "AB03,LQ10,LQ13").Is(t, 0, "watch it: http://127.0.0.1:",
		"kill-engine engine-0: all is ready again", "LOAD PASSED", "AUDIT CLEAN", "CHAOS PASSED", "report: ")
	html, err := os.ReadFile(filepath.Join(folder, "report.html"))
	kit.Must(t, err)
	kit.Holds(t, string(html), "Liquida: kill-engine at 100 payments a second", "✓ Passed",
		"LOAD PASSED: ", "AUDIT CLEAN", "ANSWERS CLEAN",
		"1 kill-engine engine-0", "One of its partitions settled nothing for ",
		"loadtest chaos --dir", "--seed")

	if never := regexp.MustCompile(`<script|src=|href=|@import|NaN|ZgotmplZ`).FindString(string(html)); never != "" ||
		strings.Contains(said.Out+said.Err, "\x1b") {
		t.Errorf("the report holds %q, or what is no terminal gets colours", never)
	}

	if _, err := os.Stat(filepath.Join(folder, "data")); !os.IsNotExist(err) {
		t.Errorf("the data are still there: %v", err)
	}
}
