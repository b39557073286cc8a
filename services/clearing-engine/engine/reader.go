package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/services/clearing-engine/room"
)

// reader fetches records of pix.payments again: those of waiters, which kept only their
// offsets. It has a client of its own, so that it never moves a partition's position, and it
// waits for room like the intake. What it may be asked for is bounded by the banks' shares.
type reader struct {
	client *kgo.Client
	room   *room.Room
	log    *zap.Logger
	failed context.Context // ends with the engine's failure
	fail   func(error)

	mu     sync.Mutex
	wanted map[*partition][]int64
	wake   chan struct{} // holds a token while something is wanted
}

func newReader(failed context.Context, c *common, t *telemetry.Telemetry, fail func(error)) (r *reader, err error) {
	r = &reader{room: c.room, log: c.log, failed: failed, fail: fail, wanted: map[*partition][]int64{},
		wake: make(chan struct{}, 1)}
	r.client, err = stream.Connect(c.config.Stream, c.on.Dial, "clearing-engine-reader", t,
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.KeepControlRecords(),
		kgo.FetchMaxPartitionBytes(stream.BatchBytesMax), kgo.FetchMaxBytes(1<<20))

	return r, err
}

// read asks for a record. It arrives in the partition's inbox.
func (r *reader) read(p *partition, offset int64) {
	r.mu.Lock()
	r.wanted[p] = append(r.wanted[p], offset)
	r.mu.Unlock()

	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run reads what is asked for, until ctx ends.
func (r *reader) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		}
		r.mu.Lock()
		wanted := r.wanted
		r.wanted = map[*partition][]int64{}
		r.mu.Unlock()

		for p, offsets := range wanted {
			r.fetch(ctx, p, offsets)
		}
	}
}

const (
	// readMax bounds the records of one poll.
	readMax = 500
	// seekFrom is the number of unwanted records from which the reader seeks to the next wanted one.
	seekFrom = 1000
	// readPatience is how long the reader waits before it seeks. Between two wanted records may
	// stand a batch that no client can read.
	readPatience = 500 * time.Millisecond
)

// fetch reads records of one partition.
func (r *reader) fetch(ctx context.Context, p *partition, offsets []int64) {
	slices.Sort(offsets)

	for len(offsets) > 0 && ctx.Err() == nil && p.owned.Err() == nil && r.failed.Err() == nil {
		offsets = r.seek(ctx, p, offsets)
	}
}

// seek reads from the first of the offsets, and returns those that it did not come to.
func (r *reader) seek(ctx context.Context, p *partition, offsets []int64) (left []int64) {
	r.client.AddConsumePartitions(
		map[string]map[int32]kgo.Offset{stream.Payments: {p.number: kgo.NewOffset().At(offsets[0])}})
	defer r.client.RemoveConsumePartitions(map[string][]int32{stream.Payments: {p.number}})

	sought := offsets[0]
	for next := sought; len(offsets) > 0; {
		most := r.room.Wait(ctx)
		if most == 0 {
			return offsets
		}
		polling, cancel := context.WithTimeout(ctx, readPatience)
		fetches := r.client.PollRecords(polling, min(most, readMax))
		patient := polling.Err() == nil
		cancel()
		gone, away := false, !patient
		fetches.EachRecord(func(record *kgo.Record) {
			switch {
			case record.Partition != p.number || away || len(offsets) == 0 || record.Offset < next:
				return
			case record.Offset > next: // a gap: behind it a record may claim the offset of another one
				gone, away = next == sought, true
				return
			case record.Offset == offsets[0]:
				p.inbox.put(event{kind: fetchedAgain, record: record})
				offsets = offsets[1:]
			}
			next++
			away = len(offsets) > 0 && offsets[0]-record.Offset >= seekFrom
		})
		fetches.EachError(func(topic string, partition int32, err error) {
			gone, away = gone || errors.Is(err, kerr.OffsetOutOfRange), true
			if patient { // it may be of a batch between wanted records
				r.log.Debug("cannot fetch again", zap.String("topic", topic), zap.Int32("partition", partition),
					zap.Error(err))
				host.Sleep(ctx, 10*time.Millisecond)
			}
		})

		if gone && len(offsets) > 0 {
			r.fail(fmt.Errorf("partition %d of %s has no record %d any more, and an order waits for it: was the topic truncated or made anew?",
				p.number, stream.Payments, offsets[0]))
			return offsets
		}

		if away {
			return offsets
		}
	}

	return nil
}
