package link

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/kit"
)

// echo is a server that answers what it is told, and tells what it was told.
func echo(t *testing.T) (address string, told <-chan byte) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	kit.Must(t, err)
	t.Cleanup(func() { listener.Close() })
	heard := make(chan byte, 100)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				var one [1]byte
				for {
					if _, err := io.ReadFull(connection, one[:]); err != nil {
						return
					}
					heard <- one[0]
					if _, err := connection.Write(one[:]); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String(), heard
}

func open(t *testing.T, server string) *Link {
	t.Helper()
	l, err := Listen(server)
	kit.Must(t, err)
	t.Cleanup(l.Close)
	return l
}

func dial(t *testing.T, l *Link) net.Conn {
	t.Helper()
	connection, err := net.Dial("tcp", l.Address())
	kit.Must(t, err)
	t.Cleanup(func() { connection.Close() })
	return connection
}

func say(t *testing.T, connection net.Conn, b byte) {
	t.Helper()
	kit.Must(t, kit.ErrorOf(connection.Write([]byte{b})))
}

// hear waits for an answer for as long as the patience says.
func hear(t *testing.T, connection net.Conn, patience time.Duration) (byte, error) {
	t.Helper()
	kit.Must(t, connection.SetReadDeadline(time.Now().Add(patience)))
	var one [1]byte
	_, err := io.ReadFull(connection, one[:])
	return one[0], err
}

const (
	long  = 10 * time.Second
	short = 200 * time.Millisecond
)

func hears(t *testing.T, connection net.Conn, want byte) {
	t.Helper()
	if got, err := hear(t, connection, long); got != want || err != nil {
		t.Errorf("heard %q, %v; want %q", got, err, want)
	}
}

func isClosed(t *testing.T, connection net.Conn) {
	t.Helper()
	if _, err := hear(t, connection, long); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection is not closed: %v", err)
	}
}

func TestCutLinkClosesAndRefuses(t *testing.T) {
	server, _ := echo(t)
	l := open(t, server)
	connection := dial(t, l)
	say(t, connection, 'a')
	hears(t, connection, 'a')
	l.Set(Cut, 0)
	isClosed(t, connection)
	isClosed(t, dial(t, l))
	l.Set(Whole, 0)
	again := dial(t, l)
	say(t, again, 'b')
	hears(t, again, 'b')
}

// A half-open link holds responses, a stalled one requests, too, also the last of a client that has gone.
func TestLinkHoldsData(t *testing.T) {
	for _, state := range []State{HalfOpen, Stalled} {
		server, told := echo(t)
		l := open(t, server)
		connection, gone := dial(t, l), dial(t, l)
		l.Set(state, 0)
		patience := short
		if state == HalfOpen {
			patience = long
		}
		say(t, connection, 'a')
		select {
		case <-told:
			if state == Stalled {
				t.Error("the request reached the server")
			}
		case <-time.After(patience):
			if state == HalfOpen {
				t.Error("the request did not reach the server")
			}
		}
		if got, err := hear(t, connection, short); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("heard %q, %v: the answer must be held", got, err)
		}
		if state == Stalled {
			say(t, gone, 'b')
			gone.Close()
		}
		l.Set(Whole, 0)
		hears(t, connection, 'a')
		if state == Stalled {
			if both := <-told + <-told; both != 'a'+'b' {
				t.Errorf("the server was not told all, but %d", both)
			}
		}
		l.Close()
	}
}

func TestSlowLinkDelaysBothWays(t *testing.T) {
	server, _ := echo(t)
	l := open(t, server)
	l.Set(Slow, short)
	connection := dial(t, l)
	began := time.Now()
	say(t, connection, 'a')
	hears(t, connection, 'a')
	if took := time.Since(began); took < 2*short {
		t.Errorf("the answer took %v, both ways together must take %v", took, 2*short)
	}
}

// A client of Kafka reaches everything through the link only: once it is cut, nothing
// works, although the broker is there.
func TestKafkaClientStaysOnTheLink(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "topic"))
	kit.Must(t, err)
	t.Cleanup(cluster.Close)
	l, err := ListenKafka(cluster.ListenAddrs()[0])
	kit.Must(t, err)
	t.Cleanup(l.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(l.Address()), kgo.ConsumerGroup("group"), kgo.ConsumeTopics("topic"))
	kit.Must(t, err)
	t.Cleanup(client.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	// Producing takes metadata; consuming in a group takes the coordinator.
	kit.Must(t, client.ProduceSync(ctx, &kgo.Record{Topic: "topic", Value: []byte("1")}).FirstErr())
	if records := client.PollFetches(ctx).Records(); len(records) != 1 {
		t.Fatalf("fetched %d records", len(records))
	}
	brokers, err := kadm.NewClient(client).ListBrokers(ctx)
	kit.Must(t, err)
	for _, broker := range brokers {
		if net.JoinHostPort(broker.Host, strconv.Itoa(int(broker.Port))) != l.Address() {
			t.Errorf("the client knows the broker at %s:%d, not at the link's %s", broker.Host, broker.Port, l.Address())
		}
	}
	l.Set(Cut, 0)
	cut, cancelCut := context.WithTimeout(t.Context(), time.Second)
	defer cancelCut()
	if err := client.Ping(cut); err == nil {
		t.Error("the broker answers around the link")
	}
	l.Set(Whole, 0)
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: "topic", Value: []byte("3")}).FirstErr(); err != nil {
		t.Errorf("after it was made whole: %v", err)
	}
}
