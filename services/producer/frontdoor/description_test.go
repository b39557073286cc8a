package frontdoor

import (
	"bytes"
	"os"
	"testing"

	"github.com/liquida/liquida/services/producer/act"
	"github.com/liquida/liquida/services/producer/feed"
	"github.com/liquida/liquida/services/producer/query"
	"github.com/liquida/liquida/services/producer/submission"
)

// The file is for those who write clients. make openapi writes it.
func TestTheDescriptionIsTheCodes(t *testing.T) {
	const file = "../openapi.json"
	made := describe(api(&submission.Submissions{}, &query.Ledger{}, &feed.Feed{}, &act.Acts{}))
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
