package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/origin"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
)

// position is how far a client has read one partition. Anybody may write a batch that no
// client can read, or a record that claims the offset of others. So records are taken only
// without a gap; a partition with a gap, with an error, or that stands still below its end
// is looked at, and what cannot be read is passed over. The others go on meanwhile.
type position struct {
	client    *kgo.Client
	topic     string
	partition int32

	mu     sync.Mutex
	next   int64
	fresh  bool // nothing is taken yet
	broken bool // paused until somebody has looked
	seen   int64
}

// newPosition begins at next. The client remembers a pause from before the partition was lost: without
// an end to it, a partition that comes back would stand still forever.
func newPosition(client *kgo.Client, topic string, partition int32, next int64) *position {
	client.ResumeFetchPartitions(map[string][]int32{topic: {partition}})
	return &position{client: client, topic: topic, partition: partition, next: next, fresh: true, seen: -1}
}

// take calls use with the records that follow what was taken before. It returns an error if
// some are missing between.
func (r *position) take(records []*kgo.Record, use func([]*kgo.Record)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken {
		return nil // dropped: they are fetched again
	}
	for !r.fresh && len(records) > 0 && records[0].Offset < r.next {
		records = records[1:]
	}
	n := 0
	for n < len(records) && records[n].Offset <= r.next {
		r.next, r.fresh = records[n].Offset+1, false
		n++
	}
	if n > 0 {
		use(records[:n])
	}
	if n < len(records) {
		return fmt.Errorf("after offset %d came %d", r.next-1, records[n].Offset)
	}
	return nil
}

// at returns the offset that is taken next.
func (r *position) at() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next
}

// pause stops the fetches of the partition until look has been there.
func (r *position) pause() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = true
	r.client.PauseFetchPartitions(map[string][]int32{r.topic: {r.partition}})
}

// stands reports whether the partition is broken, or did not go on since the last call
// although it has records up to end.
func (r *position) stands(end int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.seen
	r.seen = r.next
	return r.broken || r.next == before && r.next < end
}

// goOn fetches on at next, whatever the client has fetched since.
func (r *position) goOn(next int64) {
	r.next, r.fresh, r.broken = next, false, false
	r.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{r.topic: {r.partition: {Epoch: -1, Offset: next}}})
	r.client.ResumeFetchPartitions(map[string][]int32{r.topic: {r.partition}})
}

// beginAtPositions names the first offset of partitions that have no commit. The client does not
// move a partition without one, so it would stay at an unreadable batch that is the first of all.
func (e *Engine) beginAtPositions(_ context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	for number, offset := range offsets[stream.Payments] {
		if p := e.partition(number); p != nil && offset.EpochOffset().Offset < 0 {
			offsets[stream.Payments][number] = kgo.NewOffset().At(p.orders.at())
		}
	}
	return offsets, nil
}

// lookInterval is how long a partition may stand still unnoticed.
const lookInterval = 500 * time.Millisecond

// lookAtPositions passes over what cannot be read.
func (e *Engine) lookAtPositions(ctx context.Context) {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		var ends kadm.ListedOffsets
		select {
		case <-ctx.Done():
			return
		case <-e.pausedPosition:
		case <-tick.C:
			asking, cancel := context.WithTimeout(ctx, 5*time.Second)
			ends, _ = kadm.NewClient(e.direct).ListCommittedOffsets(asking, stream.Payments, stream.AuthorizationResponses) // on an error: at the next tick
			cancel()
		}
		for _, p := range e.partitions() {
			e.lookAt(ctx, p, p.orders, ends)
			e.lookAt(ctx, p, p.responses, ends)
		}
	}
}

func (e *Engine) lookAt(ctx context.Context, p *partition, r *position, ends kadm.ListedOffsets) {
	end, _ := ends.Lookup(r.topic, r.partition)
	if !r.stands(end.Offset) {
		return
	}
	at := r.seen
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	found, err := stream.Look(ctx, r.client, r.topic, r.partition, at, e.config.Stream.BatchMax())
	if err != nil {
		e.log.Warn("cannot look at a partition that stands still", zap.String("topic", r.topic), zap.Int32("partition", r.partition), zap.Int64("offset", at), zap.Error(err))
		return
	}
	// While this is held, the partition cannot be released, so it cannot be assigned anew
	// with another offset that would be overwritten here.
	e.ownedMu.RLock()
	defer e.ownedMu.RUnlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case e.owned[p.number] != p, r.next != at:
	case found == nil:
		if r.broken && ends != nil { // at most once a tick: what failed may fail at once again
			r.goOn(at)
		}
	default:
		if found.Err != nil {
			e.passOver(p, r, at, found)
		}
		r.goOn(found.Next)
	}
}

// passOver accounts for records that cannot be read.
func (e *Engine) passOver(p *partition, r *position, first int64, found *stream.Unreadable) {
	last := found.Next - 1
	if time.Since(e.warnedUnreadable) > time.Second { // hostile input must not flood the log
		e.warnedUnreadable = time.Now()
		e.log.Warn("skipped records that cannot be read; further ones of this second are only counted", zap.String("topic", r.topic), zap.Int32("partition", r.partition),
			zap.Int64("first_offset", first), zap.Int64("last_offset", last), zap.Error(found.Err))
	}
	if r == p.responses {
		e.metrics.responses.unreadable.Inc()
		return
	}
	p.admitUnreadable(&kgo.Record{Topic: r.topic, Partition: r.partition, Offset: last, Value: found.Batch}, &unreadable{first: first, invalid: &pix.Invalid{
		Reason: pix.ReasonUnreadable, Field: "batch", Detail: fmt.Sprintf("the records at offsets %d to %d cannot be read: %v", first, last, found.Err)}})
}

// unreadable says of a record that it stands for all from offset first, which no client
// can read. Its value is their batch.
type unreadable struct {
	first   int64
	invalid *pix.Invalid
}

// fetchError handles an error of a fetch. The client retries after all of them; some fail
// the engine.
func (e *Engine) fetchError(ctx context.Context, topic string, number int32, err error) {
	switch p := e.partition(number); {
	case ctx.Err() != nil, errors.Is(err, kgo.ErrClientClosed):
	case topic == stream.Payments && (errors.Is(err, kerr.OffsetOutOfRange) || errors.As(err, new(*kgo.ErrDataLoss))):
		e.fail(origin.Mismatched("the broker no longer has the next record of %s, partition %d: %v", topic, number, err))
	case errors.Is(err, kerr.FencedInstanceID):
		e.fail(fmt.Errorf("another engine runs with ENGINE_INSTANCE_ID %q: give each engine its own", e.config.InstanceID))
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.GroupAuthorizationFailed):
		e.fail(fmt.Errorf("Kafka does not allow KAFKA_SASL_USER %q to read %s as a member of the group %s: %w; bootstrap grants the ACLs", e.config.Stream.SASLUser, topic, stream.EngineGroup, err))
	case p != nil && topic == stream.Payments:
		e.pause(p, p.orders, err)
	case p != nil && topic == stream.AuthorizationResponses:
		e.pause(p, p.responses, err)
	default: // an error of the whole client, which tries again after a pause of its own
		e.log.Warn("cannot fetch", zap.String("topic", topic), zap.Int32("partition", number), zap.Error(err))
	}
}

// pause stops the fetches of one partition until lookAtPositions has been there.
func (e *Engine) pause(p *partition, r *position, err error) {
	e.log.Debug("cannot fetch", zap.String("topic", r.topic), zap.Int32("partition", r.partition), zap.Error(err))
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
