package stream

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// lookBackMax is how many records LastRecords looks at in a partition.
	lookBackMax = 64
	// tailBytes is more than a batch of our own has there. A larger one is fetched by itself.
	tailBytes = 32 << 10
)

// LastRecords calls take with the last record of each partition of a topic, and with the one before as
// long as take returns false: somebody may have written there what is not for us. It stops after some
// records, and where a partition begins. take is not called at the same time for two records.
func LastRecords(ctx context.Context, client *kgo.Client, topic string, take func(*kgo.Record) bool) error {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()

	bounds, err := BoundsOf(ctx, client, topic)
	if err != nil {
		return err
	}

	detail, err := describe(ctx, client, topic)
	if err != nil {
		return err
	}

	tails, err := fetchTails(ctx, client, detail, bounds)
	if err != nil {
		return fmt.Errorf("cannot read the last records of %s: %w", topic, err)
	}

	for partition, tail := range tails {
		b := bounds[partition]
		for offset := b.End - 1; offset >= max(b.Start, b.End-lookBackMax); offset-- {
			if offset < b.End-1 || len(tail.RecordBatches) == 0 {
				if tail, err = fetchStored(ctx, client, detail, partition, offset, uncommitted); err != nil {
					return fmt.Errorf("cannot read offset %d of %s, partition %d: %w", offset, topic, partition, err)
				}
			}
			read, _ := kgo.ProcessFetchPartition(
				kgo.ProcessFetchPartitionOpts{Offset: offset, Topic: topic, Partition: partition},
				tail, newUnpacker(MessageBytesMax, false), nil)

			at := slices.IndexFunc(read.Records, func(r *kgo.Record) bool { return r.Offset == offset })
			if at >= 0 && take(read.Records[at]) {
				break
			}
		}
	}

	return nil
}

// fetchTails fetches the batch with the last record of each partition that has records, in one request
// for each leader.
func fetchTails(ctx context.Context, client *kgo.Client, topic kadm.TopicDetail,
	bounds map[int32]Bounds) (map[int32]*kmsg.FetchResponseTopicPartition, error) {
	requests := map[int32]*kmsg.FetchRequest{}

	for partition, b := range bounds {
		if b.Start >= b.End {
			continue
		}

		if err := topic.Partitions[partition].Err; err != nil {
			return nil, err
		}
		leader := topic.Partitions[partition].Leader

		request := requests[leader]
		if request == nil {
			request = newFetch(topic, uncommitted, int32(len(bounds)*tailBytes))
			requests[leader] = request
		}
		addFetch(request, partition, b.End-1, tailBytes)
	}

	var mu sync.Mutex
	var asking sync.WaitGroup
	var failed error
	tails := map[int32]*kmsg.FetchResponseTopicPartition{}

	for leader, request := range requests {
		asking.Go(func() {
			found, err := sendFetch(ctx, client, leader, request)
			mu.Lock()
			defer mu.Unlock()

			if err != nil {
				failed = err
				return
			}

			for i := range found {
				tails[found[i].Partition] = &found[i]
			}
		})
	}
	asking.Wait()

	return tails, failed
}
