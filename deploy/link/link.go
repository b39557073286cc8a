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

	mu      sync.Mutex
	state   State
	delay   time.Duration
	changed chan struct{} // closed at the next change of state
	closed  bool
	open    map[net.Conn]struct{}
	wires   map[*wire]struct{} // in memory
}

const (
	bufferBytes    = 64 << 10
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

func newLink() *Link {
	return &Link{changed: make(chan struct{}), open: map[net.Conn]struct{}{}, wires: map[*wire]struct{}{}}
}

// errCut is what TCP says where nobody listens.
var errCut = syscall.ECONNREFUSED

// Address is where clients connect in place of the server.
func (l *Link) Address() string { return l.listener.Addr().String() }

// Set changes the state, at once also for open connections. Only Slow uses the delay.
func (l *Link) Set(state State, delay time.Duration) {
	l.mu.Lock()
	l.state, l.delay = state, delay
	close(l.changed)
	l.changed = make(chan struct{})
	if state == Cut {
		l.closeAll()
	}
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
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.changed)
		if l.listener != nil {
			l.listener.Close()
		}
		l.closeAll()
	}
	wires := slices.Collect(maps.Keys(l.wires))
	l.mu.Unlock()
	for _, w := range wires {
		w.cut()
	}
	l.handlers.Wait()
}

func (l *Link) closeAll() {
	for connection := range l.open {
		// Without lingering a close is a reset: the other side sees no orderly end.
		if tcp, ok := connection.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		connection.Close()
	}
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
		if !l.enter(client) {
			client.Close()
			continue
		}
		l.handlers.Go(func() { l.carry(client) })
	}
}

// enter adds a connection, unless the link is cut or full.
func (l *Link) enter(connection net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isOpen() {
		return false
	}
	l.open[connection] = struct{}{}
	return true
}

// isOpen reports whether the link takes another connection.
func (l *Link) isOpen() bool {
	return !l.closed && l.state != Cut && len(l.open)+len(l.wires) < connectionsMax
}

func (l *Link) leave(connection net.Conn) {
	connection.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, connection)
}

// carry connects a client to the server.
func (l *Link) carry(client net.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	server, err := new(net.Dialer).DialContext(ctx, "tcp", l.server)
	if err != nil {
		l.leave(client)
		return
	}
	if !l.enter(server) {
		l.leave(client)
		server.Close()
		return
	}
	l.join(client, server)
}

// join copies data between a client and the server until one side ends.
func (l *Link) join(client, server net.Conn) {
	defer l.leave(client)
	defer l.leave(server)
	requests, responses := io.Reader(client), io.Reader(server)
	if l.kafka {
		requests, responses = rewriteAddresses(requests, responses, l.Address())
	}
	var both sync.WaitGroup
	pump := func(to net.Conn, from io.Reader, isResponse bool) {
		// The end of one direction ends both: Kafka and TigerBeetle use no half-closed
		// connections, and no direction may outlive the other.
		defer client.Close()
		defer server.Close()
		l.pump(to, from, isResponse)
	}
	both.Go(func() { pump(server, requests, false) })
	both.Go(func() { pump(client, responses, true) })
	both.Wait()
}

// chunk is data that came at an instant.
type chunk struct {
	data []byte
	at   time.Time
}

// chunksMax bounds what is under way in one direction: as much as a buffer each.
const chunksMax = 256

// pump reads while earlier data still waits, as a long line would: a delay costs latency, not throughput.
func (l *Link) pump(to io.Writer, from io.Reader, isResponse bool) {
	chunks, ended := make(chan chunk, chunksMax), make(chan struct{})
	defer close(ended)
	go func() {
		defer close(chunks)
		buffer := make([]byte, bufferBytes)
		for {
			n, err := from.Read(buffer)
			if n > 0 {
				select {
				case chunks <- chunk{slices.Clone(buffer[:n]), time.Now()}:
				case <-ended:
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	for c := range chunks {
		if !l.await(isResponse, c.at) {
			return
		}
		if _, err := to.Write(c.data); err != nil {
			return
		}
	}
}

// await returns when data that came at an instant may pass, or false if the link closed.
func (l *Link) await(isResponse bool, came time.Time) bool {
	for {
		l.mu.Lock()
		state, delay, changed, closed := l.state, l.delay, l.changed, l.closed
		l.mu.Unlock()
		switch {
		case closed:
			return false
		case state == Slow:
			select {
			case <-time.After(time.Until(came.Add(delay))):
				return true
			case <-changed: // another state
			}
		case state == Stalled, state == HalfOpen && isResponse:
			<-changed
		default:
			return true
		}
	}
}
