package feed

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/stream"
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

// A slow subscriber is dropped, so that it reads the topic again. The others do not notice.
func TestFallingBehindEndsOnlyTheOneWhoDoes(t *testing.T) {
	w := NewWatcher(nil, stream.Config{}, nil, nil)
	w.next = position{0}
	slow, endSlow := w.subscribe("10000002")
	defer endSlow()
	message := &pixv1.SettlementReport{EndToEndId: "E", Payer: &pixv1.Account{Ispb: "10000001"},
		Payee: &pixv1.Account{Ispb: "10000002"}}

	value, err := message.MarshalVT()
	if err != nil {
		t.Fatal(err)
	}

	for offset := range int64(subscriptionMax + 10) {
		fast, end := w.subscribe("10000001")
		w.distribute([]*kgo.Record{{Key: []byte("E"), Value: value, Offset: offset}})

		if r := <-fast.reports; r.offset != offset || fast.from[0] != offset {
			t.Fatalf("%+v from %v, want offset %d", r, fast.from, offset)
		}
		end()
	}

	n := int64(0)
	for r := range slow.reports {
		if r.offset != n {
			t.Fatalf("offset %d, want %d", r.offset, n)
		}
		n++
	}

	if n != subscriptionMax || len(w.subscribers) != 0 {
		t.Errorf("%d reports kept, %d still followed", n, len(w.subscribers))
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
	} {
		message := &pixv1.SettlementReport{EndToEndId: "E", Status: c.status, ReasonCode: c.reason,
			Payer: &pixv1.Account{Ispb: "10000001"}, Payee: &pixv1.Account{Ispb: "10000002"}}

		value, err := message.MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		w := NewWatcher(nil, stream.Config{}, nil, nil)
		w.next = position{0}
		payer, endPayer := w.subscribe("10000001")
		payee, endPayee := w.subscribe("10000002")
		w.distribute([]*kgo.Record{{Key: []byte("E"), Value: value}})

		if len(payer.reports) != 1 || (len(payee.reports) == 1) != c.told {
			t.Errorf("%v %s: the payer's bank is told %d times, the payee's %d times; want it told: %t", c.status,
				c.reason, len(payer.reports), len(payee.reports), c.told)
		}
		endPayer()
		endPayee()
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
