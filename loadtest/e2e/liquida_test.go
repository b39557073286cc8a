package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/platform/kit"
)

// compiling keeps tests that run side by side from building the same program.
var compiling sync.Mutex

// compile builds a program of the repository into the folder of the stack's programs, once.
func compile(t *testing.T, name, source string) string {
	t.Helper()
	compiling.Lock()
	defer compiling.Unlock()

	path := filepath.Join(binaries, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	build := exec.Command("go", "build", "-o", path, source)

	var err error
	if build.Dir, err = stack.RepoRoot(); err != nil {
		t.Fatal(err)
	}

	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}

	return path
}

// key returns the key of a caller; without a caller, none.
func (s *system) key(caller string) string {
	s.t.Helper()
	all, err := s.Keys()
	s.must(err)

	return all[caller]
}

// keyFile returns a file with the key of a caller.
func (s *system) keyFile(caller string) string {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "key")
	s.must(os.WriteFile(path, []byte(s.key(caller)), 0o600))

	return path
}

// api returns a client of the front door.
func (s *system) api(caller string) *client.Client {
	s.t.Helper()
	api, err := client.New(s.ProducerURL(), s.key(caller))
	s.must(err)

	return api
}

// settled returns the id of a payment that has settled. A busy machine may refuse one.
func settled(t *testing.T, bank *client.Client) (id string) {
	t.Helper()
	account := func(ispb string) client.Account { return client.Account{ISPB: ispb, Branch: "0001", Number: "1"} }
	kit.AwaitWithin(t, 3*time.Minute, "a payment settles", func() (bool, string) {
		paid, err := bank.Pay(t.Context(),
			client.Payment{Payer: account("10000001"), Payee: account("10000002"), AmountCentavos: 100}, 2*time.Minute)
		id = paid.EndToEndID

		return err == nil && paid.Status == client.Settled, fmt.Sprintf("%+v %v", paid, err)
	})

	return id
}

// liquida returns a function that runs liquida against an address, with the key of a caller.
func (s *system) liquida(url, caller string) func(...string) kit.Output {
	program, keyFile := compile(s.t, "liquida", "./client/liquida"), s.keyFile(caller)

	return func(arguments ...string) kit.Output {
		s.t.Helper()
		return kit.RunCommand(s.t, []string{"LIQUIDA_URL=" + url, "LIQUIDA_KEY_FILE=" + keyFile}, program, arguments...)
	}
}

// liquida shows a certificate in place of a key, to a server that it knows by its authority.
func TestLiquidaShowsItsCertificate(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"posted_centavos": %d}`, len(r.TLS.PeerCertificates)*12345)
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	defer server.Close()
	pair := server.TLS.Certificates[0]
	secret, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	kit.Must(t, err)
	certificate, key := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	kit.Must(t, os.WriteFile(certificate,
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), 0o600))
	kit.Must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	balance := []string{"balance", "10000001/0001/1", "--url", server.URL, "--json"}
	kit.RunCommand(t, nil, compile(t, "liquida", "./client/liquida"),
		append(balance, "--ca", certificate, "--cert", certificate, "--key", key)...).Is(t, 0, "12345")
	kit.RunCommand(t, nil, compile(t, "liquida", "./client/liquida"),
		append(balance, "--cert", certificate, "--key", key)...).Is(t, 1, "certificate")
}
