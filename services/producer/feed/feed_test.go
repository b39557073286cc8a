package feed

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/time/rate"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/web"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

func TestPreferredWait(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 0, "wait=0": 0, "respond-async": 0, "waiting=3": 0, "wait=99999999999999999999": 30 * time.Second,
		"wait=3": 3 * time.Second, "WAIT=3": 3 * time.Second, `wait="3"`: 3 * time.Second,
		"respond-async, wait=3;x=y": 3 * time.Second, "wait = 3": 3 * time.Second, "wait=100": 30 * time.Second,
		"wait=3, wait=4": 3 * time.Second,
	} {
		if got, problem := PreferredWait(http.Header{"Prefer": {text}}, 30*time.Second); got != want || problem != nil {
			t.Errorf("Prefer: %s: %v %v, want %v", text, got, problem, want)
		}
	}

	for _, text := range []string{"wait", "wait=", "wait=-1", "wait=x", "wait=1.5", "wait=10s",
		"respond-async, wait=soon;x=y"} {
		if _, problem := PreferredWait(http.Header{"Prefer": {text}}, 30*time.Second); problem == nil ||
			problem.Status != 400 || problem.Field != "Prefer" ||
			!strings.HasPrefix(fmt.Sprint(problem.Value), "wait") || problem.Rule == "" {
			t.Errorf("Prefer: %s: %+v", text, problem)
		}
	}
}

// What a stream has not read yet stays for it, until much more has come. Then it is told to read the topic itself, from
// where it is. Others do not notice.
func TestTheNewestReportsAreKept(t *testing.T) {
	var n newest
	if _, from := n.oldest(); from != nil {
		t.Fatalf("reports are kept from %v on, before the broker has told where the topic ends", from)
	}
	n.begin(position{5, 7})
	page := make([]*entry, 0, 10)
	slow, _ := n.oldest()

	if entries, came, ok := n.after(slow, page); len(entries) != 0 || came == nil || !ok {
		t.Fatal("nothing has come, and there is something to read")
	} else {
		n.keep([]*entry{{partition: 0, offset: 5}, {partition: 1, offset: 7}})
		<-came
	}

	for number, offset := uint64(2), int64(6); number < newestMax; number, offset = number+1, offset+1 {
		n.keep([]*entry{{partition: 0, offset: offset}})

		if entries, _, ok := n.after(number, page); !ok || len(entries) != 1 || entries[0].offset != offset {
			t.Fatalf("who has read all until %d gets %v", number, entries)
		}
	}

	entries, _, ok := n.after(slow, page)
	if _, from := n.oldest(); !ok || len(entries) != cap(page) || entries[1].partition != 1 ||
		!slices.Equal(from, position{5, 7}) {
		t.Fatalf("as many as are kept have come: %d reports, %t, from %v", len(entries), ok, from)
	}
	n.keep([]*entry{{partition: 1, offset: 8}})

	if _, _, ok := n.after(slow, page); ok {
		t.Error("the first report is no longer kept, and nobody says so")
	}

	if number, from := n.oldest(); number != 1 || !slices.Equal(from, position{6, 7}) {
		t.Errorf("the oldest report is %d, from %v", number, from)
	}

	if were := n.grow(3); were != 2 {
		t.Errorf("there were %d partitions", were)
	}
}

// A refused payment names any account that the payer's bank chose. The payee's bank is told
// only of what was held for it.
func TestARefusedPaymentIsToldToItsPayersBankOnly(t *testing.T) {
	const rejected, settled = pixv1.SettlementStatus_SETTLEMENT_STATUS_RJCT,
		pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC
	for _, c := range []struct {
		status pixv1.SettlementStatus
		reason string
		told   bool
	}{
		{settled, "", true},
		// a code of the bank's own
		{rejected, "AB03", true}, {rejected, "AC06", true}, {rejected, "AC07", true}, {rejected, "LQ03", true},
		{rejected, "BE17", true},
		{rejected, "LQ01", false}, {rejected, "AM04", false}, {rejected, "AC02", false}, {rejected, "AC03", false},
		{rejected, "RC09", false}, {rejected, "RC10", false},
		{rejected, "AM01", false}, {rejected, "DS27", false}, {rejected, "LQ02", false}, {rejected, "LQ10", false},
		{rejected, "LQ13", false},
	} {
		message := &pixv1.SettlementReport{EndToEndId: "E", Status: c.status, ReasonCode: c.reason,
			Payer: &pixv1.Account{Ispb: "10000001"}, Payee: &pixv1.Account{Ispb: "10000002"}}

		value, err := message.MarshalVT()
		if err != nil {
			t.Fatal(err)
		}

		r := entryOf(&kgo.Record{Key: []byte("E"), Value: value}).read()
		if r.banks[0] != "10000001" || (r.banks[1] == "10000002") != c.told {
			t.Errorf("%v %s: told to %v; want the payee's bank told: %t", c.status, c.reason, r.banks, c.told)
		}
	}
}

// A position that cannot be followed says why. One from before partitions were added begins at their beginning.
func TestAPositionOfAnotherTopicSaysSo(t *testing.T) {
	for _, c := range []struct {
		cursor     string
		partitions int
		says       string
	}{
		{position{7, 8}.cursor(), 3, ""},
		{position{7, 8, 9, 10}.cursor(), 3, "in 4 partitions, and pix.settlements has 3"},
		{position{}.cursor(), 3, "not a position"}, {"nowhere", 3, "not a position in this stream"},
		{"", 3, "not a position"}, {position{7, 8, 9}.cursor(), 3, ""},
	} {
		if at, err := positionOf(c.cursor, c.partitions); err == nil && len(at) != c.partitions ||
			(err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q of %d partitions: %v, want %q", c.cursor, c.partitions, err, c.says)
		}
	}
}

// takes is the connection of a client that takes all at once.
type takes struct {
	http.ResponseWriter
	events atomic.Int64
}

func (c *takes) Write(text []byte) (int, error) {
	c.events.Add(int64(bytes.Count(text, []byte("event: "))))
	return len(text), nil
}

func (*takes) Flush() {}

// settled makes reports of one instant for a bank.
func settled(t testing.TB, bank pix.ISPB, at time.Time) []*entry {
	entries := make([]*entry, 8*livePage)
	for i := range entries {
		value, err := (&pixv1.SettlementReport{EndToEndId: "E1000000120261121123400000000001",
			Status: pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC, AmountCentavos: 1250,
			Payer: &pixv1.Account{Ispb: "10000001", Branch: "0001", Number: "1"},
			Payee: &pixv1.Account{Ispb: string(bank), Branch: "0001", Number: "2"}}).MarshalVT()
		kit.Must(t, err)
		entries[i] = entryOf(&kgo.Record{Partition: int32(i % 12), Offset: int64(i / 12), Value: value, Timestamp: at})
	}

	return entries
}

// While payments wait, a bank reads again what is kept only as fast as it may. Who only keeps up does not wait, however
// much comes.
func TestOnlyThePastIsPaced(t *testing.T) {
	const all, limit = 8 * livePage, 5 * livePage // what may be read at once, and then few

	for name, test := range map[string]struct {
		age         time.Duration
		least, most int64
	}{"new": {0, all, all}, "kept": {time.Minute, limit, limit + livePage}} {
		client := &takes{ResponseWriter: httptest.NewRecorder()}
		f := &Feed{watcher: &Watcher{}, payments: func() bool { return true },
			config: Config{KeepAlive: time.Hour, HistoryRateMax: 1}, pace: rate.NewLimiter(1, limit/keptAsOne)}
		f.watcher.newest.begin(make(position, 12))
		f.watcher.newest.keep(settled(t, "10000002", time.Now().Add(-test.age)))
		s := &settlementStream{Feed: f, participant: "10000002", events: web.StartEvents(client, time.Second)}
		ctx, end := context.WithCancel(t.Context())
		var following sync.WaitGroup
		following.Go(func() { s.follow(ctx) })
		kit.Await(t, name, func() (bool, string) {
			sent := client.events.Load()
			return sent >= test.least, fmt.Sprint(sent)
		})
		end()
		following.Wait()

		if sent := client.events.Load(); sent > test.most {
			t.Errorf("of %d %s reports %d were sent", all, name, sent)
		}
	}
}

// What one report costs one stream once it was read: a bank may read all that is kept, again and again, on each of its
// streams.
func BenchmarkReportOfAStream(b *testing.B) {
	entries := settled(b, "10000002", time.Now())
	s := &settlementStream{participant: "10000002", at: make(position, 12),
		events: web.StartEvents(&takes{ResponseWriter: httptest.NewRecorder()}, time.Second)}

	for b.Loop() {
		clear(s.at)
		_, err := s.send(entries)
		kit.Must(b, err)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(entries)), "ns/report")
}
