package frontdoor

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/liquida/liquida/services/producer/act"
	"github.com/liquida/liquida/services/producer/feed"
	"github.com/liquida/liquida/services/producer/query"
	"github.com/liquida/liquida/services/producer/question"
	"github.com/liquida/liquida/services/producer/submission"
)

// The file is for those who write clients. make openapi writes it.
func TestTheDescriptionIsTheCodes(t *testing.T) {
	const file = "../openapi.json"

	made := describe(api(&submission.Submissions{}, &query.Ledger{}, &feed.Feed{}, &act.Acts{}, &question.Board{}))
	if os.Getenv("LIQUIDA_WRITE_OPENAPI") != "" {
		if err := os.WriteFile(file, made, 0o644); err != nil {
			t.Fatal(err)
		}
	}

	kept, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(made, kept) {
		t.Errorf("openapi.json is not what the code says (%v): run make openapi", err)
	}
}

// A viewer groups the operations by tags that are explained, and a generated client can use each
// operation's id as a name.
func TestTheDescriptionSuitsViewersAndGenerators(t *testing.T) {
	var described struct {
		Tags  []struct{ Name, Description string }
		Paths map[string]map[string]struct {
			OperationID string
			Tags        []string
		}
	}
	if err := json.Unmarshal(
		describe(api(&submission.Submissions{}, &query.Ledger{}, &feed.Feed{}, &act.Acts{}, &question.Board{})),
		&described); err != nil {
		t.Fatal(err)
	}

	used := map[string]bool{}
	for _, tag := range described.Tags {
		used[tag.Name] = tag.Description == ""
	}

	for path, operations := range described.Paths {
		for method, operation := range operations {
			if _, known := used[strings.Join(operation.Tags, " ")]; !known {
				t.Errorf("%s %s has the tags %q, of %v", method, path, operation.Tags, described.Tags)
				continue
			}

			used[operation.Tags[0]] = true
			if slices.Contains([]string{"return", "import", "class", "default", "delete", "package", "new", "yield"},
				operation.OperationID) {
				t.Errorf("%s %s: %s is a word of programming languages", method, path, operation.OperationID)
			}
		}
	}

	for tag, is := range used {
		if !is {
			t.Errorf("tag %s is not used, or not explained", tag)
		}
	}
}
