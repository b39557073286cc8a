package answers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// Observer reads every settlement report and dead letter, and tells them to the judge.
type Observer struct {
	client *kgo.Client
	admin  *kadm.Client
	judge  *Judge
	each   func(*kgo.Record)
	done   chan struct{}
	stop   context.CancelFunc // of looking for partitions that are added

	mu      sync.Mutex
	next    kadm.Offsets // after the last record read
	awaited map[pix.EndToEndID]chan struct{}
}

// outcomes are the topics that say what became of orders.
var outcomes = []string{stream.Settlements, stream.DeadLetters}

// Observe reads from now on. It passes each report of a settled payment to each, too, if that is not nil.
func Observe(ctx context.Context, kafka []kgo.Opt, judge *Judge, each func(*kgo.Record)) (*Observer, error) {
	client, err := kgo.NewClient(append(slices.Clip(kafka), kgo.ClientID("observer"))...)
	if err != nil {
		return nil, err
	}
	o := &Observer{
		client: client, admin: kadm.NewClient(client), judge: judge, each: each, done: make(chan struct{}),
		awaited: map[pix.EndToEndID]chan struct{}{},
	}

	ends, err := stream.Ends(ctx, o.admin, outcomes...)
	if err != nil {
		client.Close()
		return nil, err
	}
	o.next = ends.Offsets()
	client.AddConsumePartitions(ends.KOffsets())
	var looking context.Context
	looking, o.stop = context.WithCancel(context.WithoutCancel(ctx))
	go stream.FollowAdded(looking, client, ends.KOffsets())
	go o.read()

	return o, nil
}

func (o *Observer) read() {
	defer close(o.done)

	for {
		fetches := o.client.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			return
		}
		fetches.EachRecord(func(r *kgo.Record) {
			o.mu.Lock()
			isNew := r.Offset >= o.next[r.Topic][r.Partition].At // a client whose broker restarts reads some again
			o.mu.Unlock()

			if !isNew {
				return
			}

			if r.Topic == stream.DeadLetters {
				var letter pixv1.DeadLetter
				if letter.UnmarshalVT(r.Value) == nil { // the audit names it otherwise
					o.judge.deadLetter(&letter)
				}
			} else {
				o.report(r)
			}
			o.mu.Lock()
			defer o.mu.Unlock()
			o.next[r.Topic][r.Partition] = kadm.Offset{At: r.Offset + 1}
		})
	}
}

// report takes a settlement report.
func (o *Observer) report(r *kgo.Record) {
	var report pixv1.SettlementReport
	if report.UnmarshalVT(r.Value) != nil {
		return // the audit names it
	}

	id, err := pix.ParsePaymentOrReturnID(report.EndToEndId)
	if err != nil {
		return // as above
	}
	outcome := Outcome{Settled: report.Status == pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC,
		Reason: report.ReasonCode}
	o.judge.reportedTo(r, &report)
	o.judge.learn(order{id, report.AmountCentavos}, fate{ended: true, settled: outcome.Settled})
	o.judge.reported(id, r.Timestamp, outcome, &report)

	if id[0] == 'E' && outcome.Settled && o.each != nil {
		o.each(r)
	}

	if id[0] == 'D' && outcome.Settled {
		original, _ := pix.ParseEndToEndID(report.OriginalEndToEndId) // zero if it is malformed: no payment has that id
		o.judge.reportedBack(original, r.Timestamp, &report)
	}
	o.notify(id)
}

// notify wakes the waiters of a payment or return.
func (o *Observer) notify(id pix.EndToEndID) {
	o.mu.Lock()
	defer o.mu.Unlock()

	if waiting := o.awaited[id]; waiting != nil {
		close(waiting)
		delete(o.awaited, id)
	}
}

// await returns a channel that closes when the payment or return has its report. Call it before
// sending.
func (o *Observer) await(id pix.EndToEndID) <-chan struct{} {
	reported := make(chan struct{})
	o.mu.Lock()
	defer o.mu.Unlock()
	o.awaited[id] = reported

	return reported
}

// Finish reads to the current end of the topics, and ends.
func (o *Observer) Finish(ctx context.Context) error {
	defer func() { o.stop(); o.client.Close(); <-o.done }()

	ends, err := stream.Ends(ctx, o.admin, outcomes...)
	if err != nil {
		return err
	}

	for {
		behind := false
		o.mu.Lock()
		ends.Each(func(end kadm.ListedOffset) {
			at, _ := o.next.Lookup(end.Topic, end.Partition)
			behind = behind || at.At < end.Offset
		})
		o.mu.Unlock()

		if !behind {
			return nil
		}

		if !host.Sleep(ctx, 20*time.Millisecond) {
			return fmt.Errorf("cannot read %v to their end: %w", outcomes, context.Cause(ctx))
		}
	}
}
