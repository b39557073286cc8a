package stack

import (
	"errors"
	"fmt"
	"sync"

	"github.com/liquida/liquida/deploy/link"
)

// What the control room can cut a process from, with Config.Cuts.
const (
	FromBroker = "broker"
	FromLedger = "ledger"
)

var cutFrom = map[string]string{FromBroker: Broker, FromLedger: TigerBeetle}

// cuttable reports whether a process can be cut from its servers, with Config.Cuts.
func cuttable(process, _ string) bool {
	kind := kindOf(process)
	return kind == Engine || kind == Producer
}

// links are those of all processes, by process and server.
type links struct {
	mu   sync.Mutex
	open map[[2]string]*link.Link
}

// to returns the address of the link from a process to a server, and opens it if there is none.
func (l *links) to(process, server, address string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ends := [2]string{process, server}

	if l.open[ends] == nil {
		listen := link.Listen
		if server == Broker {
			listen = link.ListenKafka
		}

		opened, err := listen(address)
		if err != nil {
			return "", err
		}
		l.open[ends] = opened
	}

	return l.open[ends].Address(), nil
}

func (l *links) close() {
	l.mu.Lock()
	defer l.mu.Unlock()

	for _, one := range l.open {
		one.Close()
	}
	clear(l.open)
}

// Links returns the links from a process to the servers of a kind, Broker or TigerBeetle: see Config.Linked.
func (s *Stack) Links(process, kind string) (found []*link.Link) {
	s.links.mu.Lock()
	defer s.links.mu.Unlock()

	for ends, one := range s.links.open {
		if ends[0] == process && kindOf(ends[1]) == kind {
			found = append(found, one)
		}
	}

	return found
}

// isCutFrom returns what a process is cut from.
func (s *Stack) isCutFrom(process string) (cut []string) {
	for _, from := range []string{FromBroker, FromLedger} {
		if open := s.Links(process, cutFrom[from]); len(open) > 0 && open[0].State() == link.Cut {
			cut = append(cut, from)
		}
	}

	return cut
}

// cut cuts a process from one end, or mends its links to there.
func (s *Stack) cut(process, from string, state link.State) error {
	open := s.Links(process, cutFrom[from])
	switch {
	case !s.config().Cuts:
		return errors.New("the stack has no links: start it with make up CUTS=on")
	case len(open) == 0:
		return fmt.Errorf("%s has no links to %q: engines and producers have them, to %s and %s", process, from,
			FromBroker, FromLedger)
	}

	for _, one := range open {
		one.Set(state, 0)
	}

	return nil
}
