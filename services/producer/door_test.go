package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/deploy/link"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/frontdoor"
	"github.com/liquida/liquida/services/producer/submission"
)

// ring holds the keys of four participants and the central bank.
type ring struct{ dir, digests string }

// sharedRing is one for all tests: a bank may have only so many keys in use.
var sharedRing = sync.OnceValues(func() (ring, error) {
	folder, err := os.MkdirTemp("", "liquida-producer-")
	if err != nil {
		return ring{}, err
	}
	r := ring{filepath.Join(folder, "keys"), filepath.Join(folder, "digests")}

	return r, keys.Make(r.dir, r.digests, ringBanks)
})

var ringBanks = []pix.ISPB{"10000001", "10000002", "10000003", zeroBank}

// makeRing returns keys, which are in use on the shared ledger.
func makeRing(t *testing.T) ring {
	t.Helper()

	r, err := sharedRing()
	if err != nil {
		t.Fatal(err)
	}
	_, client := sharedLedger(t)
	openRegister(t, client)
	r.name(t, client)

	return r
}

// name has the banks join, and names their keys in the register.
func (r ring) name(t *testing.T, client tigerbeetle.Client) {
	t.Helper()

	for _, psp := range ringBanks {
		holder := string(psp)
		if _, err := client.CreateAccounts([]tb.Account{ledger.NewAccount(ledger.BooksAccount(psp))}); err != nil {
			t.Fatal(err)
		}
		acts := ledger.AppendAct(nil, keys.CentralBank, "ring-"+holder,
			ledger.Act{Kind: ledger.Joined, Bank: psp, ByCentralBank: true})
		acts = ledger.AppendAct(acts, holder, "ring-key",
			ledger.Act{Kind: ledger.KeyNamed, Bank: psp, Digest: keys.DigestOf(r.of(t, holder))})

		results, err := client.CreateTransfers(acts)
		for _, result := range results {
			if result.Result != tb.TransferExists {
				t.Fatalf("%v", results)
			}
		}

		if err != nil {
			t.Fatal(err)
		}
	}
}

func (r ring) of(t *testing.T, holder string) string {
	t.Helper()

	key, err := keys.Read(r.dir, holder)
	if err != nil {
		t.Fatal(err)
	}

	return key
}

// as makes a request with an Authorization header, if any, and reads the whole response.
func (p *program) as(authorization, method, path,
	body string) (code int, header http.Header, problem web.Problem, text string) {
	p.t.Helper()

	var headers []string
	if authorization != "" {
		headers = []string{"Authorization", authorization}
	}
	got := p.send(p.t.Context(), method, path, body, headers...)

	read, err := io.ReadAll(got.Body)
	if err != nil {
		p.t.Fatal(err)
	}

	if got.StatusCode >= 400 {
		if err := json.Unmarshal(read, &problem); err != nil ||
			got.Header.Get("Content-Type") != "application/problem+json" {
			p.t.Fatalf("%s %s: %s %s is no problem document: %v", method, path, got.Status, read, err)
		}
	}

	return got.StatusCode, got.Header, problem, string(read)
}

func TestWhoDoesNotProveWhoHeIsDoesNothing(t *testing.T) {
	t.Parallel()
	r := makeRing(t)
	b := startBroker(t)
	p := startProgram(t, b, aLedger(t), "HTTP_KEYS_FILE="+r.digests)
	p.AwaitNeed("kafka", false)
	key := r.of(t, "10000001")
	secret := key[len("10000001."):]
	wrong := []string{"", "Bearer", "Bearer ", "Bearer 10000001", "Bearer 10000001.", "Bearer " + secret,
		"Bearer 10000002." + secret, "Bearer " + keys.CentralBank + "." + secret,
		"Bearer " + key[:len(key)-1], "Bearer " + key + "0", "Basic " + key, key, "Bearer 99999999." + secret}

	for _, route := range routes(t) { // every route
		path := strings.NewReplacer("{endToEndId}", pix.NewEndToEndID("10000001", time.Now(), random).String(),
			"{ispb}", "10000001", "{branch}", "0001", "{number}", "1").Replace(route.path)

		body := ""
		if route.method == http.MethodPost {
			body = valid
		}

		for _, authorization := range wrong {
			code, header, problem, text := p.as(authorization, route.method, path, body)
			if code != http.StatusUnauthorized ||
				!strings.HasPrefix(header.Get("WWW-Authenticate"), `Bearer realm="liquida"`) ||
				problem.Field != "Authorization" || problem.Rule == "" {
				t.Errorf("%s %s as %.20q: %d %s %s", route.method, path, authorization, code, header, text)
			}

			if strings.Contains(text, secret[:16]) {
				t.Errorf("%s %s: the answer repeats the key", route.method, path)
			}
		}
	}

	for _, path := range []string{"/openapi.json", "/docs"} { // anyone may read how to call
		if got := p.send(t.Context(), "GET", path, ""); got.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, got.Status)
		}
	}

	if code, _, _, text := p.as("bearer "+key, "POST", "/v1/payments", valid); code != http.StatusAccepted {
		t.Fatalf("the key itself: %d %s", code, text)
	}

	if records := published(t, b, 1); len(records) != 1 { // only the last one that was sent
		t.Errorf("%d payments were written", len(records))
	}

	for _, seen := range []string{p.metrics(), p.Log()} {
		if strings.Contains(seen, secret[:16]) {
			t.Error("a key stands in the metrics or in the log")
		}
	}

	if !strings.Contains(p.metrics(),
		`pix_producer_requests_total{route="POST /v1/payments",status="401"} `+fmt.Sprint(len(wrong))) {
		t.Error("the refusals are not counted")
	}
}

func TestAParticipantDoesOnlyWhatIsItsOwn(t *testing.T) {
	t.Parallel()
	r := makeRing(t)
	l, client := sharedLedger(t)
	openBooks(t, client, content)
	b := startBroker(t)
	p := startProgram(t, b, l, "HTTP_KEYS_FILE="+r.digests, "STREAM_TIME_MAX=1s")
	p.AwaitNeed("kafka", false)
	p.AwaitNeed("ledger", false)
	p.awaitSettlements()
	held, nowhere := pix.NewEndToEndID("10000001", time.Now(), random),
		pix.NewEndToEndID("10000001", time.Now(), random)
	write(t, client, ledger.AppendReserve(nil, held, content, 600)) // from 10000001 to 10000002

	payer, payee, third, bank := "Bearer "+r.of(t, "10000001"), "Bearer "+r.of(t, "10000002"),
		"Bearer "+r.of(t, "10000003"), "Bearer "+r.of(t, keys.CentralBank)

	zero := "Bearer " + r.of(t, string(zeroBank))
	for _, c := range []struct {
		as, method, path string
		code             int
		field, value     string
	}{
		{payer, "POST", "/v1/payments", 202, "", ""},
		{payee, "POST", "/v1/payments", 403, "payer.ispb", "10000001"},
		{bank, "POST", "/v1/payments", 403, "payer.ispb", "10000001"},
		{payer, "GET", "/v1/payments/" + held.String(), 200, "", ""},
		{payee, "GET", "/v1/payments/" + held.String(), 200, "", ""},
		{bank, "GET", "/v1/payments/" + held.String(), 200, "", ""},
		{payer, "GET", "/v1/payments/" + nowhere.String(), 404, "", ""},
		{payee, "GET", "/v1/payments/" + nowhere.String(), 403, "end_to_end_id", nowhere.String()},
		{third, "GET", "/v1/payments/" + held.String(), 403, "end_to_end_id", held.String()},
		{zero, "GET", "/v1/payments/" + held.String(), 403, "end_to_end_id", held.String()},
		{zero, "POST", "/v1/payments", 403, "payer.ispb", "10000001"},
		{payer, "GET", "/v1/participants/00000000/accounts", 403, "ispb", "00000000"},
		{third, "GET", "/v1/payments/" + held.String() + "/events", 403, "end_to_end_id", held.String()},
		{bank, "GET", "/v1/payments/" + nowhere.String(), 404, "", ""},
		{payer, "GET", "/v1/payments/" + nowhere.String() + "/events", 200, "", ""},
		{payee, "GET", "/v1/payments/" + held.String() + "/events", 200, "", ""},
		{payee, "GET", "/v1/payments/" + nowhere.String() + "/events", 403, "end_to_end_id", nowhere.String()},
		{payer, "GET", "/v1/accounts/10000001/0001/1", 200, "", ""},
		{payee, "GET", "/v1/accounts/10000001/0001/1", 403, "ispb", "10000001"},
		{payee, "GET", "/v1/accounts/10000001/0001/999", 403, "ispb", "10000001"},
		{bank, "GET", "/v1/accounts/10000001/0001/1", 200, "", ""},
		{payer, "GET", "/v1/accounts/10000001/0001/1/statement", 200, "", ""},
		{payee, "GET", "/v1/accounts/10000001/0001/1/statement", 403, "ispb", "10000001"},
		{payer, "GET", "/v1/participants/10000001", 200, "", ""},
		{payer, "GET", "/v1/participants/10000002", 403, "ispb", "10000002"},
		{bank, "GET", "/v1/participants/10000002", 200, "", ""},
		{payer, "GET", "/v1/participants/10000001/statements/2020-01-01", 404, "day", "2020-01-01"},
		{payer, "GET", "/v1/participants/10000002/statements/2020-01-01", 403, "ispb", "10000002"},
		{bank, "GET", "/v1/participants/10000002/statements/2020-01-01", 404, "day", "2020-01-01"},
		{payer, "GET", "/v1/participants", 403, "path", "/v1/participants"},
		{bank, "GET", "/v1/participants", 200, "", ""},
		{payer, "GET", "/v1/settlements?participant=10000001", 200, "", ""},
		{payer, "GET", "/v1/settlements?participant=10000002", 403, "participant", "10000002"},
		{payer, "GET", "/v1/settlements?participant=10000002&participant=10000001", 422, "participant",
			"10000002, 10000001"},
		{payer, "GET", "/v1/settlements?participant=all", 403, "participant", "all"},
		{payer, "GET", "/v1/settlements", 422, "participant", ""},
		{bank, "GET", "/v1/settlements?participant=10000002", 200, "", ""},
		{bank, "GET", "/v1/settlements?participant=all", 200, "", ""},
	} {
		body := ""
		if c.method == http.MethodPost {
			body = valid
		}

		code, _, problem, text := p.as(c.as, c.method, c.path, body)
		if code != c.code || problem.Field != c.field || c.code == 403 &&
			(problem.Value != c.value || problem.Rule == "" || problem.Type != web.Kind("not-yours")) {
			t.Errorf("%.20s %s %s: %d %s, want %d", c.as, c.method, c.path, code, text, c.code)
		}
	}
	// Each line of a batch is checked by itself.
	foreign := strings.Replace(valid, `"10000001"`, `"10000002"`, 1)
	_, _, _, text := p.as(payer, "POST", batchPath, valid+"\n"+foreign+"\n"+valid+"\n")
	var results []string

	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		var result submission.BatchResult
		if err := json.Unmarshal([]byte(line), &result); err != nil {
			t.Fatal(err)
		}

		if result.Problem != nil {
			result.Status = fmt.Sprint(result.Problem.Status, result.Problem.Field)
		}
		results = append(results, result.Status)
	}

	if got := strings.Join(results, " "); got != "accepted 403payer.ispb accepted" {
		t.Errorf("the batch: %s", got)
	}

	for _, record := range published(t, b, 3) {
		if !strings.HasPrefix(string(record.Key), "E10000001") {
			t.Errorf("%s was written", record.Key)
		}
	}
}

// authority issues certificates.
type authority struct {
	t           *testing.T
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	file        string
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, file: filepath.Join(t.TempDir(), "ca.pem")}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.key = a.newKey()

	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}

	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.keep(a.file, "CERTIFICATE", der)

	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}

	return key
}

func (a *authority) keep(file, kind string, der []byte) {
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// issue makes a certificate for 127.0.0.1 and a URI, and returns its files.
func (a *authority) issue(uri string, usage x509.ExtKeyUsage, until time.Time) (certFile, keyFile string) {
	a.t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-24 * time.Hour),
		NotAfter:    until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{usage},
		KeyUsage: x509.KeyUsageDigitalSignature}

	if uri != "" {
		parsed, err := url.Parse(uri)
		if err != nil {
			a.t.Fatal(err)
		}
		template.URIs = []*url.URL{parsed}
	}
	key := a.newKey()

	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}

	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	folder := a.t.TempDir()
	certFile, keyFile = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	a.keep(certFile, "CERTIFICATE", der)
	a.keep(keyFile, "PRIVATE KEY", keyDER)

	return certFile, keyFile
}

// client returns a client with a certificate of a URI.
func (a *authority) client(uri string) *http.Client {
	a.t.Helper()
	certFile, keyFile := a.issue(uri, x509.ExtKeyUsageClientAuth, time.Now().Add(time.Hour))

	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		a.t.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{pair}}
	config.RootCAs.AddCert(a.certificate)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
	a.t.Cleanup(client.CloseIdleConnections)

	return client
}

// startCertified starts a producer that has lost its ledger and takes client certificates. bank returns a
// client of a bank.
func startCertified(t *testing.T, env ...string) (p *program, bank func(ispb string) *http.Client) {
	t.Helper()
	ca := newAuthority(t)
	certFile, keyFile := ca.issue("", x509.ExtKeyUsageServerAuth, time.Now().Add(time.Hour))
	l, between, behindLink := linkedLedger(t)
	p = startProgram(t, startBroker(t), l,
		append(env, behindLink, "HTTP_TLS_CERT_FILE="+certFile, "HTTP_TLS_KEY_FILE="+keyFile,
			"HTTP_TLS_CLIENT_CA_FILE="+ca.file)...)
	p.AwaitNeed("log", false) // before that nobody is told anything
	between.Set(link.Cut, 0)
	p.AwaitNeed("ledger", true)

	return p, func(ispb string) *http.Client { return ca.client("urn:liquida:participant:" + ispb) }
}

func TestACertificateNamesTheParticipant(t *testing.T) {
	t.Parallel()
	r, ca, stranger := makeRing(t), newAuthority(t), newAuthority(t)
	certFile, keyFile := ca.issue("", x509.ExtKeyUsageServerAuth, time.Now().Add(time.Hour))
	l, ledgerClient := sharedLedger(t)
	openBooks(t, ledgerClient, content)
	p := startProgram(t, startBroker(t), l, "HTTP_KEYS_FILE="+r.digests, "HTTP_TLS_CERT_FILE="+certFile,
		"HTTP_TLS_KEY_FILE="+keyFile, "HTTP_TLS_CLIENT_CA_FILE="+ca.file)
	p.AwaitNeed("ledger", false)
	ask := func(from *authority, uri string, usage x509.ExtKeyUsage, until time.Time, key string) (int, error) {
		t.Helper()
		config := &tls.Config{RootCAs: x509.NewCertPool()}
		config.RootCAs.AddCert(ca.certificate)

		if from != nil {
			certFile, keyFile := from.issue(uri, usage, until)

			pair, err := tls.LoadX509KeyPair(certFile, keyFile)
			if err != nil {
				t.Fatal(err)
			}
			// Even if the server rejects it: that is what is tested.
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return &pair, nil
			}
		}
		client := http.Client{Transport: &http.Transport{TLSClientConfig: config}, Timeout: kit.Patience}
		defer client.CloseIdleConnections()

		request, err := http.NewRequestWithContext(t.Context(), "GET",
			"https://"+p.HTTP+"/v1/accounts/10000001/0001/1", nil)
		if err != nil {
			t.Fatal(err)
		}

		if key != "" {
			request.Header.Set("Authorization", "Bearer "+key)
		}

		response, err := client.Do(request)
		if err != nil {
			return 0, err
		}
		defer response.Body.Close()

		return response.StatusCode, nil
	}
	const client, server = x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth
	soon, past := time.Now().Add(time.Hour), time.Now().Add(-time.Minute)

	own, other, bank := "urn:liquida:participant:10000001", "urn:liquida:participant:10000002",
		"urn:liquida:central-bank"
	for _, c := range []struct {
		name  string
		from  *authority
		uri   string
		usage x509.ExtKeyUsage
		until time.Time
		key   string
		code  int // 0: no connection
		says  string
	}{
		{"its own", ca, own, client, soon, "", 200, ""},
		{"the central bank's", ca, bank, client, soon, "", 200, ""},
		{"another participant's", ca, other, client, soon, "", 403, ""},
		{"expired", ca, own, client, past, "", 0, "expired"},
		{"of another authority", stranger, own, client, soon, "", 0, "certificate"},
		{"a server's", ca, own, server, soon, "", 0, "certificate"},
		{"of nobody", ca, "", client, soon, "", 401, ""},
		{"of no participant", ca, "urn:liquida:participant:1", client, soon, "", 401, ""},
		{"with its key", ca, own, client, soon, r.of(t, "10000001"), 200, ""},
		{"with another's key", ca, own, client, soon, r.of(t, "10000002"), 401, ""},
		{"with a wrong key", ca, own, client, soon, "10000001.00", 401, ""},
		{"none, with a key", nil, "", client, soon, r.of(t, "10000001"), 200, ""},
		{"none and no key", nil, "", client, soon, "", 401, ""},
	} {
		var code int
		var err error
		kit.Await(t, "an answer to a certificate: "+c.name, func() (bool, string) {
			code, err = ask(c.from, c.uri, c.usage, c.until, c.key)
			return code != http.StatusServiceUnavailable, "503" // the register is stale for a moment on a busy machine
		})

		if code != c.code || (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %d %v, want %d %s", c.name, code, err, c.code, c.says)
		}
	}
}

func TestADoorWithoutLocksServesLoopbackOnly(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		says string
	}{
		{map[string]string{"HTTP_ADDRESS": "0.0.0.0:8080"}, "HTTP_ADDRESS is not on loopback"},
		{map[string]string{"HTTP_ADDRESS": ":8080"}, "HTTP_ADDRESS is not on loopback"},
		{map[string]string{"HTTP_ADDRESS": "[::1]:8080"}, ""},
		{map[string]string{"HTTP_ADDRESS": "0.0.0.0:8080", "HTTP_KEYS_FILE": "keys"}, ""},
		{map[string]string{"HTTP_TLS_CERT_FILE": "cert"}, "give both or none"},
		{map[string]string{"HTTP_TLS_CLIENT_CA_FILE": "ca"}, "need TLS"},
	} {
		t.Run(fmt.Sprint(c.env), func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv(name, value)
			}

			config := &frontdoor.Config{Telemetry: telemetry.Config{Address: "127.0.0.1:9101"},
				HTTP: web.Config{Address: "127.0.0.1:8080"}}
			if err := settings.Parse(config); (err != nil) != (c.says != "") || err != nil &&
				!strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

func TestAHeaderThatDoesNotComeEndsTheConnection(t *testing.T) {
	t.Parallel()
	p := startProgram(t, startBroker(t), nil, "HTTP_READ_TIMEOUT=200ms")
	p.AwaitNeed("kafka", false)

	connection := p.connect()
	if _, err := connection.Write([]byte("GET /docs HTTP/1.1\r\nHost: liquida\r\nX-Slow: ")); err != nil {
		t.Fatal(err)
	}

	if text, err := io.ReadAll(bufio.NewReader(connection)); err != nil || strings.Contains(string(text), "200 OK") {
		t.Errorf("%q %v: the server waits", text, err)
	}
}
