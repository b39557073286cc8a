package stream

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Unreadable is a part of a partition that no client can read: a batch, or the rest of one
// whose first records can be read.
type Unreadable struct {
	Next  int64  // the offset to go on at
	Batch []byte // as it is stored
	Err   error  // why it cannot be read
}

// Look asks the broker what is stored in a partition at an offset, of which the client got
// nothing. It returns nil if the client can get the record there, or if there is none yet.
// If what is there has no records for a client (aborted transactions), Err is nil.
func Look(ctx context.Context, client *kgo.Client, topic string, partition int32, offset int64,
	bytesMax int) (*Unreadable, error) {
	detail, err := describe(ctx, client, topic)
	if err != nil {
		return nil, err
	}

	stored, err := fetchStored(ctx, client, detail, partition, offset, committed)
	if err != nil {
		return nil, err
	}

	return newUnpacker(bytesMax, false).of(topic).unreadable(topic, stored, offset), nil
}

// Behind returns where to go on in a partition of which nothing can be read at offset, or 0 if
// something can, or nothing is there. What was aborted has no records for anybody.
func (c Config) Behind(ctx context.Context, client *kgo.Client, topic string, partition int32,
	offset int64) (next int64, aborted bool, err error) {
	found, err := Look(ctx, client, topic, partition, offset, c.BatchMax())
	if found == nil {
		return 0, false, err
	}

	return found.Next, found.Err == nil, nil
}

// unreadable judges the first batch of a response as the client would read it, so the same
// records are unreadable for everybody and forever. Only what is at offset counts: a
// record elsewhere may be one that claims the place of others.
func (u *unpacker) unreadable(topic string, stored *kmsg.FetchResponseTopicPartition, offset int64) *Unreadable {
	var batch kmsg.RecordBatch

	if len(stored.RecordBatches) < batchCRCEnd {
		return nil
	}
	_ = batch.ReadFrom(stored.RecordBatches) // what follows the first batch, or is missing of it, is judged below

	end := int64(batch.Length) + batchLengthEnd
	if end < batchCRCEnd || end > int64(len(stored.RecordBatches)) {
		return nil // a part of a batch, as brokers send at the end of a response
	}

	found := &Unreadable{Batch: stored.RecordBatches[:end],
		Next: min(batch.FirstOffset+int64(batch.LastOffsetDelta)+1, stored.HighWatermark)}
	if found.Next <= offset {
		return nil
	}
	one := *stored
	one.RecordBatches = found.Batch

	read, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		KeepControlRecords: true, Offset: offset, IsolationLevel: kgo.ReadCommitted(), Topic: topic,
		Partition: stored.Partition,
	}, &one, u, nil)
	switch {
	case len(read.Records) > 0 && read.Records[0].Offset == offset:
		return nil
	case read.Err != nil:
		found.Err = read.Err
	case next == found.Next && batch.Attributes&transactionalBit != 0 && len(read.Records) == 0:
	default:
		found.Err = fmt.Errorf("the batch claims %d records and has none at offset %d", batch.NumRecords, offset)
	}

	return found
}

const transactionalBit = 1 << 4
