package rivals

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/liquida/liquida/deploy/stack"
)

// Lines is how much code keeps the payments on a system: lines that are not empty and not
// only a comment.
type Lines struct {
	System string   `json:"system"`
	Files  []string `json:"files"`
	Lines  int      `json:"lines"`
}

// countLines reads the sources of this repository. The ids, which both have from
// platform/ledger/transfer.go, count for TigerBeetle.
func countLines() ([]Lines, error) {
	root, err := stack.RepoRoot()
	if err != nil {
		return nil, err
	}
	counts := []Lines{
		{System: OnTigerBeetle, Files: []string{"loadtest/rivals/tigerbeetle.go", "platform/ledger/transfer.go", "platform/ledger/answer.go"}},
		{System: OnPostgreSQL, Files: []string{"loadtest/rivals/postgresql.go", "loadtest/rivals/schema.sql"}},
	}
	for i := range counts {
		for _, file := range counts[i].Files {
			text, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				return nil, fmt.Errorf("cannot count the lines of code: %w", err)
			}
			for line := range strings.Lines(string(text)) {
				line = strings.TrimSpace(line)
				if line != "" && !strings.HasPrefix(line, "//") && !strings.HasPrefix(line, "--") {
					counts[i].Lines++
				}
			}
		}
	}
	return counts, nil
}
