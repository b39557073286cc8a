package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// event is one fault of a world: what happens, where, when and for how long. The events of a world
// follow from its seed alone.
type event struct {
	Number int // in the world, from 1, by the time of its beginning
	Lane   string
	Kind   string
	At     time.Duration // since the world began
	Hold   time.Duration

	inject func(w *world, s *service, random *rand.Rand, hold time.Duration)
	of     *service
	random *rand.Rand // decides everything random inside the fault
}

func (e event) String() string {
	return fmt.Sprintf("fault %d, %s: %s for %v", e.Number, e.Lane, e.Kind, e.Hold)
}

// holdMax bounds a fault: four sessions of an engine, and less than a payment may take.
const holdMax = 12 * time.Second

// sparseHoldMax bounds a fault of a sparse world: no longer than a service may be frozen.
const sparseHoldMax = 20 * time.Second

// plan returns the events of all lanes until a time, in their order. In each lane one follows the
// other, with so much time between them in the mean.
func plan(seed uint64, lanes []lane, p pace, until time.Duration) (events []event) {
	for i, l := range lanes {
		random := chance(seed, uint64(i+1)) //nolint:gosec // few
		gap := p.gap
		if l.of != nil && l.of.clients != nil { // what a producer says is in doubt only while it loses Kafka
			gap = min(gap, p.doorGap)
		}
		for at := between(random, 0, 2*gap); at < until; at += between(random, 0, 2*gap) {
			f := l.faults[random.IntN(len(l.faults))]
			e := event{Lane: l.target, Kind: f.kind, At: at, Hold: between(random, 0, p.hold),
				inject: f.inject, of: l.of, random: chance(seed, random.Uint64())}
			events = append(events, e)
			at += e.Hold
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return int(a.At - b.At) })
	for i := range events {
		events[i].Number = i + 1
	}
	return events
}

// breakThings makes the chosen faults. Those of one lane happen one after the other.
func (w *world) breakThings(events []event) {
	var all sync.WaitGroup
	byLane := map[string][]event{}
	for _, e := range events {
		if chosen.has(e.Number) {
			byLane[e.Lane] = append(byLane[e.Lane], e)
		}
	}
	for _, events := range byLane {
		all.Go(func() {
			for _, e := range events {
				time.Sleep(time.Until(w.began.Add(e.At)))
				w.note("%v", e)
				w.mu.Lock()
				w.count[e.Kind]++
				w.mu.Unlock()
				e.inject(w, e.of, e.random, e.Hold)
			}
		})
	}
	all.Wait()
}
