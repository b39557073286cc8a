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

// intake fetches orders while there is room for them.
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
				return // the partition was lost; its next owner fetches the records
			}
			p.admit(fetched.Records)
		})
		e.group.AllowRebalance()
	}
}

// fetchError handles an error of a fetch. The client retries after all of them; some fail
// the engine.
func (e *Engine) fetchError(ctx context.Context, topic string, partition int32, err error) {
	switch {
	case ctx.Err() != nil, errors.Is(err, kgo.ErrClientClosed):
	case errors.Is(err, kerr.FencedInstanceID):
		e.fail(fmt.Errorf("another engine runs with ENGINE_INSTANCE_ID %q: give each engine its own", e.config.InstanceID))
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.GroupAuthorizationFailed):
		e.fail(fmt.Errorf("Kafka does not allow KAFKA_SASL_USER %q to read %s as a member of the group %s: %w; bootstrap grants the ACLs", e.config.Stream.SASLUser, topic, stream.EngineGroup, err))
	default:
		e.log.Warn("cannot fetch", zap.String("topic", topic), zap.Int32("partition", partition), zap.Error(err))
		sleep(ctx, 100*time.Millisecond)
	}
}
