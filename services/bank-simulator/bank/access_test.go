package bank

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

func TestAFileOfKeysThatIsMissingIsNamed(t *testing.T) {
	if _, err := (AccessConfig{filepath.Join(t.TempDir(), "none")}).restrict(http.NotFoundHandler()); err == nil ||
		!strings.Contains(err.Error(), "HTTP_KEYS_FILE") {
		t.Error(err)
	}
}
