package chaos

import (
	"fmt"
	"strings"
	"sync"

	"github.com/liquida/liquida/deploy/link"
	"github.com/liquida/liquida/deploy/stack"
)

// links are the network between the programs and their servers: one link for each pair. Only
// processes of this machine can use them.
type links struct {
	mu sync.Mutex
	of map[string]*programLinks // by the program's process name
}

// programLinks are the links of one program.
type programLinks struct {
	kafka  []*link.Link
	ledger []*link.Link // one for each server
}

// to returns the links to a destination.
func (p *programLinks) to(d destination) []*link.Link {
	if d == toKafka {
		return p.kafka
	}
	return p.ledger
}

// via opens the link from a program to a server (stack.Config.Via).
func (l *links) via(process, server, address string) (string, error) {
	switch {
	case strings.HasPrefix(process, "engine-"), process == stack.Producer:
	case process == stack.Simulator && server == stack.Broker: // it does not use the ledger
	default:
		return address, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	program := l.of[process]
	if program == nil {
		program = &programLinks{}
		l.of[process] = program
	}
	listen, kept := link.Listen, &program.ledger
	if server == stack.Broker {
		listen, kept = link.ListenKafka, &program.kafka
	}
	made, err := listen(address)
	if err != nil {
		return "", err
	}
	*kept = append(*kept, made)
	return made.Address(), nil
}

// between returns the links from a program to a destination.
func (l *links) between(process string, d destination) ([]*link.Link, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	program := l.of[process]
	if program == nil || len(program.to(d)) == 0 {
		return nil, fmt.Errorf("%s has no links to %s", process, d)
	}
	return program.to(d), nil
}

func (l *links) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, program := range l.of {
		for _, one := range append(program.ledger, program.kafka...) {
			one.Close()
		}
	}
}

// destination is the server of a link.
type destination int

const (
	toKafka destination = iota
	toLedger
)

func (d destination) String() string { return [...]string{"Kafka", "the ledger"}[d] }
