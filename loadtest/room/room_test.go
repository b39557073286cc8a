package room

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/live"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// open returns a room that looks at a broker of its own, and a client that writes to it.
func open(t *testing.T, change func(*Config)) (*Room, *kgo.Client) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1),
		kfake.SeedTopics(4, stream.Payments, stream.Settlements, stream.DeadLetters))
	kit.Must(t, err)
	t.Cleanup(cluster.Close)

	config := Config{
		Stream: stream.Config{Brokers: cluster.ListenAddrs()}, Light: func() live.Light {
			return live.Light{Colour: live.Green, Findings: []live.Finding{}}
		},
		Population: sandbox.Population{Banks: 2, Customers: 4}, Log: t.Logf,
	}
	if change != nil {
		change(&config)
	}
	r, err := Open(t.Context(), config)
	kit.Must(t, err)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = r.Run(ctx) }()
	writer, err := config.Stream.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	kit.Must(t, err)
	t.Cleanup(func() { end(); <-ended; r.Close(); writer.Close() })

	return r, writer
}

func write(t *testing.T, client *kgo.Client, topic string, partition int32, message interface {
	MarshalVT() ([]byte, error)
}) {
	t.Helper()
	value, err := message.MarshalVT()
	kit.Must(t, err)
	kit.Must(t, client.ProduceSync(t.Context(),
		&kgo.Record{Topic: topic, Partition: partition, Value: value}).FirstErr())
}

func report(payer, payee string, centavos uint64, reason string) *pixv1.SettlementReport {
	r := &pixv1.SettlementReport{Payer: &pixv1.Account{Ispb: payer}, Payee: &pixv1.Account{Ispb: payee},
		AmountCentavos: centavos, Status: pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC}
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
	settled, rejected, centavos := 0, 0, int64(0)
	seen := time.Time{}
	kit.Eventually(t, "30 settled and one rejected", func() bool {
		p := r.Picture(false)
		if p.At.After(seen) {
			seen = p.At
			for _, flow := range p.Flows {
				settled, centavos, rejected = settled+flow.Settled, centavos+flow.Centavos,
					rejected+flow.Rejected["AC06"]
			}
		}

		return settled == 30 && rejected == 1 && centavos == 3000
	})

	if banks := r.Picture(true).Banks; len(banks) != 2 || banks[0].ISPB != "10000001" {
		t.Errorf("the banks are %v", banks)
	}
}

// Whoever may write orders names banks and reasons, and chooses keys and times, as it likes. The room stays small.
func TestTheRoomStaysSmall(t *testing.T) {
	w, now := newWaits(), time.Now()

	f := &flows{pairs: map[pair]*Flow{}, waits: w}
	for i := range 3 * pairsMax {
		f.report(report(fmt.Sprint(i), "x", 1, fmt.Sprint(i)), &kgo.Record{})
		f.report(report("a", "b", 1, fmt.Sprint(i)), &kgo.Record{})
	}

	for i := range 3 * lettersMax {
		value, err := (&pixv1.DeadLetter{Offset: int64(i), Payload: make([]byte, 64<<10)}).MarshalVT()
		kit.Must(t, err)
		f.deadLetter(&kgo.Record{Value: value})
	}

	flows, _ := f.take(now)
	rejected := 0

	for _, flow := range flows {
		if len(flow.Rejected) > reasonsMax+1 {
			t.Errorf("%d reasons of one pair", len(flow.Rejected))
		}

		for _, n := range flow.Rejected {
			rejected += n
		}
	}

	if rejected != 6*pairsMax || len(flows) > pairsMax+1 {
		t.Errorf("%d rejections are counted among %d pairs, want %d", rejected, len(flows), 6*pairsMax)
	}

	if letters := f.deadLetters(); len(letters) != lettersMax || letters[0].Offset != 2*lettersMax ||
		len(letters[0].Bytes) != bytesShown {
		t.Errorf("%d letters, the first at %d with %d bytes", len(letters), letters[0].Offset, len(letters[0].Bytes))
	}

	key := func(i int) []byte { return fmt.Appendf(nil, "%032d", i) }
	for i := range waitsMax + earlyMax + 5 {
		w.order(key(i), time.Unix(0, 0), now)
		w.outcome(key(-1-i), now)
	}

	if len(w.open) != waitsMax || len(w.early) != earlyMax {
		t.Errorf("%d orders, %d outcomes", len(w.open), len(w.early))
	}
	w.outcome(key(0), now.Add(time.Second)) // an order of 1970 came now

	if took := w.take(now.Add(waitMax + time.Second)); !slices.Equal(took, []time.Duration{time.Second}) {
		t.Errorf("it took %v", took)
	}

	if len(w.open) != 0 || len(w.early) != 0 {
		t.Errorf("after %v %d orders and %d outcomes stay", waitMax, len(w.open), len(w.early))
	}
}

// An outage is not idle.
func TestHeadline(t *testing.T) {
	n := func(n int64) *int64 { return &n }

	rate, checked := 189.0, live.Light{Colour: live.Green, Checked: 504,
		Since: time.Date(2026, 11, 25, 9, 7, 0, 0, time.UTC)}
	for _, c := range []struct {
		open, untaken *int64
		flows         bool
		still         time.Duration
		state, says   string
	}{
		{n(0), n(0), false, 0, stateIdle,
			"No payment now among 5 banks; 504 checked since 09:07 UTC, none lost, none twice"},
		{n(9), n(9), true, 0, stateFlowing,
			"189 payments a second among 5 banks; 504 checked since 09:07 UTC, none lost, none twice"},
		{n(2000), n(1500), true, 0, stateFlowing,
			"189 payments a second among 5 banks; 1,500 payments wait for an engine"},
		{n(4600), n(4600), false, 23 * time.Second, stateStopped,
			"Nothing has moved for 23 s: 4,600 payments wait"},
		{n(1), n(0), false, 23 * time.Second, stateStopped, "Nothing has moved for 23 s: 1 payment waits"},
		{nil, nil, false, 3 * time.Second, stateStopped,
			"Nothing has moved for 3 s, and the broker does not say what waits"},
	} {
		p := &Picture{Banks: make([]Bank, 5), Light: checked,
			Figures: Figures{SettledPerSecond: rate, Open: c.open, Untaken: c.untaken}}

		p.State = stateOf(p.Figures, c.flows, c.still)
		if says := headline(p, c.still); p.State != c.state || !strings.HasPrefix(says, c.says) ||
			c.state == stateStopped && strings.Contains(says, "per second") {
			t.Errorf("%s: %q, want %s: %q", p.State, says, c.state, c.says)
		}
	}
}

// What engines have committed, and say that they have taken, is not in the backlog. What stays there is an outage.
func TestBacklog(t *testing.T) {
	r, writer := open(t, nil)
	for range 2 {
		write(t, writer, stream.Payments, 0, &pixv1.PaymentOrder{})
	}
	kit.Eventually(t, "the backlog is seen", func() bool {
		now := r.Picture(false).Figures
		return now.Open != nil && *now.Open == 2 && *now.Untaken == 2
	})
	hint := kadm.Offsets{}
	hint.Add(kadm.Offset{Topic: stream.Payments, At: 0, LeaderEpoch: -1,
		Metadata: stream.WriteHint(0, slices.Values([]stream.Span{{From: 1, To: 2}}), 2)})
	kit.Must(t, kadm.NewClient(writer).CommitAllOffsets(t.Context(), stream.EngineGroup, hint))
	kit.Eventually(t, "one has ended, both are taken, and that is an outage", func() bool {
		p := r.Picture(false)
		return *p.Figures.Open == 1 && *p.Figures.Untaken == 0 && p.State == stateStopped
	})
}

// Nobody looks or acts without the token, by another name, from another page, or with a form. What is refused says why.
func TestDoor(t *testing.T) {
	r, _ := open(t, nil)
	const token, host = "a-token-of-many-letters", "127.0.0.1:8090"
	handler := r.Handler(token, Hosts(host))
	kit.Eventually(t, "a picture", func() bool { return !r.Picture(false).At.IsZero() })

	const act = "POST /api/acts "
	for _, c := range []struct {
		request string // method, path, body
		header  string // another one
		status  int
		says    string
	}{
		{"GET /", "Authorization:", 200, "<!doctype html"},
		{"GET /room.js", "Authorization:", 200, "use strict"},
		{"GET /favicon.svg", "Authorization:", 200, "<svg"},
		{"GET /api/picture?history=no", "", 200, `"readonly":"this room only shows`},
		{"GET /api/report", "", 200, "<!doctype html"},
		{"GET /api/picture", "Authorization:", 401, "bearer"},
		{"GET /api/picture", "Authorization: Bearer a-token", 401, "bearer"},
		{"GET /api/picture?token=" + token, "Authorization:", 401, "bearer"},
		{"GET /api/letters", "Authorization:", 401, "bearer"},
		{"GET /api/payments/x", "Authorization:", 401, "bearer"},
		{"GET /api/report", "Authorization:", 401, "bearer"},
		{act + `{"act":"kill"}`, "Authorization:", 401, "bearer"},
		{"GET /", "Host: evil.example:8090", 421, host},
		{"GET /api/picture", "Host: 127.0.0.1:9999", 421, "must be one of"},
		{"GET /api/picture", "Origin: http://evil.example", 403, "own page"},
		{act + `{"act":"load"}`, "Origin: null", 403, "own page"},
		{act + `{"act":"load"}`, "Origin: http://127.0.0.1:1", 403, "own page"},
		{act + `[]`, "", 400, ""},
		{act + `{"act":"load","rate":3}`, "", 400, "rate"},
		{act + `{"act":"kill","target":"engine-0"}`, "", 409, "only shows"},
		{act + `{"act":"explode"}`, "", 400, "must be one of kill, freeze"},
		{"GET /api/payments/x", "", 400, "endtoendid"},
	} {
		request := append(strings.SplitN(c.request, " ", 3), "")
		q := httptest.NewRequest(request[0], "http://"+host+request[1], strings.NewReader(request[2]))

		name, value, _ := strings.Cut(c.header, ":")
		for _, header := range [][2]string{{"Authorization", "Bearer " + token}, {"Origin", "http://" + host}, {name, strings.TrimSpace(value)}} {
			q.Header.Set(header[0], header[1])
		}

		if name == "Host" {
			q.Host = strings.TrimSpace(value)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, q)

		if w.Code != c.status || !strings.Contains(strings.ToLower(w.Body.String()), c.says) {
			t.Errorf("%.80s, %s: %d %.300s", c.request, c.header, w.Code, w.Body)
		}

		if h := w.Header(); !strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'self'") ||
			h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%.80s: the headers are %v", c.request, h)
		}
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
		kit.Must(t, os.WriteFile(file, []byte(bad), 0o600))

		if token, err := TokenOf(file); err == nil || !strings.Contains(err.Error(), "ROOM_TOKEN_FILE") {
			t.Errorf("a file with %q: %q, %v", bad, token, err)
		}
	}
}

// dying is ready when it is looked at first, and dead from then on.
type dying struct {
	Processes
	looks int
}

func (d *dying) Status(context.Context) ([]stack.Status, error) {
	d.looks++
	return []stack.Status{{Name: "engine-0", State: []stack.State{stack.Ready, stack.Dead}[min(d.looks-1, 1)]}}, nil
}

// On a slow machine the last look may be of before a kill. That is no reason to leave a process dead.
func TestAnOldLookIsNotBelieved(t *testing.T) {
	m := newMachine(&dying{}, nil)
	m.lookedAt = time.Now() // at the group: not now

	if p := m.look(t.Context()); p[0].State != string(stack.Ready) || m.lives(t.Context(), "engine-0") {
		t.Errorf("%v: a process that was killed after the last look would not be started again", p)
	}
}
