package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/kit"
)

// withoutIDs makes the broker one that knows no ids of topics, as Redpanda is.
func withoutIDs() kfake.Opt {
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(kmsg.Metadata.Int16(), 8)
	versions.SetMaxKeyVersion(kmsg.Fetch.Int16(), 11)
	versions.SetMaxKeyVersion(kmsg.Produce.Int16(), 9)

	return kfake.MaxVersions(versions)
}

func TestWatchSeesWhatHappensToTopics(t *testing.T) {
	for name, options := range map[string][]kfake.Opt{"with ids": nil, "without ids": {withoutIDs()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broker, eyes := kit.StartBroker(t, append(options, kfake.SeedTopics(4, TopicNames()...))...), eyes()

			client, err := Connect(Config{Brokers: []string{broker.Address}}, host.System().Dial, "watcher", eyes)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			var mu sync.Mutex
			var renewed []string
			var closed error
			var partitions int32
			var looked int
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				Watch(ctx, client, eyes, Watched{Topics: TopicNames(),
					Closed:     func(why error) { mu.Lock(); closed = why; mu.Unlock() },
					Renewed:    func(topic string) { mu.Lock(); renewed = append(renewed, topic); mu.Unlock() },
					Partitions: func(n int32) { mu.Lock(); partitions = n; looked++; mu.Unlock() }})
			}()
			defer func() { cancel(); <-ended }()
			await := func(what string, met func() bool) {
				t.Helper()
				kit.Await(t, what, func() (bool, string) {
					mu.Lock()
					defer mu.Unlock()
					return met(), strings.Join(renewed, ", ") + " " + eyes.Health.Problems()[TopicsNeed]
				})
			}
			admin, writer := kadm.NewClient(broker.Client()), broker.Client()
			write := func(topic string, records int) {
				t.Helper()

				for range records {
					if err := writer.ProduceSync(t.Context(),
						&kgo.Record{Topic: topic, Partition: 1}).FirstErr(); err != nil {
						t.Fatal(err)
					}
				}
			}

			makeAnew := func(topic string) {
				t.Helper()
				_, err := admin.DeleteTopic(t.Context(), topic)

				_, err2 := admin.CreateTopic(t.Context(), 4, 1, nil, topic)
				if err := errors.Join(err, err2); err != nil {
					t.Fatal(err)
				}
				writer = broker.Client() // it would not produce to a topic that was made anew
			}
			for _, topic := range TopicNames() {
				write(topic, 3)
			}
			await("the first look", func() bool { return partitions == 4 && eyes.Health.Problems()[TopicsNeed] == "" })
			looks := func(n int) { // whole looks that begin from now on
				t.Helper()
				mu.Lock()
				before := looked
				mu.Unlock()
				await("looks", func() bool { return looked > before+n })
			}
			looks(1) // after the records

			makeAnew(AuthorizationResponses)
			await("the responses to be renewed", func() bool {
				return len(renewed) == 1 && renewed[0] == AuthorizationResponses
			})

			if looks(1); closed != nil || eyes.Health.Problems()[TopicsNeed] != "" {
				t.Errorf("after the responses were made anew: %v, %q", closed, eyes.Health.Problems()[TopicsNeed])
			}

			for _, topic := range TopicNames()[1:] {
				if _, err := admin.UpdatePartitions(t.Context(), 6, topic); err != nil {
					t.Fatal(err)
				}
			}

			if looks(2); partitions != 4 || eyes.Health.Problems()[TopicsNeed] != "" {
				t.Errorf("while the orders have fewer partitions: %d, %q", partitions,
					eyes.Health.Problems()[TopicsNeed])
			}

			if _, err := admin.UpdatePartitions(t.Context(), 8, Payments); err != nil {
				t.Fatal(err)
			}
			await("the wrong number", func() bool {
				return partitions == 6 &&
					strings.Contains(eyes.Health.Problems()[TopicsNeed],
						"pix.authorization-requests has 6 partitions and pix.payments has 8") && closed == nil
			})

			for _, topic := range TopicNames()[1:] {
				if _, err := admin.UpdatePartitions(t.Context(), 8, topic); err != nil {
					t.Fatal(err)
				}
			}
			await("the right number", func() bool {
				return partitions == 8 && eyes.Health.Problems()[TopicsNeed] == ""
			})

			if _, err := admin.DeleteRecords(t.Context(),
				kadm.Offsets{DeadLetters: {1: {Topic: DeadLetters, Partition: 1, At: 2}}}); err != nil {
				t.Fatal(err)
			}
			await("the cut", func() bool {
				return closed != nil && strings.Contains(closed.Error(),
					"topic pix.dead-letters was made anew or cut: partition 1 began at offset 0 and begins at 2") &&
					strings.Contains(eyes.Health.Problems()[TopicsNeed], "TopicsChanged")
			})
			makeAnew(Settlements)
			await("both", func() bool {
				return strings.Contains(closed.Error(), "topic pix.settlements was made anew") &&
					strings.Contains(closed.Error(), "pix.dead-letters") && len(renewed) == 1
			})
		})
	}
}

// Each look asks where topics end, and only each fifth where they begin.
func TestAWatchAsksSeldomForStarts(t *testing.T) {
	t.Parallel()
	broker, eyes := kit.StartBroker(t, kfake.SeedTopics(2, Settlements)), eyes()
	client := broker.Client()
	var asked, looked atomic.Int32

	broker.Control(func(cluster *kfake.Cluster) {
		cluster.ControlKey(kmsg.ListOffsets.Int16(), func(request kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()

			const starts = -2
			if request.(*kmsg.ListOffsetsRequest).Topics[0].Partitions[0].Timestamp == starts {
				asked.Add(1)
			}

			return nil, nil, false
		})
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Watch(ctx, client, eyes, Watched{Topics: []string{Settlements}, Partitions: func(int32) { looked.Add(1) }})
	}()
	defer func() { cancel(); <-ended }()

	const looks = 12
	kit.Await(t, "looks", func() (bool, string) { return looked.Load() >= looks, fmt.Sprint(looked.Load()) })

	const most = looks/startsEvery + 2
	if n := asked.Load(); n < 2 || n > most {
		t.Errorf("%d requests for starts in %d looks, want 2 to %d", n, looks, most)
	}
}
