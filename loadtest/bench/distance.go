package bench

import (
	"strings"
	"time"

	"github.com/liquida/liquida/deploy/link"
	"github.com/liquida/liquida/deploy/stack"
)

// distances are between two of the ledger's three replicas, and between broker and banks, there and back.
var distances = []time.Duration{time.Millisecond, 20 * time.Millisecond, 60 * time.Millisecond}

// distance delays what replicas say to each other, what others say to the second and third of them, and what the banks
// say to the broker. Engine, broker and producer stand beside the first replica.
type distance struct {
	roundTrip time.Duration
	links     []*link.Link
}

// via is for stack.Config.Via.
func (d *distance) via(process, server, address string) (string, error) {
	near := server == stack.Broker && process != stack.Simulator ||
		strings.HasPrefix(server, stack.TigerBeetle) && server == firstReplica &&
			!strings.HasPrefix(process, stack.TigerBeetle)
	if near {
		return address, nil
	}

	listen := link.Listen
	if server == stack.Broker {
		listen = link.ListenKafka
	}

	l, err := listen(address)
	if err != nil {
		return "", err
	}
	l.Set(link.Slow, d.roundTrip/2)
	d.links = append(d.links, l)

	return l.Address(), nil
}

const firstReplica = stack.TigerBeetle + "-0"

func (d *distance) close() {
	for _, l := range d.links {
		l.Close()
	}
}
