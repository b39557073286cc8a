package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/origin"
	"github.com/liquida/liquida/platform/stream"
)

// What the loops that fetch have in common: orders, orders that were overtaken, and responses. An error stops one
// partition until lookAtPositions has been there, or fails the engine.

// fetchError handles an error of a fetch. The client retries after all of them; some fail
// the engine. of returns which position of a partition met it.
func (e *Engine) fetchError(ctx context.Context, topic string, number int32, err error, of func(*partition) *position) {
	var r *position

	p := e.partition(number)
	if p != nil {
		r = of(p)
	}

	switch {
	case ctx.Err() != nil, errors.Is(err, kgo.ErrClientClosed), errors.Is(err, context.Canceled): // see room.Polling
	case topic == stream.Payments && (errors.Is(err, kerr.OffsetOutOfRange) || errors.As(err, new(*kgo.ErrDataLoss))):
		e.fail(origin.Mismatched(e.logNumber, "the broker no longer has the next record of %s, partition %d: %v", topic,
			number, err))
	case errors.Is(err, kerr.FencedInstanceID):
		e.fail(fmt.Errorf("another engine runs with ENGINE_INSTANCE_ID %q: give each engine its own",
			e.config.InstanceID))
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.GroupAuthorizationFailed):
		e.fail(fmt.Errorf("Kafka does not allow KAFKA_SASL_USER %q to read %s as a member of the group %s: %w; bootstrap grants the ACLs",
			e.config.Stream.SASLUser, topic, stream.EngineGroup, err))
	case r != nil && topic == r.topic:
		e.pause(p, r, err)
	default: // an error of the whole client, which tries again after a pause of its own
		e.log.Warn("cannot fetch", zap.String("topic", topic), zap.Int32("partition", number), zap.Error(err))
	}
}

// pause stops the fetches of one partition until lookAtPositions has been there.
func (e *Engine) pause(p *partition, r *position, err error) {
	e.log.Debug("cannot fetch", zap.String("topic", r.topic), zap.Int32("partition", r.number), zap.Error(err))
	e.ownedMu.RLock()

	if e.owned[p.number] == p { // else the pause would meet who has the partition next
		r.pause()
	}
	e.ownedMu.RUnlock()

	select {
	case e.pausedPosition <- struct{}{}:
	default:
	}
}
