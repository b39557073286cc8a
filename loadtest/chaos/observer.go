package chaos

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/loadtest/answers"
	"github.com/liquida/liquida/loadtest/history"
	"github.com/liquida/liquida/platform/pix"
)

// observer remembers when payments settled, as their reports say.
type observer struct {
	*answers.Observer
	start time.Time

	mu       sync.Mutex
	settled  map[int32][]time.Duration // by partition: time of the report since the start
	waits    [][]float32               // by second of the report: latencies of settled payments in ms
	rejected map[string]int            // by reason
}

// secondsMax bounds the series.
const secondsMax = 24 * 60 * 60

func observe(ctx context.Context, kafka []kgo.Opt, recorder *history.Recorder, judge *answers.Judge, start time.Time) (*observer, error) {
	o := &observer{start: start, settled: map[int32][]time.Duration{}, rejected: map[string]int{}}
	var err error
	o.Observer, err = answers.Observe(ctx, kafka, recorder, judge, o.count)
	return o, err
}

func (o *observer) count(r *kgo.Record, id pix.EndToEndID, outcome history.Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !outcome.Settled {
		o.rejected[outcome.Reason]++
		return
	}
	at := r.Timestamp.Sub(o.start)
	o.settled[r.Partition] = append(o.settled[r.Partition], at)
	second := int(at / time.Second)
	if second < 0 || second >= secondsMax {
		return
	}
	for len(o.waits) <= second {
		o.waits = append(o.waits, nil)
	}
	o.waits[second] = append(o.waits[second], float32(r.Timestamp.Sub(intended(id)).Seconds()*1000))
}

// intended returns when a payment should have been sent, which ids of the load say.
func intended(id pix.EndToEndID) time.Time {
	return id.Time().Add(time.Duration(id.OrderedSuffix()) * time.Microsecond)
}

// recovery returns what a fault did to its partitions (all if none are given): the time from
// its beginning to the first payment settled in any of them, and the longest standstill of
// one of them, during the fault or soon after.
func (o *observer) recovery(began, ended time.Duration, partitions []int32) (first, standstill time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(partitions) == 0 {
		for partition := range o.settled {
			partitions = append(partitions, partition)
		}
	}
	first = -1
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
			standstill = max(standstill, at-before)
			before = at
		}
	}
	return first, standstill
}

// aftermath is the time after a fault in which a standstill counts as its effect.
const aftermath = 2 * time.Second
