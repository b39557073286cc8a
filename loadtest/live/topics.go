package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/loadtest/audit"
)

const (
	paymentsTopic    = "pix.payments"
	settlementsTopic = "pix.settlements"
	deadLettersTopic = "pix.dead-letters"
	engineGroup      = "clearing-engine"
)

var allTopics = []string{paymentsTopic, settlementsTopic, deadLettersTopic}

// errLost says that something can no longer be read: the audit must begin again from now.
var errLost = errors.New("begins again from now")

const brokerAnswersWithin = 5 * time.Second

// topics reads the three topics from where it was told, to their ends and on.
type topics struct {
	audit  *Audit
	client *kgo.Client // of the records
	admin  *kadm.Client
	next   map[string]map[int32]int64 // the offset to read next
	left   map[string]leftOut         // by topic and partition
}

// leftOut is what the client left out last, and how often.
type leftOut struct {
	offset int64
	times  int
}

// openTopics returns a reader that begins at these offsets.
func (a *Audit) openTopics(from map[string]map[int32]int64) (*topics, error) {
	offsets := map[string]map[int32]kgo.Offset{}
	for topic, partitions := range from {
		offsets[topic] = map[int32]kgo.Offset{}
		for partition, offset := range partitions {
			offsets[topic][partition] = kgo.NewOffset().At(offset)
		}
	}
	client, err := kgo.NewClient(append(slices.Clone(a.config.Kafka),
		kgo.ClientID("live-audit"),
		kgo.ConsumePartitions(offsets),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxWait(100*time.Millisecond),
		kgo.FetchMaxBytes(8<<20),
		// Records of an aborted transaction do not count. The broker's own records that end a
		// transaction are kept, because one of them may be the last offset.
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords())...)
	if err != nil {
		return nil, fmt.Errorf("cannot create the Kafka client: %w", err)
	}
	return &topics{a, client, kadm.NewClient(client), from, map[string]leftOut{}}, nil
}

func (t *topics) close() { t.client.Close() }

// answered takes note that the broker answers.
func (a *Audit) answered(err error) error {
	if err == nil {
		a.mu.Lock()
		a.brokerAt = time.Now()
		a.mu.Unlock()
		return nil
	}
	return fmt.Errorf("the broker: %w", err)
}

type lister func(context.Context, ...string) (kadm.ListedOffsets, error)

func (a *Audit) offsets(ctx context.Context, list lister, topics ...string) (map[string]map[int32]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, brokerAnswersWithin)
	defer cancel()
	listed, err := list(ctx, topics...)
	if err == nil {
		err = listed.Error()
	}
	if err := a.answered(err); err != nil {
		return nil, err
	}
	all := map[string]map[int32]int64{}
	listed.Each(func(o kadm.ListedOffset) {
		if all[o.Topic] == nil {
			all[o.Topic] = map[int32]int64{}
		}
		all[o.Topic][o.Partition] = o.Offset
	})
	for _, topic := range topics {
		if len(all[topic]) == 0 {
			return nil, fmt.Errorf("there is no topic %s yet", topic)
		}
	}
	return all, nil
}

// committed returns the engines' offsets of pix.payments. A partition without one is left out.
func (a *Audit) committed(ctx context.Context, admin *kadm.Client) (map[int32]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, brokerAnswersWithin)
	defer cancel()
	offsets := map[int32]int64{}
	responses, err := admin.FetchOffsets(ctx, engineGroup)
	if err == nil {
		err = responses.Error()
	}
	if errors.Is(err, kerr.GroupIDNotFound) {
		return offsets, nil
	}
	if err := a.answered(err); err != nil {
		return nil, err
	}
	responses.Each(func(r kadm.OffsetResponse) {
		if r.Topic == paymentsTopic && r.At >= 0 {
			offsets[r.Partition] = r.At
		}
	})
	return offsets, nil
}

const (
	pollMax = 5000
	// pollFor is how long a poll waits for records.
	pollFor = 50 * time.Millisecond
	// leftOutMax is how often what the client left out is fetched again. Then it is something that nobody
	// reads, such as records that were taken back.
	leftOutMax = 5
)

// read gives a follower what has come.
func (t *topics) read(ctx context.Context, follower *audit.Follower) error {
	polling, cancel := context.WithTimeout(ctx, pollFor)
	fetches := t.client.PollRecords(polling, pollMax)
	cancel()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var failed error
	fetches.EachError(func(topic string, partition int32, err error) {
		if errors.Is(err, context.DeadlineExceeded) || failed != nil || t.next[topic] == nil {
			return
		}
		if errors.Is(err, kerr.OffsetOutOfRange) {
			failed = fmt.Errorf("partition %d of %s is gone from offset %d on: %w", partition, topic, t.next[topic][partition], errLost)
			return
		}
		_, _ = t.pass(ctx, topic, partition) // if it cannot, the light is amber: it falls behind
	})
	passed := map[string]bool{} // in these fetches: what they hold behind is fetched again
	fetches.EachRecord(func(r *kgo.Record) {
		next := t.next[r.Topic]
		place := fmt.Sprint(r.Topic, r.Partition)
		if failed != nil || r.Offset < next[r.Partition] || len(passed) > 0 && passed[place] {
			return
		}
		if r.Offset > next[r.Partition] {
			passed[place], failed = t.leap(ctx, r)
			if failed != nil || passed[place] {
				return
			}
		}
		next[r.Partition] = r.Offset + 1
		if r.Attrs.IsControl() {
			return
		}
		record := audit.Record{Partition: r.Partition, Offset: r.Offset, Time: r.Timestamp, Key: r.Key, Value: r.Value}
		switch r.Topic {
		case paymentsTopic:
			follower.Order(record)
		case settlementsTopic:
			follower.Report(record)
		case deadLettersTopic:
			follower.DeadLetter(record)
		}
	})
	return failed
}

// pass goes on behind what no client can read.
func (t *topics) pass(ctx context.Context, topic string, partition int32) (passed bool, err error) {
	if t.audit.config.Behind == nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, brokerAnswersWithin)
	defer cancel()
	next, _, err := t.audit.config.Behind(ctx, t.client, topic, partition, t.next[topic][partition])
	if err != nil || next <= t.next[topic][partition] {
		return false, err
	}
	t.set(topic, partition, next)
	return true, nil
}

func (t *topics) set(topic string, partition int32, next int64) {
	t.next[topic][partition] = next
	t.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{topic: {partition: {Epoch: -1, Offset: next}}})
}

// leap judges what is left out before a record. Either nobody can read it, or the broker has it no longer, or
// the client left it out and it is fetched again.
func (t *topics) leap(ctx context.Context, r *kgo.Record) (again bool, err error) {
	from := t.next[r.Topic][r.Partition]
	passed, err := t.pass(ctx, r.Topic, r.Partition)
	if passed {
		return true, nil
	}
	if errors.Is(err, kerr.OffsetOutOfRange) {
		return false, fmt.Errorf("partition %d of %s is gone from offset %d to %d: %w", r.Partition, r.Topic, from, r.Offset-1, errLost)
	}
	place := fmt.Sprint(r.Topic, r.Partition)
	left := t.left[place]
	if left.offset != from {
		left = leftOut{offset: from}
	}
	left.times++
	t.left[place] = left
	if left.times > leftOutMax {
		return false, nil
	}
	t.set(r.Topic, r.Partition, from)
	return true, nil
}

// readTo reports whether all is read up to some offsets.
func (t *topics) readTo(ends map[string]map[int32]int64) bool {
	for topic, partitions := range ends {
		for partition, end := range partitions {
			if t.next[topic][partition] < end {
				return false
			}
		}
	}
	return true
}
