package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
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

// breakThings makes the faults that -faults chooses. Those of one lane happen one after the other.
func (w *world) breakThings(events []event) {
	var all sync.WaitGroup
	byLane := map[string][]event{}
	var chosen []int

	for number := range strings.SplitSeq(*faultsOf, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(number))
		if err != nil && *faultsOf != "" {
			w.t.Errorf("-faults is %q: it must be numbers of faults, like 3,17", *faultsOf)
		}
		chosen = append(chosen, n)
	}

	for _, e := range events {
		if *faultsOf == "" || slices.Contains(chosen, e.Number) {
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

// pace is how much happens in a world, and for how long.
type pace struct {
	payments int
	rate     float64       // payments a second
	gap      time.Duration // between two faults of a lane, in the mean
	doorGap  time.Duration // as gap, at most, of a producer
	hold     time.Duration // of a fault, at most
	asks     float64       // states that clients read a second
}

// isSparse reports the kind of a world: dense for four seeds, sparse for the next four, and so on.
func isSparse(seed uint64) bool { return seed/4%2 > 0 }

// nodesMax is how many nodes of Kafka a world has at most.
const nodesMax = 3

// nodesMaxOf returns how many nodes of Kafka the world of a seed has at most. Each client keeps a fetch
// waiting at each node, and in a sparse world little else happens. Two nodes are enough for leaders that
// move, and half of the dense worlds have three.
func nodesMaxOf(seed uint64) int {
	if isSparse(seed) {
		return 1 + chance(seed, 1<<32+4).IntN(2)
	}

	return nodesMax
}

// paceOf returns the pace of a world. In a dense one payments meet each other for some minutes, and
// faults follow each other. A sparse one lives for half an hour or so: faults last longer, some overlap,
// and few payments hide what one leaves to the next.
func paceOf(seed uint64, random *rand.Rand) pace {
	p := pace{
		payments: 100 + random.IntN(400), rate: 5 + 20*random.Float64(),
		gap: between(random, 2*time.Second, 30*time.Second), doorGap: 5 * time.Second, hold: holdMax, asks: 10,
	}
	if isSparse(seed) {
		p.payments, p.rate = 200+random.IntN(300), 0.15+0.15*random.Float64()
		p.gap = between(random, 60*time.Second, 120*time.Second)
		p.doorGap, p.hold, p.asks = p.gap, 20*time.Second, 0.5 // no longer than a service may be frozen
	}

	return p
}

// sending returns how long the payments take to be sent.
func (p pace) sending() time.Duration {
	return time.Duration(float64(p.payments) / p.rate * float64(time.Second))
}
