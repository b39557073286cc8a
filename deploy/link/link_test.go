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

// heard takes what a server was told.
type heard chan byte

func (h heard) Write(bytes []byte) (int, error) {
	for _, b := range bytes {
		h <- b
	}

	return len(bytes), nil
}

// echo is a server that answers what it is told, and tells what it was told. It returns a link to it.
func echo(t *testing.T) (l *Link, told heard) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	kit.Must(t, err)
	t.Cleanup(func() { listener.Close() })
	told = make(heard, 100)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(connection, io.TeeReader(connection, told))
				connection.Close()
			}()
		}
	}()
	l, err = Listen(listener.Addr().String())
	kit.Must(t, err)
	t.Cleanup(l.Close)

	return l, told
}

// say connects and says something.
func say(t *testing.T, l *Link, b byte) net.Conn {
	t.Helper()
	connection, err := net.Dial("tcp", l.Address())
	kit.Must(t, err)
	t.Cleanup(func() { connection.Close() })
	_, _ = connection.Write([]byte{b})

	return connection
}

// hear waits for an answer for as long as the patience says.
func hear(connection net.Conn, patience time.Duration) (byte, error) {
	_ = connection.SetReadDeadline(time.Now().Add(patience))
	var one [1]byte
	_, err := io.ReadFull(connection, one[:])

	return one[0], err
}

const (
	long  = 10 * time.Second
	short = 200 * time.Millisecond
)

// A cut link closes connections and refuses new ones; the last of a client that has gone passes a stalled one later.
func TestLink(t *testing.T) {
	l, told := echo(t)

	connection := say(t, l, 'a')
	if got, err := hear(connection, long); got != 'a' || err != nil || <-told != 'a' {
		t.Errorf("heard %q, %v", got, err)
	}
	l.Set(Cut, 0)

	for _, cut := range []net.Conn{connection, say(t, l, 'b')} {
		if _, err := hear(cut, long); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the connection is not closed: %v", err)
		}
	}
	l.Set(Stalled, 0)
	held := say(t, l, 'c')
	say(t, l, 'd').Close()

	if got, err := hear(held, short); !errors.Is(err, os.ErrDeadlineExceeded) || len(told) > 0 {
		t.Errorf("heard %q, %v: all must be held", got, err)
	}
	l.Set(Whole, 0)

	if got, err := hear(held, long); got != 'c' || err != nil || <-told+<-told != 'c'+'d' {
		t.Errorf("heard %q, %v, and the server was not told all", got, err)
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
			t.Errorf("the client knows the broker at %s:%d, not at the link's %s", broker.Host, broker.Port,
				l.Address())
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
