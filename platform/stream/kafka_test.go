package stream

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/telemetry"
)

func eyes() *telemetry.Telemetry {
	return &telemetry.Telemetry{Log: zap.NewNop(), Registry: prometheus.NewRegistry(), Health: telemetry.NewHealth()}
}

func TestWatchTellsTheTruth(t *testing.T) {
	broker, eyes := kit.NewBroker(t), eyes()

	client, err := Connect(Config{Brokers: []string{broker.Address}}, host.System().Dial, "watcher", eyes)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	eyes.Health.Need(KafkaNeed)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		Watch(ctx, client, eyes, Watched{Topics: []string{Payments, Settlements}})
		close(ended)
	}()
	says := func(what, want string) {
		t.Helper()

		said := ""
		for deadline := time.Now().Add(2 * (watchInterval + watchTimeout)); time.Now().Before(deadline); time.Sleep(
			20 * time.Millisecond) {
			if said = eyes.Health.Problems()[KafkaNeed]; said == want || want != "" && strings.Contains(said, want) {
				return
			}
		}
		t.Fatalf("%s: it says %q, want %q", what, said, want)
	}
	says("no broker", "no broker of KAFKA_BROKERS answers")
	broker.Start(kfake.SeedTopics(1, Payments))
	says("one topic missing", "topic pix.settlements: UNKNOWN_TOPIC_OR_PARTITION")
	broker.Stop()
	says("broker gone", "no broker of KAFKA_BROKERS answers")
	broker.Start()
	create, topic := kmsg.NewCreateTopicsRequest(), kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = Settlements, 1, 1

	create.Topics = append(create.Topics, topic)
	if _, err := create.RequestWith(t.Context(), broker.Client()); err != nil {
		t.Fatal(err)
	}
	says("all is there", "")
	cancel()

	select {
	case <-ended:
	case <-time.After(watchTimeout + time.Second):
		t.Error("it watches on after its context has ended")
	}
}

// A record goes to its partition. Producing to an unknown topic does not create it.
func TestProducing(t *testing.T) {
	broker := kit.StartBroker(t, kfake.SeedTopics(1, Payments))

	client, err := Connect(Config{Brokers: []string{broker.Address}}, host.System().Dial, "producer", eyes(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.UnknownTopicRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()

	for _, c := range []struct {
		what   string
		record kgo.Record
		want   error
	}{
		{"a message", kgo.Record{Topic: Payments, Value: []byte("x")}, nil},
		{"a dead letter with the largest payload",
			kgo.Record{Topic: Payments, Value: make([]byte, DeadLetterPayloadBytesMax+1024)}, nil},
		{"more than fits", kgo.Record{Topic: Payments, Value: make([]byte, MessageBytesMax)}, kerr.MessageTooLarge},
		{"a topic that nobody made", kgo.Record{Topic: "pix.paymentz", Value: []byte("x")},
			kerr.UnknownTopicOrPartition},
	} {
		if err := client.ProduceSync(ctx, &c.record).FirstErr(); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.what, err, c.want)
		}
	}
}

// A client begins to fetch with the first partition that it knows the offset of, and asks for
// the others only when that fetch has ended. With nothing to fetch they would wait with it.
func TestAPartitionThatComesLaterDoesNotWaitLong(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, Settlements))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	fetching := make(chan struct{})
	var once sync.Once
	cluster.ControlKey(kmsg.Fetch.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		once.Do(func() { close(fetching) })
		return nil, nil, false
	})
	only := func(partition int32) map[string]map[int32]kgo.Offset {
		return map[string]map[int32]kgo.Offset{Settlements: {partition: kgo.NewOffset().AtStart()}}
	}

	client, err := Connect(Config{Brokers: cluster.ListenAddrs()}, host.System().Dial, "both", eyes(),
		kgo.ConsumePartitions(only(0)), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	<-fetching
	client.AddConsumePartitions(only(1))
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
	defer cancel()

	if err := client.ProduceSync(ctx,
		&kgo.Record{Topic: Settlements, Partition: 1, Value: []byte("x")}).FirstErr(); err != nil {
		t.Fatal(err)
	}

	if fetches := client.PollFetches(ctx); fetches.NumRecords() != 1 {
		t.Errorf("%v", fetches.Err())
	}
}

// A fetch of the engine takes BatchBytesMax of each partition. Of a larger batch it takes nothing,
// unless its partition is the first one with records: others could keep it back.
func TestABatchFitsIntoAFetch(t *testing.T) {
	broker := kit.StartBroker(t, kfake.SeedTopics(2, Payments))

	client, err := Connect(Config{Brokers: []string{broker.Address}}, host.System().Dial, "producer", eyes(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()

	const count = 10_000
	for range count {
		client.Produce(t.Context(), &kgo.Record{Topic: Payments, Value: make([]byte, 100)},
			func(_ *kgo.Record, err error) {
				if err != nil {
					t.Error(err)
				}
			})
	}

	if err := client.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}

	detail, err := describe(t.Context(), client, Payments)
	if err != nil {
		t.Fatal(err)
	}
	largest := int64(0)

	for next := int64(0); next < count; {
		stored, err := fetchStored(t.Context(), client, detail, 0, next, uncommitted)
		if err != nil {
			t.Fatal(err)
		}

		var batch kmsg.RecordBatch
		if err := batch.ReadFrom(stored.RecordBatches); err != nil {
			t.Fatal(err)
		}
		next += int64(batch.LastOffsetDelta) + 1
		largest = max(largest, int64(batch.Length)+batchLengthEnd)
	}

	if largest > BatchBytesMax || largest < BatchBytesMax/2 {
		t.Errorf("the largest batch has %d bytes, and a fetch takes %d", largest, BatchBytesMax)
	}
}

// However much follows it, a record of an aborted transaction has no record for a client.
func TestLookPassesOverAnAbortedTransaction(t *testing.T) {
	broker := kit.StartBroker(t, kfake.SeedTopics(1, Payments))

	aborted := broker.Client(kgo.TransactionalID("aborted"))
	if err := aborted.BeginTransaction(); err != nil {
		t.Fatal(err)
	}

	if err := aborted.ProduceSync(t.Context(),
		&kgo.Record{Topic: Payments, Value: []byte("never given")}).FirstErr(); err != nil {
		t.Fatal(err)
	}

	if err := aborted.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}

	client := broker.Client(kgo.ProducerBatchCompression(kgo.NoCompression()))
	for range 3 {
		found, err := Look(t.Context(), client, Payments, 0, 0, MessageBytesMax)
		if err != nil || found == nil || found.Next != 1 || found.Err != nil {
			t.Fatalf("Look finds %+v, %v: want nothing for a client before offset 1", found, err)
		}

		if err := client.ProduceSync(t.Context(),
			&kgo.Record{Topic: Payments, Value: make([]byte, MessageBytesMax*2/3)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}
