package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/stream"
)

// intake fetches payments while there is room for them.
func (e *Engine) intake(ctx context.Context) {
	for {
		most := e.room.wait(ctx)
		if most == 0 {
			return
		}
		fetches := e.group.PollRecords(ctx, most)
		fetches.EachError(func(topic string, partition int32, err error) { e.fetchError(ctx, topic, partition, err) })
		fetches.EachPartition(func(fetched kgo.FetchTopicPartition) {
			p := e.partition(fetched.Partition)
			if p == nil {
				return // lost meanwhile; its next owner gets them
			}
			p.admit(fetched.Records)
		})
		e.group.AllowRebalance()
	}
}

// fetchError says what a fetch error means. The client goes on by itself after all but
// those that end the process.
func (e *Engine) fetchError(ctx context.Context, topic string, partition int32, err error) {
	switch {
	case ctx.Err() != nil, errors.Is(err, kgo.ErrClientClosed):
	case errors.Is(err, kerr.FencedInstanceID):
		e.fail(fmt.Errorf("another engine runs under ENGINE_INSTANCE_ID %q: give every slot its own", e.config.InstanceID))
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.GroupAuthorizationFailed):
		e.fail(fmt.Errorf("Kafka does not let KAFKA_SASL_USER %q read %s as a member of the group %s: %w; bootstrap says who may do what", e.config.Stream.SASLUser, topic, stream.EngineGroup, err))
	default:
		e.log.Warn("cannot fetch", zap.String("topic", topic), zap.Int32("partition", partition), zap.Error(err))
		sleep(ctx, 100*time.Millisecond)
	}
}

// readResponses reads the PSPs' answers for the partitions that this engine owns.
func (e *Engine) readResponses(ctx context.Context) {
	warned := time.Time{}
	forged := &forgeries{engine: e}
	for ctx.Err() == nil {
		fetches := e.direct.PollFetches(ctx)
		fetches.EachError(func(topic string, partition int32, err error) { e.fetchError(ctx, topic, partition, err) })
		fetches.EachPartition(func(fetched kgo.FetchTopicPartition) {
			p := e.partition(fetched.Partition)
			if p == nil {
				return
			}
			for _, record := range fetched.Records {
				r, err := decodeResponse(record.Value)
				if err != nil {
					e.metrics.responses.invalid.Inc()
					if time.Since(warned) > time.Second { // hostile input must not flood the log
						warned = time.Now()
						e.log.Warn("dropped an answer that cannot be read", zap.String("topic", stream.AuthorizationResponses),
							zap.Int32("partition", record.Partition), zap.Int64("offset", record.Offset), zap.Error(err))
					}
					continue
				}
				if e.seals != nil && !e.seals.Genuine(r.psp, record.Value, sealOf(record)) {
					forged.keep(p, record, r)
					continue
				}
				p.inbox.offer(event{kind: responded, response: r})
			}
		})
	}
}
