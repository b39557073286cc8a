package kit

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/ports"
)

// Broker is a Kafka broker over TCP. It keeps its data and address when it is stopped and
// started again, so kfake.SeedTopics works at the first start alone.
type Broker struct {
	Address string

	t       testing.TB
	options []kfake.Opt
	cluster *kfake.Cluster
}

// NewBroker prepares a broker, which Start starts with these options. It ends with the test.
func NewBroker(t testing.TB, options ...kfake.Opt) *Broker {
	t.Helper()
	b := &Broker{Address: ports.Free(), t: t}
	b.options = append([]kfake.Opt{
		kfake.NumBrokers(1), kfake.DataDir(t.TempDir()),
		kfake.ListenFn(func(network, _ string) (net.Listener, error) { return net.Listen(network, b.Address) }),
	}, options...)
	t.Cleanup(b.Stop)

	return b
}

// StartBroker starts a broker.
func StartBroker(t testing.TB, options ...kfake.Opt) *Broker {
	t.Helper()
	b := NewBroker(t, options...)
	b.Start()

	return b
}

// Start starts the broker with the options of NewBroker and more.
func (b *Broker) Start(more ...kfake.Opt) {
	b.t.Helper()
	// While this process starts a program, that program has a copy of each open socket for a moment: the
	// port of a listener that has just closed is still taken.
	for giveUp := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		cluster, err := kfake.NewCluster(append(b.options[:len(b.options):len(b.options)], more...)...)
		if err == nil {
			b.cluster = cluster
			return
		}

		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(giveUp) {
			b.t.Fatal(err)
		}
	}
}

// Control changes how the running broker answers, with kfake.Cluster.ControlKey.
func (b *Broker) Control(change func(*kfake.Cluster)) { change(b.cluster) }

// Stop closes the broker and its connections.
func (b *Broker) Stop() {
	if b.cluster != nil {
		b.cluster.Close()
		b.cluster = nil
	}
}

// Client connects to the broker. Records name their partition. It ends with the test.
func (b *Broker) Client(options ...kgo.Opt) *kgo.Client {
	b.t.Helper()

	client, err := kgo.NewClient(
		append([]kgo.Opt{kgo.SeedBrokers(b.Address), kgo.RecordPartitioner(kgo.ManualPartitioner())}, options...)...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(client.CloseAllowingRebalance)

	return client
}
