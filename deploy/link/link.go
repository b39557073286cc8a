// Package link breaks the network between a client and a server: a TCP proxy that cuts,
// delays or holds data. A link to Kafka also puts its own address into the broker's
// responses, so that no client bypasses it.
package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"
)

// State is what a link does with data.
type State int

const (
	// Whole passes all data at once.
	Whole State = iota
	// Cut closes connections and refuses new ones.
	Cut
	// Slow delays all data, in both directions.
	Slow
	// HalfOpen passes requests and holds responses: the server acts, and the client does not
	// know. The responses arrive when the link is whole again.
	HalfOpen
	// Stalled holds both directions and closes nothing, like an unplugged cable.
	Stalled
)

// Link listens on 127.0.0.1 and connects to one server. One made by Between has
// no listener: clients call its Dial.
type Link struct {
	listener net.Listener // nil: made by Between
	memory   *Network     // nil: made by Listen
	server   string
	kafka    bool
	handlers sync.WaitGroup

	mu     sync.Mutex
	state  State
	delay  time.Duration
	closed bool
	wires  map[*wire]struct{} // the open connections
}

const (
	connectTimeout = 5 * time.Second
	connectionsMax = 1000
)

// Listen opens a whole link to a server that speaks anything over TCP.
func Listen(server string) (*Link, error) { return listen(server, false) }

// ListenKafka opens a whole link to a Kafka cluster of one broker.
func ListenKafka(server string) (*Link, error) { return listen(server, true) }

func listen(server string, kafka bool) (*Link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("cannot open a link to %s: %w", server, err)
	}
	l := newLink()
	l.listener, l.server, l.kafka = listener, server, kafka
	l.handlers.Go(l.accept)

	return l, nil
}

func newLink() *Link { return &Link{wires: map[*wire]struct{}{}} }

// errCut is what TCP says where nobody listens.
var errCut = syscall.ECONNREFUSED

// Address is where clients connect in place of the server.
func (l *Link) Address() string { return l.listener.Addr().String() }

// State returns what the link does with data now.
func (l *Link) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// Set changes the state, at once also for open connections. Only Slow uses the delay.
func (l *Link) Set(state State, delay time.Duration) {
	l.mu.Lock()
	l.state, l.delay = state, delay
	wires := slices.Collect(maps.Keys(l.wires))
	l.mu.Unlock()

	for _, w := range wires { // not under the link's mutex: a wire takes it under its own
		if state == Cut {
			w.cut()
		} else {
			w.linkChanged()
		}
	}
}

// Close ends the link and its connections.
func (l *Link) Close() {
	if l.listener != nil {
		l.listener.Close()
	}
	l.mu.Lock()
	l.closed = true
	wires := slices.Collect(maps.Keys(l.wires))
	l.mu.Unlock()

	for _, w := range wires {
		w.cut()
	}
	l.handlers.Wait()
}

func (l *Link) accept() {
	for {
		client, err := l.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}

		if err != nil {
			time.Sleep(10 * time.Millisecond) // too many open files, perhaps for a moment
			continue
		}

		w := newWire(l, lineBytesMax)
		if w.stays = true; !l.enterWire(w) {
			client.Close()
			continue
		}
		l.handlers.Go(func() { l.carry(client, w) })
	}
}

// lineBytesMax bounds what is under way in one direction: as much as on a long line, so that a delay costs latency,
// not throughput.
const lineBytesMax = 16 << 20

// carry connects a client to the server and copies data until one side ends. Between them is a wire, as of a link in
// memory.
func (l *Link) carry(client net.Conn, w *wire) {
	defer l.leaveWire(w)
	defer client.Close()
	w.hold(client)
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()

	server, err := new(net.Dialer).DialContext(ctx, "tcp", l.server)
	if err != nil {
		return
	}
	defer server.Close()

	if !w.hold(server) {
		return
	}

	requests, responses := io.Reader(client), io.Reader(server)
	if l.kafka {
		requests, responses = rewriteAddresses(requests, responses, netip.MustParseAddrPort(l.Address()))
	}
	near, far := w.ends()
	var all sync.WaitGroup
	// The end of one direction ends both: Kafka and TigerBeetle use no half-closed connections, and no direction
	// may outlive the other.
	carry := func(to io.Writer, from io.Reader, ends ...io.Closer) {
		all.Go(func() {
			_, _ = io.Copy(to, from) // each end of a connection is as good as any other

			for _, end := range ends {
				end.Close()
			}
		})
	}
	carry(near, requests, near)
	carry(server, far, server, far)
	carry(far, responses, far)
	carry(client, near, client, near)
	all.Wait()
}
