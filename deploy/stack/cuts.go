package stack

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/liquida/liquida/deploy/link"
)

// With Config.Cuts the engines and the producer reach broker and ledger through links of the stack's process, which
// can cut those connections. Broker and ledger themselves are as ever.

// What a process can be cut from.
const (
	FromBroker = "broker"
	FromLedger = "ledger"
)

// links are those of all processes.
type links struct {
	mu   sync.Mutex
	open map[[2]string]*link.Link // by process and server
	cut  map[string][]string      // by process
}

// cuttable reports whether a process has links.
func (s *Stack) cuttable(process string) bool {
	kind := kindOf(process)
	return s.config().Cuts && (kind == Engine || kind == Producer)
}

// to returns the address of the link from a process to a server, and opens it if there is none.
func (l *links) to(process, server, address string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if opened := l.open[[2]string{process, server}]; opened != nil {
		return opened.Address(), nil
	}

	listen := link.Listen
	if server == Broker {
		listen = link.ListenKafka
	}

	opened, err := listen(address)
	if err != nil {
		return "", err
	}
	l.open[[2]string{process, server}] = opened

	return opened.Address(), nil
}

func (l *links) cutFrom(process string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(slices.Values(l.cut[process]))
}

func (l *links) close() {
	l.mu.Lock()
	defer l.mu.Unlock()

	for _, one := range l.open {
		one.Close()
	}
}

// cut cuts a process from one end, or mends its links to there.
func (s *Stack) cut(process, from string, isCut bool) error {
	servers, known := map[string][]string{FromBroker: {Broker}, FromLedger: s.Replicas()}[from]
	l := &s.links
	l.mu.Lock()
	defer l.mu.Unlock()

	switch {
	case !s.config().Cuts:
		return errors.New("the stack has no links: start it with make up CUTS=on")
	case l.open[[2]string{process, Broker}] == nil:
		return fmt.Errorf("%s has no links: only engines and producers have", process)
	case !known:
		return fmt.Errorf("the other end is %q: it must be %s or %s", from, FromBroker, FromLedger)
	}
	state := link.Whole

	l.cut[process] = slices.DeleteFunc(l.cut[process], func(cut string) bool { return cut == from })
	if isCut {
		state, l.cut[process] = link.Cut, append(l.cut[process], from)
	}

	for _, server := range servers {
		l.open[[2]string{process, server}].Set(state, 0)
	}

	return nil
}
