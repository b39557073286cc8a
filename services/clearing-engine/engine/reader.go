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

	"github.com/liquida/liquida/platform/stream"
)

// reader fetches records of pix.payments again: those of waiters, which kept only their
// offsets. It has a client of its own, so that it never moves a partition's position, and it
// waits for room like the intake. What it may be asked for is bounded by the banks' shares.
type reader struct {
	engine *Engine
	client *kgo.Client

	mu     sync.Mutex
	wanted []reading
	wake   chan struct{} // holds a token while something is wanted
}

// reading is a request for records of a partition.
type reading struct {
	partition *partition
	offsets   []int64 // ascending
}

func newReader(e *Engine) (r *reader, err error) {
	r = &reader{engine: e, wake: make(chan struct{}, 1)}
	r.client, err = stream.Connect(e.config.Stream, e.on.Dial, "clearing-engine-reader", e.telemetry,
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchMaxPartitionBytes(128<<10), kgo.FetchMaxBytes(1<<20))
	return r, err
}

// read asks for records. They arrive in the partition's inbox.
func (r *reader) read(p *partition, offsets []int64) {
	r.mu.Lock()
	r.wanted = append(r.wanted, reading{p, offsets})
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
		r.wanted = nil
		r.mu.Unlock()
		// One partition at a time, with all that it wants.
		byPartition := map[*partition][]int64{}
		for _, w := range wanted {
			byPartition[w.partition] = append(byPartition[w.partition], w.offsets...)
		}
		for p, offsets := range byPartition {
			r.fetch(ctx, p, offsets)
		}
	}
}

const (
	// readMax bounds the records of one poll.
	readMax = 500
	// seekFrom is the number of unwanted records from which the reader begins anew behind them.
	seekFrom = 1000
)

// fetch reads records of one partition.
func (r *reader) fetch(ctx context.Context, p *partition, offsets []int64) {
	slices.Sort(offsets)
	for len(offsets) > 0 {
		run := 1 // offsets that are near to each other
		for run < len(offsets) && offsets[run]-offsets[run-1] < seekFrom {
			run++
		}
		if !r.fetchRun(ctx, p, offsets[:run]) {
			return
		}
		offsets = offsets[run:]
	}
}

// rereadPatience is how long the reader waits for a record before it begins at the next wanted
// one: a batch between them may be one that no client can read.
const rereadPatience = time.Second

// fetchRun returns false if the records are not wanted any more.
func (r *reader) fetchRun(ctx context.Context, p *partition, offsets []int64) bool {
	began := int64(-1) // the first wanted offset when the client began
	topic := map[string][]int32{stream.Payments: {p.number}}
	defer func() { r.client.RemoveConsumePartitions(topic) }()
	for again := true; len(offsets) > 0; {
		most := r.engine.room.wait(ctx)
		if most == 0 {
			return false
		}
		select {
		case <-p.stop:
			return false
		default:
		}
		if again {
			r.client.RemoveConsumePartitions(topic)
			r.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{stream.Payments: {p.number: kgo.NewOffset().At(offsets[0])}})
			again, began = false, offsets[0]
		}
		patient, cancel := context.WithTimeout(ctx, rereadPatience)
		fetches := r.client.PollRecords(patient, min(most, readMax))
		cancel()
		gone := false
		fetches.EachError(func(topic string, _ int32, err error) {
			again = true
			gone = gone || errors.Is(err, kerr.OffsetOutOfRange)
			if !errors.Is(err, context.DeadlineExceeded) {
				r.engine.fetchError(ctx, topic, -1, err) // not of the partition's own position
			}
		})
		fetches.EachRecord(func(record *kgo.Record) {
			switch {
			case record.Partition != p.number || len(offsets) == 0 || record.Offset < offsets[0]:
			case record.Offset == offsets[0]:
				p.inbox.put(event{kind: fetchedAgain, record: record})
				offsets = offsets[1:]
			case began == offsets[0]:
				gone = true
			default:
				again = true // a record may claim another place than it has
			}
		})
		if gone {
			r.engine.fail(fmt.Errorf("partition %d of %s has no record %d any more, and an order waits for it: was the topic truncated or made anew?", p.number, stream.Payments, offsets[0]))
			return false
		}
		if again && len(offsets) > 0 && began == offsets[0] && !sleep(ctx, 100*time.Millisecond) {
			return false
		}
	}
	return true
}
