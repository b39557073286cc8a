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

// observer reads every report, as any client could, and keeps when payments settled.
type observer struct {
	client   *kgo.Client
	admin    *kadm.Client
	recorder *history.Recorder
	answers  *answers
	start    time.Time
	done     chan struct{}

	mu       sync.Mutex
	next     map[int32]int64           // the offset after the last one read
	settled  map[int32][]time.Duration // by partition: when, since the start, by the engine's clock
	waits    [][]float32               // by second of the report: how long settled payments took, in ms
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
				original, _ := pix.ParseEndToEndID(report.OriginalEndToEndId) // what is none was paid by nobody
				o.recorder.ReturnReported(back, original, told)
				if outcome.Settled {
					o.answers.reportedBack(original, &report)
				}
				o.tell(pix.EndToEndID(back))
				return
			}
			if err != nil {
				return // the audit names it
			}
			o.recorder.Reported(id, told)
			o.answers.reported(id, r.Timestamp, outcome, &report)
			o.count(id, r, outcome)
			o.tell(id)
		})
	}
}

// tell tells who waits for a report that it is there. The lock is held.
func (o *observer) tell(id pix.EndToEndID) {
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

// intended is when a payment should have been sent: ids of the load say it.
func intended(id pix.EndToEndID) time.Time {
	return id.Time().Add(time.Duration(id.OrderedSuffix()) * time.Microsecond)
}

// await returns a channel that is closed when the payment, or the return, has its report. It
// must be asked for before it is sent.
func (o *observer) await(id pix.EndToEndID) <-chan struct{} {
	reported := make(chan struct{})
	o.mu.Lock()
	defer o.mu.Unlock()
	o.awaited[id] = reported
	return reported
}

// finish reads what is there and ends.
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

// recovery returns what a fault did to the partitions it was about (all if none are
// given): the time from its beginning to the first payment settled by any of them, and the
// longest time in which one of them settled nothing, if that was while the fault lasted or
// soon after.
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

// aftermath is the time after a fault in which a standstill is put down to it.
const aftermath = 2 * time.Second
