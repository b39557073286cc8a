package main

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/kit"
)

// A batch that is larger than what a fetch takes of a partition comes only if its partition is at the
// front. Records of other partitions must not keep it from there.
func TestNoPartitionStarves(t *testing.T) {
	const (
		partitions = 8
		ofOne      = 128 << 10 // that a fetch takes of a partition
		large      = 3         // batches of partition 0
		small      = 2 * large * partitions
	)
	b := newBroker(t)
	b.start()
	b.createTopic("payments", partitions)
	producer := b.client(kgo.DefaultProduceTopic("payments"), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	produce := func(partition int32, batches, bytes int) {
		for range batches {
			kit.Must(t, producer.ProduceSync(t.Context(),
				&kgo.Record{Partition: partition, Value: make([]byte, bytes)}).FirstErr())
		}
	}
	produce(0, large, 2*ofOne)

	for p := int32(1); p < partitions; p++ {
		produce(p, small, ofOne*3/4)
	}
	reader := b.client(kgo.ConsumeTopics("payments"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxPartitionBytes(ofOne))

	var seen [partitions]int
	for left := large + (partitions-1)*small; seen[0] < large && left > 0; {
		fetches := reader.PollFetches(t.Context())
		kit.Must(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			seen[r.Partition]++
			left--
		})

		for _, n := range seen[1:] {
			if n == small && seen[0] < large {
				t.Fatalf("read %v records: another partition is at its end, and partition 0 waits", seen)
			}
		}
	}
}
