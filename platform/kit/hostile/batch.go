// Package hostile makes record batches that no honest client sends, for tests and chaos.
package hostile

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Batch is a record batch to be changed before it is encoded. Without changes it is a good one.
type Batch struct {
	kmsg.RecordBatch
}

// New returns a batch of records with these values.
func New(timestampMs int64, values ...[]byte) *Batch {
	var records []byte
	for i, value := range values {
		records = append(records, Record(int32(i), value)...) //nolint:gosec // few
	}
	n := int32(len(values)) //nolint:gosec // few

	return &Batch{RecordBatch: kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: n - 1, FirstTimestamp: timestampMs,
		MaxTimestamp: timestampMs,
		ProducerID:   -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: n, Records: records,
	}}
}

// Record returns a record without a key, at a place of its batch.
func Record(place int32, value []byte) []byte {
	body := kbin.AppendVarint(append([]byte{0}, 0), place) // attributes, difference of time
	body = kbin.AppendVarintBytes(kbin.AppendVarint(body, -1), value)
	body = kbin.AppendVarint(body, 0)

	return append(kbin.AppendVarint(nil, int32(len(body))), body...) //nolint:gosec // small
}

// Garbage returns a batch whose records are said to be compressed, and are not. It is said to be gzip because it is
// read in virtual time too: see Bomb.
func Garbage(timestampMs int64) *Batch {
	b := New(timestampMs, []byte("a"), []byte("b"), []byte("c"))
	b.Attributes, b.Records = int16(kgo.CodecGzip), []byte("nobody can unpack this")
	return b
}

// Claim returns a batch of one record that claims many.
func Claim(timestampMs int64, records int32) *Batch {
	b := New(timestampMs, []byte("one"))
	b.NumRecords, b.LastOffsetDelta = records, records-1
	return b
}

// Bomb returns a batch of one record whose value unpacks to so many bytes. zstd packs it best. In virtual time it is
// gzip: the Kafka library's decoder of zstd closes a channel in a finalizer, and no bubble survives that.
func Bomb(timestampMs int64, unpackedBytes int, codec kgo.CompressionCodecType) (*Batch, error) {
	b := New(timestampMs, nil)
	var packed bytes.Buffer
	var encoder io.WriteCloser = gzip.NewWriter(&packed)

	var err error
	if codec == kgo.CodecZstd {
		encoder, err = zstd.NewWriter(&packed, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	}

	if err != nil {
		return nil, err
	}
	// A record is its length, then itself: the head and the tail stand around the value.
	head := kbin.AppendVarint([]byte{0, 0, 0}, -1)
	head = kbin.AppendVarint(head, int32(unpackedBytes))                             //nolint:gosec // below 2 GiB
	head = append(kbin.AppendVarint(nil, int32(len(head)+unpackedBytes+1)), head...) //nolint:gosec // below 2 GiB
	zeros := make([]byte, 1<<20)

	_, err = encoder.Write(head)
	for left := unpackedBytes; left > 0 && err == nil; left -= len(zeros) {
		_, err = encoder.Write(zeros[:min(left, len(zeros))])
	}

	if err == nil {
		_, err = encoder.Write([]byte{0}) // no headers
	}

	if err = errors.Join(err, encoder.Close()); err != nil {
		return nil, err
	}
	b.Attributes, b.Records = int16(codec), packed.Bytes()

	return b, nil
}

// Headers returns a batch of one record with so many empty headers: a client keeps far more of each than its two bytes.
func Headers(timestampMs int64, count int) *Batch {
	b := New(timestampMs, nil)
	body := kbin.AppendVarint([]byte{0, 0, 0}, -1) // no key

	body = kbin.AppendVarint(kbin.AppendVarint(body, 0), int32(count)) //nolint:gosec // few
	for range count {
		body = kbin.AppendVarint(kbin.AppendVarint(body, 0), -1)
	}
	records := append(kbin.AppendVarint(nil, int32(len(body))), body...) //nolint:gosec // few
	b.Attributes, b.Records = int16(kgo.CodecSnappy), s2.EncodeSnappy(nil, records)

	return b
}

// Noise returns a good batch of one record that takes so many bytes although it is compressed.
func Noise(timestampMs int64, packedBytes int) *Batch {
	value, random := make([]byte, packedBytes), rand.NewPCG(1, 2)
	for i := range value {
		value[i] = byte(random.Uint64()) //nolint:gosec // any byte
	}
	b := New(timestampMs, value)
	b.Attributes, b.Records = int16(kgo.CodecSnappy), s2.EncodeSnappy(nil, b.Records)

	return b
}

// Encode returns the batch with its right length and checksum.
func (b *Batch) Encode() []byte {
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12)) //nolint:gosec // small
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))

	return raw
}

// Produce sends an encoded batch as it is. It returns the offset of its first record.
func Produce(ctx context.Context, client *kgo.Client, topic string, partition int32,
	raw []byte) (offset int64, err error) {
	asked := kmsg.NewPtrMetadataRequest() // kadm's answer may be some seconds old, and leaders move
	asked.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}

	metadata, err := asked.RequestWith(ctx, client)
	if err != nil {
		return 0, err
	}
	leader := -1

	for _, known := range metadata.Topics {
		for _, p := range known.Partitions {
			if p.Partition == partition {
				leader = int(p.Leader)
			}
		}
	}

	if leader < 0 {
		return 0, fmt.Errorf("%s, partition %d, has no leader", topic, partition)
	}
	request := kmsg.NewPtrProduceRequest()
	request.Acks, request.TimeoutMillis = -1, 10_000
	to := kmsg.NewProduceRequestTopic()
	to.Topic, to.TopicID = topic, metadata.Topics[0].TopicID
	part := kmsg.NewProduceRequestTopicPartition()
	part.Partition, part.Records = partition, raw
	to.Partitions = append(to.Partitions, part)
	request.Topics = append(request.Topics, to)

	answer, err := client.Broker(leader).Request(ctx, request)
	if err != nil {
		return 0, err
	}

	response := answer.(*kmsg.ProduceResponse)
	if len(response.Topics) != 1 || len(response.Topics[0].Partitions) != 1 {
		return 0, errors.New("the broker's response does not name the partition")
	}

	taken := response.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(taken.ErrorCode); err != nil {
		if taken.ErrorMessage != nil {
			err = fmt.Errorf("%w: %s", err, *taken.ErrorMessage)
		}

		return 0, err
	}

	return taken.BaseOffset, nil
}

// Planted counts the batches that were written to one topic: those that the broker took, and those
// of which it may have taken some.
type Planted struct {
	mu            sync.Mutex
	taken, unsure int
}

// Add counts a batch by the error of Produce.
func (p *Planted) Add(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()

	switch said, isAnswer := errors.AsType[*kerr.Error](err); {
	case err == nil:
		p.taken++
	case !isAnswer, errors.Is(said, kerr.NotEnoughReplicasAfterAppend), errors.Is(said, kerr.RequestTimedOut):
		p.unsure++
	}
}

// Problem compares the number of dead letters for such batches with what was written. It is empty if
// they fit.
func (p *Planted) Problem(letters int) string {
	p.mu.Lock()
	defer p.mu.Unlock()

	if letters < p.taken || letters > p.taken+p.unsure {
		return fmt.Sprintf("%d dead letters of unreadable batches, but %d were written, and perhaps %d more", letters,
			p.taken, p.unsure)
	}

	return ""
}
