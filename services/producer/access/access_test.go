package access

import (
	"crypto/x509"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/platform/keys"
)

func TestAFileOfKeysThatIsMissingIsNamed(t *testing.T) {
	if _, err := New(Config{KeysFile: filepath.Join(t.TempDir(), "none")}, time.Now, nil); err == nil ||
		!strings.Contains(err.Error(), "HTTP_KEYS_FILE") {
		t.Error(err)
	}
}

// A connection may outlive its certificate.
func TestACertificateExpiresOnAnOpenConnection(t *testing.T) {
	certificate := &x509.Certificate{NotAfter: time.Now(),
		URIs: []*url.URL{{Scheme: "urn", Opaque: "liquida:central-bank"}}}
	if holder, problem := holderOf(certificate, certificate.NotAfter); problem != nil || holder != keys.CentralBank {
		t.Errorf("%q %+v", holder, problem)
	}

	if _, problem := holderOf(certificate, certificate.NotAfter.Add(time.Second)); problem == nil ||
		problem.Status != http.StatusUnauthorized {
		t.Errorf("%+v", problem)
	}
}
