package stream

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/liquida/liquida/platform/host"
)

// logTimeout bounds each look at a log.
const logTimeout = 5 * time.Second

// Ends lists the ends of topics.
func Ends(ctx context.Context, admin *kadm.Client, topics ...string) (kadm.ListedOffsets, error) {
	ends, err := admin.ListEndOffsets(ctx, topics...)
	if err == nil {
		err = ends.Error()
	}

	if err != nil {
		return nil, fmt.Errorf("cannot list the ends of %s: %w", strings.Join(topics, ", "), err)
	}

	return ends, nil
}

// addedInterval is how often FollowAdded looks.
const addedInterval = metadataAge

// FollowAdded lets a client read partitions that are added to the topics it reads, from their beginning on, until
// ctx ends. It reads the partitions of reads already.
func FollowAdded(ctx context.Context, client *kgo.Client, reads map[string]map[int32]kgo.Offset) {
	known, topics := kadm.TopicsSet{}, slices.Collect(maps.Keys(reads))
	for topic, partitions := range reads {
		known.Add(topic, slices.Collect(maps.Keys(partitions))...)
	}

	for host.Sleep(ctx, host.Next(addedInterval)) {
		asking, cancel := context.WithTimeout(ctx, logTimeout)
		ends, err := Ends(asking, kadm.NewClient(client), topics...)
		cancel()

		if err != nil {
			continue // the broker is away
		}
		ends.Each(func(o kadm.ListedOffset) {
			if !known.Lookup(o.Topic, o.Partition) {
				known.Add(o.Topic, o.Partition)
				client.AddConsumePartitions(
					map[string]map[int32]kgo.Offset{o.Topic: {o.Partition: kgo.NewOffset().At(0)}})
			}
		})
	}
}

// Bounds are the offsets between which a partition has records.
type Bounds struct {
	Start  int64
	Stable int64 // below it no transaction is open: readers of committed records get no further
	End    int64
}

// BoundsOf returns the bounds of each partition of a topic. An end is never older than a
// start.
func BoundsOf(ctx context.Context, client *kgo.Client, topic string) (map[int32]Bounds, error) {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	admin := kadm.NewClient(client)
	starts, noStarts := admin.ListStartOffsets(ctx, topic)
	stable, noStable := admin.ListCommittedOffsets(ctx, topic)

	ends, noEnds := admin.ListEndOffsets(ctx, topic)
	if err := cmp.Or(noStarts, noStable, noEnds, starts.Error(), stable.Error(), ends.Error()); err != nil {
		return nil, fmt.Errorf("cannot list the offsets of %s: %w", topic, err)
	}

	bounds := map[int32]Bounds{}
	for partition, start := range starts[topic] {
		bounds[partition] = Bounds{start.Offset, stable[topic][partition].Offset, ends[topic][partition].Offset}
	}

	return bounds, nil
}

// HashBatches returns a hash of the batch at an offset of each partition. The batches need
// not be readable. Kafka never changes a batch, and it holds its producer's id and
// timestamps, so two logs do not begin with an equal one.
func HashBatches(ctx context.Context, client *kgo.Client, topic string,
	offsets map[int32]int64) (map[int32][16]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()

	detail, err := describe(ctx, client, topic)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	hashes := map[int32][16]byte{}

	var reading sync.WaitGroup
	for partition, offset := range offsets {
		reading.Go(func() {
			var hash [16]byte

			stored, failed := fetchStored(ctx, client, detail, partition, offset, uncommitted)
			if failed == nil {
				hash, failed = hashBatch(stored.RecordBatches)
			}
			mu.Lock()
			defer mu.Unlock()

			if failed != nil {
				err = fmt.Errorf("cannot read the batch at offset %d of %s, partition %d: %w", offset, topic,
					partition, failed)
			}
			hashes[partition] = hash
		})
	}
	reading.Wait()

	return hashes, err
}

func describe(ctx context.Context, client *kgo.Client, topic string) (kadm.TopicDetail, error) {
	listed, err := kadm.NewClient(client).ListTopics(ctx, topic)
	if err == nil {
		err = listed.Error()
	}

	if err != nil {
		return kadm.TopicDetail{}, fmt.Errorf("cannot find the leaders of %s: %w", topic, err)
	}

	return listed[topic], nil
}

// fetchStored returns what the broker stores at an offset. It begins with a whole batch, which
// need not be readable.
func fetchStored(ctx context.Context, client *kgo.Client, topic kadm.TopicDetail, partition int32, offset int64,
	isolation int8) (*kmsg.FetchResponseTopicPartition, error) {
	if err := topic.Partitions[partition].Err; err != nil {
		return nil, err
	}

	least := int32(1) // one batch is returned, however big
	if isolation == committed {
		least = MessageBytesMax // the embedded broker names an aborted transaction only with its end
	}
	// The embedded broker names no aborted transaction at all if the limit of the request ends the response.
	request := newFetch(topic, isolation, 2*least)
	addFetch(request, partition, offset, least)

	found, err := sendFetch(ctx, client, topic.Partitions[partition].Leader, request)
	if err != nil {
		return nil, err
	}

	if len(found) != 1 {
		return nil, fmt.Errorf("the broker's response to a fetch of one partition has %d", len(found))
	}

	return &found[0], nil
}

// newFetch returns a fetch without a session that asks for no partition yet.
func newFetch(topic kadm.TopicDetail, isolation int8, bytesMax int32) *kmsg.FetchRequest {
	request := kmsg.NewPtrFetchRequest()
	request.MaxBytes, request.IsolationLevel, request.SessionEpoch = bytesMax, isolation, -1
	wanted := kmsg.NewFetchRequestTopic()
	wanted.Topic, wanted.TopicID = topic.Topic, topic.ID
	request.Topics = append(request.Topics, wanted)

	return request
}

func addFetch(request *kmsg.FetchRequest, partition int32, offset int64, bytesMax int32) {
	of := kmsg.NewFetchRequestTopicPartition()
	of.Partition, of.FetchOffset, of.PartitionMaxBytes = partition, offset, bytesMax
	request.Topics[0].Partitions = append(request.Topics[0].Partitions, of)
}

// sendFetch returns what a leader answers about the partitions of a fetch.
func sendFetch(ctx context.Context, client *kgo.Client, leader int32,
	request *kmsg.FetchRequest) ([]kmsg.FetchResponseTopicPartition, error) {
	answer, err := client.Broker(int(leader)).Request(ctx, request)
	if err != nil {
		return nil, err
	}

	response := answer.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(response.ErrorCode); err != nil {
		return nil, err
	}

	if len(response.Topics) != 1 {
		return nil, fmt.Errorf("the broker's response to a fetch of one topic has %d", len(response.Topics))
	}

	for _, partition := range response.Topics[0].Partitions {
		if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
			return nil, fmt.Errorf("partition %d: %w", partition.Partition, err)
		}
	}

	return response.Topics[0].Partitions, nil
}

// Whose records a fetch returns.
const (
	uncommitted int8 = 0
	committed   int8 = 1
)

// hashBatch hashes what the producer gave and the broker keeps: not the base offset, nor the
// leader's epoch.
func hashBatch(batch []byte) (hash [16]byte, err error) {
	const header, epoch = batchLengthEnd, 4
	if len(batch) < header+epoch {
		return hash, fmt.Errorf("the broker gives %d bytes", len(batch))
	}

	length := int64(binary.BigEndian.Uint32(batch[8:]))
	if length < epoch || header+length > int64(len(batch)) {
		return hash, fmt.Errorf("the broker gives %d bytes of a batch of %d", len(batch), header+length)
	}
	sum := sha256.Sum256(batch[header+epoch : header+length])

	return [16]byte(sum[:16]), nil
}

// KeyAt returns the key of the record at an offset, also if its transaction is open, and the
// producer id of its batch. The key is empty if the record cannot be read.
func KeyAt(ctx context.Context, client *kgo.Client, topic string, partition int32, offset int64,
	bytesMax int) (key string, producer int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()

	detail, err := describe(ctx, client, topic)
	if err != nil {
		return "", 0, err
	}

	stored, err := fetchStored(ctx, client, detail, partition, offset, uncommitted)
	if err != nil {
		return "", 0, err
	}
	unpacker := newUnpacker(bytesMax, false)

	var batch kmsg.RecordBatch
	if err := batch.ReadFrom(stored.RecordBatches); err != nil {
		return "", 0, err
	}

	read, _ := kgo.ProcessFetchPartition(
		kgo.ProcessFetchPartitionOpts{Offset: offset, Topic: topic, Partition: partition}, stored, unpacker, nil)
	if len(read.Records) > 0 && read.Records[0].Offset == offset {
		key = string(read.Records[0].Key)
	}

	return key, batch.ProducerID, nil
}
