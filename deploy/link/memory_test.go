package link

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/nettest"

	"github.com/liquida/liquida/platform/kit"
)

// pair returns both ends of a connection over a link in memory.
func pair(t *testing.T) (l *Link, client, server net.Conn) {
	t.Helper()
	network := &Network{}
	listener, err := network.Listen("tcp", "127.0.0.1:80")
	kit.Must(t, err)
	accepted := make(chan net.Conn, 1)
	go func() {
		connection, err := listener.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- connection
	}()
	l = Between(network)
	client, err = l.Dial(t.Context(), "tcp", "localhost:80")
	kit.Must(t, err)
	server = <-accepted
	t.Cleanup(func() {
		client.Close()
		server.Close()
		listener.Close()
		l.Close()
	})

	return l, client, server
}

// What every connection of package net must do: deadlines, ends, use by many at once.
func TestMemoryIsAConnection(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		_, client, server := pair(t)
		return client, server, func() { client.Close(); server.Close() }, nil
	})
}

// A stalled link in memory gives later what was written before, also what its writer wrote last of all. A
// half-open one gives requests.
func TestALinkInMemoryHoldsData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, client, server := pair(t)
		began := time.Now()
		arrived := func(end net.Conn) (text string, after time.Duration) {
			bytes := make([]byte, 100)

			n, err := end.Read(bytes)
			if err != nil {
				t.Error(err)
			}

			return string(bytes[:n]), time.Since(began)
		}
		write := func(end net.Conn, text string) {
			if _, err := end.Write([]byte(text)); err != nil {
				t.Error(err)
			}
		}
		l.Set(Slow, time.Second)
		write(client, "slow")

		if text, after := arrived(server); text != "slow" || after != time.Second {
			t.Errorf("%q arrived after %v", text, after)
		}
		l.Set(HalfOpen, 0)
		write(client, "request")
		write(server, "response")

		if text, after := arrived(server); text != "request" || after != time.Second {
			t.Errorf("half-open: %q arrived after %v", text, after)
		}
		l.Set(Stalled, 0)
		write(client, "last")
		var both sync.WaitGroup
		both.Go(func() {
			if text, after := arrived(client); text != "response" || after != 10*time.Second {
				t.Errorf("stalled: %q arrived after %v", text, after)
			}
			client.Close()
		})
		both.Go(func() {
			if text, after := arrived(server); text != "last" || after != 10*time.Second {
				t.Errorf("stalled: %q arrived after %v", text, after)
			}

			if _, err := server.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("its client has closed it: %v", err)
			}
		})
		time.Sleep(9 * time.Second)
		l.Set(Whole, 0)
		both.Wait()
	})
}
