package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ports"
	"github.com/liquida/liquida/platform/stream"
)

func TestMain(m *testing.M) { kit.Main(m, main) }

type broker struct {
	*kit.Program
	t            *testing.T
	address, dir string
	env          []string // more settings
}

func newBroker(t *testing.T) *broker {
	t.Helper()
	return &broker{t: t, address: ports.Free(), dir: t.TempDir()}
}

func (b *broker) settings(more ...string) []string {
	return append(append([]string{"BROKER_ADDRESS=" + b.address, "BROKER_DATA_DIR=" + b.dir}, b.env...), more...)
}

// start runs the broker until it answers this client, or one without a password.
func (b *broker) start(clients ...*kgo.Client) {
	b.t.Helper()
	b.Program = kit.Start(b.t, b.settings()...)
	client := append(clients, b.client())[0]
	kit.Await(b.t, "the broker answers", func() (bool, string) {
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
		defer cancel()
		err := stream.Reach(ctx, client)

		return err == nil, fmt.Sprint(err)
	})
}

func (b *broker) client(options ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.address)}, options...)...)
	kit.Must(b.t, err)
	b.t.Cleanup(client.CloseAllowingRebalance)

	return client
}

func (b *broker) createTopic(topic string, partitions int32, settings ...string) {
	b.t.Helper()

	configs := map[string]*string{}
	for i := 0; i < len(settings); i += 2 {
		configs[settings[i]] = &settings[i+1]
	}
	created, err := kadm.NewClient(b.client()).CreateTopic(b.t.Context(), partitions, 1, configs, topic)
	kit.Must(b.t, errors.Join(err, created.Err))
}

func TestRefusals(t *testing.T) {
	b := newBroker(t)
	b.start()
	b.createTopic("payments", 1)
	t.Run("a topic is not created by a mention", func(t *testing.T) {
		client := b.client(kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(0))

		err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "paymnets", Value: []byte("x")}).FirstErr()
		if !errors.Is(err, kerr.UnknownTopicOrPartition) {
			t.Fatalf("got %v; want UnknownTopicOrPartition", err)
		}
	})
	t.Run("more than 1 MiB", func(t *testing.T) {
		client := b.client(kgo.ProducerBatchMaxBytes(4<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))

		err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "payments", Value: make([]byte, 1<<20)}).FirstErr()
		if !errors.Is(err, kerr.MessageTooLarge) {
			t.Fatalf("got %v; want MessageTooLarge", err)
		}
	})
	t.Run("a transaction", func(t *testing.T) {
		client := b.client(kgo.TransactionalID("any"), kgo.DefaultProduceTopic("payments"))

		err := client.BeginTransaction()
		if err == nil {
			err = client.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr()
		}

		if !errors.Is(err, kerr.TransactionalIDAuthorizationFailed) {
			t.Errorf("got %v", err)
		}
	})

	for what, c := range map[string]struct{ env, says []string }{
		"a second broker on the same data": {[]string{"BROKER_ADDRESS=127.0.0.1:0"},
			[]string{b.dir, "held by another broker"}},
		"a second broker on the same address": {[]string{"BROKER_DATA_DIR=" + t.TempDir()},
			[]string{b.address, "taken"}},
		"a broker to be like that there is not": {[]string{"BROKER_ADDRESS=127.0.0.1:0", "BROKER_LIKE=pulsar"},
			[]string{"BROKER_LIKE", "pulsar"}},
		"an address that clients cannot reach": {[]string{"BROKER_ADDRESS=0.0.0.0:9092"},
			[]string{"BROKER_ADDRESS", "0.0.0.0:9092"}},
	} {
		t.Run(what, func(t *testing.T) {
			said := kit.Run(t, b.settings(c.env...))
			said.Is(t, said.Code, c.says...)

			if said.Code == 0 {
				t.Error("it exits with 0")
			}
		})
	}
}
