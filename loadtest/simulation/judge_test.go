package simulation

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/loadtest/audit"
	"github.com/liquida/liquida/loadtest/history"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// result is what became of a world.
type result struct {
	Virtual  time.Duration
	Payments int
	Faults   map[string]int
	Trace    []string
	Problems []string // empty: all judges are content
}

// allowed are the reasons with which faults may make a good payment end.
var allowed = []pix.Reason{pix.ReasonPayeePSPSilent, pix.ReasonPayeePSPBusy, pix.ReasonTooLate, rejectedByBank}

// Bounds of virtual time. A hold that nobody resolves ends 60 s after its order.
const (
	drainMax = 5 * time.Minute
	quietMax = 5 * time.Minute
)

// live makes the world of a seed, lets it live, and judges it.
func live(t *testing.T, seed uint64, log io.Writer) result {
	random := chance(seed, 0)
	w := newWorld(t, random, log)
	w.startBanks()
	for i := range 2 + random.IntN(2) {
		w.startEngine(i)
	}
	payments, rate := 100+random.IntN(400), 5+20*random.Float64()
	sending := time.Duration(float64(payments) / rate * float64(time.Second))
	gap := between(random, 2*time.Second, 30*time.Second)
	w.note("seed %d: %d engines, %d payments at %.1f/s, a fault every %v or so in each lane, latency %v", seed, len(w.services)-1, payments, rate, gap, w.latency)
	var faults sync.WaitGroup
	for i, l := range w.lanes() {
		faults.Go(func() { w.inject(l, chance(seed, uint64(i+1)), gap, time.Now().Add(sending+20*time.Second)) })
	}

	recorder := history.NewRecorder()
	loaded, err := load.Run(t.Context(), load.Config{
		Stream: w.engineConfig.Stream, Kafka: w.kafka(), Population: population, Mix: everyCase(random), Rate: rate, Payments: payments,
		Seed: seed, DrainTimeout: drainMax, OutstandingMax: 100_000, Allowed: allowed, Faults: true,
	})
	faults.Wait()
	var problems []string
	complain := func(format string, arguments ...any) {
		problems = append(problems, fmt.Sprintf(format, arguments...))
	}
	if err != nil {
		complain("the load fails: %v", err)
	} else if !loaded.Passed {
		complain("load: %d failures", loaded.FailureCount)
		for _, f := range loaded.Failures {
			complain("  %s %s %s: %s", f.EndToEndID, f.Case, f.Record, f.Problem)
		}
	}
	verdict, err := audit.Run(t.Context(), audit.Config{Kafka: w.kafka(), Ledger: w.ledger.Connect(nil), Wait: quietMax, Log: func(string, ...any) {}})
	if err != nil {
		complain("the audit fails: %v", err)
	} else if !verdict.Clean {
		var text bytes.Buffer
		verdict.Write(&text)
		complain("%s", text.String())
	}
	w.read(recorder)
	if seen := recorder.Check(0); !seen.Clean {
		complain("%v", seen)
		for _, v := range seen.Violations {
			complain("  %s: %s: %s", v.Kind, v.Subject, v.Detail)
		}
	}
	virtual := time.Since(w.began)
	w.end()
	w.runs.Wait()
	for _, s := range w.services {
		<-s.ended
	}
	return result{virtual, payments, w.count, w.trace, problems}
}

// everyCase returns a mix with every case of loads, half of it good payments.
func everyCase(random *rand.Rand) (m mix.Mix) {
	sum := 0
	for _, c := range mix.Cases() {
		m[c] = 1 + random.IntN(5)
		sum += m[c]
	}
	m[mix.Accepted] += sum
	return m
}

// read gives all reports to the history.
func (w *world) read(recorder *history.Recorder) {
	ctx, cancel := context.WithTimeout(w.ends, time.Minute)
	defer cancel()
	ends, err := kadm.NewClient(w.client).ListEndOffsets(ctx, stream.Settlements)
	if err != nil {
		w.t.Error(err)
		return
	}
	var left int64
	ends.Each(func(o kadm.ListedOffset) { left += o.Offset })
	client, err := kgo.NewClient(append(w.kafka(), kgo.ConsumeTopics(stream.Settlements), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		w.t.Error(err)
		return
	}
	defer client.Close()
	for left > 0 && ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			left--
			var report pixv1.SettlementReport
			if report.UnmarshalVT(r.Value) != nil {
				return // the audit names it
			}
			said := history.Report{At: r.Timestamp, AmountCentavos: report.AmountCentavos,
				Outcome: history.Outcome{Settled: report.Status == pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC, Reason: report.ReasonCode}}
			if back, err := pix.ParseReturnID(report.EndToEndId); err == nil {
				original, _ := pix.ParseEndToEndID(report.OriginalEndToEndId)
				recorder.ReturnReported(back, original, said)
			} else if id, err := pix.ParseEndToEndID(report.EndToEndId); err == nil {
				recorder.Reported(id, said)
			}
		})
	}
	if left > 0 {
		w.t.Errorf("%d reports cannot be read", left)
	}
}
