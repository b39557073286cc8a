package web

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// doorway accepts connections so that nobody can close the door to the others. A connection is
// a stranger until its caller has shown who it is. Strangers share by address, may be unused for
// a short time only, and the oldest gives way where there is no room. Known callers share with
// each other, as if there were no strangers.
type doorway struct {
	net.Listener
	max         int
	known       *Pool // by caller
	unknown     *Pool // by address
	idleTimeout time.Duration
	closed      context.Context
	close       context.CancelFunc

	mu        sync.Mutex
	strangers *list.List // of *connection, the oldest first
}

// connection is one of a doorway, whose lock guards its fields.
type connection struct {
	net.Conn
	door     *doorway
	address  string
	stranger *list.Element // nil: its caller is known, or it has ended
	caller   string        // empty: a stranger, or it has ended
	deadline time.Time     // for reads, as the server has set it
}

func newDoorway(config Config, listener net.Listener) *doorway {
	pools, most := config.Pools, config.ConnectionsMax
	d := &doorway{Listener: listener, max: most, idleTimeout: pools.config.StrangerIdleTimeout, strangers: list.New(),
		known:   pools.Pool("connections", "HTTP_CONNECTIONS_MAX", most),
		unknown: pools.Pool("connections of strangers", "HTTP_CONNECTIONS_MAX", most)}
	d.known.share, d.unknown.share = pools.config.ConnectionsShareMax, pools.config.ConnectionsShareMax
	d.closed, d.close = context.WithCancel(context.Background())

	return d
}

// Accept returns the next connection. While all that there may be are those of known callers,
// it waits, and further connections wait in the kernel.
func (d *doorway) Accept() (net.Conn, error) {
	accepted, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}

	c := &connection{Conn: accepted, door: d, address: AddressOf(accepted.RemoteAddr().String())}
	for {
		freed := d.known.Freed()
		if d.admit(c) {
			return c, nil
		}

		select {
		case <-freed:
		case <-d.closed.Done():
			accepted.Close()
			return nil, net.ErrClosed
		}
	}
}

// Close ends Accept.
func (d *doorway) Close() error {
	d.close()
	return d.Listener.Close()
}

// admit makes room for a stranger, if it can.
func (d *doorway) admit(c *connection) bool {
	d.mu.Lock()
	defer d.mu.Unlock()

	for d.known.Taken()+d.unknown.Taken() >= d.max {
		if d.strangers.Len() == 0 {
			return false
		}
		d.dismiss(d.strangers.Front())
	}

	for d.unknown.Take(c.address) != nil { // only an address that has some is refused
		oldest := d.strangers.Front()
		for oldest.Value.(*connection).address != c.address {
			oldest = oldest.Next()
		}
		d.dismiss(oldest)
	}
	c.stranger = d.strangers.PushBack(c)

	return true
}

// dismiss closes the connection of a stranger. The caller holds the lock.
func (d *doorway) dismiss(stranger *list.Element) {
	c := stranger.Value.(*connection)
	c.end()
	c.Conn.Close()
}

// end frees the permit. The caller holds the lock.
func (c *connection) end() {
	if c.stranger != nil {
		c.door.strangers.Remove(c.stranger)
		c.stranger = nil
		c.door.unknown.Free(c.address)
	}

	if c.caller != "" {
		c.door.known.Free(c.caller)
		c.caller = ""
	}
}

// Close frees the permit.
func (c *connection) Close() error {
	c.door.mu.Lock()
	c.end()
	c.door.mu.Unlock()

	return c.Conn.Close()
}

// SetReadDeadline gives a stranger less time than the server does.
func (c *connection) SetReadDeadline(t time.Time) error {
	c.door.mu.Lock()
	defer c.door.mu.Unlock()

	c.deadline = t
	if most := time.Now().Add(c.door.idleTimeout); c.stranger != nil && t.After(most) {
		t = most
	}

	return c.Conn.SetReadDeadline(t)
}

type connectionKey struct{}

// withConnection lets Known find the connection of a request.
func withConnection(ctx context.Context, accepted net.Conn) context.Context {
	if secured, ok := accepted.(*tls.Conn); ok {
		accepted = secured.NetConn()
	}

	return context.WithValue(ctx, connectionKey{}, accepted)
}

// Known says whose request it is, once the caller has shown it: from then on its connection
// counts for the caller. A problem means that the caller has too many; then the connection ends
// with the response.
func Known(w http.ResponseWriter, r *http.Request, caller string) *Problem {
	c, shared := r.Context().Value(connectionKey{}).(*connection)
	if !shared {
		return nil
	}
	c.door.mu.Lock()
	defer c.door.mu.Unlock()

	if c.caller == caller || c.caller == "" && c.stranger == nil { // known already, or ended
		return nil
	}

	if problem := c.door.known.Move(c.caller, caller); problem != nil {
		w.Header().Set("Connection", "close")
		return problem
	}

	if c.stranger != nil {
		c.end()
		_ = c.Conn.SetReadDeadline(c.deadline) // an error shows with the next read
	}
	c.caller = caller

	return nil
}

// AddressOf returns what a remote address counts as: an IPv4 address, or the /64 network that
// a host with IPv6 chooses its addresses from.
func AddressOf(remote string) string {
	port, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}

	address := port.Addr().Unmap().WithZone("")
	if address.Is6() {
		if network, err := address.Prefix(64); err == nil {
			return network.String()
		}
	}

	return address.String()
}
