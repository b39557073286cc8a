package engine

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/stream"
)

// If the orders of a partition wait longer and longer, and soon cannot end in time, younger ones
// overtake them: the engine goes on with those of the last quarter of the deadline. The older
// ones are read beside them, in their order, by a client of their own: a few while the engine
// is busy, all of them afterwards. So orders that can only be refused keep no other from
// settling, however many they are.

// overtaken returns how many records were overtaken and not read, in all partitions.
func (e *Engine) overtaken() (n float64) {
	for _, p := range e.partitions() {
		n += float64(p.overtaken.records())
	}

	return n
}

// overtakenBelow returns below which offset an engine before this one left records overtaken, or 0. Its
// hint tells: no run of unfinished records that is longer than what may work was in flight. So
// what it held goes on at once, and does not wait behind them.
func overtakenBelow(h stream.Hint, workingMax int64) (to int64) {
	at := h.Base
	for _, s := range append(slices.Clip(h.Spans), stream.Span{From: h.Taken, To: h.Taken}) {
		if s.From-at > workingMax {
			to = s.From
		}
		at = max(at, s.To)
	}

	return to
}

// overtakeIfLate lets younger records of a partition overtake older ones, if those are late.
func (e *Engine) overtakeIfLate(p *partition, next, end int64, known bool) {
	if !known {
		return
	}
	now, deadline := time.Now(), e.config.Deadline
	p.waited.observe(next, end, deadline, now)

	if to, found := p.waited.younger(next, deadline-time.Duration(p.need.Load()), deadline, now); found {
		e.overtake(p, to)
	}
}

// overtake goes on with younger records of a partition.
func (e *Engine) overtake(p *partition, to int64) {
	// While this is held, the partition cannot be released: see lookAt.
	e.ownedMu.RLock()
	defer e.ownedMu.RUnlock()
	p.orders.mu.Lock()
	defer p.orders.mu.Unlock()

	if from := p.orders.next; e.owned[p.number] == p && !p.orders.broken && from < to &&
		e.setAside(p, stream.Span{From: from, To: to}) {
		p.orders.goOn(to)
	}
}

// setAside makes a range of a partition overtaken. It returns false if that cannot be.
func (e *Engine) setAside(p *partition, r stream.Span) bool {
	o := &p.overtaken
	o.mu.Lock()
	defer o.mu.Unlock()

	if o.closed || len(o.ranges) >= rangesMax {
		return false
	}

	if len(o.ranges) == 0 {
		e.log.Warn("orders wait for nearly their deadline, and longer and longer: younger ones overtake them",
			zap.Int32("partition", p.number), zap.Int64("from_offset", r.From), zap.Int64("to_offset", r.To))
		o.position = newPosition(e.overtakenReader, stream.Payments, p.number, r.From)
		// Records that were polled before the partition was lost may come now: they are dropped.
		o.position.until, o.position.fresh = r.To, false
		e.overtakenReader.AddConsumePartitions(
			map[string]map[int32]kgo.Offset{stream.Payments: {p.number: kgo.NewOffset().At(r.From)}})
	}
	o.ranges = append(o.ranges, r)
	p.offsets.overtake(r.To)

	return true
}

// readOvertaken reads the records that were overtaken, until ctx ends.
func (e *Engine) readOvertaken(ctx context.Context) {
	for {
		most := e.room.WaitOvertaken(ctx)
		if most == 0 {
			return
		}
		fetches := e.overtakenReader.PollRecords(ctx, most)
		fetches.EachPartition(func(fetched kgo.FetchTopicPartition) {
			p := e.partition(fetched.Partition)
			if p == nil {
				return
			}

			if r, err := e.takeOvertaken(p, fetched.Records); err != nil {
				e.pause(p, r, err)
			}
			e.nextOvertaken(p)
		})
		fetches.EachError(func(topic string, number int32, err error) {
			e.fetchError(ctx, topic, number, err, func(p *partition) *position { return p.overtaken.reading() })
		})
	}
}

func (e *Engine) takeOvertaken(p *partition, records []*kgo.Record) (*position, error) {
	// While this is held, the partition cannot be released: its room is freed then.
	e.ownedMu.RLock()
	defer e.ownedMu.RUnlock()
	o := &p.overtaken
	o.mu.Lock()
	defer o.mu.Unlock()

	if e.owned[p.number] != p || o.position == nil || o.closed {
		return nil, nil
	}

	return o.position, o.position.take(records, func(taken []*kgo.Record) {
		e.room.Spend(len(taken))
		p.admit(taken)
	})
}

// nextOvertaken goes on with the next range, if one is read.
func (e *Engine) nextOvertaken(p *partition) {
	e.ownedMu.RLock()
	defer e.ownedMu.RUnlock()
	o := &p.overtaken
	o.mu.Lock()
	defer o.mu.Unlock()

	if e.owned[p.number] != p || o.position == nil || o.position.at() < o.ranges[0].To {
		return
	}

	if o.ranges = slices.Delete(o.ranges, 0, 1); len(o.ranges) == 0 {
		o.position = nil
		e.overtakenReader.RemoveConsumePartitions(map[string][]int32{stream.Payments: {p.number}})
		e.log.Info("all orders that were overtaken are read", zap.Int32("partition", p.number))

		return
	}
	o.position.mu.Lock()
	defer o.position.mu.Unlock()
	o.position.until = o.ranges[0].To
	o.position.goOn(o.ranges[0].From)
}
