package stream

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/host"
)

// rangePatience is how long ReadRange waits for a record before it gives up.
const rangePatience = 30 * time.Second

// ReadTopic calls take with each committed record that a topic has now, one partition after the other.
func ReadTopic(ctx context.Context, config Config, dial host.Dial, topic string, take func(*kgo.Record)) error {
	client, err := config.clientOn(dial)
	if err != nil {
		return err
	}
	defer client.Close()

	bounds, err := BoundsOf(ctx, client, topic)
	if err != nil {
		return err
	}

	for partition, of := range bounds {
		if err := ReadRange(ctx, config, dial, topic, partition, of.Start, of.Stable, take); err != nil {
			return err
		}
	}

	return nil
}

// ReadRange calls take with each committed record of a partition from an offset on, in their order, and returns
// once it has read up to end. It passes over what no client can read.
func ReadRange(ctx context.Context, config Config, dial host.Dial, topic string, partition int32, from, end int64,
	take func(*kgo.Record)) error {
	if from >= end {
		return nil
	}

	client, err := config.clientOn(dial,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(from)}}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // one may be the last before end
	)
	if err != nil {
		return err
	}
	defer client.Close()

	next, since := from, time.Now()
	for next < end {
		polling, cancel := context.WithTimeout(ctx, time.Second)
		fetches := client.PollFetches(polling)
		cancel()

		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		before := next
		fetches.EachRecord(func(record *kgo.Record) {
			if record.Offset < next || record.Offset >= end {
				return
			}

			next = record.Offset + 1
			if !record.Attrs.IsControl() {
				take(record)
			}
		})

		switch {
		case next > before:
			since = time.Now()
		case time.Since(since) > rangePatience:
			return fmt.Errorf("%s, partition %d: nothing at offset %d for %s: %w", topic, partition, next,
				rangePatience, fetches.Err())
		default:
			behind, _, err := config.Behind(ctx, client, topic, partition, next)
			if err == nil && behind > next {
				next, since = behind, time.Now()
				client.SetOffsets(map[string]map[int32]kgo.EpochOffset{topic: {partition: {Epoch: -1, Offset: next}}})
			}
		}
	}

	return nil
}
