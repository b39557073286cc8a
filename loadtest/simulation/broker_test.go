package simulation

import (
	"context"
	"errors"
	"math"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/liquida/liquida/platform/stream"
)

// broker is a Kafka cluster that keeps its data in a folder, so that it can start again. All its
// nodes are in one process: they start and end together.
type broker struct {
	w     *world
	nodes int

	mu          sync.Mutex
	cluster     *kfake.Cluster
	folder      string
	connections map[net.Conn]struct{}
	listeners   []net.Listener
	delay       func() time.Duration // of what a client sends; nil: none
}

const firstBrokerPort = 9092

func newBroker(w *world, nodes int) *broker {
	b := &broker{w: w, nodes: nodes, folder: w.t.TempDir(), connections: map[net.Conn]struct{}{}}
	b.start(kfake.SeedTopics(partitions, stream.TopicNames()...))
	return b
}

// start begins a life of the broker with the data of its folder.
func (b *broker) start(more ...kfake.Opt) {
	var ports []int
	for i := range b.nodes {
		ports = append(ports, firstBrokerPort+i)
	}

	cluster, err := kfake.NewCluster(
		append(more, kfake.Ports(ports...), kfake.DataDir(b.folder), kfake.ListenFn(b.listen),
			kfake.BrokerConfigs(map[string]string{"group.min.session.timeout.ms": "1000",
				"message.max.bytes": "1048576"}))...)
	if err != nil {
		b.w.t.Error(err)
		return
	}
	// It answers as a broker whose operator subscribed to no metrics of clients. This one would ask for all of them
	// every 30 s, and nobody would read them.
	cluster.ControlKey(kmsg.GetTelemetrySubscriptions.Int16(), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		response := request.ResponseKind().(*kmsg.GetTelemetrySubscriptionsResponse)
		response.ClientInstanceID, response.PushIntervalMillis = [16]byte{1}, math.MaxInt32

		return response, nil, true
	})
	// One node has what it acknowledged. Of several, the leader may die before the others have it.
	cluster.ControlKey(kmsg.Produce.Int16(), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()

		if acks := request.(*kmsg.ProduceRequest).Acks; acks != -1 {
			b.w.t.Errorf("broken law: what is produced is acknowledged by all in-sync replicas: a request asked for acks=%d",
				acks)
		}

		return nil, nil, false
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cluster = cluster
}

// now returns the cluster that runs, or that ran last.
func (b *broker) now() *kfake.Cluster {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cluster
}

func (b *broker) close() { b.now().Close() }

// listen remembers listener and connections, so that a death can end all of them in one instant.
func (b *broker) listen(network, address string) (net.Listener, error) {
	l, err := b.w.network.Listen(network, address)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listeners = append(b.listeners, l)

	return listener{l, b}, nil
}

type listener struct {
	net.Listener
	b *broker
}

func (l listener) Accept() (net.Conn, error) {
	connection, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	l.b.connections[connection] = struct{}{}

	return delayed{connection, l.b}, nil
}

// delayed is the broker's side of a connection.
type delayed struct {
	net.Conn
	b *broker
}

func (d delayed) Read(p []byte) (int, error) {
	d.b.mu.Lock()
	delay := d.b.delay
	d.b.mu.Unlock()
	n, err := d.Conn.Read(p)

	if delay != nil {
		select {
		case <-time.After(delay()):
		case <-d.b.w.ends.Done():
		}
	}

	return n, err
}

// setDelay delays requests. Those behind them on a connection wait, the others pass.
func (b *broker) setDelay(delay func() time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.delay = delay
}

// cut ends all connections, and takes no new ones.
func (b *broker) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()

	for _, l := range b.listeners {
		l.Close()
	}

	for connection := range b.connections {
		connection.Close()
	}
	b.listeners = nil
	clear(b.connections)
}

// restart stops the broker in order, and starts it again after a while.
func (b *broker) restart(down time.Duration) {
	b.close()
	b.cut()
	time.Sleep(down)
	b.start()
}

var errDies = errors.New("the broker dies")

// kill ends the broker between two requests, as a power cut of the program: nobody gets a response
// any more, and what the files hold in that instant is what the next life begins with.
func (b *broker) kill(down time.Duration) {
	cluster, folder := b.now(), b.w.t.TempDir()
	dead := make(chan error, 1)
	cluster.Control(func(kmsg.Request) (kmsg.Response, error, bool) { // it runs where the broker changes its data
		b.cut()
		dead <- os.CopyFS(filepath.Join(folder, "data"), os.DirFS(b.folder))
		return nil, errDies, true
	})
	ctx, cancel := context.WithTimeout(b.w.ends, time.Minute)
	defer cancel()
	go func() { _ = b.w.client.Ping(ctx) }() // a request to die at

	select {
	case err := <-dead:
		if err != nil {
			b.w.t.Error(err)
			return
		}
	case <-ctx.Done():
		return
	}
	cluster.Close() // what it still writes goes to the old folder
	b.folder = filepath.Join(folder, "data")
	// This broker would believe what an earlier life wrote about its partitions when it stopped in order, also after a
	// death: a transaction that was open then would stay open for good, which no other broker does. Without it, it
	// reads its segments.
	files, err := filepath.Glob(filepath.Join(b.folder, "partitions", "*", "snapshot.json"))
	for _, file := range files {
		err = errors.Join(err, os.Remove(file))
	}

	if err != nil {
		b.w.t.Error(err)
	}
	time.Sleep(down)
	b.start()
}
