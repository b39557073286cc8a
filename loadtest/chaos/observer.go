package chaos

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/loadtest/answers"
	"github.com/liquida/liquida/platform/pix"
)

// observer remembers when payments settled, as their reports say.
type observer struct {
	*answers.Observer
	start time.Time

	mu      sync.Mutex
	settled map[int32][]time.Duration // by partition: time of the report since the start
	sent    map[int32][]time.Duration // when these payments should have been sent
}

func observe(ctx context.Context, kafka []kgo.Opt, judge *answers.Judge, start time.Time) (*observer, error) {
	o := &observer{start: start, settled: map[int32][]time.Duration{}, sent: map[int32][]time.Duration{}}
	var err error
	o.Observer, err = answers.Observe(ctx, kafka, judge, o.count)

	return o, err
}

func (o *observer) count(r *kgo.Record, id pix.EndToEndID, outcome answers.Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()

	if !outcome.Settled {
		return
	}
	at := r.Timestamp.Sub(o.start)
	o.settled[r.Partition] = append(o.settled[r.Partition], at)
	o.sent[r.Partition] = append(o.sent[r.Partition], intended(id).Sub(o.start))
}

// intended returns when a payment should have been sent, which ids of the load say.
func intended(id pix.EndToEndID) time.Time {
	return id.Time().Add(time.Duration(id.OrderedSuffix()) * time.Microsecond)
}

// recovery finds what a fault did to its partitions (all if none are given): the time from its
// beginning to the first payment settled in any of them, the longest standstill of one of them, during
// the fault or soon after, and when what waited was caught up.
func (o *observer) recovery(e *Event) {
	o.mu.Lock()
	defer o.mu.Unlock()

	partitions := e.Partitions
	if len(partitions) == 0 {
		partitions = slices.Collect(maps.Keys(o.settled))
	}
	began, ended, first, standstill := inSeconds(e.Began), inSeconds(e.Ended), time.Duration(-1), time.Duration(0)
	stoodUntil := began
	var allSent, allSettled []time.Duration

	for _, partition := range partitions {
		times := o.settled[partition]
		slices.Sort(times)
		allSent, allSettled = append(allSent, o.sent[partition]...), append(allSettled, times...)

		after, _ := slices.BinarySearch(times, began)
		if after < len(times) && (first < 0 || times[after]-began < first) {
			first = times[after] - began
		}

		before := began
		for _, at := range times[after:] {
			if before > ended+aftermath {
				break
			}

			if at-before > standstill {
				standstill, stoodUntil = at-before, at
			}
			before = at
		}
	}
	e.FirstSettled, e.Standstill, e.CaughtUp = first.Seconds(), standstill.Seconds(),
		caughtUp(allSent, allSettled, began, stoodUntil)
}

func inSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// caughtUp returns the seconds from began to when, after the standstill that ended at from, no more
// payments waited than in the two seconds before began; negative: never. It sorts both lists.
func caughtUp(sent, settled []time.Duration, began, from time.Duration) float64 {
	slices.Sort(sent)
	slices.Sort(settled)

	most, next := 0, 0
	for i, at := range settled {
		for next < len(sent) && sent[next] <= at {
			next++
		}

		waiting := next - i - 1
		switch {
		case at < began-aftermath:
		case at < began:
			most = max(most, waiting)
		case at >= from && waiting <= most:
			return (at - began).Seconds()
		}
	}

	return -1
}

// aftermath is the time after a fault in which a standstill counts as its effect, and the time before
// it that counts as normal.
const aftermath = 2 * time.Second
