package room

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/live"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// open returns a room that looks at a broker of its own, and a client that writes to it.
func open(t *testing.T, change func(*Config)) (*Room, *kgo.Client) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, stream.Payments, stream.Settlements, stream.DeadLetters))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	config := Config{
		Stream: stream.Config{Brokers: cluster.ListenAddrs()}, Light: func() live.Light { return live.Light{Colour: live.Green, Findings: []live.Finding{}} },
		Population: sandbox.Population{Banks: 2, Customers: 4}, Log: t.Logf,
	}
	if change != nil {
		change(&config)
	}
	r, err := Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = r.Run(ctx) }()
	writer, err := config.Stream.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(); <-ended; r.Close(); writer.Close() })
	return r, writer
}

func write(t *testing.T, client *kgo.Client, topic string, partition int32, message interface{ MarshalVT() ([]byte, error) }) {
	t.Helper()
	value, err := message.MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: partition, Value: value}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

func report(payer, payee string, centavos uint64, reason string) *pixv1.SettlementReport {
	r := &pixv1.SettlementReport{Payer: &pixv1.Account{Ispb: payer}, Payee: &pixv1.Account{Ispb: payee}, AmountCentavos: centavos, Status: pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC}
	if reason != "" {
		r.Status, r.ReasonCode = pixv1.SettlementStatus_SETTLEMENT_STATUS_RJCT, reason
	}
	return r
}

// Every report is counted once, whatever the second in which the room looks.
func TestFlows(t *testing.T) {
	r, writer := open(t, nil)
	for i := range 30 {
		write(t, writer, stream.Settlements, int32(i%4), report("10000001", "10000002", 100, "")) //nolint:gosec // small
	}
	write(t, writer, stream.Settlements, 0, report("10000001", "10000002", 5, "AC06"))
	write(t, writer, stream.DeadLetters, 0, &pixv1.DeadLetter{ReasonCode: "FF01", Reason: "<script>", Topic: stream.Payments, Offset: 7, Payload: []byte("\x00\xff<b>"), PayloadSizeBytes: 5})
	settled, rejected, centavos := 0, 0, int64(0)
	seen := time.Time{}
	eventually(t, "30 settled and one rejected", func() bool {
		p := r.Picture(false)
		if p.At.After(seen) {
			seen = p.At
			for _, flow := range p.Flows {
				settled, centavos, rejected = settled+flow.Settled, centavos+flow.Centavos, rejected+flow.Rejected["AC06"]
			}
		}
		return settled == 30 && rejected == 1 && centavos == 3000 && len(r.flows.deadLetters()) == 1
	})
	if letter := r.flows.deadLetters()[0]; letter.Code != "FF01" || letter.Offset != 7 || string(letter.Bytes) != "\x00\xff<b>" {
		t.Errorf("the dead letter is %+v", letter)
	}
	if banks := r.Picture(true).Banks; len(banks) != 2 || banks[0].ISPB != "10000001" {
		t.Errorf("the banks are %v", banks)
	}
}

// Whoever may write orders names banks and reasons as it likes. The room stays small.
func TestFlowsAreBounded(t *testing.T) {
	f := &flows{pairs: map[pair]*Flow{}}
	for i := range 3 * pairsMax {
		f.report(report(fmt.Sprint(i), "x", 1, fmt.Sprint(i)), &kgo.Record{})
		f.report(report("a", "b", 1, fmt.Sprint(i)), &kgo.Record{})
	}
	passed := f.take(time.Now())
	if len(passed.flows) > pairsMax+1 {
		t.Errorf("%d pairs", len(passed.flows))
	}
	rejected := 0
	for _, flow := range passed.flows {
		if len(flow.Rejected) > reasonsMax+1 {
			t.Errorf("%d reasons of one pair", len(flow.Rejected))
		}
		for _, n := range flow.Rejected {
			rejected += n
		}
	}
	if rejected != 6*pairsMax {
		t.Errorf("%d rejections are counted, want %d", rejected, 6*pairsMax)
	}
	for i := range 3 * lettersMax {
		value, err := (&pixv1.DeadLetter{Offset: int64(i), Payload: make([]byte, 64<<10)}).MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		f.deadLetter(&kgo.Record{Value: value})
	}
	if letters := f.deadLetters(); len(letters) != lettersMax || letters[0].Offset != 2*lettersMax || len(letters[0].Bytes) != bytesShown {
		t.Errorf("%d letters, the first at %d with %d bytes", len(letters), letters[0].Offset, len(letters[0].Bytes))
	}
}

// What settles before an act, or in a partition of another engine, says nothing about it.
func TestGapCountsFromTheActInItsPartitions(t *testing.T) {
	f, s := &flows{pairs: map[pair]*Flow{}}, &story{}
	w := f.watch(time.Now(), []int32{3})
	s.tell(w, "kill -9 engine-0")
	settle := func(partition int32, after time.Duration) {
		f.report(report("a", "b", 1, ""), &kgo.Record{Partition: partition, Timestamp: w.after.Add(after)})
		s.observe(w.after.Add(after), f.gap, 2, after.Seconds())
	}
	settle(3, -time.Second)
	settle(1, time.Second)
	if line := s.lines()[0]; line.GapSeconds != nil || *line.Redelivered != 4 {
		t.Errorf("before the first settlement: %+v", line)
	}
	settle(3, 4*time.Second)
	settle(3, 5*time.Second)
	line := s.lines()[0]
	if line.GapSeconds == nil || math.Abs(*line.GapSeconds-4) > 0.01 || *line.SlowestSeconds != 5 || line.Settled {
		t.Errorf("after it: %+v", line)
	}
	s.observe(w.after.Add(watchFor+time.Second), f.gap, 1, 9)
	s.observe(w.after.Add(watchFor+2*time.Second), f.gap, 1, 99)
	if line := s.lines()[0]; !line.Settled || *line.Redelivered != 9 || *line.SlowestSeconds != 9 {
		t.Errorf("at the end: %+v", line)
	}
	for range 2 * storyMax {
		s.tell(nil, "more")
	}
	if lines := s.lines(); len(lines) != storyMax || lines[storyMax-1].Number != 2*storyMax+1 {
		t.Errorf("%d lines", len(lines))
	}
}

// slowly is a process that takes its time to die.
type slowly struct {
	Processes
	killing, dead chan struct{}
}

func (s *slowly) Status(context.Context) ([]stack.Status, error) {
	return []stack.Status{{Name: "engine-0", State: stack.Ready}}, nil
}

func (s *slowly) Kill(context.Context, string) error {
	close(s.killing)
	<-s.dead
	return nil
}

// A killed process that holds much memory dies slowly. The gap begins with the kill, and no settlement
// before the death ends it.
func TestGapBeginsWithTheKill(t *testing.T) {
	s := &slowly{killing: make(chan struct{}), dead: make(chan struct{})}
	r, writer := open(t, func(c *Config) { c.Stack = s })
	eventually(t, "the process is seen", func() bool { return r.machine.state("engine-0") != "" })
	settle := func(at time.Time) {
		value, err := report("10000001", "10000002", 100, "").MarshalVT()
		if err == nil {
			err = writer.ProduceSync(t.Context(), &kgo.Record{Topic: stream.Settlements, Value: value, Timestamp: at}).FirstErr()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error, 1)
	asked := time.Now()
	go func() {
		_, err := r.Do(context.WithoutCancel(t.Context()), Act{Act: "kill", Target: "engine-0"})
		done <- err
	}()
	<-s.killing
	killing := time.Now()
	settle(time.Now())
	dying := time.Now()
	close(s.dead)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	next := time.Now().Add(time.Minute).Truncate(time.Millisecond) // records have no more
	settle(next)
	var line Line
	eventually(t, "the gap is known", func() bool {
		line = r.Picture(false).Story[0]
		return line.GapSeconds != nil
	})
	if least, most := next.Sub(killing).Seconds(), next.Sub(asked).Seconds(); *line.GapSeconds < least || *line.GapSeconds > most {
		t.Errorf("the gap is %.6f s, but it must be from %.6f to %.6f", *line.GapSeconds, least, most)
	}
	if line.At.Before(asked) || line.At.After(dying) {
		t.Errorf("the line is of %v, but the kill was from %v to %v", line.At, asked, dying)
	}
}

// A service that starts again counts from zero: nothing of that is negative, and nothing twice.
func TestMetricsOfAServiceThatStartsAgain(t *testing.T) {
	redelivered, fast, all := 0, 0, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "# TYPE pix_payments_redelivered_total counter\npix_payments_redelivered_total %d\n# TYPE pix_payments_in_flight gauge\npix_payments_in_flight 5\n"+
			"# TYPE pix_payment_seconds histogram\npix_payment_seconds_bucket{le=\"1\"} %d\npix_payment_seconds_bucket{le=\"2\"} %d\npix_payment_seconds_bucket{le=\"+Inf\"} %d\npix_payment_seconds_sum 1\npix_payment_seconds_count %d\n", redelivered, fast, all, all, all)
	}))
	defer server.Close()
	m, at := newMetrics(), []string{strings.TrimPrefix(server.URL, "http://")}
	read := func(r, f, a int) measured { redelivered, fast, all = r, f, a; return m.read(t.Context(), at) }
	if first := read(100, 50, 50); first.redelivered != 0 || first.p50 != nil || first.held == nil || *first.held != 5 {
		t.Errorf("the first look counts what was before: %+v", first)
	}
	if now := read(103, 50, 60); now.redelivered != 3 || now.p50 == nil || *now.p50 != 1500 || now.slowestSeconds != 2 {
		t.Errorf("the second: %+v", now)
	}
	if now := read(2, 4, 4); now.redelivered != 2 || *now.p50 != 500 {
		t.Errorf("after a restart: %+v", now)
	}
	if now := m.read(t.Context(), []string{"127.0.0.1:1"}); now.held != nil || now.p50 != nil {
		t.Errorf("of a service that is away: %+v", now)
	}
}

// Nobody looks or acts without the token, by another name, from another page, or with a form.
func TestDoor(t *testing.T) {
	r, _ := open(t, func(c *Config) { c.ReadOnly = "this one only shows" })
	const token, host = "a-token-of-many-letters", "127.0.0.1:8090"
	handler := r.Handler(token, Hosts(host))
	ask := func(method, path, body string, change func(*http.Request)) *httptest.ResponseRecorder {
		q := httptest.NewRequest(method, "http://"+host+path, strings.NewReader(body))
		q.Header.Set("Authorization", "Bearer "+token)
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Origin", "http://"+host)
		if change != nil {
			change(q)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, q)
		return w
	}
	with := func(name, value string) func(*http.Request) {
		return func(q *http.Request) { q.Header.Set(name, value) }
	}
	eventually(t, "a picture", func() bool { return !r.Picture(false).At.IsZero() })
	for _, c := range []struct {
		what, method, path, body string
		change                   func(*http.Request)
		status                   int
		says                     string
	}{
		{"the page", "GET", "/", "", with("Authorization", ""), 200, "<!doctype html"},
		{"a picture", "GET", "/api/picture", "", nil, 200, `"headline"`},
		{"no token", "GET", "/api/picture", "", with("Authorization", ""), 401, "Bearer"},
		{"a part of the token", "GET", "/api/picture", "", with("Authorization", "Bearer a-token"), 401, "Bearer"},
		{"letters without the token", "GET", "/api/letters", "", with("Authorization", ""), 401, "Bearer"},
		{"a life without the token", "GET", "/api/payments/x", "", with("Authorization", ""), 401, "Bearer"},
		{"a report without the token", "GET", "/api/report", "", with("Authorization", ""), 401, "Bearer"},
		{"an act without the token", "POST", "/api/acts", `{"act":"kill","target":"engine-0"}`, with("Authorization", ""), 401, "Bearer"},
		{"another host", "GET", "/", "", func(q *http.Request) { q.Host = "evil.example:8090" }, 421, "127.0.0.1:8090"},
		{"the page by another name", "GET", "/api/picture", "", func(q *http.Request) { q.Host = "127.0.0.1:9999" }, 421, "must be one of"},
		{"another page", "GET", "/api/picture", "", with("Origin", "http://evil.example"), 403, "own page"},
		{"no page", "POST", "/api/acts", `{"act":"load"}`, with("Origin", "null"), 403, "own page"},
		{"a form", "POST", "/api/acts", `{"act":"load"}`, with("Content-Type", "text/plain"), 415, "application/json"},
		{"no object", "POST", "/api/acts", `[]`, nil, 400, ""},
		{"a field too many", "POST", "/api/acts", `{"act":"load","rate":3}`, nil, 400, "rate"},
		{"a body as large as may be", "POST", "/api/acts", `{"act":"kill","target":"` + strings.Repeat("x", BodyBytesMax-26) + `"}`, nil, 409, "only shows"},
		{"a body too large", "POST", "/api/acts", `{"act":"kill","target":"` + strings.Repeat("x", BodyBytesMax-25) + `"}`, nil, 413, "more than 4096 bytes"},
		{"an act that nobody knows", "POST", "/api/acts", `{"act":"explode"}`, nil, 400, "must be one of kill, freeze"},
		{"an act where there are none", "POST", "/api/acts", `{"act":"kill","target":"engine-0"}`, nil, 409, "only shows"},
		{"no id", "GET", "/api/payments/x", "", nil, 400, "EndToEndId"},
		{"a report", "GET", "/api/report", "", nil, 200, "<!doctype html"},
	} {
		w := ask(c.method, c.path, c.body, c.change)
		if w.Code != c.status || !strings.Contains(strings.ToLower(w.Body.String()), strings.ToLower(c.says)) {
			t.Errorf("%s: %d %.300s", c.what, w.Code, w.Body)
		}
		if h := w.Header(); !strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'self'") || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: the headers are %v", c.what, h)
		}
	}
	var picture Picture
	if err := json.Unmarshal(ask("GET", "/api/picture?history=no", "", nil).Body.Bytes(), &picture); err != nil || picture.History != nil || picture.ReadOnly != "this one only shows" {
		t.Errorf("%v %+v", err, picture)
	}
}

// Bad input names the field, the value and the rule, and does nothing.
func TestBadActs(t *testing.T) {
	r, _ := open(t, nil)
	for _, c := range []struct {
		act  Act
		says string
	}{
		{Act{Act: "load", RatePerSecond: 10}, "may not send"},
		{Act{Act: "bank", Target: "10000001", Behaviour: "silent"}, "SIMULATOR_URL"},
		{Act{Act: "kill", Target: "engine-0"}, "--dir"},
		{Act{Act: "kill", Target: "engine-0"}, "--on compose"},
		{Act{Act: "explode"}, "act is \"explode\": it must be one of kill"},
		{Act{}, "act is \"\": it must be one of kill"},
	} {
		if number, err := r.Do(t.Context(), c.act); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: line %d, %v", c.act, number, err)
		}
	}
	if lines := r.Picture(false).Story; len(lines) != 0 {
		t.Errorf("the story tells of %v", lines)
	}
}

func TestToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "token")
	made, err := TokenOf(file)
	if err != nil || len(made) < tokenMin {
		t.Fatalf("%q, %v", made, err)
	}
	if again, err := TokenOf(file); err != nil || again != made {
		t.Errorf("read again: %q, %v", again, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	for _, bad := range []string{"", "short", strings.Repeat("x", tokenMax+1), "two words that are long enough"} {
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if token, err := TokenOf(file); err == nil || !strings.Contains(err.Error(), "ROOM_TOKEN_FILE") {
			t.Errorf("a file with %q: %q, %v", bad, token, err)
		}
	}
}
