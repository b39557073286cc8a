package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Topics reads whole topics, without a consumer group.
type Topics struct {
	kafka      []kgo.Opt
	client     *kgo.Client
	admin      *kadm.Client
	unreadable Behind
	last       map[int32]checkpoint // read by Compare
}

// OpenTopics connects to Kafka.
func OpenTopics(kafka []kgo.Opt, unreadable Behind) (*Topics, error) {
	kafka = append(slices.Clone(kafka), kgo.ClientID("audit"))

	client, err := kgo.NewClient(kafka...)
	if err != nil {
		return nil, fmt.Errorf("cannot create the Kafka client: %w", err)
	}

	return &Topics{kafka, client, kadm.NewClient(client), unreadable, map[int32]checkpoint{}}, nil
}

// Close ends the connection.
func (t *Topics) Close() { t.client.Close() }

const brokerAnswersWithin = 15 * time.Second

// Bounds are the offsets between which the audit reads, by topic.
type Bounds struct{ Starts, Ends kadm.ListedOffsets }

// Bounds returns those of the topics that must be whole.
func (t *Topics) Bounds(ctx context.Context) (Bounds, error) {
	return t.BoundsOf(ctx, Payments, Settlements, DeadLetters)
}

// BoundsOf returns those of some topics.
func (t *Topics) BoundsOf(ctx context.Context, names ...string) (b Bounds, err error) {
	ctx, cancel := context.WithTimeout(ctx, brokerAnswersWithin)
	defer cancel()

	if b.Starts, err = t.admin.ListStartOffsets(ctx, names...); err == nil {
		if err = b.Starts.Error(); err == nil {
			if b.Ends, err = t.admin.ListEndOffsets(ctx, names...); err == nil {
				err = b.Ends.Error()
			}
		}
	}

	if err != nil {
		return b, fmt.Errorf("cannot list the offsets of %v at KAFKA_BROKERS: %w", names, err)
	}

	return b, nil
}

// Committed returns the engine group's offset in each partition of the orders.
func (t *Topics) Committed(ctx context.Context, b Bounds) (map[int32]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, brokerAnswersWithin)
	defer cancel()

	offsets, err := Committed(ctx, t.admin)
	for partition, start := range b.Starts[Payments] {
		if _, known := offsets[partition]; err == nil && !known {
			offsets[partition] = start.Offset // nothing committed: nothing is finished
		}
	}

	return offsets, err
}

const noProgressMax = 30 * time.Second

// PassSaid goes on behind what the engine said that it could not read, and behind what was aborted.
func PassSaid(said func(partition int32, offset int64) (next int64, known bool)) Pass {
	return func(ctx context.Context, r *Reader, topic string, partition int32, offset int64) (next int64, known bool) {
		if next, known = said(partition, offset); known {
			return next, true
		}
		next, aborted, err := r.Behind(ctx, topic, partition, offset)

		return next, aborted && err == nil
	}
}

// ReadAll calls take with every record of a topic between its bounds. Where nothing can be read,
// it asks pass, which may be nil. A record that the broker has and the client leaves out is fetched
// again. If the broker has it no longer, ReadAll calls gone with the first one that is left, or fails if
// gone is nil.
func (t *Topics) ReadAll(ctx context.Context, topic string, b Bounds, take, gone func(Record), pass Pass) error {
	from, ends := map[int32]int64{}, map[int32]int64{}

	for partition, end := range b.Ends[topic] {
		if start := b.Starts[topic][partition].Offset; start < end.Offset {
			from[partition], ends[partition] = start, end.Offset
		}
	}

	if len(from) == 0 {
		return nil
	}

	r, err := OpenReader(t.kafka, t.unreadable, Offsets{topic: from})
	if err != nil {
		return err
	}
	defer r.Close()
	r.ends = Offsets{topic: ends}
	var failed error // the last that a partition said

	taking := Taking{
		Pass: pass,
		Take: func(_ string, record Record) { take(record) },
		Gone: func(_ string, from int64, record Record) error {
			if gone == nil {
				return fmt.Errorf("%s: partition %d: the records from offset %d to %d are gone", topic,
					record.Partition, from, record.Offset-1)
			}
			gone(record)

			return nil
		},
		Failed: func(_ string, partition int32, err error) error {
			var bomb *kgo.ErrDecompressTooLarge
			// no client can read it, so no engine has used it
			if (topic == Answers || topic == Questions) && errors.As(err, &bomb) {
				next := r.next[topic][partition]
				if bomb.Offset <= next { // else the client has left out what stands before it: it is fetched again
					next = bomb.NextOffset
				}

				r.set(topic, partition, next)
			}
			failed = fmt.Errorf("partition %d, offset %d: %w", partition, r.next[topic][partition], err)

			return nil
		},
	}
	for progressed, before := time.Now(), maps.Clone(from); ; {
		came, err := r.Poll(ctx, time.Second, 0, &taking)
		if err != nil {
			return err
		}
		left := 0

		for partition := range from {
			if came == 0 {
				r.PassOver(ctx, topic, partition, &taking)
			}

			if r.reads(topic, partition) {
				left++
			}
		}

		if left == 0 {
			return nil
		}

		if !maps.Equal(before, from) {
			progressed, before = time.Now(), maps.Clone(from)
		}

		if stuck := time.Since(progressed); stuck > noProgressMax {
			return errors.Join(fmt.Errorf(
				"%s: no record for %v, but %d partitions are not read to their end; is the broker healthy?", topic,
				stuck.Round(time.Second), left), failed)
		}
	}
}
