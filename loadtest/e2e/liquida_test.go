package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
)

// The exit codes of liquida.
const (
	exitDone    = 0
	exitNot     = 1
	exitUnknown = 3
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

// read decodes the JSON objects of the output, one a line.
func read[V any](t *testing.T, s kit.Output) (all []V) {
	t.Helper()

	decoder := json.NewDecoder(strings.NewReader(s.Out))
	for decoder.More() {
		var one V
		if err := decoder.Decode(&one); err != nil {
			t.Fatalf("%v in %s", err, s.Out)
		}
		all = append(all, one)
	}

	if len(all) == 0 {
		t.Fatalf("no object: %s", s.Out)
	}

	return all
}

// liquida pays, reads, gives back and follows on a real stack, and says what went wrong.
func TestLiquida(t *testing.T) {
	s := start(t, 1, func(c *stack.Config) {
		// Short, so that the payment of a silent bank ends within the test.
		c.Env[stack.Engine] = []string{"ENGINE_DEADLINE=15s", "ENGINE_PENDING_TIMEOUT=25s", "SHUTDOWN_TIMEOUT=4s"}
	})
	as := func(caller string) func(...string) kit.Output { return s.liquida(s.ProducerURL(), caller) }
	do, other, centralBank := as("10000001"), as("10000002"), as(keys.CentralBank)
	const payer, payee = "10000001/0001/1", "10000002/0001/1"
	posted := func(account string) int64 {
		t.Helper()
		return read[client.AccountBalance](t, do("balance", account, "--json").Is(t, exitDone))[0].PostedCentavos
	}
	before := posted(payer)

	// Paid, read, and paid again with the same id: it is one payment.
	settled := read[client.PaymentState](t,
		do("pay", payer, payee, "12.34", "--info", "order 7", "--json").Is(t, exitDone))[0]
	if settled.Status != client.Settled || settled.AmountCentavos != 1234 || len(settled.Legs) != 3 {
		t.Errorf("%+v", settled)
	}
	do("pay", payer, payee, "12.34", "--id", settled.EndToEndID).Is(t, exitDone,
		settled.EndToEndID+" settled  BRL 12.34 from "+payer+" to "+payee)
	// With another amount it is another payment, whose outcome is not that of the first.
	do("pay", payer, payee, "12.35", "--id", settled.EndToEndID).Is(t, exitNot, "belongs to other content (409)",
		"code: DUPL")
	do("status", settled.EndToEndID).Is(t, exitDone, "settled  BRL 12.34")
	do("watch", settled.EndToEndID).Is(t, exitDone, "settled  BRL 12.34")

	if now := posted(payer); now != before-1234 {
		t.Errorf("%d is left of %d", now, before)
	}
	later := strings.Fields(do("pay", payer, payee, "1.00", "--wait", "0s").Is(t, exitDone, " accepted").Out)[0]
	do("watch", later).Is(t, exitDone, "settled  BRL 1.00")

	// Rejected, refused, unknown, not decided yet.
	rejected := do("pay", payer, "10000002/9003/1", "1.00").Is(t, exitNot, "rejected AC06",
		"the payee's account is blocked")
	do("status", strings.Fields(rejected.Out)[0]).Is(t, exitNot, "rejected AC06")
	do("pay", payee, payer, "1.00").Is(t, exitNot, "Not yours (403)", "payer.ispb")
	do("status", "E10000001202601010000ABCDEFGHIJK").Is(t, exitUnknown, "not in the ledger yet")
	open := do("pay", payer, "10000002/9001/1", "1.00", "--wait", "1s").Is(t, exitUnknown, "not decided yet",
		"liquida status E10000001")
	do("watch", strings.Fields(open.Out)[0]).Is(t, exitNot, "rejected AB03")

	// The bank that received the payment gives it back in two parts. More is rejected.
	back := other("return", settled.EndToEndID, "2.34").Is(t, exitDone, "settled  BRL 2.34 from "+payee+" to "+payer)
	other("status", strings.Fields(back.Out)[0]).Is(t, exitDone, "settled  BRL 2.34")
	other("return", settled.EndToEndID, "10.01", "--reason", "FR01").Is(t, exitNot, "rejected AM09",
		"more than what is left")
	other("return", settled.EndToEndID, "10.00", "--reason", "FR01", "--json").Is(t, exitDone,
		`"return_reason_code":"FR01"`)
	do("status", settled.EndToEndID).Is(t, exitDone, "returned BRL 12.34 of BRL 12.34",
		strings.Fields(back.Out)[0]+" settled  BRL 2.34 for MD06", "settled  BRL 10.00 for FR01")

	// Lists and streams.
	if lines := read[client.StatementLine](t,
		other("statement", payee, "--limit", "2", "--json").Is(t, exitDone)); len(lines) != 2 {
		t.Errorf("%+v", lines)
	}
	do("statement", payer, "--limit", "200").Is(t, exitDone, "posted    -BRL 12.34", settled.EndToEndID,
		"+BRL 1,000,000.00")

	if all := read[client.Participant](t, centralBank("participants", "--json").Is(t, exitDone)); len(all) != 5 ||
		all[0].ThreeLegs == nil {
		t.Errorf("%+v", all)
	}
	centralBank("participants", "10000002").Is(t, exitDone, "10000002  reserve BRL ", "books agree")
	do("watch", "10000001", "--from", "start", "--count", "2", "--json").Is(t, exitDone, `"position":`)
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
		append(balance, "--ca", certificate, "--cert", certificate, "--key", key)...).Is(t, exitDone, "12345")
	kit.RunCommand(t, nil, compile(t, "liquida", "./client/liquida"),
		append(balance, "--cert", certificate, "--key", key)...).Is(t, exitNot, "certificate")
}
