package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/loadtest/audit"

	"github.com/liquida/liquida/loadtest/audit/source"
)

var allTopics = []string{source.Payments, source.Settlements, source.DeadLetters}

const brokerAnswersWithin = 5 * time.Second

// topics reads the three topics from where it was told, to their ends and on.
type topics struct {
	*source.Reader
	admin *kadm.Client
}

// openTopics returns a reader that begins at these offsets.
func (a *Audit) openTopics(from source.Offsets) (*topics, error) {
	reader, err := source.OpenReader(a.config.Kafka, a.config.Behind, from,
		kgo.ClientID("live-audit"), kgo.FetchMaxBytes(8<<20),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchMaxWait(5*time.Second))
	if err != nil {
		return nil, err
	}

	return &topics{reader, kadm.NewClient(reader.Client())}, nil
}

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
	offsets, err := source.Committed(ctx, admin)

	return offsets, a.answered(err)
}

const pollMax = 5000

// read gives a follower what has come, or waits for it.
func (t *topics) read(ctx context.Context, wait time.Duration, follower *audit.Judge) (came int, err error) {
	return t.Poll(ctx, wait, pollMax, &source.Taking{
		Take: func(topic string, r source.Record) {
			switch topic {
			case source.Payments:
				follower.Order(r)
			case source.Settlements:
				follower.Report(r)
			case source.DeadLetters:
				follower.DeadLetter(r)
			}
		},
		Pass: source.Unreadable,
		Gone: func(topic string, from int64, r source.Record) error {
			return fmt.Errorf("partition %d of %s is gone from offset %d to %d: begins again from now", r.Partition,
				topic, from, r.Offset-1)
		},
		Failed: func(topic string, partition int32, err error) error {
			if errors.Is(err, kerr.OffsetOutOfRange) {
				return fmt.Errorf("partition %d of %s is gone: begins again from now", partition, topic)
			}

			return nil // if it stays, the light is amber: it falls behind
		},
	})
}

// grow reads partitions that were added, from their beginning on.
func (t *topics) grow(ends source.Offsets) {
	for topic, partitions := range ends {
		for partition := range partitions {
			t.Add(topic, partition)
		}
	}
}
