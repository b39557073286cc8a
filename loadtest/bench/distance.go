package bench

import (
	"strings"
	"time"

	"github.com/liquida/liquida/deploy/link"
	"github.com/liquida/liquida/deploy/stack"
)

// distances are between two of the ledger's three replicas, and between broker and banks, there and back.
var distances = []time.Duration{time.Millisecond, 20 * time.Millisecond, 60 * time.Millisecond}

const firstReplica = stack.TigerBeetle + "-0"

// far reports whether a process is distant from a server: replicas from each other, others from the second and third of
// them, the banks from the broker. Engine, broker and producer stand beside the first replica.
func far(process, server string) bool {
	if server == stack.Broker {
		return process == stack.Simulator
	}

	return server != firstReplica || strings.HasPrefix(process, stack.TigerBeetle)
}

// slow delays what distant processes and servers say to each other.
func slow(s *stack.Stack, roundTrip time.Duration) {
	for _, process := range s.Names() {
		for _, l := range append(s.Links(process, stack.Broker), s.Links(process, stack.TigerBeetle)...) {
			l.Set(link.Slow, roundTrip/2)
		}
	}
}
