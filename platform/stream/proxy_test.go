package stream

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/kit"
)

// A proxy or load balancer in front of a broker that went away takes connections and
// closes them at once. A record must outlive that as it outlives an address that refuses:
// an engine ends when a record cannot be produced.
func TestRecordOutlivesAProxyWithoutItsBroker(t *testing.T) {
	const partitions = 50
	broker := kit.StartBroker(t, kfake.SeedTopics(partitions, "topic"))

	client, err := Connect(Config{Brokers: []string{broker.Address}}, host.System().Dial, "patient", eyes(),
		kgo.DefaultProduceTopic("topic"), kgo.MetadataMinAge(50*time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()

	if err := client.ProduceSync(ctx, &kgo.Record{Value: []byte("with the broker")}).FirstErr(); err != nil {
		t.Fatal(err)
	}

	broker.Stop()

	proxy, err := net.Listen("tcp", broker.Address)
	if err != nil {
		t.Fatal(err)
	}
	turnedAway := make(chan int)
	go func() {
		n := 0
		defer func() { turnedAway <- n }()

		for {
			connection, err := proxy.Accept()
			if err != nil {
				return
			}
			n++
			connection.Close()
		}
	}()
	// One after the other, each to another partition: the client gives those up that it has
	// not tried to send yet when it learns that the broker is away.
	produced := make(chan error, partitions)
	for partition := range int32(partitions) {
		client.Produce(context.Background(), &kgo.Record{Partition: partition, Value: []byte("without it")},
			func(_ *kgo.Record, err error) {
				produced <- err
			})

		select {
		case err := <-produced:
			t.Fatalf("given up: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
	proxy.Close()

	if n := <-turnedAway; n < 2 {
		t.Fatalf("the client came %d times: the proxy was no obstacle", n)
	}
	broker.Start()

	for range partitions {
		select {
		case err := <-produced:
			if err != nil {
				t.Errorf("with the broker back: %v", err)
			}
		case <-ctx.Done():
			t.Fatal("not every record was produced when the broker came back")
		}
	}
}
