package audit

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

// topics reads whole topics, without a consumer group.
type topics struct {
	kafka      []kgo.Opt
	client     *kgo.Client
	admin      *kadm.Client
	unreadable behind
	leftOut    int // how often records were fetched again that the client had left out
}

func openTopics(kafka []kgo.Opt, unreadable behind) (*topics, error) {
	kafka = append(slices.Clone(kafka), kgo.ClientID("audit"))

	client, err := kgo.NewClient(kafka...)
	if err != nil {
		return nil, fmt.Errorf("cannot create the Kafka client: %w", err)
	}

	return &topics{kafka, client, kadm.NewClient(client), unreadable, 0}, nil
}

func (t *topics) close() { t.client.Close() }

const brokerAnswersWithin = 15 * time.Second

// bounds are the offsets between which the audit reads, by topic.
type bounds struct{ starts, ends kadm.ListedOffsets }

func (t *topics) bounds(ctx context.Context) (bounds, error) {
	return t.boundsOf(ctx, paymentsTopic, settlementsTopic, deadLettersTopic)
}

func (t *topics) boundsOf(ctx context.Context, names ...string) (b bounds, err error) {
	ctx, cancel := context.WithTimeout(ctx, brokerAnswersWithin)
	defer cancel()

	if b.starts, err = t.admin.ListStartOffsets(ctx, names...); err == nil {
		if err = b.starts.Error(); err == nil {
			if b.ends, err = t.admin.ListEndOffsets(ctx, names...); err == nil {
				err = b.ends.Error()
			}
		}
	}

	if err != nil {
		return b, fmt.Errorf("cannot list the offsets of %v at KAFKA_BROKERS: %w", names, err)
	}

	return b, nil
}

// committed returns the engine group's offset in each partition of the orders.
func (t *topics) committed(ctx context.Context, b bounds) (map[int32]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, brokerAnswersWithin)
	defer cancel()

	offsets, err := Committed(ctx, t.admin)
	for partition, start := range b.starts[paymentsTopic] {
		if _, known := offsets[partition]; err == nil && !known {
			offsets[partition] = start.Offset // nothing committed: nothing is finished
		}
	}

	return offsets, err
}

const noProgressMax = 30 * time.Second

// passSaid goes on behind what the engine said that it could not read, and behind what was aborted.
func passSaid(said func(partition int32, offset int64) (next int64, known bool)) Pass {
	return func(ctx context.Context, r *Reader, topic string, partition int32, offset int64) (next int64, known bool) {
		if next, known = said(partition, offset); known {
			return next, true
		}
		next, aborted, err := r.Behind(ctx, topic, partition, offset)

		return next, aborted && err == nil
	}
}

// readAll calls take with every record of a topic between its bounds. Where nothing can be read,
// it asks pass, which may be nil. A record that the broker has and the client leaves out is fetched
// again. If the broker has it no longer, readAll calls gone with the first one that is left, or fails if
// gone is nil.
func (t *topics) readAll(ctx context.Context, topic string, b bounds, take, gone func(Record), pass Pass) error {
	from, ends := map[int32]int64{}, map[int32]int64{}
	for partition, end := range b.ends[topic] {
		if start := b.starts[topic][partition].Offset; start < end.Offset {
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
	defer func() { t.leftOut += r.leftOut }()
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
			if (topic == answersTopic || topic == questionsTopic) && errors.As(err, &bomb) {
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
