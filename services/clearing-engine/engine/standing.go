package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/stream"
)

// A partition stands still if one of these lasts:
//   - its lowest unfinished record stays the same for longer than a payment may take: the
//     deadline, then StandingAfter for its end;
//   - an open transaction keeps its next record back for StandingAfter;
//   - Kafka has records, less than half of the room is taken, and none comes for StandingAfter.
//
// A payment that waits for its bank is none of them: its deadline ends the wait.
type progress struct {
	lowest, next int64 // lowest is -1 if nothing is unfinished
	// when lowest was seen first, and when nothing kept next back, or next moved, last
	lowestSince, nextSince time.Time
	standing               string // what was logged; empty: it does not stand
}

// standingInterval is how often partitions are watched. At rest Kafka is asked each fifth time.
const (
	standingInterval = time.Second
	standingRest     = 5
)

// watchPartitions reports the partitions that stand still. The others go on.
func (e *Engine) watchPartitions(ctx context.Context) {
	seen := map[int32]*progress{}
	var before []int64 // next, in the last look
	atRest := false    // nothing was unfinished then, and nothing left to fetch

	for looks := 0; host.Sleep(ctx, host.Next(standingInterval)); looks++ {
		e.assignGrown()

		owned := e.partitions()
		for number := range seen {
			if e.partition(number) == nil {
				delete(seen, number)
				e.metrics.Standing.DeleteLabelValues(strconv.Itoa(int(number)))
			}
		}
		slices.SortFunc(owned, func(a, b *partition) int { return int(a.number - b.number) })

		next := make([]int64, len(owned)) // before the bounds: an end is then never older
		for i, p := range owned {
			next[i] = p.orders.at()
		}

		if atRest && slices.Equal(next, before) && looks%standingRest != 0 {
			continue
		}

		bounds, err := stream.BoundsOf(ctx, e.direct, stream.Payments)
		if ctx.Err() != nil {
			return
		}
		before, atRest = next, err == nil
		var problems []string

		for i, p := range owned {
			s := seen[p.number]
			if s == nil {
				s = &progress{lowest: -1, next: -1}
				seen[p.number] = s
			}
			offset, why := e.stands(p, s, next[i], bounds[p.number], err == nil, time.Now())
			e.tell(ctx, p, s, offset, why)
			atRest = atRest && s.lowest < 0 && next[i] >= bounds[p.number].End
			e.overtakeIfLate(p, next[i], bounds[p.number].Stable, err == nil)

			value := 0.0
			if s.standing != "" {
				problems, value = append(problems, s.standing), 1
			}
			e.metrics.Standing.WithLabelValues(strconv.Itoa(int(p.number))).Set(value)
		}

		var standing error
		if len(problems) > 0 {
			standing = errors.New(strings.Join(problems, "; "))
		}
		e.telemetry.Health.Report(needProgress, standing)
	}
}

// stands returns the record that blocks a partition and why; nothing, if it does not stand.
func (e *Engine) stands(p *partition, s *progress, next int64, b stream.Bounds, known bool,
	now time.Time) (offset int64, why string) {
	lowest, unfinished := p.offsets.lowest()
	if !unfinished {
		lowest = -1
	}

	if lowest != s.lowest {
		s.lowest, s.lowestSince = lowest, now
	}
	inTransaction := known && b.Stable <= next && next < b.End
	payments, bytes := e.room.InFlight()

	wanted := known && next < b.End && 2*payments < e.config.InFlightMax && 2*bytes < e.config.InFlightBytesMax
	if next != s.next || !inTransaction && !wanted {
		s.next, s.nextSince = next, now
	}

	switch {
	case lowest >= 0 && now.Sub(s.lowestSince) > e.config.Deadline+e.config.StandingAfter:
		return lowest, "it is not finished"
	case now.Sub(s.nextSince) <= e.config.StandingAfter:
		return 0, ""
	case inTransaction:
		return next, "it is in a transaction that was not ended: nobody may write to " + stream.Payments +
			" in a transaction; abort it"
	}

	return next, fmt.Sprintf("Kafka has records up to offset %d and gives none", b.End-1)
}

// tell logs when a partition begins to stand, and when it moves again.
func (e *Engine) tell(ctx context.Context, p *partition, s *progress, offset int64, why string) {
	switch {
	case why == "" && s.standing != "":
		s.standing = ""
		e.log.Info("the partition moves again", zap.Int32("partition", p.number))
	case why != "" && s.standing == "":
		id, detail := e.examine(ctx, p, offset)
		s.standing = fmt.Sprintf("partition %d stands still at offset %d (%s): %s%s", p.number, offset, id, why, detail)
		e.log.Warn("a partition stands still", zap.Int32("partition", p.number), zap.Int64("offset", offset),
			zap.String("end_to_end_id", id), zap.String("why", why+detail))
	}
}

// examine returns the id of the record at an offset, and what its order waits for.
func (e *Engine) examine(ctx context.Context, p *partition, offset int64) (id, detail string) {
	id = "no readable key"

	if key, producer, err := stream.KeyAt(ctx, e.direct, stream.Payments, p.number, offset,
		e.config.Stream.BatchMax()); err == nil {
		detail = fmt.Sprintf("; producer id %d", producer)
		if key != "" {
			id = fmt.Sprintf("%.64q", key)
		}
	}

	if offset >= p.orders.at() {
		return id, detail
	}
	answer := make(chan string, 1)
	p.inbox.put(event{kind: examined, offset: offset, answer: answer})

	select {
	case detail = <-answer:
	case <-p.done:
	case <-ctx.Done():
	case <-time.After(standingInterval):
		detail = ": the partition's goroutine does not answer"
	}

	return id, detail
}
