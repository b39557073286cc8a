package bootstrap

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/liquida/liquida/deploy/redpanda"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/stream"
)

// prepare makes the topics, and returns what it says.
func prepare(t *testing.T, config *Config) (said string, err error) {
	t.Helper()
	err = ensureKafka(t.Context(), kafkaOf(t, config), config, func(format string, values ...any) {
		said += fmt.Sprintf(format, values...) + "\n"
	})

	return said, err
}

// Bootstrap waits for a broker, goes on where another run ended, and sets what differs. What it must not do it refuses.
func TestTopics(t *testing.T) {
	t.Parallel()
	config := smallConfig(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	kit.Must(t, err)
	address := listener.Addr().String()
	listener.Close()
	config.Stream.Brokers = []string{address}
	ended := make(chan error)
	go func() { ended <- kit.ErrorOf(prepare(t, config)) }()
	time.Sleep(500 * time.Millisecond)
	broker, _ := startKafka(t, kfake.ListenFn(func(network, _ string) (net.Listener, error) {
		return net.Listen(network, address)
	}))
	kit.Must(t, <-ended)

	client := kafkaOf(t, config)
	admin := kadm.NewClient(client)
	kit.Must(t, kit.ErrorOf(
		client.ProduceSync(t.Context(), &kgo.Record{Topic: stream.Payments, Value: []byte("kept")}).First()))
	// an interrupted run has left the others
	kit.Must(t, kit.ErrorOf(admin.DeleteTopics(t.Context(), stream.Settlements)))

	for _, c := range []struct{ topic, name, value string }{
		{stream.Payments, "cleanup.policy", "compact"},
		{stream.AuthorizationResponses, "max.message.bytes", "1048576"},
		{stream.DeadLetters, "unclean.leader.election.enable", "true"},
	} {
		kit.Must(t, kit.ErrorOf(
			admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: c.name, Value: &c.value}}, c.topic)))
	}
	config.TransientRetention = 2 * time.Hour

	said, err := prepare(t, config)
	for _, want := range []string{
		"topic pix.settlements is new",
		"topic pix.payments has cleanup.policy=delete now; it had \"compact\"",
		"topic pix.authorization-requests has retention.ms=7200000 now; it had \"3600000\"",
		"topic pix.authorization-responses has max.message.bytes=131072 now; it had \"1048576\"",
		"topic pix.authorization-responses has retention.ms=7200000 now; it had \"3600000\"",
		"topic pix.dead-letters has unclean.leader.election.enable=false now; it had \"true\"",
	} {
		if strings.Count(said, want+"\n") != 1 || strings.Count(said, "\n") != 6 || err != nil {
			t.Errorf("it says %q, %v; want once %q", said, err, want)
		}
	}

	if bounds, err := stream.BoundsOf(t.Context(), client, stream.Payments); err != nil ||
		bounds[0].End-bounds[0].Start != 1 {
		t.Errorf("the record that was there: %v, %v", bounds, err)
	}

	for says, change := range map[string]func(*Config){
		"topic pix.payments has 3 partitions and PARTITIONS is 2":       func(c *Config) { c.Partitions = 2 },
		"topic pix.payments has 1 replicas and REPLICATION_FACTOR is 3": func(c *Config) { c.ReplicationFactor = 3 },
		"has retention.ms=7200000 and must have retention.ms=10800000, and Kafka does not let this user set it": func(
			c *Config) {
			broker.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.IncrementalAlterConfigs},
				Err: kerr.PolicyViolation, Count: 1})
			c.TransientRetention = 3 * time.Hour
		},
		"Kafka refuses to create topic pix.payments with PARTITIONS 3 and REPLICATION_FACTOR 3": func(c *Config) {
			c.ReplicationFactor, c.Stream = 3, onKafka(t, c.Ledger).Stream
		},
	} {
		differing := *config
		change(&differing)
		kit.Says(t, kit.ErrorOf(prepare(t, &differing)), says)
	}
}

// Redpanda ignores some settings and never describes them. The bootstrap says so once, and why that is safe.
func TestTopicsOnABrokerLikeRedpanda(t *testing.T) {
	t.Parallel()
	config := smallConfig(t)
	broker, kafka := startKafka(t, redpanda.Options()...)
	config.Stream = kafka
	redpanda.Imitate(broker)

	for run := range 2 {
		said, err := prepare(t, config)
		if err != nil || strings.Count(said, "min.insync.replicas") != 1 || !strings.Contains(said, "majority") ||
			strings.Count(said, "unclean.leader.election.enable") != 1 {
			t.Errorf("run %d says %q, %v: want each ignored setting in one line, and why it is safe", run, said, err)
		}
		// As a cluster describes it on which nobody may cache writes.
		kit.Must(t, kit.ErrorOf(
			kadm.NewClient(kafkaOf(t, config)).AlterTopicConfigs(t.Context(),
				[]kadm.AlterConfig{{Name: writeCaching, Value: new("disabled")}}, stream.TopicNames()...)))
	}
}

// What a broker does not describe may be absent only where that is known to be safe.
func TestAbsentSettingsOfTopics(t *testing.T) {
	t.Parallel()
	config := smallConfig(t)
	broker, kafka := startKafka(t)
	config.Stream = kafka
	broker.ControlKey(kmsg.DescribeConfigs.Int16(), func(request kmsg.Request) (kmsg.Response, error, bool) {
		for i := range request.(*kmsg.DescribeConfigsRequest).Resources {
			request.(*kmsg.DescribeConfigsRequest).Resources[i].ConfigNames = []string{"cleanup.policy",
				"compression.type"}
		}

		return nil, nil, false
	})
	kit.Says(t, kit.ErrorOf(prepare(t, config)), "does not describe it: without it records could be lost")
}

// More PARTITIONS are added to all topics, pix.payments last: not before every group that reads the questions to
// banks owns the new partitions. A run that was interrupted is finished by the next one.
func TestPartitionsAreAddedToPaymentsLast(t *testing.T) {
	t.Parallel()
	config := onKafka(t, smallConfig(t).Ledger)
	kit.Must(t, kit.ErrorOf(prepare(t, config)))
	bank, err := kgo.NewClient(kgo.SeedBrokers(config.Stream.Brokers...), kgo.ConsumerGroup("a bank"),
		kgo.ConsumeTopics(stream.AuthorizationRequests), kgo.MetadataMaxAge(time.Hour))
	kit.Must(t, err)
	defer bank.Close()
	go func() {
		for !errors.Is(bank.PollFetches(t.Context()).Err0(), kgo.ErrClientClosed) && t.Context().Err() == nil {
		}
	}()
	kit.Await(t, "the bank in its group", func() (bool, string) {
		groups, err := kadm.NewClient(bank).DescribeGroups(t.Context(), "a bank")
		kit.Must(t, err)
		return groups["a bank"].State == "Stable", groups["a bank"].State
	})
	partitions := func(want int) {
		t.Helper()
		// another client: one remembers what it saw
		found, err := kadm.NewClient(kafkaOf(t, config)).ListTopics(t.Context(), stream.TopicNames()...)
		kit.Must(t, err)

		for name, topic := range found {
			if has := len(topic.Partitions); name == stream.Payments && has != want || name != stream.Payments &&
				has != 5 {
				t.Errorf("%s has %d partitions", name, has)
			}
		}
	}
	config.Partitions, config.Timeout = 5, 2*time.Second
	kit.Says(t, kit.ErrorOf(prepare(t, config)),
		"group a bank owns 3 of the 5 partitions of pix.authorization-requests")
	partitions(3)
	bank.ForceMetadataRefresh()
	config.Timeout = time.Minute
	kit.Must(t, kit.ErrorOf(prepare(t, config)))
	partitions(5)
}
