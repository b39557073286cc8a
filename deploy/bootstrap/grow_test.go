package bootstrap

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/stream"
)

// More PARTITIONS are added to all topics, pix.payments last: not before every group that reads the questions to
// banks owns the new partitions. A run that was interrupted is finished by the next one.
func TestPartitionsAreAddedToPaymentsLast(t *testing.T) {
	t.Parallel()
	config := smallConfig(t)
	config.Stream = startKafka(t, kfake.SeedTopics(3))
	prepare(t, config)
	bank, err := kgo.NewClient(kgo.SeedBrokers(config.Stream.Brokers...), kgo.ConsumerGroup("a bank"), kgo.ConsumeTopics(stream.AuthorizationRequests), kgo.MetadataMaxAge(time.Hour))
	kit.Must(t, err)
	defer bank.Close()
	admin := kadm.NewClient(bank)
	partitions := func() string {
		t.Helper()
		client := kafkaOf(t, config) // another one: a client remembers what it saw
		found, err := kadm.NewClient(client).ListTopics(t.Context(), topicNames()...)
		kit.Must(t, err)
		return fmt.Sprint(len(found[stream.Payments].Partitions), len(found[stream.AuthorizationRequests].Partitions), len(found[stream.AuthorizationResponses].Partitions), len(found[stream.Settlements].Partitions), len(found[stream.DeadLetters].Partitions))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var reading sync.WaitGroup
	reading.Go(func() {
		for ctx.Err() == nil {
			bank.PollFetches(ctx)
		}
	})
	defer reading.Wait()
	defer cancel()
	for until := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if groups, err := admin.DescribeGroups(t.Context(), "a bank"); err == nil && groups["a bank"].State == "Stable" {
			break
		}
		if time.Now().After(until) {
			t.Fatal("the bank does not join its group")
		}
	}
	config.Partitions, config.Timeout = 5, 2*time.Second
	if _, err := ensureKafka(t.Context(), config, quietly); err == nil || !strings.Contains(err.Error(), "group a bank owns 3 of the 5 partitions of pix.authorization-requests") || partitions() != "3 5 5 5 5" {
		t.Fatalf("while a bank does not know the new partitions: %v, %s", err, partitions())
	}
	bank.ForceMetadataRefresh()
	config.Timeout = time.Minute
	if _, err := ensureKafka(t.Context(), config, quietly); err != nil || partitions() != "5 5 5 5 5" {
		t.Fatalf("%v, %s", err, partitions())
	}
}
