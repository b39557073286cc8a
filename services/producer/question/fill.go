package question

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
)

// stillMax is how long reading the past may stand still before it is tried again.
const stillMax = 10 * time.Second

// fill gives desks that are new what was asked before they were there, all that wait at once. It rests as long as it
// has worked: banks that come and go take half of a processor at most.
func (b *Board) fill(ctx context.Context, r *reading) {
	for {
		began := time.Now()
		b.fillNew(ctx, r)

		if !host.Sleep(ctx, time.Since(began)) {
			return
		}

		select {
		case <-ctx.Done():
			return
		case <-b.wanted:
		}
	}
}

// fillNew fills the desks that are new: the reading gives them what comes from now on, and the past is read up to
// there.
func (b *Board) fillNew(ctx context.Context, r *reading) {
	r.mu.Lock()
	fresh := b.all()
	maps.DeleteFunc(fresh, func(_ pix.ISPB, d *desk) bool { return d.read })

	for _, d := range fresh {
		d.read = true
	}

	to := map[string]map[int32]int64{}
	for topic, next := range r.next {
		to[topic] = maps.Clone(next)
	}
	r.mu.Unlock()

	if len(fresh) == 0 {
		return
	}

	since := b.ledger.Clock().Add(-b.openTime) // this machine's clock may be wrong
	for began := time.Now(); ; {
		err := b.replay(ctx, r, since, to, fresh)
		if ctx.Err() != nil {
			return
		}

		if err == nil || time.Since(began) > b.openTime { // what could not be read is over by now
			break
		}
		b.t.Log.Warn("cannot read the past questions of a bank that asks over HTTP, trying again", zap.Error(err))
		host.Sleep(ctx, time.Second)
	}

	for _, d := range fresh {
		d.filled.Store(true)
	}
}

// replay fills desks with what was asked since then and is open: verdicts come first, so that what is over is not told.
func (b *Board) replay(ctx context.Context, r *reading, since time.Time, to map[string]map[int32]int64,
	desks map[pix.ISPB]*desk) error {
	decided := map[pix.EndToEndID]struct{}{} // more than a desk remembers

	err := b.past(ctx, r, stream.Settlements, since, to[stream.Settlements], func(record *kgo.Record) {
		id, psp, how := verdictOf(record)
		if d := desks[psp]; d != nil {
			decided[id] = struct{}{}
			d.end(id, how)
		}
	})
	if err != nil {
		return err
	}
	defer func() {
		for _, d := range desks {
			d.wakeAll()
		}
	}()

	return b.past(ctx, r, stream.AuthorizationRequests, since, to[stream.AuthorizationRequests],
		func(record *kgo.Record) {
			q, psp := questionOf(record)

			d := desks[psp]
			if d == nil || !b.ledger.Clock().Before(q.deadline) {
				return
			}

			if _, over := decided[q.id]; !over {
				b.ask(d, q)
			}
		})
}

// past calls take with the records of a topic since then, up to these offsets.
func (b *Board) past(ctx context.Context, r *reading, topic string, since time.Time, to map[int32]int64,
	take func(*kgo.Record)) error {
	asking, cancel := context.WithTimeout(ctx, stillMax)
	defer cancel()

	first, err := kadm.NewClient(r.client).ListOffsetsAfterMilli(asking, since.UnixMilli(), topic)
	if err == nil {
		err = first.Error()
	}

	if err != nil {
		return fmt.Errorf("cannot list the offsets of %s: %w", topic, err)
	}
	left, offsets := map[int32]int64{}, map[int32]kgo.Offset{}

	for partition, end := range to {
		if at, known := first.Lookup(topic, partition); known && at.Offset < end {
			left[partition], offsets[partition] = end, kgo.NewOffset().At(at.Offset)
		}
	}

	if len(left) == 0 {
		return nil
	}

	client, err := stream.Connect(b.kafka, b.on.Dial, "producer-questions-past", b.t,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets}),
		kgo.KeepControlRecords(), // so that the end is seen
		kgo.FetchMaxBytes(4<<20), kgo.FetchMaxPartitionBytes(1<<20))
	if err != nil {
		return err
	}
	defer client.Close()

	for len(left) > 0 {
		polling, cancel := context.WithTimeout(ctx, stillMax)
		fetches := client.PollFetches(polling)
		cancel()

		if fetches.NumRecords() == 0 {
			return fmt.Errorf("%d partitions of %s cannot be read: %w", len(left), topic,
				errors.Join(context.Cause(polling), fetches.Err()))
		}
		fetches.EachRecord(func(record *kgo.Record) {
			end, reads := left[record.Partition]
			if reads && record.Offset < end && !record.Attrs.IsControl() {
				take(record)
			}

			if record.Offset+1 >= end {
				delete(left, record.Partition)
			}
		})
	}

	return nil
}
