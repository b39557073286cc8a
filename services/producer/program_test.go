package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/liquida/liquida/deploy/ledgertest"
	"github.com/liquida/liquida/deploy/link"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/origin"
	"github.com/liquida/liquida/platform/ports"
	"github.com/liquida/liquida/platform/stream"
)

// The tests run the real program: this test binary, started again.
func TestMain(m *testing.M) { kit.Main(m, main) }

// random is safe for concurrent use: its source is the process's own.
var random = rand.New(processSource{})

type processSource struct{}

func (processSource) Uint64() uint64 { return rand.Uint64() }

const batchPath = "/v1/payments:batch"

// startBroker has four partitions of each topic, which it keeps when it starts again.
func startBroker(t testing.TB) *kit.Broker {
	return kit.StartBroker(t, kfake.SeedTopics(4, stream.TopicNames()...))
}

// ownLedger lets one test at a time have a server of its own: each takes 2 GiB of memory, and to write
// to all of it seconds of CPU.
var ownLedger sync.Mutex

// startLedger starts a server for one test. Whoever kills the ledger or looks at the whole of it is
// a step of TestWholeLedger instead; whoever only needs it out of reach cuts a link to shared.
func startLedger(t testing.TB) *ledgertest.Server {
	t.Helper()
	ownLedger.Lock()
	t.Cleanup(ownLedger.Unlock)

	l, err := ledgertest.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Stop)

	return l
}

// shared is the ledger of all tests that need none of their own, because the start of a server
// costs seconds of CPU. It ends with this process.
var shared = sync.OnceValues(func() (*ledgertest.Server, error) {
	folder, err := os.MkdirTemp("", "liquida-producer-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder) // the server keeps its files open, and nobody starts it again

	l, err := ledgertest.Start(folder)
	if err != nil {
		return nil, err
	}

	client, err := ledger.Connect(l.Config)
	if err != nil {
		return nil, err
	}
	defer client.Close()

	if _, err = client.CreateAccounts(
		[]tb.Account{ledger.NewAccount(ledger.IssuanceAccount),
			ledger.NewAccount(ledger.RefusalsAccount)}); err == nil {
		_, err = client.CreateTransfers([]tb.Transfer{ledger.Marker{}.Transfer()}) // otherwise topics cannot name it
	}

	return l, err
})

// sharedLedger returns shared and a client of it. A test there looks at its own payments only, and
// at the balances of ownBanks only.
func sharedLedger(t testing.TB) (*ledgertest.Server, tigerbeetle.Client) {
	t.Helper()

	l, err := shared()
	if err != nil {
		t.Fatal(err)
	}

	return l, connect(t, l)
}

// linkedLedger returns shared, a link to it that only this test cuts, and the variable of the
// environment that puts a program behind the link.
func linkedLedger(t testing.TB) (l *ledgertest.Server, between *link.Link, behindLink string) {
	t.Helper()
	l = aLedger(t)

	between, err := link.Listen(l.Config.Addresses[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(between.Close)

	return l, between, "TIGERBEETLE_ADDRESSES=" + between.Address()
}

// aLedger returns shared, for tests that only need one: without a ledger no payment is taken.
func aLedger(t testing.TB) *ledgertest.Server {
	t.Helper()

	l, err := shared()
	if err != nil {
		t.Fatal(err)
	}

	return l
}

// program is a running producer.
type program struct {
	*kit.Program
	t    testing.TB
	asIs bool // a test that takes the ledger away also reads what the program answers without it

	uncompared bool
}

// AwaitNeed also waits, once Kafka or the ledger is there for the first time, until topics and ledger were compared:
// before that the program answers 503 to everything that a test could ask.
func (p *program) AwaitNeed(need string, missed bool) {
	p.t.Helper()
	p.Program.AwaitNeed(need, missed)

	if p.uncompared && !missed && need != "running" {
		p.uncompared = false
		p.Program.AwaitNeed("log", false)
	}
}

// startProgram starts the producer. Without a ledger nobody listens on the ledger's address.
func startProgram(t testing.TB, b *kit.Broker, l *ledgertest.Server, env ...string) *program {
	t.Helper()

	ledgerAddress, named := ports.Free(), false
	if l != nil {
		ledgerAddress = l.Config.Addresses[0]
		named = takeLedger(t, b, l)
	}

	return &program{Program: kit.Start(t,
		append([]string{"KAFKA_BROKERS=" + b.Address, "TIGERBEETLE_ADDRESSES=" + ledgerAddress, "STATUS_TIMEOUT=10s",
			"PUBLISH_TIMEOUT=10s"}, env...)...), t: t, uncompared: named}
}

// takeLedger lets topics that name no ledger take one that has its marker, as bootstrap does, and reports whether they
// name one.
func takeLedger(t testing.TB, b *kit.Broker, l *ledgertest.Server) bool {
	t.Helper()
	kafka := b.Client()

	known, err := origin.ReadCheckpoints(t.Context(), kafka)
	if err != nil {
		t.Fatal(err)
	}
	client := connect(t, l)

	is, err := ledger.ReadIdentity(t.Context(), client)
	if err == nil && len(known) == 0 && is.Number > 0 {
		err = origin.NameLedger(t.Context(), kafka, client, 4)
	}

	if err != nil {
		t.Fatal(err)
	}

	return is.Number > 0
}

// reply is a response of the producer; the fields are those of all its bodies.
type reply struct {
	code        int
	contentType string
	text        string
	retryAfter  string

	EndToEndID string          `json:"end_to_end_id"`
	Status     json.RawMessage `json:"status"` // a word, or the HTTP status in a problem
	ReasonCode string          `json:"reason_code"`
	Type       string          `json:"type"`
	Title      string          `json:"title"`
	Detail     string          `json:"detail"`
	Field      string          `json:"field"`
	Value      json.RawMessage `json:"value"`
	Rule       string          `json:"rule"`
	Code       string          `json:"code"`
}

// do makes a request. On a slow machine the ledger may take longer than the program waits for it. Then
// the program asks to try again later, and a test does. The program may also close a connection that
// was unused too long just as the next request comes: an act is safe to repeat, and client does it.
func (p *program) do(client *http.Client, request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodPut && request.Header.Get("Idempotency-Key") == "" {
		request.Header["Idempotency-Key"] = []string{} // says so to client, and is not sent
	}

	for giveUp := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		response, err := client.Do(request)
		if repeatable := request.Body == nil || request.GetBody != nil; err != nil || p.asIs || !repeatable ||
			response.StatusCode != http.StatusServiceUnavailable || time.Now().After(giveUp) {
			return response, err
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()

		if err != nil {
			return nil, err
		}
		// An act that may have been done is safe to repeat: its id is the key.
		if unsure := request.Method == http.MethodPut && strings.Contains(string(text), "unknown-fate"); !unsure &&
			!isAway(string(text)) {
			response.Body = io.NopCloser(bytes.NewReader(text))
			return response, nil
		}

		if request.GetBody != nil {
			if request.Body, err = request.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}

// isAway reports whether a text says that nothing was done, because the ledger took too long.
func isAway(text string) bool {
	return strings.Contains(text, "register-away") || strings.Contains(text, "ledger-away")
}

// connect returns a connection to the HTTP API, on which a test writes what it likes.
func (p *program) connect() net.Conn {
	p.t.Helper()

	connection, err := net.DialTimeout("tcp", p.HTTP, kit.Patience)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { connection.Close() })
	_ = connection.SetDeadline(time.Now().Add(kit.Patience)) // an error shows with the first use

	return connection
}

func (p *program) call(method, path, body string) reply {
	p.t.Helper()

	request, err := http.NewRequest(method, "http://"+p.HTTP+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}

	response, err := p.do(http.DefaultClient, request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()

	var text bytes.Buffer
	if _, err := text.ReadFrom(response.Body); err != nil {
		p.t.Fatal(err)
	}

	r := reply{code: response.StatusCode, contentType: response.Header.Get("Content-Type"), text: text.String(),
		retryAfter: response.Header.Get("Retry-After")}
	if err := json.Unmarshal(text.Bytes(), &r); err != nil {
		p.t.Fatalf("%s %s: %d %s: %v", method, path, r.code, r.text, err)
	}

	return r
}

// has reports whether the body has a field.
func (r reply) has(field string) bool { return strings.Contains(r.text, `"`+field+`":`) }
