package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
	"github.com/liquida/liquida/services/bank-simulator/decision"
)

// The tests run the real program: this test binary, started again.
func TestMain(m *testing.M) { kit.Main(m, main) }

const partitions = 4

func startBroker(t testing.TB, topics ...string) *kit.Broker {
	b := kit.NewBroker(t, kfake.BrokerConfigs(map[string]string{"group.min.session.timeout.ms": "1000"}))
	b.Start(kfake.SeedTopics(partitions, topics...))
	return b
}

// program is a running bank simulator.
type program struct {
	*kit.Program
	t testing.TB
}

func startProgram(t testing.TB, b *kit.Broker, env ...string) *program {
	t.Helper()
	return &program{kit.Start(t,
		append([]string{"KAFKA_BROKERS=" + b.Address, "SIMULATOR_SESSION_TIMEOUT=1s"}, env...)...), t}
}

// call makes a request with a header, if its name and value are given.
func (p *program) call(method, path, body string, header ...string) (int, string) {
	p.t.Helper()

	request, err := http.NewRequest(method, "http://"+p.HTTP+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}

	if len(header) == 2 {
		request.Header.Set(header[0], header[1])
	}

	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	var text strings.Builder

	buffer := make([]byte, 4096)
	for {
		n, err := response.Body.Read(buffer)
		text.Write(buffer[:n])

		if err != nil {
			return response.StatusCode, text.String()
		}
	}
}

// asker plays the engine: it sends requests and collects all responses.
type asker struct {
	t      testing.TB
	client *kgo.Client
	random *rand.Rand

	mu        sync.Mutex
	responses map[string][]*pixv1.AuthorizationResponse
	misled    int           // responses in another partition than the one asked for
	records   []*kgo.Record // all of them
}

func newAsker(t testing.TB, b *kit.Broker) *asker {
	a := &asker{t: t, random: rand.New(rand.NewPCG(1, 2)), responses: map[string][]*pixv1.AuthorizationResponse{},
		client: b.Client(kgo.ConsumeTopics(stream.AuthorizationResponses),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)

		for ctx.Err() == nil {
			a.client.PollFetches(ctx).EachRecord(a.collect)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })

	return a
}

func (a *asker) collect(record *kgo.Record) {
	response := &pixv1.AuthorizationResponse{}
	if err := response.UnmarshalVT(record.Value); err != nil {
		a.t.Errorf("a response cannot be read: %v", err)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()

	if record.Partition != partitionOf(response.EndToEndId) {
		a.misled++
	}

	if string(record.Key) != response.EndToEndId {
		a.t.Errorf("a response to %s has the key %s", response.EndToEndId, record.Key)
	}
	a.records = append(a.records, record)
	a.responses[response.EndToEndId] = append(a.responses[response.EndToEndId], response)
}

func partitionOf(id string) int32 { return int32(id[len(id)-1]) % partitions }

func (a *asker) request(branch string) *pixv1.AuthorizationRequest {
	id := pix.NewEndToEndID("10000001", time.Now(), a.random).String()

	return &pixv1.AuthorizationRequest{
		EndToEndId: id, AmountCentavos: 1, ReplyPartition: partitionOf(id),
		Payer: &pixv1.Account{Ispb: "10000001", Branch: "0001", Number: "1"},
		Payee: &pixv1.Account{Ispb: "10000002", Branch: branch, Number: "1"},
	}
}

func (a *asker) ask(requests ...*pixv1.AuthorizationRequest) {
	a.t.Helper()

	for _, request := range requests {
		value, err := request.MarshalVT()
		if err != nil {
			a.t.Fatal(err)
		}
		a.produce(&kgo.Record{Topic: stream.AuthorizationRequests, Partition: request.ReplyPartition,
			Key: []byte(request.EndToEndId), Value: value})
	}

	if err := a.client.Flush(context.Background()); err != nil {
		a.t.Fatal(err)
	}
}

func (a *asker) produce(record *kgo.Record) {
	a.client.Produce(context.Background(), record, func(_ *kgo.Record, err error) {
		if err != nil {
			a.t.Errorf("cannot ask: %v", err)
		}
	})
}

// awaitResponses waits until every request has this many responses, and returns them.
func (a *asker) awaitResponses(each int, requests ...*pixv1.AuthorizationRequest) []*pixv1.AuthorizationResponse {
	a.t.Helper()
	var responses []*pixv1.AuthorizationResponse
	kit.Await(a.t, "the responses", func() (bool, string) {
		a.mu.Lock()
		defer a.mu.Unlock()
		responses = responses[:0]
		missing := 0

		for _, request := range requests {
			got := a.responses[request.EndToEndId]
			if len(got) < each {
				missing++
				continue
			}
			responses = append(responses, got...)
		}

		return missing == 0, fmt.Sprintf("%d of %d requests do not have %d responses", missing, len(requests), each)
	})

	if a.misled > 0 {
		a.t.Errorf("%d responses came to another partition than the one asked for", a.misled)
	}

	return responses
}

// check fails unless all responses to each request are equal and as wanted.
func (a *asker) check(requests []*pixv1.AuthorizationRequest, want func(*pixv1.AuthorizationRequest) string) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()

	for _, request := range requests {
		for _, response := range a.responses[request.EndToEndId] {
			if response.Ispb != request.Payee.Ispb {
				a.t.Fatalf("%s: response of %s, want %s", request.EndToEndId, response.Ispb, request.Payee.Ispb)
			}

			if got := response.Status.String() + response.ReasonCode; got != want(request) {
				a.t.Fatalf("%s: %s, want %s", request.EndToEndId, got, want(request))
			}
		}
	}
}

const (
	accepted = "AUTHORIZATION_STATUS_ACSP"
	rejected = "AUTHORIZATION_STATUS_RJCT"
)

var bothTopics = []string{stream.AuthorizationRequests, stream.AuthorizationResponses}

func TestItRespondsAsTheBranchesOfTheSandboxSay(t *testing.T) {
	b := startBroker(t, bothTopics...)
	p := startProgram(t, b, "SIMULATOR_LATE_DELAY=300ms")
	p.AwaitReady()
	a := newAsker(t, b)
	plain, silent, late, blocked, closed := a.request("0001"), a.request("9001"), a.request("9002"), a.request("9003"),
		a.request("9004")
	// One is no request and one has no payee: both are skipped, and the rest get responses.
	a.produce(&kgo.Record{Topic: stream.AuthorizationRequests, Partition: plain.ReplyPartition,
		Value: []byte("\xff\xff")})
	a.produce(&kgo.Record{Topic: stream.AuthorizationRequests, Partition: plain.ReplyPartition, Value: nil})
	asked := time.Now()
	all := []*pixv1.AuthorizationRequest{silent, late, plain, blocked, closed}
	a.ask(all...)
	a.awaitResponses(1, plain, late, blocked, closed)

	if took := time.Since(asked); took < 300*time.Millisecond {
		t.Errorf("the late response came after %v, want at least 300ms", took)
	}
	want := map[*pixv1.AuthorizationRequest]string{plain: accepted, late: accepted, blocked: rejected + "AC06",
		closed: rejected + "AC07"}
	a.check(all, func(r *pixv1.AuthorizationRequest) string { return want[r] })

	if len(a.responses[silent.EndToEndId]) > 0 {
		t.Error("the silent branch responded")
	}

	for _, line := range []string{
		`pix_simulator_answers_total{ispb="10000002",reason="",status="ACSP"} 2`,
		`pix_simulator_answers_total{ispb="10000002",reason="AC06",status="RJCT"} 1`,
		`pix_simulator_silent_total 1`, `pix_simulator_invalid_requests_total 2`,
		`pix_simulator_delayed_answers 0`, `pix_simulator_unanswered_requests 0`,
	} {
		kit.Await(t, line, func() (bool, string) {
			text := p.metrics()
			return strings.Contains(text, line+"\n"), text
		})
	}
}

func (p *program) metrics() string {
	response, err := http.Get("http://" + p.Telemetry + "/metrics")
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()

	text, err := io.ReadAll(response.Body) // not as it came: there chunks may end within a line
	if err != nil {
		return err.Error()
	}

	return string(text)
}

func TestAChangedProfileAppliesAtOnceAndCanBeUndone(t *testing.T) {
	b := startBroker(t, bothTopics...)
	p := startProgram(t, b)
	p.AwaitReady()
	a := newAsker(t, b)
	ask := func(each int, want string) {
		t.Helper()
		request := a.request("0001")
		a.ask(request)
		a.awaitResponses(each, request)
		a.check([]*pixv1.AuthorizationRequest{request}, func(*pixv1.AuthorizationRequest) string { return want })
	}
	put := func(path, profile string) {
		t.Helper()

		if status, body := p.call("PUT", path, profile); status != http.StatusOK {
			t.Fatalf("PUT %s: %d %s", path, status, body)
		}
	}
	ask(1, accepted)
	put("/v1/profiles/default", `{"accept_share": 0, "reject_codes": ["AC14"]}`)
	ask(1, rejected+"AC14")
	put("/v1/profiles/10000002", `{"duplicate_share": 1, "delay": {"min_ms": 5}}`)
	ask(2, accepted)
	put("/v1/profiles/10000002/0001", `{"accept_share": 0, "reject_codes": ["AC06"]}`)
	ask(1, rejected+"AC06")

	for _, path := range []string{"/v1/profiles/10000002/0001", "/v1/profiles/10000002", "/v1/profiles/default"} {
		if status, body := p.call("DELETE", path, ""); status != http.StatusNoContent {
			t.Fatalf("DELETE %s: %d %s", path, status, body)
		}
	}
	ask(1, accepted)

	if status, body := p.call("GET", "/v1/profiles/default/9003", ""); status != http.StatusOK ||
		!strings.Contains(body, "AC06") {
		t.Errorf("GET a profile: %d %s", status, body)
	}

	if status, body := p.call("GET", "/v1/profiles/10000002", ""); status != http.StatusNotFound {
		t.Errorf("GET a profile that is gone: %d %s", status, body)
	}
	// SIMULATOR_PROFILES takes what the API shows.
	_, shown := p.call("GET", "/v1/profiles", "")
	if _, err := decision.NewCatalog(shown, 0, 10); err != nil {
		t.Errorf("%s: %v", shown, err)
	}

	for _, c := range []struct {
		path, body string
		status     int
		says       []string
	}{
		{"/v1/profiles/default", `{"accept_share": 2}`, 422, []string{`"field":"accept_share"`, `"value":2`}},
		{"/v1/profiles/default", `{"accept_share": "x"}`, 400, []string{`"field":"accept_share"`, `a number`}},
		{"/v1/profiles/default", `{"acept_share": 1}`, 400, []string{`"field":"acept_share"`}},
		{"/v1/profiles/default", `{"Accept_Share": 1}`, 400, []string{`"field":"Accept_Share"`}},
		{"/v1/profiles/default", `{"delay": {"min_ms": 1, "min_ms": 2}}`, 400,
			[]string{`"field":"delay.min_ms"`, `twice`}},
		{"/v1/profiles/default", `{} {}`, 400, []string{`something follows`}},
		{"/v1/profiles/default", ``, 400, []string{`empty`}},
		{"/v1/profiles/1234", `{}`, 422, []string{`"field":"bank"`, `"value":"1234"`}},
		{"/v1/profiles/10000002/1", `{}`, 422, []string{`"field":"branch"`, `"value":"1"`}},
		{"/v1/profiles/default", `{"reject_codes": ["` + strings.Repeat("A", 20<<10) + `"]}`, 413, []string{`16384`}},
	} {
		status, body := p.call("PUT", c.path, c.body)
		if status != c.status {
			t.Errorf("PUT %s %.40s: %d %s, want %d", c.path, c.body, status, body, c.status)
		}

		for _, text := range c.says {
			if !strings.Contains(body, text) {
				t.Errorf("PUT %s %.40s: %s, want %s in it", c.path, c.body, body, text)
			}
		}
	}
}

func TestKilledUnderLoadItRespondsToEverythingAfterARestartAndTheSame(t *testing.T) {
	b := startBroker(t, bothTopics...)
	const profiles = `SIMULATOR_PROFILES={"default": {"accept_share": 0.5, "reject_codes": ["AC06", "AC07"], "delay": {"min_ms": 1, "mean_ms": 200}}}`
	p := startProgram(t, b, profiles)
	p.AwaitReady()
	a := newAsker(t, b)
	var requests []*pixv1.AuthorizationRequest

	const rounds, each = 20, 1000
	for round := range rounds {
		for range each {
			requests = append(requests, a.request("0001"))
		}
		a.ask(requests[round*each:]...)

		if round%8 == 4 {
			// Some responses are sent, some are not due, and some requests were not fetched.
			a.awaitResponses(1, requests[round*each])
			p.End(syscall.SIGKILL)
			p = startProgram(t, b, profiles)
		}
	}
	responses := a.awaitResponses(1, requests...)
	p.End(syscall.SIGTERM)
	t.Logf("%d requests, %d responses, 2 kills", len(requests), len(responses))
	// A repeated request gets the same response.
	p = startProgram(t, b, profiles)
	p.AwaitReady()
	before := map[string]int{}
	a.mu.Lock()
	for id, got := range a.responses {
		before[id] = len(got)
	}
	a.mu.Unlock()
	a.ask(requests...)
	kit.Await(t, "another response to each", func() (bool, string) {
		a.mu.Lock()
		defer a.mu.Unlock()
		missing := 0

		for id, got := range a.responses {
			if len(got) <= before[id] {
				missing++
			}
		}

		return missing == 0, fmt.Sprint(missing, " missing")
	})
	kinds := map[string]int{}
	a.check(requests, func(r *pixv1.AuthorizationRequest) string {
		first := a.responses[r.EndToEndId][0]
		kinds[first.ReasonCode]++
		return first.Status.String() + first.ReasonCode
	})

	if len(kinds) != 3 {
		t.Errorf("responses by reason %v, want acceptances, AC06 and AC07", kinds)
	}
}

func TestSimulatorsShareTheRequestsAndHandThemOver(t *testing.T) {
	b := startBroker(t, bothTopics...)
	// The limit is far below the waiting requests: they are fetched as fast as responses leave.
	env := []string{`SIMULATOR_PROFILES={"default": {"delay": {"mean_ms": 50}}}`, "SIMULATOR_UNANSWERED_MAX=1000"}
	first := startProgram(t, b, env...)
	first.AwaitReady()
	a := newAsker(t, b)
	var requests []*pixv1.AuthorizationRequest
	round := func() {
		for range 4000 {
			requests = append(requests, a.request("0001"))
		}
		a.ask(requests[len(requests)-4000:]...)
	}
	round()
	second := startProgram(t, b, env...)
	round()
	second.AwaitReady()
	round()
	first.End(syscall.SIGTERM)
	round()
	a.awaitResponses(1, requests...)
	a.check(requests, func(*pixv1.AuthorizationRequest) string { return accepted })
}

func TestAResponseThatKafkaRefusesDoesNotStopTheOthers(t *testing.T) {
	b := startBroker(t, bothTopics...)
	p := startProgram(t, b)
	p.AwaitReady()
	a := newAsker(t, b)
	nowhere, plain := a.request("0001"), a.request("0001")
	nowhere.ReplyPartition = 99

	value, err := nowhere.MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	a.produce(&kgo.Record{Topic: stream.AuthorizationRequests, Partition: plain.ReplyPartition, Value: value})
	a.ask(plain)
	a.awaitResponses(1, plain)
	kit.Await(t, "a second try", func() (bool, string) {
		text := p.metrics()
		return strings.Contains(text, "pix_simulator_refused_answers_total 2\n"), text
	})
}

func TestAnOrderlyStopCommitsAndRespondsToNothingTwice(t *testing.T) {
	b := startBroker(t, bothTopics...)
	p := startProgram(t, b, "SIMULATOR_COMMIT_INTERVAL=1m")
	p.AwaitReady()
	a := newAsker(t, b)

	var requests []*pixv1.AuthorizationRequest
	for range 1000 {
		requests = append(requests, a.request("0001"))
	}
	a.ask(requests...)
	a.awaitResponses(1, requests...)
	p.End(syscall.SIGTERM)

	if code := p.ExitCode(); code != 0 {
		t.Errorf("exit code %d after SIGTERM", code)
	}
	p = startProgram(t, b)
	p.AwaitReady()
	marker := []*pixv1.AuthorizationRequest{}

	for partition := range int32(partitions) { // once these have responses, everything that comes again has come
		request := a.request("0001")
		for request.ReplyPartition != partition {
			request = a.request("0001")
		}
		marker = append(marker, request)
	}
	a.ask(marker...)
	a.awaitResponses(1, marker...)

	for _, request := range requests {
		if n := len(a.responses[request.EndToEndId]); n != 1 {
			t.Fatalf("%s got %d responses", request.EndToEndId, n)
		}
	}
}

func TestItSaysThatTheBrokerIsAwayAndGoesOnWhenItIsBack(t *testing.T) {
	b := startBroker(t) // and without topics, as before bootstrap
	p := startProgram(t, b)
	kit.Await(t, "the missing topic to be told", func() (bool, string) {
		problems := fmt.Sprint(p.Problems())
		return strings.Contains(problems, stream.AuthorizationRequests), problems
	})
	b.Stop()
	kit.Await(t, "the absent broker to be told", func() (bool, string) {
		problems := fmt.Sprint(p.Problems())
		return strings.Contains(problems, "no broker"), problems
	})
	b.Start()

	if _, err := kadm.NewClient(b.Client()).CreateTopics(context.Background(), partitions, 1, nil,
		bothTopics...); err != nil {
		t.Fatal(err)
	}
	p.AwaitReady()
	a := newAsker(t, b)
	request := a.request("0001")
	a.ask(request)
	a.awaitResponses(1, request)
	b.Stop()
	kit.Await(t, "the absent broker to be told", func() (bool, string) {
		problems := fmt.Sprint(p.Problems())
		return strings.Contains(problems, "no broker"), problems
	})
	b.Start()
	second := a.request("0001")
	a.ask(second)
	a.awaitResponses(1, second)
	p.AwaitReady()
	// Without a broker, too, a stop takes bounded time.
	b.Stop()
	stopping := time.Now()
	p.End(syscall.SIGTERM)

	if took := time.Since(stopping); took > 15*time.Second {
		t.Errorf("stopping took %v without a broker", took)
	}
}

// BenchmarkResponses measures the program as a whole over a backlog of requests. The broker
// and the asker take their share of the machine; cpu-us/response is the simulator's own.
func BenchmarkResponses(bench *testing.B) {
	b := startBroker(bench, bothTopics...)
	a := newAsker(bench, b)
	const count = 500_000

	for bench.Loop() {
		bench.StopTimer()

		requests := make([]*pixv1.AuthorizationRequest, count)
		for i := range requests {
			requests[i] = a.request("0001")
		}
		a.ask(requests...)
		bench.StartTimer()
		started := time.Now()
		p := startProgram(bench, b)
		kit.Await(bench, "all responses", func() (bool, string) {
			a.mu.Lock()
			defer a.mu.Unlock()
			return len(a.responses) == count, fmt.Sprint(len(a.responses))
		})
		bench.ReportMetric(count/time.Since(started).Seconds(), "responses/s")
		p.End(syscall.SIGTERM)
		state := p.Process.ProcessState
		bench.ReportMetric(float64((state.UserTime()+state.SystemTime()).Microseconds())/count, "cpu-us/response")
		bench.ReportMetric(float64(state.SysUsage().(*syscall.Rusage).Maxrss)/1024, "MiB-rss")
		clear(a.responses)
	}
}
