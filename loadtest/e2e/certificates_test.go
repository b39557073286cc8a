package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/liquida/liquida/platform/kit"
)

// authority issues certificates for 127.0.0.1.
type authority struct {
	t           *testing.T
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	folder      string
	issued      int64
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, folder: t.TempDir()}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.certificate, a.key = template, nil
	a.issue("ca", template)
	return a
}

// issue creates a certificate and its key, and returns their files.
func (a *authority) issue(name string, template *x509.Certificate) (certificate, key string) {
	a.t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	kit.Must(a.t, err)
	if a.key == nil { // the authority's own
		a.key = own
	}
	a.issued++
	template.SerialNumber = big.NewInt(a.issued)
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, own.Public(), a.key)
	kit.Must(a.t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(own)
	kit.Must(a.t, err)
	if template == a.certificate {
		if a.certificate, err = x509.ParseCertificate(der); err != nil {
			a.t.Fatal(err)
		}
	}
	keep := func(file, kind string, der []byte) string {
		file = filepath.Join(a.folder, file)
		kit.Must(a.t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return file
	}
	return keep(name+".pem", "CERTIFICATE", der), keep(name+".key", "PRIVATE KEY", secret)
}

func (a *authority) participant(ispb string) (certificate, key string) {
	a.t.Helper()
	return a.issue(ispb, &x509.Certificate{NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, URIs: []*url.URL{{Scheme: "urn", Opaque: "liquida:participant:" + ispb}}})
}
