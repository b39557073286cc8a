package chaos

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/loadtest/history"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// observer reads every report, as any client could, and remembers when payments settled.
type observer struct {
	client   *kgo.Client
	admin    *kadm.Client
	recorder *history.Recorder
	answers  *answers
	start    time.Time
	done     chan struct{}

	mu       sync.Mutex
	next     map[int32]int64           // the offset after the last report read
	settled  map[int32][]time.Duration // by partition: time of the report since the start
	waits    [][]float32               // by second of the report: latencies of settled payments in ms
	rejected map[string]int            // by reason
	awaited  map[pix.EndToEndID]chan struct{}
}

// secondsMax bounds the series.
const secondsMax = 24 * 60 * 60

func observe(ctx context.Context, kafka []kgo.Opt, admin *kadm.Client, recorder *history.Recorder, answers *answers, start time.Time) (*observer, error) {
	ends, err := admin.ListEndOffsets(ctx, stream.Settlements)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list the ends of %s: %w", stream.Settlements, err)
	}
	client, err := kgo.NewClient(append(slices.Clip(kafka), kgo.ClientID("chaos-observer"), kgo.ConsumePartitions(ends.KOffsets()))...)
	if err != nil {
		return nil, err
	}
	o := &observer{
		client: client, admin: admin, recorder: recorder, answers: answers, start: start, done: make(chan struct{}),
		next: map[int32]int64{}, settled: map[int32][]time.Duration{}, rejected: map[string]int{}, awaited: map[pix.EndToEndID]chan struct{}{},
	}
	ends.Each(func(end kadm.ListedOffset) { o.next[end.Partition] = end.Offset })
	go o.read()
	return o, nil
}

func (o *observer) read() {
	defer close(o.done)
	var report pixv1.SettlementReport
	for {
		fetches := o.client.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			return
		}
		fetches.EachRecord(func(r *kgo.Record) {
			report.Reset()
			id, err := pix.EndToEndID{}, report.UnmarshalVT(r.Value)
			if err == nil {
				id, err = pix.ParseEndToEndID(report.EndToEndId)
			}
			o.mu.Lock()
			defer o.mu.Unlock()
			o.next[r.Partition] = r.Offset + 1
			outcome := history.Outcome{Settled: report.Status == pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC, Reason: report.ReasonCode}
			told := history.Report{At: r.Timestamp, Outcome: outcome, AmountCentavos: report.AmountCentavos}
			if back, notReturn := pix.ParseReturnID(report.EndToEndId); notReturn == nil {
				original, _ := pix.ParseEndToEndID(report.OriginalEndToEndId) // zero if it is malformed: no payment has that id
				o.recorder.ReturnReported(back, original, told)
				if outcome.Settled {
					o.answers.reportedBack(original, &report)
				}
				o.notify(pix.EndToEndID(back))
				return
			}
			if err != nil {
				return // the audit names the record
			}
			o.recorder.Reported(id, told)
			o.answers.reported(id, r.Timestamp, outcome, &report)
			o.count(id, r, outcome)
			o.notify(id)
		})
	}
}

// notify wakes the waiters of id. The caller holds the lock.
func (o *observer) notify(id pix.EndToEndID) {
	if waiting := o.awaited[id]; waiting != nil {
		close(waiting)
		delete(o.awaited, id)
	}
}

func (o *observer) count(id pix.EndToEndID, r *kgo.Record, outcome history.Outcome) {
	if !outcome.Settled {
		o.rejected[outcome.Reason]++
		return
	}
	at := r.Timestamp.Sub(o.start)
	o.settled[r.Partition] = append(o.settled[r.Partition], at)
	second := int(at / time.Second)
	if second < 0 || second >= secondsMax {
		return
	}
	for len(o.waits) <= second {
		o.waits = append(o.waits, nil)
	}
	o.waits[second] = append(o.waits[second], float32(r.Timestamp.Sub(intended(id)).Seconds()*1000))
}

// intended returns when a payment should have been sent, which ids of the load say.
func intended(id pix.EndToEndID) time.Time {
	return id.Time().Add(time.Duration(id.OrderedSuffix()) * time.Microsecond)
}

// await returns a channel that closes when the payment or return has its report. Call it
// before sending.
func (o *observer) await(id pix.EndToEndID) <-chan struct{} {
	reported := make(chan struct{})
	o.mu.Lock()
	defer o.mu.Unlock()
	o.awaited[id] = reported
	return reported
}

// finish reads to the current end of the topic, and ends.
func (o *observer) finish(ctx context.Context) error {
	defer func() { o.client.Close(); <-o.done }()
	ends, err := o.admin.ListEndOffsets(ctx, stream.Settlements)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("cannot list the ends of %s: %w", stream.Settlements, err)
	}
	for {
		behind := false
		o.mu.Lock()
		ends.Each(func(end kadm.ListedOffset) { behind = behind || o.next[end.Partition] < end.Offset })
		o.mu.Unlock()
		if !behind {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot read %s to its end: %w", stream.Settlements, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// recovery returns what a fault did to its partitions (all if none are given): the time from
// its beginning to the first payment settled in any of them, and the longest standstill of
// one of them, during the fault or soon after.
func (o *observer) recovery(began, ended time.Duration, partitions []int32) (first, standstill time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(partitions) == 0 {
		for partition := range o.settled {
			partitions = append(partitions, partition)
		}
	}
	first = -1
	for _, partition := range partitions {
		times := o.settled[partition]
		slices.Sort(times)
		after, _ := slices.BinarySearch(times, began)
		if after < len(times) && (first < 0 || times[after]-began < first) {
			first = times[after] - began
		}
		before := began
		for _, at := range times[after:] {
			if before > ended+aftermath {
				break
			}
			standstill = max(standstill, at-before)
			before = at
		}
	}
	return first, standstill
}

// aftermath is the time after a fault in which a standstill counts as its effect.
const aftermath = 2 * time.Second
