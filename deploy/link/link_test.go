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

// echo returns a link to a server that answers what it is told.
func echo(t *testing.T) *Link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	kit.Must(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(connection, connection)
				connection.Close()
			}()
		}
	}()
	l, err := Listen(listener.Addr().String())
	kit.Must(t, err)
	t.Cleanup(l.Close)

	return l
}

// say connects and says something.
func say(t *testing.T, l *Link) net.Conn {
	t.Helper()
	connection, err := net.Dial("tcp", l.Address())
	kit.Must(t, err)
	t.Cleanup(func() { connection.Close() })
	_, _ = connection.Write([]byte("x"))

	return connection
}

// A cut link closes connections and refuses new ones. TestALinkInMemoryHoldsData shows a stalled one.
func TestLink(t *testing.T) {
	l := echo(t)

	hears := func(connection net.Conn) error {
		_ = connection.SetReadDeadline(time.Now().Add(10 * time.Second))
		return kit.ErrorOf(io.ReadFull(connection, make([]byte, 1)))
	}
	connection := say(t, l)
	kit.Must(t, hears(connection))
	l.Set(Cut, 0)

	for _, cut := range []net.Conn{connection, say(t, l)} {
		if err := hears(cut); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the connection is not closed: %v", err)
		}
	}
	l.Set(Whole, 0)
	kit.Must(t, hears(say(t, l)))
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
