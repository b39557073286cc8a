package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/services/producer/query"
)

// A producer whose clock is wrong, either way, is not ready and takes nothing: an engine would
// find the payment too late. What it says about a hold is by the ledger's time, never by its own.
func TestAWrongClockTakesNothingAndCallsNothingExpired(t *testing.T) {
	t.Parallel()
	l, client := sharedLedger(t)
	openBooks(t, client, content)
	b := startBroker(t)

	kafka, err := kgo.NewClient(kgo.SeedBrokers(b.Address))
	if err != nil {
		t.Fatal(err)
	}
	defer kafka.Close()
	admin := kadm.NewClient(kafka)

	for _, offset := range []time.Duration{70 * time.Second, -45 * time.Second} {
		t.Run(offset.String(), func(t *testing.T) {
			p := startProgram(t, b, l, "PRODUCER_CLOCK_OFFSET="+offset.String())
			p.AwaitNeed("log", false)
			p.AwaitNeed("clock", true)

			if problem := p.Problems()["clock"]; !strings.Contains(problem,
				"this machine's clock differs from the ledger's") {
				t.Errorf("not ready because of %q", problem)
			}

			skew := 0.0
			for line := range strings.Lines(p.metrics()) {
				_, _ = fmt.Sscanf(line, "pix_ledger_clock_skew_seconds %g", &skew)
			}

			if off := skew - offset.Seconds(); off < -5 || off > 5 {
				t.Errorf("the metric says that the clock is off by %v s, it is by %v", skew, offset)
			}

			giveBack := `{"return_id": "` + pix.NewReturnID("10000002", time.Now(), random).String() +
				`", "original_end_to_end_id": "` + pix.NewEndToEndID("10000001", time.Now(), random).String() +
				`", "amount_centavos": 1, "reason_code": "MD06"}`
			for path, body := range map[string]string{"/v1/payments": valid, "/v1/returns": giveBack} {
				if got := p.call("POST", path, body); got.code != http.StatusServiceUnavailable ||
					got.Type != "urn:liquida:problem:clock-wrong" || got.retryAfter == "" {
					t.Errorf("POST %s: %d %s", path, got.code, got.text)
				}
			}

			if got := p.call("POST", batchPath, valid); !strings.Contains(got.text, "clock-wrong") {
				t.Errorf("a line of a batch: %d %s", got.code, got.text)
			}

			long, short := pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random),
				pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random)
			write(t, client, ledger.AppendReserve(nil, long, content, 60))
			write(t, client, ledger.AppendReserve(nil, short, content, 2))

			if got := p.call("GET", "/v1/payments/"+long.String(), ""); string(got.Status) != `"reserved"` {
				t.Errorf("a payment that can still settle: %d %s", got.code, got.text)
			}
			kit.Await(t, "the hold that the ledger has ended", func() (bool, string) {
				got := p.call("GET", "/v1/payments/"+short.String(), "")
				return string(got.Status) == `"rejected"` && got.ReasonCode == "AB03", got.text
			})

			if got := p.call("GET", "/v1/payments/"+long.String(), ""); string(got.Status) != `"reserved"` {
				t.Errorf("a payment that can still settle: %d %s", got.code, got.text)
			}
			write(t, client, ledger.AppendPost(nil, long, false))

			if got := p.call("GET", "/v1/payments/"+long.String(), ""); string(got.Status) != `"settled"` {
				t.Errorf("it has settled: %d %s", got.code, got.text)
			}

			ends, err := admin.ListEndOffsets(t.Context(), stream.Payments)
			if err != nil || len(ends[stream.Payments]) == 0 {
				t.Fatal(ends, err)
			}

			for number, end := range ends[stream.Payments] {
				if end.Offset > 0 {
					t.Errorf("%d orders were written to partition %d", end.Offset, number)
				}
			}
		})
	}
}

// watchedLedger counts what a front door asks a ledger, and what it writes to it.
type watchedLedger struct {
	tigerbeetle.Client
	asked, wrote *atomic.Int64
}

func (l watchedLedger) LookupTransfers(ids []tb.Uint128) ([]tb.Transfer, error) {
	defer l.asked.Add(1)
	return l.Client.LookupTransfers(ids)
}

func (l watchedLedger) CreateTransfers(transfers []tb.Transfer) ([]tb.TransferEventResult, error) {
	l.wrote.Add(1)
	return l.Client.CreateTransfers(transfers)
}

// Before a ledger is known to be the topics' own nothing is written to it: after a transfer of now a lost one could
// not be rebuilt there. Once it is, the clock is compared at once.
func TestALedgerThatWasNotComparedGetsNoProbe(t *testing.T) {
	t.Parallel()
	_, client := sharedLedger(t)
	openBooks(t, client, content)
	watched := watchedLedger{client, new(atomic.Int64), new(atomic.Int64)}
	l, health, _ := queryLedger(t.Context(), t, watched, func(*query.Config) {})
	l.Compared(errors.New("it has no marker"))
	ctx, cancel := context.WithCancel(t.Context())
	compared := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { l.Watch(ctx, health, compared) })
	t.Cleanup(func() { cancel(); watching.Wait() })
	kit.Await(t, "three looks at the ledger", func() (bool, string) { return watched.asked.Load() > 3, "" })

	if n := watched.wrote.Load(); n > 0 {
		t.Errorf("wrote %d times to a ledger that may be another's", n)
	}
	l.Compared(nil)
	<-compared

	if watched.wrote.Load() == 0 {
		t.Error("compared its clock without a probe")
	}
}
