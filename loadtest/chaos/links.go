package chaos

import (
	"strings"
	"sync"

	"github.com/liquida/liquida/deploy/link"
	"github.com/liquida/liquida/deploy/stack"
)

// links are the network between the programs and their servers: one link for each pair.
type links struct {
	mu  sync.Mutex
	all []opened
}

type opened struct {
	*link.Link
	process, server string
}

// via opens the link from a program to a server (stack.Config.Via).
func (l *links) via(process, server, address string) (string, error) {
	switch {
	case strings.HasPrefix(process, "engine-"), process == stack.Producer:
	case process == stack.Simulator && server == stack.Broker: // it does not use the ledger
	default:
		return address, nil
	}

	listen := link.Listen
	if server == stack.Broker {
		listen = link.ListenKafka
	}

	made, err := listen(address)
	if err != nil {
		return "", err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, opened{made, process, server})

	return made.Address(), nil
}

// between returns the links from a program to the servers of a kind.
func (l *links) between(process, kind string) (found []*link.Link) {
	l.mu.Lock()
	defer l.mu.Unlock()

	for _, o := range l.all {
		if o.process == process && strings.HasPrefix(o.server, kind) {
			found = append(found, o.Link)
		}
	}

	return found
}

func (l *links) close() {
	l.mu.Lock()
	defer l.mu.Unlock()

	for _, o := range l.all {
		o.Close()
	}
}
