package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/liquida/liquida/deploy/tigerbeetle"
	"github.com/liquida/liquida/platform/stream"
)

// The tests run the real program: this test binary, started again under another name.
const asProgram = "PRODUCER_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

const patience = time.Minute // for a condition; no test waits that long unless it fails

// broker is an embedded Kafka broker over TCP, which can be stopped and started again
// with its data and under its address.
type broker struct {
	t       testing.TB
	address string
	dir     string
	cluster *kfake.Cluster
}

func startBroker(t testing.TB) *broker {
	b := &broker{t: t, address: freeAddress(t), dir: t.TempDir()}
	b.start()
	t.Cleanup(b.stop)
	return b
}

func (b *broker) start() {
	b.t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(b.dir), kfake.SeedTopics(4, stream.Payments, stream.Settlements),
		kfake.ListenFn(func(network, _ string) (net.Listener, error) { return net.Listen(network, b.address) }))
	if err != nil {
		b.t.Fatal(err)
	}
	b.cluster = cluster
}

func (b *broker) stop() {
	if b.cluster != nil {
		b.cluster.Close()
		b.cluster = nil
	}
}

// ledgerServer is a real TigerBeetle server, which can be killed and started again with
// its data and under its address.
type ledgerServer struct {
	t         testing.TB
	bin, file string
	address   string
	process   *exec.Cmd
	exited    chan struct{}
}

func startLedger(t testing.TB) *ledgerServer {
	t.Helper()
	bin, err := tigerbeetle.Locate(context.Background(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	l := &ledgerServer{t: t, bin: bin, file: filepath.Join(t.TempDir(), "0_0.tigerbeetle"), address: freeAddress(t)}
	if err := tigerbeetle.Format(context.Background(), bin, l.file); err != nil {
		t.Fatal(err)
	}
	l.start()
	t.Cleanup(l.kill)
	return l
}

func (l *ledgerServer) start() {
	l.t.Helper()
	log := l.file + time.Now().Format(".150405.000000.log")
	file, err := os.Create(log)
	if err != nil {
		l.t.Fatal(err)
	}
	defer file.Close()
	l.process = exec.Command(l.bin, tigerbeetle.StartArguments(l.file, l.address, "128MiB")...)
	l.process.Stdout, l.process.Stderr = file, file
	l.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := l.process.Start(); err != nil {
		l.t.Fatal(err)
	}
	exited := make(chan struct{})
	l.exited = exited
	process := l.process
	go func() {
		defer close(exited)
		_ = process.Wait()
	}()
	await(l.t, "the ledger to answer", func() (bool, string) {
		said, _ := os.ReadFile(log)
		return tigerbeetle.Answers(said), string(said)
	})
}

func (l *ledgerServer) kill() {
	_ = l.process.Process.Kill()
	<-l.exited
}

func freeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// program is a running producer.
type program struct {
	t               testing.TB
	command         *exec.Cmd
	telemetry, http string
	exited          chan struct{}
	log             *prefixed
}

// startProgram starts it; without a ledger its address leads nowhere.
func startProgram(t testing.TB, b *broker, l *ledgerServer, env ...string) *program {
	t.Helper()
	p := &program{t: t, telemetry: freeAddress(t), http: freeAddress(t), exited: make(chan struct{})}
	ledgerAddress := freeAddress(t)
	if l != nil {
		ledgerAddress = l.address
	}
	p.command = exec.Command(os.Args[0])
	p.command.Env = append(append(os.Environ(), asProgram+"=1", "KAFKA_BROKERS="+b.address, "TIGERBEETLE_ADDRESSES="+ledgerAddress,
		"TELEMETRY_ADDRESS="+p.telemetry, "HTTP_ADDRESS="+p.http), env...)
	log := &prefixed{t: t, prefix: "producer: "}
	p.command.Stdout, p.command.Stderr, p.log = log, log, log
	// It must not outlive the test, whatever ends that.
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		_ = p.command.Wait()
	}()
	t.Cleanup(func() { p.end(syscall.SIGKILL) })
	return p
}

func (p *program) end(signal syscall.Signal) {
	_ = p.command.Process.Signal(signal)
	<-p.exited
}

// await waits until the program says that a need is met or, with wrong, that it is not.
func (p *program) await(need string, wrong bool) {
	p.t.Helper()
	await(p.t, fmt.Sprintf("%s to be reported, wrong: %v", need, wrong), func() (bool, string) {
		response, err := http.Get("http://" + p.telemetry + "/readyz")
		if err != nil {
			return false, err.Error()
		}
		defer response.Body.Close()
		var health struct{ Problems map[string]string }
		if err := json.NewDecoder(response.Body).Decode(&health); err != nil {
			return false, err.Error()
		}
		if health.Problems["running"] != "" {
			return false, "not started yet"
		}
		problem := health.Problems[need]
		return (problem != "" && problem != "not reached yet") == wrong && (wrong || problem == ""), fmt.Sprint(health.Problems)
	})
}

// reply is an answer of the producer; the fields are those of all its bodies.
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

func (p *program) call(method, path, body string) reply {
	p.t.Helper()
	request, err := http.NewRequest(method, "http://"+p.http+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(response.Body); err != nil {
		p.t.Fatal(err)
	}
	r := reply{code: response.StatusCode, contentType: response.Header.Get("Content-Type"), text: text.String(), retryAfter: response.Header.Get("Retry-After")}
	if err := json.Unmarshal(text.Bytes(), &r); err != nil {
		p.t.Fatalf("%s %s: %d %s: %v", method, path, r.code, r.text, err)
	}
	return r
}

// has tells whether the body has a field.
func (r reply) has(field string) bool { return strings.Contains(r.text, `"`+field+`":`) }

func await(t testing.TB, what string, met func() (bool, string)) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		ok, state := met()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s: %s", patience, what, state)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// prefixed sends a program's log to the test's.
type prefixed struct {
	t      testing.TB
	prefix string

	mu   sync.Mutex
	said strings.Builder
}

func (p *prefixed) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

func (p *prefixed) Write(text []byte) (int, error) {
	p.mu.Lock()
	p.said.Write(text)
	p.mu.Unlock()
	p.t.Log(p.prefix + strings.TrimRight(string(text), "\n"))
	return len(text), nil
}
