// Package mutants plants bugs in the product and runs worlds of loadtest/simulation until a
// judge speaks. A judge that misses a planted bug would miss a real one of its kind.
package mutants

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Mutant is the product with one planted bug.
type Mutant struct {
	Name string
	Bug  string // what it does wrong
	// Test is anyWorld, which knows nothing of the bug, or a scenario of loadtest/simulation that
	// brings about what the bug needs.
	Test  string
	Edits []Edit
}

// anyWorld is the test that is the world of any seed.
const anyWorld = "TestWorld"

// Sure is a test that leaves nothing to chance: two runs of it see the same.
type Sure struct {
	Folder string // of its package, from the repository's root
	Test   string
}

// Edit replaces a text that stands in a file exactly once. The file is of the product: the
// judges stay as they are.
type Edit struct {
	File     string // from the repository's root
	Old, New string
}

// mutated returns the files that the mutant changes, with their new text.
func (m Mutant) mutated(root string) (map[string]string, error) {
	files := map[string]string{}
	for _, e := range m.Edits {
		path := filepath.Join(root, e.File)
		text, changed := files[path]
		if !changed {
			read, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			text = string(read)
		}
		if n := strings.Count(text, e.Old); n != 1 {
			return nil, fmt.Errorf("mutant %s: %s holds this text %d times, it must once; the code has changed, so plant the bug anew:\n%s", m.Name, e.File, n, e.Old)
		}
		files[path] = strings.Replace(text, e.Old, e.New, 1)
	}
	return files, nil
}

// overlay writes the mutated files to a folder, and the file that makes the go command build
// with them. So no copy of the repository is needed, and nothing in it changes.
func (m Mutant) overlay(root, folder string) (path string, err error) {
	files, err := m.mutated(root)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for original, text := range files {
		copied := filepath.Join(folder, fmt.Sprintf("%d-%s", len(replace), filepath.Base(original)))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[original] = copied
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path = filepath.Join(folder, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}
