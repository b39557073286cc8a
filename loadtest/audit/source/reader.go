package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Offsets are places in topics, by topic and partition.
type Offsets = map[string]map[int32]int64

// Reader reads topics from some places on, each partition in its order, without a consumer group.
type Reader struct {
	client *kgo.Client
	behind Behind
	next   Offsets         // to read next
	ends   Offsets         // where to end; nil: never
	left   map[leftOut]int // how often the client left it out
}

type place struct {
	topic     string
	partition int32
}

type leftOut struct {
	place
	offset int64
}

// leftOutMax bounds how often what the client leaves out at one place is fetched again.
const leftOutMax = 100

// Taking says what becomes of what a Reader reads.
type Taking struct {
	// Take takes a record. Those of aborted transactions do not come.
	Take func(topic string, r Record)
	// Pass returns where to go on in a partition of which nothing can be read; nil: nowhere.
	Pass Pass
	// Gone is called with the first record behind those that the broker no longer has.
	Gone func(topic string, from int64, r Record) error
	// Failed is called with what a partition says, unless it was passed over.
	Failed func(topic string, partition int32, err error) error
}

// Pass returns where a reader goes on in a partition at an offset, if that is known.
type Pass func(ctx context.Context, r *Reader, topic string, partition int32, offset int64) (next int64, known bool)

// Unreadable is a Pass: it goes on behind whatever no client can read.
func Unreadable(ctx context.Context, r *Reader, topic string, partition int32, offset int64) (next int64, known bool) {
	next, _, err := r.Behind(ctx, topic, partition, offset)
	return next, err == nil && next > offset
}

// OpenReader returns a reader that begins at these offsets.
func OpenReader(kafka []kgo.Opt, behind Behind, from Offsets, more ...kgo.Opt) (*Reader, error) {
	offsets := map[string]map[int32]kgo.Offset{}
	for topic, partitions := range from {
		offsets[topic] = map[int32]kgo.Offset{}
		for partition, offset := range partitions {
			offsets[topic][partition] = kgo.NewOffset().At(offset)
		}
	}

	client, err := kgo.NewClient(append(slices.Concat(kafka, more),
		kgo.ConsumePartitions(offsets),
		// The broker's own records that end a transaction are kept, because one of them may be the last offset.
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords())...)
	if err != nil {
		return nil, fmt.Errorf("cannot create the Kafka client: %w", err)
	}

	return &Reader{client: client, behind: behind, next: from, left: map[leftOut]int{}}, nil
}

// Close ends the connections.
func (r *Reader) Close() { r.client.Close() }

// Client is the client that reads.
func (r *Reader) Client() *kgo.Client { return r.client }

// Add reads a partition from its beginning on, unless it is read.
func (r *Reader) Add(topic string, partition int32) {
	if _, known := r.next[topic][partition]; !known && r.next[topic] != nil {
		r.next[topic][partition] = 0
		r.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(0)}})
	}
}

// ReadTo reports whether all is read up to some offsets.
func (r *Reader) ReadTo(ends Offsets) bool {
	for topic, partitions := range ends {
		for partition, end := range partitions {
			if r.next[topic][partition] < end {
				return false
			}
		}
	}

	return true
}

// Poll gives what has come, and waits for it if there is nothing. It returns how many records came.
func (r *Reader) Poll(ctx context.Context, wait time.Duration, most int, t *Taking) (came int, err error) {
	polling, cancel := context.WithTimeout(ctx, wait)
	fetches := r.client.PollRecords(polling, most)
	cancel()

	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	passed := map[place]bool{} // in these fetches: what they hold behind is fetched again
	fetches.EachRecord(func(record *kgo.Record) {
		at := place{record.Topic, record.Partition}
		if err != nil || passed[at] || !r.reads(at.topic, at.partition) ||
			record.Offset < r.next[at.topic][at.partition] {
			return
		}
		taken := recordOf(record.Partition, record)
		// A record may claim another place than it has: then its batch cannot be read.
		if record.Offset > r.next[at.topic][at.partition] {
			if passed[at], err = r.leap(ctx, at, taken, t); passed[at] || err != nil {
				return
			}
		}

		if end, bounded := r.ends[at.topic][at.partition]; bounded && record.Offset >= end {
			r.next[at.topic][at.partition] = end
			return
		}

		r.next[at.topic][at.partition] = record.Offset + 1
		if !record.Attrs.IsControl() {
			t.Take(at.topic, taken)
		}
	})
	// After the records: a fetch may hold some before what cannot be read.
	fetches.EachError(func(topic string, partition int32, said error) {
		if err == nil && !passed[place{topic, partition}] && r.reads(topic, partition) &&
			!errors.Is(said, context.DeadlineExceeded) && !r.PassOver(ctx, topic, partition, t) {
			err = t.Failed(topic, partition, said)
		}
	})

	return fetches.NumRecords(), err
}

// reads reports whether a partition is not read to its end.
func (r *Reader) reads(topic string, partition int32) bool {
	next, known := r.next[topic][partition]
	end, bounded := r.ends[topic][partition]
	return known && (!bounded || next < end)
}

// Behind returns where to go on behind what no client can read at an offset, or 0 if one can, and whether it was
// aborted.
func (r *Reader) Behind(ctx context.Context, topic string, partition int32,
	offset int64) (next int64, aborted bool, err error) {
	if r.behind == nil {
		return 0, false, errNobodyCanSay
	}
	ctx, cancel := context.WithTimeout(ctx, brokerAnswersWithin)
	defer cancel()

	return r.behind(ctx, r.client, topic, partition, offset)
}

var errNobodyCanSay = errors.New("nobody can say")

// PassOver goes on where Pass says.
func (r *Reader) PassOver(ctx context.Context, topic string, partition int32, t *Taking) bool {
	if t.Pass == nil || !r.reads(topic, partition) {
		return false
	}

	next, known := t.Pass(ctx, r, topic, partition, r.next[topic][partition])
	if known {
		r.set(topic, partition, next)
	}

	return known
}

func (r *Reader) set(topic string, partition int32, next int64) {
	r.next[topic][partition] = next
	r.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{topic: {partition: {Epoch: -1, Offset: next}}})
}

// leap judges what is left out before a record. Nobody can read it, or the broker no longer has it, or the client
// left it out and it is fetched again.
func (r *Reader) leap(ctx context.Context, at place, record Record, t *Taking) (again bool, err error) {
	if r.PassOver(ctx, at.topic, at.partition, t) {
		return true, nil
	}
	from := r.next[at.topic][at.partition]

	behind, _, err := r.Behind(ctx, at.topic, at.partition, from)
	switch {
	case errors.Is(err, kerr.OffsetOutOfRange):
		return false, t.Gone(at.topic, from, record)
	case errors.Is(err, errNobodyCanSay), err == nil && behind > from:
		return false, nil
	}

	r.left[leftOut{at, from}]++
	if r.left[leftOut{at, from}] > leftOutMax {
		return false, fmt.Errorf("%s, partition %d: the Kafka client leaves out what is at offset %d", at.topic,
			at.partition, from)
	}
	r.set(at.topic, at.partition, from)

	return true, nil
}

// Committed returns the engines' offsets of pix.payments. A partition without one is left out.
func Committed(ctx context.Context, admin *kadm.Client) (map[int32]int64, error) {
	offsets := map[int32]int64{}

	responses, err := admin.FetchOffsets(ctx, EngineGroup)
	if err == nil {
		err = responses.Error()
	}

	if errors.Is(err, kerr.GroupIDNotFound) {
		return offsets, nil
	}

	if err != nil {
		return nil, fmt.Errorf("cannot read the offsets of the group %s: %w", EngineGroup, err)
	}
	responses.Each(func(r kadm.OffsetResponse) {
		if r.Topic == Payments && r.At >= 0 {
			offsets[r.Partition] = r.At
		}
	})

	return offsets, nil
}

// recordOf returns a record with the headers that are known.
func recordOf(partition int32, r *kgo.Record) Record {
	taken := Record{Partition: partition, Offset: r.Offset, Time: r.Timestamp, Key: r.Key, Value: r.Value,
		Writer: r.ProducerID}
	for _, header := range r.Headers {
		switch header.Key {
		case "seal":
			if taken.Seal == nil {
				taken.Seal = header.Value
			}
		case "conform":
			taken.Trial = true
		}
	}

	return taken
}

// Behind returns where to go on in a partition in which no client can read at an offset, or 0 if one can, and whether
// it was aborted.
type Behind = func(ctx context.Context, client *kgo.Client, topic string, partition int32, offset int64) (next int64,
	aborted bool, err error)
