package main

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/web"
)

// When the engines take nothing, orders are refused with nothing done, whole batches at once.
// When they take them, orders are accepted again, although a silent bank holds the committed
// offset back.
func TestOrdersAreRefusedWhileNoEngineTakesThem(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	p := startProgram(t, b, aLedger(t), "SHED_AGE=1s", "SHED_RETRY_AFTER=3s")
	p.AwaitNeed("kafka", false)
	admin := kadm.NewClient(b.Client())
	takenTo := func(taken int64) {
		t.Helper()

		offsets := kadm.Offsets{}
		for partition := range int32(4) {
			offsets.Add(kadm.Offset{Topic: stream.Payments, Partition: partition, At: 0, LeaderEpoch: -1,
				Metadata: stream.WriteHint(0, slices.Values([]stream.Span(nil)), taken)})
		}

		if err := admin.CommitAllOffsets(t.Context(), stream.EngineGroup, offsets); err != nil {
			t.Fatal(err)
		}
	}
	accepted := 0
	await := func(status int) {
		t.Helper()

		for until := time.Now().Add(kit.Patience); ; time.Sleep(20 * time.Millisecond) {
			code, header, problem, text := p.as("", "POST", "/v1/payments", valid)
			if code == http.StatusAccepted {
				accepted++
			} else if code != http.StatusTooManyRequests || header.Get("Retry-After") != "3" ||
				problem.Type != web.Kind("overload") || !strings.Contains(text, "nothing was done") {
				t.Fatalf("%d %v %s", code, header, text)
			}

			if code == status {
				return
			}

			if time.Now().After(until) {
				t.Fatalf("the response is still %d %s", code, text)
			}
		}
	}
	takenTo(0)
	await(http.StatusAccepted)
	await(http.StatusTooManyRequests)
	until := time.Now().Add(kit.Patience)
	// twice SHED_AGE: the lot lets none in, and nobody has a share, because nothing was taken
	for !strings.Contains(p.metrics(), "pix_untaken_seconds 2") && time.Now().Before(until) {
		time.Sleep(50 * time.Millisecond)
	}

	for path, body := range map[string]string{batchPath: strings.Repeat(valid+"\n", 10), "/v1/returns": "{}",
		"/v1/payments": "not even JSON"} {
		if code, header, problem,
			text := p.as("", "POST", path, body); code != http.StatusTooManyRequests ||
			header.Get("Retry-After") != "3" || problem.Type != web.Kind("overload") {
			t.Errorf("%s: %d %v %s", path, code, header, text)
		}
	}

	if records := published(t, b, accepted); len(records) != accepted {
		t.Errorf("%d records of %d orders that were accepted", len(records), accepted)
	}
	takenTo(1 << 20)
	await(http.StatusAccepted)

	if !strings.Contains(p.metrics(), "pix_producer_shed_total") {
		t.Error("the refusals are not counted")
	}
}
