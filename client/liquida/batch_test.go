package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/deploy/stack"
)

func TestBatchesAndCertificatesThatAreBadUsage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "payments")
	if err := os.WriteFile(file, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ arguments, says string }{
		{"batch", "accepts 1 arg"},
		{"batch /nowhere/payments", "FILE"},
		{"batch " + file + " --lines 0", "--lines is 0"},
		{"batch " + file + " --wait 2h", "--wait is 2h0m0s"},
		{"participants --ca ca.pem", "begins with https"},
		{"participants --url https://127.0.0.1:1 --cert cert.pem", "give both or none"},
		{"participants --url https://127.0.0.1:1 --ca " + file, "no certificate in PEM"},
	} {
		liquida(t, nowhere, "", strings.Fields(c.arguments)...).is(t, exitBadUsage, c.says, "--help")
	}
	liquida(t, nowhere, "", "batch", file).is(t, exitNot, "there is no payment")
	liquida(t, nowhere, "", "__complete", "ba").is(t, exitDone, "balance", "batch")
}

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

// issue makes a certificate and its key, and returns their files.
func (a *authority) issue(name string, template *x509.Certificate) (certificate, key string) {
	a.t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if a.key == nil { // the authority's own
		a.key = own
	}
	a.issued++
	template.SerialNumber = big.NewInt(a.issued)
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, own.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		a.t.Fatal(err)
	}
	if template == a.certificate {
		if a.certificate, err = x509.ParseCertificate(der); err != nil {
			a.t.Fatal(err)
		}
	}
	keep := func(file, kind string, der []byte) string {
		file = filepath.Join(a.folder, file)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			a.t.Fatal(err)
		}
		return file
	}
	return keep(name+".pem", "CERTIFICATE", der), keep(name+".key", "PRIVATE KEY", secret)
}

func (a *authority) participant(ispb string, until time.Time) (certificate, key string) {
	a.t.Helper()
	return a.issue(ispb+until.Format("150405"), &x509.Certificate{NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: until,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, URIs: []*url.URL{{Scheme: "urn", Opaque: "liquida:participant:" + ispb}}})
}

// A front door with certificates, and payments by the batch through it.
func TestOverTLSOnARealStack(t *testing.T) {
	ca := newAuthority(t)
	serverCert, serverKey := ca.issue("server", &x509.Certificate{NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	s, folder := startStack(t, map[string][]string{
		stack.Producer: {"HTTP_TLS_CERT_FILE=" + serverCert, "HTTP_TLS_KEY_FILE=" + serverKey, "HTTP_TLS_CLIENT_CA_FILE=" + ca.folder + "/ca.pem"},
	})
	address := strings.Replace(s.ProducerURL(), "http:", "https:", 1)
	as := func(certificate, key string) func(...string) said {
		return func(arguments ...string) said {
			t.Helper()
			return liquida(t, address, "", append(arguments, "--ca", ca.folder+"/ca.pem", "--cert", certificate, "--key", key)...)
		}
	}
	do := as(ca.participant("10000001", time.Now().Add(time.Hour)))
	const payer, payee = "10000001/0001/1", "10000002/0001/1"

	// The certificate says who calls, without a key.
	do("pay", payer, payee, "12.34").is(t, exitDone, "settled  BRL 12.34")
	do("balance", payee).is(t, exitNot, "Not yours (403)")
	stranger := newAuthority(t)
	for name, refused := range map[string]said{
		"no certificate, no key":   liquida(t, address, "", "balance", payer, "--ca", ca.folder+"/ca.pem").is(t, exitNot, "Unknown caller (401)", "--cert"),
		"an expired one":           as(ca.participant("10000001", time.Now().Add(-time.Minute)))("pay", payer, payee, "1.00").is(t, exitNot, "certificate"),
		"of another authority":     as(stranger.participant("10000001", time.Now().Add(time.Hour)))("pay", payer, payee, "1.00").is(t, exitNot, "certificate"),
		"a server that is unknown": liquida(t, address, folder+"/stack/keys/10000001", "pay", payer, payee, "1.00").is(t, exitNot, "certificate"),
	} {
		if refused.out != "" {
			t.Errorf("%s: said %s", name, refused.out)
		}
	}

	// Each line of a batch stands for itself.
	write := func(name string, lines ...string) string {
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	pays := func(from, to string, centavos int) string {
		account := func(text string) string {
			parts := strings.Split(text, "/")
			return fmt.Sprintf(`{"ispb": %q, "branch": %q, "number": %q}`, parts[0], parts[1], parts[2])
		}
		return fmt.Sprintf(`{"payer": %s, "payee": %s, "amount_centavos": %d}`, account(from), account(to), centavos)
	}
	posted := func() int64 {
		t.Helper()
		return read[client.AccountBalance](t, do("balance", payer, "--json").is(t, exitDone))[0].PostedCentavos
	}
	before := posted()
	mixed := write("mixed", pays(payer, payee, 100), "", "{", pays(payee, payer, 100), pays(payer, "10000002/9003/1", 100), pays(payer, payee, 0), `{"payee": 1}`, strings.Repeat("x", 20_000), pays(payer, payee, 100))
	answers := read[batchAnswer](t, do("batch", mixed, "--json", "--lines", "3").is(t, exitNot, "6 of 8 payments were rejected or refused"))
	var got []string
	for _, a := range answers {
		got = append(got, fmt.Sprintf("%d %s%s", a.Line, a.Status, a.ReasonCode))
	}
	if want := "1 settled, 3 refused, 4 refused, 5 rejectedAC06, 6 refused, 7 refused, 8 refused, 9 settled"; strings.Join(got, ", ") != want {
		t.Errorf("%v, want %s", got, want)
	}
	if answers[2].Problem == nil || answers[2].Problem.Field != "payer.ispb" || answers[4].Problem == nil || answers[4].Problem.Field != "amount_centavos" {
		t.Errorf("%+v", answers)
	}
	if now := posted(); now != before-200 {
		t.Errorf("%d is left of %d", now, before)
	}

	// Lines with ids may be sent any number of times.
	var lines []string
	for range 1200 {
		lines = append(lines, pays(payer, payee, 1))
	}
	plain := write("plain", lines...)
	before = posted()
	ready := do("batch", "--make-ids", plain).is(t, exitDone)
	if now := posted(); now != before || strings.Count(ready.out, `"end_to_end_id":"E10000001`) != len(lines) {
		t.Errorf("--make-ids has sent something, or made not all ids: %.300s", ready.out)
	}
	file := write("ready", strings.TrimSpace(ready.out))
	for _, arguments := range [][]string{{"batch", file, "--wait", "0s"}, {"batch", file, "--json"}, {"batch", file, "--lines", "7"}} {
		said := do(arguments...).is(t, exitDone)
		if n := strings.Count(said.out, "\n"); n != len(lines) {
			t.Errorf("%v: %d lines", arguments, n)
		}
	}
	if now := posted(); now != before-int64(len(lines)) {
		t.Errorf("%d is left of %d: a payment was made twice, or not", now, before)
	}

	// Nobody is there: nothing is known, and the lines say which payments those are.
	if err := s.Kill(stack.Producer); err != nil {
		t.Fatal(err)
	}
	unknown := read[batchAnswer](t, do("batch", write("later", pays(payer, payee, 1)), "--json", "--retry-for", "0s").is(t, exitUnknown, "not known what became of them"))
	if unknown[0].Status != client.Unknown || !strings.HasPrefix(unknown[0].EndToEndID, "E10000001") {
		t.Errorf("%+v", unknown)
	}
}
