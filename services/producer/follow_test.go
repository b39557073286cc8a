package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
	"github.com/liquida/liquida/services/producer/feed"
	"github.com/liquida/liquida/services/producer/query"
)

// answer is a response whose body may still be on its way. It is closed with the test.
type answer struct {
	StatusCode int
	Status     string
	Header     http.Header
	Body       io.Reader
}

// send makes a request and returns when the header of the response has come.
func (p *program) send(ctx context.Context, method, path, body string, header ...string) answer {
	p.t.Helper()

	request, err := http.NewRequestWithContext(ctx, method, "http://"+p.HTTP+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}

	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}

	response, err := p.do(http.DefaultClient, request)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { response.Body.Close() })

	return answer{response.StatusCode, response.Status, response.Header, response.Body}
}

// awaitSettlements waits until the program follows pix.settlements.
func (p *program) awaitSettlements() {
	p.t.Helper()
	kit.Await(p.t, "the settlements to be followed", func() (bool, string) {
		return strings.Contains(p.metrics(), `client_id="producer-settlements"`), ""
	})
}

// event is a server-sent event.
type event struct{ id, kind, data string }

// events reads a stream's events; the channel closes with the stream.
func events(response answer) <-chan event {
	out := make(chan event, 10_000)
	go func() {
		defer close(out)
		var e event

		lines := bufio.NewScanner(response.Body)
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "id":
				e.id = value
			case "event":
				e.kind = value
			case "data":
				e.data = value
			case "":
				if lines.Text() == "" {
					if e.data != "" {
						out <- e
					}
					e.kind, e.data = "", ""
				}
			}
		}
	}()

	return out
}

func next(t *testing.T, from <-chan event) event {
	t.Helper()

	select {
	case e, more := <-from:
		if !more {
			t.Fatal("the stream has ended")
		}

		return e
	case <-time.After(kit.Patience):
		t.Fatal("no event comes")
	}

	return event{}
}

// reports writes settlement reports as an engine does.
func reports(t *testing.T, b *kit.Broker, partition int32, between ...[2]string) {
	t.Helper()

	client, err := kgo.NewClient(kgo.SeedBrokers(b.Address), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var records []*kgo.Record

	for i, names := range between {
		message := &pixv1.SettlementReport{EndToEndId: names[0], Status: pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC,
			AmountCentavos: uint64(i + 1),
			Payer:          &pixv1.Account{Ispb: "10000001", Branch: "0001", Number: "1"},
			Payee:          &pixv1.Account{Ispb: names[1], Branch: "0001", Number: "2"}}

		value, err := message.MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		records = append(records,
			&kgo.Record{Topic: stream.Settlements, Partition: partition, Key: []byte(names[0]), Value: value})
	}

	if err := client.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// The time limits of a request must not end waits and streams.
var lasting = []string{"HTTP_READ_TIMEOUT=150ms", "STREAM_KEEP_ALIVE=100ms", "HTTP_WRITE_TIMEOUT=41s"}

// wokenByReports starts a program with books, whose waits only a report wakes in time.
func wokenByReports(t *testing.T, settings ...string) (*program, *kit.Broker, tigerbeetle.Client) {
	t.Helper()
	l, client := sharedLedger(t)
	openBooks(t, client, content)
	b := startBroker(t)
	p := startProgram(t, b, l, slices.Concat(lasting, []string{"ASK_AGAIN_INTERVAL=1m", "WAIT_MAX=60s"}, settings)...)
	p.AwaitNeed("log", false)
	p.awaitSettlements()

	return p, b, client
}

func TestASubmissionWaitsForItsOutcome(t *testing.T) {
	t.Parallel()
	p, b, client := wokenByReports(t, "WAITS_MAX=1")
	id := pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random)
	body := fmt.Sprintf(`{"end_to_end_id": %q, "payer": {"ispb": "10000001", "branch": "0001", "number": "1"}, "payee": {"ispb": "10000002", "branch": "0001", "number": "2"}, "amount_centavos": 100}`,
		id)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		published(t, b, 1)
		kit.Await(t, "the submission to wait", func() (bool, string) {
			return strings.Contains(p.metrics(), "pix_producer_waits 1\n"), ""
		})
		time.Sleep(300 * time.Millisecond) // longer than HTTP_READ_TIMEOUT, which must not end it
		// One more than may wait gets a response at once, which says that it did not wait.
		if second := p.send(context.Background(), "POST", "/v1/payments", valid, "Prefer",
			"wait=50"); second.StatusCode != 202 || second.Header.Get("Preference-Applied") != "" {
			t.Errorf("past WAITS_MAX: %s, %v", second.Status, second.Header)
		}
		write(t, client, ledger.AppendReserve(nil, id, content, 60))
		write(t, client, ledger.AppendPost(nil, id, false))
		reports(t, b, 1, [2]string{id.String(), "10000002"})
	}()
	response := p.send(context.Background(), "POST", "/v1/payments", body, "Prefer", "respond-async, wait=600")

	var state query.PaymentState
	if err := json.NewDecoder(response.Body).Decode(&state); err != nil {
		t.Fatal(err)
	}

	if response.StatusCode != 200 || response.Header.Get("Preference-Applied") != "wait=60" ||
		state.Status != "settled" || len(state.Legs) != 3 {
		t.Errorf("%s %v %+v", response.Status, response.Header, state)
	}
	<-ended
	// The outcome is known: no report will come.
	if again := p.send(context.Background(), "POST", "/v1/payments", body, "Prefer",
		"wait=60"); again.StatusCode != 200 {
		t.Errorf("the same payment again: %s", again.Status)
	}

	started := time.Now()
	if never := p.send(context.Background(), "POST", "/v1/payments", valid, "Prefer",
		"wait=1"); never.StatusCode != 202 || never.Header.Get("Preference-Applied") != "wait=1" ||
		time.Since(started) < time.Second {
		t.Errorf("one that does not end: %s after %v", never.Status, time.Since(started))
	}

	if plain := p.send(context.Background(), "POST", "/v1/payments", valid); plain.StatusCode != 202 ||
		plain.Header.Get("Preference-Applied") != "" {
		t.Errorf("without the preference: %s", plain.Status)
	}
}

// An order may be settled, and reported, before its front door hears that it is stored.
func TestAReportBeforeTheAcknowledgementIsNotMissed(t *testing.T) {
	t.Parallel()
	p, b, client := wokenByReports(t)
	id := pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random)

	var orders atomic.Int32
	arrived, settled := make(chan struct{}), make(chan struct{})
	b.Control(func(c *kfake.Cluster) {
		c.ControlKey(kmsg.Produce.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()

			if orders.Add(1) == 1 { // the next is the report
				close(arrived)
				c.SleepControl(func() { <-settled })
			}

			return nil, nil, false
		})
	})
	go func() {
		defer close(settled)
		<-arrived
		write(t, client, ledger.AppendReserve(nil, id, content, 60))
		write(t, client, ledger.AppendPost(nil, id, false))
		reports(t, b, 1, [2]string{id.String(), "10000002"})
		kit.Await(t, "the report to be read", func() (bool, string) {
			return strings.Contains(p.metrics(), `pix_kafka_fetch_records_total{client_id="producer-settlements"`), ""
		})
	}()

	response := p.send(context.Background(), "POST", "/v1/payments", fmt.Sprintf(
		`{"end_to_end_id": %q, "payer": {"ispb": "10000001", "branch": "0001", "number": "1"}, "payee": {"ispb": "10000002", "branch": "0001", "number": "2"}, "amount_centavos": 100}`,
		id), "Prefer", "wait=50")
	if response.StatusCode != http.StatusOK {
		t.Error("it waited for what had been reported:", response.Status)
	}
	// One look-up of its content before it was sent, and one of its outcome.
	if asked := `pix_ledger_request_seconds_count{kind="look up transfers"} 2` + "\n"; !strings.Contains(p.metrics(), asked) {
		t.Errorf("want %s:\n%s", asked, p.metrics())
	}
}

func TestThePaymentsEventsEndWithItsOutcome(t *testing.T) {
	t.Parallel()
	l, client := sharedLedger(t)
	openBooks(t, client, content)
	p := startProgram(t, startBroker(t), l, append(lasting, "ASK_AGAIN_INTERVAL=50ms", "STREAMS_MAX=1")...)
	p.AwaitNeed("ledger", false)
	id := pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random)
	path := "/v1/payments/" + id.String() + "/events"

	response := p.send(context.Background(), "GET", path, "")
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%s %v", response.Status, response.Header)
	}
	stream := events(response)
	expect := func(status string, legs int) {
		t.Helper()
		e := next(t, stream)

		var state query.PaymentState
		if err := json.Unmarshal([]byte(e.data), &state); err != nil || e.kind != "state" || e.id != status ||
			state.Status != status || state.EndToEndID != id.String() || len(state.Legs) != legs {
			t.Errorf("%+v %v, want %s with %d legs", e, err, status, legs)
		}
	}
	expect("unknown", 0)

	if got := p.call("GET", path, ""); got.code != http.StatusTooManyRequests || got.retryAfter == "" {
		t.Errorf("past STREAMS_MAX: %d %s", got.code, got.text)
	}
	time.Sleep(300 * time.Millisecond) // longer than HTTP_READ_TIMEOUT, which must not end it
	write(t, client, ledger.AppendReserve(nil, id, content, 60))
	expect("reserved", 3)
	write(t, client, ledger.AppendVoid(nil, id, false, pix.ReasonPayeeClosed))
	expect("rejected", 3)

	select {
	case e, more := <-stream:
		if more {
			t.Errorf("after the end: %+v", e)
		}
	case <-time.After(kit.Patience):
		t.Error("the stream does not end")
	}

	if got := p.call("GET", "/v1/payments/E1/events", ""); got.code != 422 || got.Field != "end_to_end_id" {
		t.Errorf("%d %s", got.code, got.text)
	}
}

// cursor encodes the id of an event: a version and the next offset of each partition.
func cursor(offsets ...uint64) string {
	text := []byte{1}
	for _, offset := range offsets {
		text = binary.AppendUvarint(text, offset)
	}

	return base64.RawURLEncoding.EncodeToString(text)
}

func TestAParticipantFollowsItsSettlementsFromAnyPoint(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	p := startProgram(t, b, aLedger(t), append(lasting, "SETTLEMENT_HISTORIES_MAX=1")...)
	p.AwaitNeed("kafka", false)
	p.awaitSettlements()
	open := func(query string, header ...string) (<-chan event, func()) {
		t.Helper()
		ctx, end := context.WithCancel(context.Background())

		response := p.send(ctx, "GET", "/v1/settlements?participant=10000002"+query, "", header...)
		if response.StatusCode != 200 {
			t.Fatal(response.Status)
		}

		return events(response), end
	}
	named := func(e event) string {
		t.Helper()

		var s feed.Settlement
		if err := json.Unmarshal([]byte(e.data), &s); err != nil || e.kind != "settlement" || s.Status != "settled" ||
			s.Payee.ISPB != "10000002" || s.AmountCentavos == 0 || s.ReportedAt.IsZero() {
			t.Fatalf("%+v %v", e, err)
		}

		return s.EndToEndID
	}
	live, endLive := open("")
	var sent []string

	const rounds, each = 5, 20
	for round := range rounds { // in one partition after the other, every second one for another bank
		var between [][2]string

		for i := range each {
			id := fmt.Sprintf("E-%d-%d", round, i)
			between = append(between, [2]string{id, "10000002"}, [2]string{"other-" + id, "10000003"})
			sent = append(sent, id)
		}
		reports(t, b, int32(round%4), between...)
	}

	for i, want := range sent {
		if got := named(next(t, live)); i < each && got != want { // within a partition in order
			t.Errorf("event %d is %s, want %s", i, got, want)
		}
	}
	endLive()
	past, endPast := open("&from=start")
	var came []string // in the order of this stream: another may mix the partitions otherwise
	var cursors []string
	distinct := map[string]bool{}

	for range sent {
		e := next(t, past)
		came, cursors, distinct[e.id] = append(came, named(e)), append(cursors, e.id), true
	}
	// It has caught up: now it follows.
	reports(t, b, 3, [2]string{"E-live", "10000002"})

	if got := named(next(t, past)); got != "E-live" {
		t.Errorf("after the past comes %s", got)
	}
	endPast()

	if len(distinct) != len(sent) {
		t.Fatalf("%d different cursors for %d events", len(distinct), len(sent))
	}
	// From any event on: every later settlement, and no earlier one.
	for i := 0; i < len(cursors); i += 9 {
		query, header := "&from="+cursors[i], []string(nil)
		if i%2 == 0 { // as a browser reconnects
			query, header = "&from=start", []string{"Last-Event-ID", cursors[i]}
		}

		left := map[string]bool{"E-live": true}
		for _, name := range came[i+1:] {
			left[name] = true
		}

		rest, end := open(query, header...)
		for n := len(left); n > 0; n-- {
			name := named(next(t, rest))
			if !left[name] {
				t.Errorf("from %s: %s comes again", cursors[i], name)
			}
			delete(left, name)
		}
		end()
	}

	for _, bad := range []string{"?participant=1", "", "?participant=10000002&from=x",
		"?participant=10000002&from=" + cursor(1<<40, 0, 0, 0), "?participant=10000002&from=" + cursor(0, 0, 0, 0, 0)} {
		if got := p.call("GET", "/v1/settlements"+bad, ""); got.code != 422 || got.Field == "" || got.Rule == "" {
			t.Errorf("%s: %d %s", bad, got.code, got.text)
		}
	}
}

// The central bank follows all participants, from the past on, and is told each settlement once.
func TestAllParticipantsAreFollowed(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	p := startProgram(t, b, aLedger(t), lasting...)
	p.AwaitNeed("kafka", false)
	p.awaitSettlements()
	const past = 40
	want := map[string]int{}

	send := func(round, i int) {
		id := fmt.Sprintf("E-%d-%d", round, i)
		want[id] = 0
		reports(t, b, int32(i%4), [2]string{id, fmt.Sprintf("1000000%d", 1+i%5)}) //nolint:gosec // small
	}
	for i := range past {
		send(0, i)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()

	response := p.send(ctx, "GET", "/v1/settlements?participant=all&from=start", "")
	if response.StatusCode != 200 {
		t.Fatal(response.Status)
	}
	stream := events(response)
	take := func(n int) {
		for range n {
			var s feed.Settlement
			if e := next(t, stream); json.Unmarshal([]byte(e.data), &s) != nil || e.kind != "settlement" {
				t.Fatalf("%+v", e)
			}
			want[s.EndToEndID]++
		}
	}
	take(past)

	for i := range past {
		send(1, i)
	}
	take(past)

	for id, told := range want {
		if told != 1 {
			t.Errorf("%s is told %d times", id, told)
		}
	}

	if len(want) != 2*past {
		t.Errorf("%d payments are told of, and %d there are", len(want), 2*past)
	}
}
