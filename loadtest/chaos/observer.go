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
}

func observe(ctx context.Context, kafka []kgo.Opt, judge *answers.Judge, start time.Time) (*observer, error) {
	o := &observer{start: start, settled: map[int32][]time.Duration{}}
	var err error
	o.Observer, err = answers.Observe(ctx, kafka, judge, o.count)

	return o, err
}

func (o *observer) count(r *kgo.Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.settled[r.Partition] = append(o.settled[r.Partition], r.Timestamp.Sub(o.start))
}

// intended returns when a payment should have been sent, which ids of the load say.
func intended(id pix.EndToEndID) time.Time {
	return id.Time().Add(time.Duration(id.OrderedSuffix()) * time.Microsecond)
}

// recovery finds what a fault did to its partitions (all if none are given): the time from its
// beginning to the first payment settled in any of them, and the longest standstill of one of them, during
// the fault or soon after.
func (o *observer) recovery(e *Event) {
	o.mu.Lock()
	defer o.mu.Unlock()

	partitions := e.Partitions
	if len(partitions) == 0 {
		partitions = slices.Collect(maps.Keys(o.settled))
	}
	began, ended, first, standstill := inSeconds(e.Began), inSeconds(e.Ended), time.Duration(-1), time.Duration(0)

	for _, partition := range partitions {
		times := o.settled[partition]
		slices.Sort(times)

		after, _ := slices.BinarySearch(times, began)
		if after < len(times) && (first < 0 || times[after]-began < first) {
			first = times[after] - began
		}

		before := began
		for _, at := range times[after:] {
			if before > ended+aftermath {
				break
			}

			standstill, before = max(standstill, at-before), at
		}
	}
	e.FirstSettled, e.Standstill = first.Seconds(), standstill.Seconds()
}

func inSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// aftermath is the time after a fault in which a standstill counts as its effect.
const aftermath = 2 * time.Second
