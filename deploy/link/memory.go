package link

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Network connects programs of one process, in memory. What is written arrives later, as over TCP,
// and connections end with TCP's errors: Kafka's client tries again only after those. A goroutine
// that waits for it waits durably, as testing/synctest calls it. The zero Network is ready.
type Network struct {
	mu        sync.Mutex
	listeners map[string]*memoryListener // by port
}

// Listen listens on the port of an address, whatever its host.
func (n *Network) Listen(network, address string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()

	if n.listeners[port] != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Addr: memoryAddress(address), Err: syscall.EADDRINUSE}
	}

	if n.listeners == nil {
		n.listeners = map[string]*memoryListener{}
	}
	l := &memoryListener{network: n, address: memoryAddress(address), port: port, accepted: make(chan net.Conn),
		closed: make(chan struct{})}
	n.listeners[port] = l

	return l, nil
}

// DialContext connects to the port of an address, without a link.
func (n *Network) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return n.dial(ctx, network, address, nil)
}

func (n *Network) dial(ctx context.Context, network, address string, l *Link) (net.Conn, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	listener := n.listeners[port]
	n.mu.Unlock()
	refused := &net.OpError{Op: "dial", Net: network, Addr: memoryAddress(address), Err: errCut}

	w := newWire(l, memoryBytesMax)
	if listener == nil || l != nil && !l.enterWire(w) {
		return nil, refused
	}

	client, server := w.ends()
	select {
	case listener.accepted <- server:
		return client, nil
	case <-listener.closed:
		err = refused
	case <-ctx.Done():
		err = ctx.Err()
	}
	client.Close()
	server.Close()

	return nil, err
}

type memoryListener struct {
	network  *Network
	address  memoryAddress
	port     string
	accepted chan net.Conn
	once     sync.Once
	closed   chan struct{}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case connection := <-l.accepted:
		return connection, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "accept", Net: "memory", Addr: l.address, Err: net.ErrClosed}
	}
}

func (l *memoryListener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.network.mu.Lock()
		defer l.network.mu.Unlock()
		delete(l.network.listeners, l.port)
	})

	return nil
}

func (l *memoryListener) Addr() net.Addr { return l.address }

type memoryAddress string

func (memoryAddress) Network() string  { return "memory" }
func (a memoryAddress) String() string { return string(a) }

// Directions of a wire.
const (
	toServer = iota
	toClient
)

// wire is a connection: what both ends share.
type wire struct {
	link     *Link // nil: none
	bytesMax int   // in each direction, written and not yet read
	stays    bool  // it leaves its link not when the client closes it, but when all has arrived

	mu         sync.Mutex
	directions [2]direction
	isCut      bool
	sockets    []net.Conn // that it connects; none in memory
}

func newWire(l *Link, bytesMax int) *wire {
	w := &wire{link: l, bytesMax: bytesMax}
	for d := range w.directions {
		w.directions[d].changed.L = &w.mu
	}

	return w
}

func (w *wire) ends() (client, server *memoryConn) {
	return &memoryConn{wire: w, in: toClient, out: toServer}, &memoryConn{wire: w, in: toServer, out: toClient}
}

// direction carries data one way.
type direction struct {
	changed  sync.Cond
	data     []segment
	bytes    int
	isEnded  bool // nothing more is written
	isUnread bool // nobody reads it any more
}

// segment is what one call wrote.
type segment struct {
	at   time.Time
	data []byte
}

// memoryBytesMax bounds what is under way in memory.
const memoryBytesMax = 256 << 10

func (w *wire) wake() {
	for d := range w.directions {
		w.directions[d].changed.Broadcast()
	}
}

// hold has a connection end with the wire, and reports whether the wire is still whole.
func (w *wire) hold(socket net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sockets = append(w.sockets, socket)

	return !w.isCut
}

// cut ends both ends at once. What was under way is lost.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = true
	w.wake()

	for _, socket := range w.sockets {
		// Without lingering a close is a reset: the other side sees no orderly end.
		if tcp, ok := socket.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		socket.Close()
	}
}

// linkChanged lets both ends look at the link's state.
func (w *wire) linkChanged() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wake()
}

// memoryConn is one end of a wire.
type memoryConn struct {
	*wire
	in, out int

	// Under the wire's mutex.
	isClosed    bool
	read, write deadline
}

// deadline is when reading or writing ends.
type deadline struct {
	at    time.Time // zero: never
	timer *time.Timer
}

func (d *deadline) isPast() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

func (c *memoryConn) Read(bytes []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	in := &c.directions[c.in]

	for {
		switch {
		case c.isClosed:
			return 0, c.failed("read", net.ErrClosed)
		case c.isCut:
			return 0, io.EOF
		case c.read.isPast():
			return 0, c.failed("read", os.ErrDeadlineExceeded)
		}

		delay, isOpen := c.link.passes(c.in)
		switch {
		case isOpen && len(in.data) > 0:
			if early := delay - time.Since(in.data[0].at); early > 0 {
				c.mu.Unlock()
				time.Sleep(early)
				c.mu.Lock()

				continue
			}

			return in.take(bytes, c.bytesMax), nil
		case isOpen && in.isEnded:
			return 0, io.EOF
		}
		in.changed.Wait()
	}
}

// take moves the oldest data out.
func (d *direction) take(bytes []byte, bytesMax int) int {
	n := copy(bytes, d.data[0].data)
	if d.data[0].data = d.data[0].data[n:]; len(d.data[0].data) == 0 {
		d.data = slices.Delete(d.data, 0, 1)
	}

	if d.bytes -= n; d.bytes+n > bytesMax {
		d.changed.Broadcast()
	}

	return n
}

func (c *memoryConn) Write(bytes []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := &c.directions[c.out]

	for {
		switch {
		case c.isClosed:
			return 0, c.failed("write", net.ErrClosed)
		case c.isCut, out.isUnread:
			return 0, c.failed("write", os.NewSyscallError("write", syscall.EPIPE))
		case c.write.isPast():
			return 0, c.failed("write", os.ErrDeadlineExceeded)
		case out.bytes <= c.bytesMax:
			if len(bytes) > 0 {
				out.data = append(out.data, segment{time.Now(), slices.Clone(bytes)})
				out.bytes += len(bytes)
				out.changed.Broadcast()
			}

			return len(bytes), nil
		}
		out.changed.Wait()
	}
}

func (c *memoryConn) failed(op string, err error) error {
	return &net.OpError{Op: op, Net: "memory", Err: err}
}

// Close closes this end. The other one still reads what was written.
func (c *memoryConn) Close() error {
	c.mu.Lock()
	c.isClosed, c.directions[c.out].isEnded, c.directions[c.in].isUnread = true, true, true
	c.read.stop()
	c.write.stop()
	c.wake()
	c.mu.Unlock()

	if c.link != nil && c.out == toServer && !c.stays {
		c.link.leaveWire(c.wire)
	}

	return nil
}

func (c *memoryConn) LocalAddr() net.Addr  { return memoryAddress("memory") }
func (c *memoryConn) RemoteAddr() net.Addr { return memoryAddress("memory") }

func (c *memoryConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *memoryConn) SetReadDeadline(t time.Time) error  { return c.setDeadline(&c.read, t) }
func (c *memoryConn) SetWriteDeadline(t time.Time) error { return c.setDeadline(&c.write, t) }

func (c *memoryConn) setDeadline(d *deadline, t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.isClosed {
		return c.failed("set deadline", net.ErrClosed)
	}
	d.stop()

	if d.at = t; !t.IsZero() {
		d.timer = time.AfterFunc(time.Until(t), c.linkChanged)
	}

	return nil
}

// Between returns a whole link between a program and all that it reaches in a network in memory.
func Between(network *Network) *Link {
	l := newLink()
	l.memory = network
	return l
}

// Dial connects to a server through a link that Between made.
func (l *Link) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return l.memory.dial(ctx, network, address, l)
}

func (l *Link) enterWire(w *wire) bool {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.closed || l.state == Cut || len(l.wires) >= connectionsMax {
		return false
	}
	l.wires[w] = struct{}{}

	return true
}

func (l *Link) leaveWire(w *wire) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.wires, w)
}

// passes returns how long data takes in a direction, and whether the link lets any through now.
func (l *Link) passes(direction int) (delay time.Duration, isOpen bool) {
	if l == nil {
		return 0, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()

	switch {
	case l.state == Slow:
		return l.delay, true
	case l.state == Stalled, l.state == HalfOpen && direction == toClient:
		return 0, false
	}

	return 0, true
}
