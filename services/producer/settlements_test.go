package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
	"github.com/liquida/liquida/services/producer/feed"
)

// A payment that came too late held nothing, so its payee's bank hears nothing of it. An old
// report with an amount that no client can read does not end every stream that meets it.
func TestThePayeesBankIsToldOnlyOfWhatWasHeldForIt(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	p := startProgram(t, b, aLedger(t), lasting...)
	p.AwaitNeed("kafka", false)
	p.AwaitNeed("ledger", false)
	p.awaitSettlements()
	follow := func(bank, from string) (<-chan event, func()) {
		ctx, end := context.WithCancel(context.Background())
		return events(p.send(ctx, "GET", "/v1/settlements?participant="+bank+"&from="+from, "")), end
	}
	live, endLive := follow("10000002", "end")
	defer endLive()

	kafka, err := kgo.NewClient(kgo.SeedBrokers(b.Address), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer kafka.Close()
	report := func(id, code string, amount uint64) {
		status := pixv1.SettlementStatus_SETTLEMENT_STATUS_RJCT
		if code == "" {
			status = pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC
		}

		value, err := (&pixv1.SettlementReport{EndToEndId: id, Status: status, ReasonCode: code, AmountCentavos: amount,
			Payer: &pixv1.Account{Ispb: "10000001", Branch: "0001", Number: "1"},
			Payee: &pixv1.Account{Ispb: "10000002", Branch: "0001", Number: "2"}}).MarshalVT()
		if err != nil {
			t.Fatal(err)
		}

		if err := kafka.ProduceSync(t.Context(),
			&kgo.Record{Topic: stream.Settlements, Key: []byte(id), Value: value}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	var toPayee, toPayer []string

	for range 40 {
		held, late := pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random),
			pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random)
		report(late.String(), "LQ13", 100)
		report(held.String(), "AB03", 100)
		toPayee, toPayer = append(toPayee, held.String()), append(toPayer, late.String(), held.String())
	}
	report("E-unreadable", "", math.MaxInt64+1)
	report("E-last", "", 1)
	toPayee, toPayer = append(toPayee, "E-last"), append(toPayer, "E-last")
	check := func(name string, events <-chan event, want []string) {
		t.Helper()

		var got []string
		for len(got) == 0 || got[len(got)-1] != "E-last" {
			var s feed.Settlement

			e := next(t, events)
			if err := json.Unmarshal([]byte(e.data), &s); err != nil {
				t.Fatal(e, err)
			}
			got = append(got, s.EndToEndID)
		}

		if !slices.Equal(got, want) {
			t.Errorf("%s: %d events, want %d", name, len(got), len(want))
		}
	}
	check("live", live, toPayee)
	past, endPast := follow("10000002", "start")
	defer endPast()
	check("the payee's bank", past, toPayee)
	payers, endPayers := follow("10000001", "start")
	defer endPayers()
	check("the payer's bank", payers, toPayer)
}

// While payments wait, past settlements are read slowly, however fast the client is.
func TestPastSettlementsArePaced(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	records := []*kgo.Record{{Topic: stream.Payments, Value: []byte("an order that no engine takes")}}

	const (
		reports = 12_000 // in one partition of four
		kept    = 8192   // the newest of a partition, which are read when the program starts
		rate    = 1000
		atOnce  = 1000
	)
	for n := range reports {
		value, err := (&pixv1.SettlementReport{EndToEndId: fmt.Sprint("E-", n), AmountCentavos: 1,
			Payer: &pixv1.Account{Ispb: "10000001"}, Payee: &pixv1.Account{Ispb: "10000002"}}).MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, &kgo.Record{Topic: stream.Settlements, Key: []byte("E"), Value: value})
	}

	if err := b.Client().ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	p := startProgram(t, b, aLedger(t), append(lasting, fmt.Sprint("SETTLEMENT_HISTORY_RATE_MAX=", rate))...)
	p.AwaitNeed("kafka", false)
	p.AwaitNeed("ledger", false)
	p.awaitSettlements()
	kit.Await(t, "the order", func() (bool, string) {
		return strings.Contains(p.metrics(), "\npix_payments_wait 1\n"), ""
	})
	ctx, end := context.WithCancel(t.Context())
	defer end()
	began := time.Now()

	past := events(p.send(ctx, "GET", "/v1/settlements?participant=10000001&from=start", ""))
	var newest string // the first that is kept

	for n := range reports {
		if e := next(t, past); n == reports-kept {
			newest = e.id
		}
	}

	if took := time.Since(began); took < (reports-kept-atOnce)*time.Second/rate {
		t.Errorf("%d past settlements come within %v", reports, took)
	}

	// What is kept is read faster, and not as fast as it goes: one bank may read it again and again.
	const page, keptAsOne, again = 1024, 5, 3
	began = time.Now()

	for range again {
		following, leave := context.WithCancel(ctx)

		past = events(p.send(following, "GET", "/v1/settlements?participant=10000001&from="+newest, ""))
		for range kept - 1 {
			next(t, past)
		}
		leave()
	}

	if took := time.Since(began); took < (again*(kept/page-1)*(page/keptAsOne)-atOnce)*time.Second/rate {
		t.Errorf("%d kept settlements come %d times within %v", kept, again, took)
	}
}
