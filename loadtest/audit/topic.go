package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The topics and the group that the audit reads.
const (
	paymentsTopic    = "pix.payments"
	settlementsTopic = "pix.settlements"
	deadLettersTopic = "pix.dead-letters"
	questionsTopic   = "pix.authorization-requests"
	answersTopic     = "pix.authorization-responses"
	engineGroup      = "clearing-engine"
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
	offsets := map[int32]int64{}
	for partition, start := range b.starts[paymentsTopic] {
		offsets[partition] = start.Offset // nothing committed: nothing is finished
	}
	responses, err := t.admin.FetchOffsets(ctx, engineGroup)
	if err == nil {
		err = responses.Error()
	}
	if errors.Is(err, kerr.GroupIDNotFound) {
		return offsets, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the offsets of the group %s: %w", engineGroup, err)
	}
	responses.Each(func(r kadm.OffsetResponse) {
		if r.Topic == paymentsTopic && r.At >= 0 {
			offsets[r.Partition] = r.At
		}
	})
	return offsets, nil
}

// sealOf returns the seal of a response, or nil.
func sealOf(r *kgo.Record) []byte {
	for _, header := range r.Headers {
		if header.Key == "seal" {
			return header.Value
		}
	}
	return nil
}

// behind returns where to go on in a partition in which no client can read at offset, or 0 if one
// can, and whether what is there was aborted.
func (t *topics) behind(ctx context.Context, topic string, partition int32, offset int64) (next int64, aborted bool, err error) {
	if t.unreadable == nil {
		return 0, false, errors.New("nobody can say")
	}
	ctx, cancel := context.WithTimeout(ctx, brokerAnswersWithin)
	defer cancel()
	return t.unreadable(ctx, t.client, topic, partition, offset)
}

// passOthers returns how to go on in a topic that others write.
func (t *topics) passOthers(ctx context.Context, topic string) func(partition int32, offset int64) (next int64, known bool) {
	return func(partition int32, offset int64) (next int64, known bool) {
		next, _, err := t.behind(ctx, topic, partition, offset)
		return next, err == nil && next > offset
	}
}

const noProgressMax = 30 * time.Second

// leftOutMax bounds how often readAll fetches again what the client left out.
const leftOutMax = 100

// readAll calls take with every record of a topic between its bounds. Where nothing can be read,
// it asks pass, which is nil or returns the offset to go on at. A record that the broker has and the
// client leaves out is fetched again. If the broker has it no longer, readAll calls gone with the
// first one that is left, or fails if gone is nil.
func (t *topics) readAll(ctx context.Context, topic string, b bounds, take, gone func(Record), pass func(partition int32, offset int64) (next int64, known bool)) error {
	offsets := map[int32]kgo.Offset{}
	left := map[int32]int64{} // the end of each partition that is not read completely
	next := map[int32]int64{}
	for partition, end := range b.ends[topic] {
		start := b.starts[topic][partition].Offset
		if start < end.Offset {
			offsets[partition] = kgo.NewOffset().At(start)
			left[partition], next[partition] = end.Offset, start
		}
	}
	if len(left) == 0 {
		return nil
	}
	client, err := kgo.NewClient(append(slices.Clip(t.kafka),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets}),
		// Records of an aborted transaction do not count. The broker's own records that end a
		// transaction are kept, because one of them may be the last offset.
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords())...)
	if err != nil {
		return fmt.Errorf("cannot create the Kafka client: %w", err)
	}
	defer client.Close()
	progressed := time.Now()
	// passOver goes on behind what the engine said that it could not read, and behind what was aborted.
	passOver := func(partition int32) bool {
		end, reading := left[partition]
		if pass == nil || !reading {
			return false
		}
		to, known := pass(partition, next[partition])
		if !known {
			var err error
			to, known, err = t.behind(ctx, topic, partition, next[partition])
			known = known && err == nil
		}
		if known {
			progressed = time.Now()
			next[partition] = to
			client.SetOffsets(map[string]map[int32]kgo.EpochOffset{topic: {partition: {Epoch: -1, Offset: to}}})
			if to >= end {
				delete(left, partition)
			}
		}
		return known
	}
	leftOut := 0 // of this topic
	// leap judges that the client left out what is before a record. If the broker has it, it is fetched again.
	leap := func(record Record) (again bool, err error) {
		to, _, err := t.behind(ctx, topic, record.Partition, next[record.Partition])
		switch {
		case errors.Is(err, kerr.OffsetOutOfRange) && gone != nil:
			gone(record)
		case errors.Is(err, kerr.OffsetOutOfRange):
			return false, fmt.Errorf("partition %d: the records from offset %d to %d are gone", record.Partition, next[record.Partition], record.Offset-1)
		case err == nil && to == 0:
			if leftOut++; leftOut > leftOutMax {
				return false, fmt.Errorf("partition %d: the Kafka client leaves out what is at offset %d", record.Partition, next[record.Partition])
			}
			t.leftOut++
			client.SetOffsets(map[string]map[int32]kgo.EpochOffset{topic: {record.Partition: {Epoch: -1, Offset: next[record.Partition]}}})
			return true, nil
		}
		return false, nil
	}
	var failed error
	for len(left) > 0 {
		polling, cancel := context.WithTimeout(ctx, time.Second)
		fetches := client.PollFetches(polling)
		cancel()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		fetches.EachError(func(_ string, partition int32, err error) {
			var bomb *kgo.ErrDecompressTooLarge
			if (topic == answersTopic || topic == questionsTopic) && errors.As(err, &bomb) { // no client can read it, so no engine has used it
				next[partition] = bomb.NextOffset
				client.SetOffsets(map[string]map[int32]kgo.EpochOffset{topic: {partition: {Epoch: -1, Offset: bomb.NextOffset}}})
				if bomb.NextOffset >= left[partition] {
					delete(left, partition)
				}
				return
			}
			if !passOver(partition) && !errors.Is(err, context.DeadlineExceeded) {
				failed = fmt.Errorf("partition %d, offset %d: %w", partition, next[partition], err)
			}
		})
		if fetches.NumRecords() == 0 {
			for partition := range left {
				passOver(partition)
			}
		}
		passed := map[int32]bool{} // in these fetches: what they hold behind is fetched again
		var leapt error
		fetches.EachRecord(func(r *kgo.Record) {
			end, reading := left[r.Partition]
			record := Record{r.Partition, r.Offset, r.Timestamp, r.Key, r.Value, sealOf(r), r.ProducerID}
			// A record may claim another place than it has: then its batch cannot be read.
			if reading && r.Offset > next[r.Partition] && !passed[r.Partition] {
				if passed[r.Partition] = passOver(r.Partition); !passed[r.Partition] {
					again, err := leap(record)
					passed[r.Partition], leapt = again, cmp.Or(leapt, err)
				}
			}
			if !reading || r.Offset >= end || passed[r.Partition] {
				return
			}
			progressed = time.Now()
			next[r.Partition] = r.Offset + 1
			if !r.Attrs.IsControl() {
				take(record)
			}
			if r.Offset+1 >= end {
				delete(left, r.Partition)
			}
		})
		if leapt != nil {
			return fmt.Errorf("%s: %w", topic, leapt)
		}
		if stuck := time.Since(progressed); stuck > noProgressMax {
			return errors.Join(fmt.Errorf("%s: no record for %v, but %d partitions are not read to their end; is the broker healthy?", topic, stuck.Round(time.Second), len(left)), failed)
		}
	}
	return nil
}
