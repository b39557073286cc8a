package simulation

import (
	"math/rand/v2"
	"time"
)

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
		p.doorGap, p.hold, p.asks = p.gap, sparseHoldMax, 0.5
	}
	return p
}

// sending returns how long the first payments take to be sent, or all of them with 0.
func (p pace) sending(first int) time.Duration {
	payments := p.payments
	if first > 0 {
		payments = min(payments, first)
	}
	return time.Duration(float64(payments) / p.rate * float64(time.Second))
}
