package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
)

// beginAtPositions names the first offset of each partition. The client does not move a partition without a
// commit, so it would stay at an unreadable batch that is the first of all. Partitions whose older records were
// overtaken begin above those. And the group's commit may be of another member.
func (e *Engine) beginAtPositions(_ context.Context,
	offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	for number := range offsets[stream.Payments] {
		if p := e.partition(number); p != nil {
			offsets[stream.Payments][number] = kgo.NewOffset().At(p.orders.at())
		}
	}

	return offsets, nil
}

// lookInterval is how long a partition may stand still unnoticed, restLookInterval while nothing is under way.
const (
	lookInterval     = 500 * time.Millisecond
	restLookInterval = 2 * time.Second
)

// forgottenLooks is how many looks in a row may find a record that the client does not fetch. A client that
// was told where to go on while leaders moved has stayed where it was for good.
const forgottenLooks = 20

// lookAtPositions passes over what cannot be read.
func (e *Engine) lookAtPositions(ctx context.Context) {
	tick := time.NewTimer(lookInterval)
	defer tick.Stop()

	for {
		var ends kadm.ListedOffsets

		select {
		case <-ctx.Done():
			return
		case <-e.pausedPosition:
		case <-tick.C:
			asking, cancel := context.WithTimeout(ctx, 5*time.Second)
			// on an error: at the next tick
			ends, _ = kadm.NewClient(e.direct).ListCommittedOffsets(asking, stream.Payments,
				stream.AuthorizationResponses)
			cancel()
		}
		next := host.Next(restLookInterval)

		for _, p := range e.partitions() {
			e.lookAt(ctx, p, p.orders, ends)
			e.lookAt(ctx, p, p.responses, ends)

			if r := p.overtaken.reading(); r != nil {
				e.lookAt(ctx, p, r, ends)
				e.nextOvertaken(p)
			}

			if !p.orders.reached(ends) || !p.responses.reached(ends) {
				next = lookInterval
			}
		}
		tick.Reset(next)
	}
}

func (e *Engine) lookAt(ctx context.Context, p *partition, r *position, ends kadm.ListedOffsets) {
	end, _ := ends.Lookup(r.topic, r.number)
	if !r.stands(end.Offset) {
		return
	}
	at := r.seen
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()

	found, err := stream.Look(ctx, r.client, r.topic, r.number, at, e.config.Stream.BatchMax())
	if err != nil {
		e.log.Warn("cannot look at a partition that stands still", zap.String("topic", r.topic),
			zap.Int32("partition", r.number), zap.Int64("offset", at), zap.Error(err))
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
		forgotten := r.stood > forgottenLooks && e.room.Lets(r == p.orders || r == p.responses)
		if forgotten {
			e.log.Warn("a record can be read and is not fetched: fetching it again", zap.String("topic", r.topic),
				zap.Int32("partition", r.number), zap.Int64("offset", at))
		}

		if (r.broken || forgotten) && ends != nil { // at most once a tick: what failed may fail at once again
			r.goOn(at)
		}
	default:
		found.Next = min(found.Next, r.until)
		e.passOver(p, r, at, found)
		r.goOn(found.Next)
	}
}

// passOver accounts for what a client gets no records of.
func (e *Engine) passOver(p *partition, r *position, first int64, found *stream.Unreadable) {
	last := found.Next - 1
	// an aborted transaction. At the end of a partition it must be committed like a record, or it counts as not taken.
	if found.Err == nil {
		if r != p.responses {
			p.admitUnreadable(&kgo.Record{Topic: r.topic, Partition: r.number, Offset: last},
				&unreadable{first: first})
		}

		return
	}
	e.rarely.Warn("skipped records that cannot be read; further ones of this second are only counted",
		zap.String("topic", r.topic), zap.Int32("partition", r.number),
		zap.Int64("first_offset", first), zap.Int64("last_offset", last), zap.Error(found.Err))

	if r == p.responses {
		e.metrics.Responses.Unreadable.Inc()
		return
	}
	p.admitUnreadable(&kgo.Record{Topic: r.topic, Partition: r.number, Offset: last, Value: found.Batch},
		&unreadable{first: first, invalid: &pix.Invalid{
			Reason: pix.ReasonUnreadable, Field: "batch",
			Detail: fmt.Sprintf("the records at offsets %d to %d cannot be read: %v", first, last, found.Err)}})
}
