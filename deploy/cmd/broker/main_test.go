package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ports"
)

// TestMain makes the test binary the broker when a test starts it, so that tests can kill it.
func TestMain(m *testing.M) {
	if os.Getenv("BROKER_UNDER_TEST") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

type broker struct {
	t            *testing.T
	address, dir string
	env          []string // more settings
	cmd          *exec.Cmd
}

func newBroker(t *testing.T) *broker {
	t.Helper()
	b := &broker{t: t, address: ports.Free(), dir: t.TempDir()}
	t.Cleanup(func() { b.end(syscall.SIGKILL) })
	return b
}

func (b *broker) command(address string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "BROKER_UNDER_TEST=1", "BROKER_ADDRESS="+address, "BROKER_DATA_DIR="+b.dir)
	cmd.Env = append(cmd.Env, b.env...)
	return cmd
}

func (b *broker) start(says ...io.Writer) {
	b.t.Helper()
	b.cmd = b.command(b.address)
	b.cmd.Stderr = io.MultiWriter(append(says, os.Stderr)...)
	if err := b.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	client := b.client()
	eventually(b.t, "the broker answers", func() error {
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
		defer cancel()
		return client.Ping(ctx)
	})
}

func (b *broker) end(signal os.Signal) {
	if b.cmd != nil && b.cmd.ProcessState == nil {
		_ = b.cmd.Process.Signal(signal)
		_ = b.cmd.Wait()
	}
}

func (b *broker) client(options ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.address)}, options...)...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(client.CloseAllowingRebalance)
	return client
}

func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	kit.Await(t, what, func() (bool, string) {
		err := try()
		return err == nil, fmt.Sprint(err)
	})
}

func (b *broker) createTopic(topic string, partitions int32) {
	b.t.Helper()
	created, err := kadm.NewClient(b.client()).CreateTopic(b.t.Context(), partitions, 1, nil, topic)
	if err := errors.Join(err, created.Err); err != nil {
		b.t.Fatal(err)
	}
}

func TestDataAndCommitMetadataSurvive(t *testing.T) {
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(fmt.Sprint(signal), func(t *testing.T) {
			b := newBroker(t)
			b.start()
			b.createTopic("payments", 1)
			// Idempotent, and it lives through the restart: the broker must still know it.
			producer := b.client(kgo.DefaultProduceTopic("payments"))
			produce := func(value string) {
				t.Helper()
				if err := producer.ProduceSync(t.Context(), kgo.StringRecord(value)).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			const before = 1000
			for i := range before {
				produce(fmt.Sprint(i))
			}
			offsets := kadm.Offsets{}
			offsets.Add(kadm.Offset{Topic: "payments", Partition: 0, At: 500, LeaderEpoch: -1, Metadata: "v1:3+2,1"})
			if err := kadm.NewClient(b.client()).CommitAllOffsets(t.Context(), "engine", offsets); err != nil {
				t.Fatal(err)
			}

			b.end(signal)
			b.start()
			produce("after")

			fetched, err := kadm.NewClient(b.client()).FetchOffsets(t.Context(), "engine")
			if err != nil {
				t.Fatal(err)
			}
			committed, _ := fetched.Lookup("payments", 0)
			if committed.At != 500 || committed.Metadata != "v1:3+2,1" {
				t.Errorf("the group's offset is %d with metadata %q", committed.At, committed.Metadata)
			}
			consumer := b.client(kgo.ConsumeTopics("payments"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			var values []string
			for len(values) < before+1 {
				fetches := consumer.PollFetches(t.Context())
				if err := fetches.Err(); err != nil {
					t.Fatal(err)
				}
				fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
			}
			if len(values) != before+1 || values[before] != "after" || values[before-1] != fmt.Sprint(before-1) {
				t.Errorf("%d records, the last %q; want %d and \"after\"", len(values), values[len(values)-1], before+1)
			}
		})
	}
}

// TestStaticMembership: a restarted engine gets its partitions back at once. That needs a session
// timeout below the usual minimum, and an instance id that outlives its process.
func TestStaticMembership(t *testing.T) {
	b := newBroker(t)
	b.start()
	b.createTopic("payments", 4)
	type member struct {
		client   *kgo.Client
		assigned chan map[string][]int32
	}
	join := func(instance string) member {
		m := member{assigned: make(chan map[string][]int32, 16)}
		m.client = b.client(kgo.ConsumerGroup("engine"), kgo.ConsumeTopics("payments"),
			kgo.InstanceID(instance), kgo.SessionTimeout(3*time.Second), kgo.HeartbeatInterval(500*time.Millisecond),
			kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, p map[string][]int32) { m.assigned <- p }))
		go func() {
			for !m.client.PollFetches(t.Context()).IsClientClosed() && t.Context().Err() == nil {
			}
		}()
		return m
	}
	receive := func(what string, from chan map[string][]int32, within time.Duration) []int32 {
		t.Helper()
		deadline := time.After(within)
		for {
			select {
			case p := <-from:
				if len(p["payments"]) > 0 { // the first step of a rebalance may assign nothing
					return p["payments"]
				}
			case <-deadline:
				t.Fatalf("%s: nothing within %v", what, within)
			}
		}
	}
	first := join("engine-0")
	if got := receive("the only member", first.assigned, time.Minute); len(got) != 4 {
		t.Fatalf("the only member got partitions %v; want all 4", got)
	}
	first.client.CloseAllowingRebalance() // a static member does not leave the group, as if it was killed
	again := join("engine-0")
	// Well within the session timeout, so the group did not wait for the old member to expire.
	if got := receive("the same instance again", again.assigned, 2500*time.Millisecond); len(got) != 4 {
		t.Fatalf("the same instance got partitions %v; want all 4", got)
	}
	second := join("engine-1")
	if got := receive("a second instance", second.assigned, time.Minute); len(got) != 2 {
		t.Fatalf("the second instance got partitions %v; want 2", got)
	}
	// A member that stays away loses its partitions after the session timeout.
	second.client.CloseAllowingRebalance()
	receive("what the first takes over", again.assigned, time.Minute)
}

func TestItBehavesLikeRedpandaWhenAsked(t *testing.T) {
	b := newBroker(t)
	t.Setenv("BROKER_LIKE", "redpanda")
	b.start()
	admin, one := kadm.NewClient(b.client()), "1"
	if _, err := admin.CreateTopic(t.Context(), 1, 1, map[string]*string{"min.insync.replicas": &one}, "payments"); err != nil {
		t.Fatal(err)
	}
	described, err := admin.DescribeTopicConfigs(t.Context(), "payments")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range described[0].Configs {
		if entry.Key == "min.insync.replicas" {
			t.Errorf("%s is described as %s", entry.Key, entry.MaybeValue())
		}
	}
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
	refused := func(t *testing.T, cmd *exec.Cmd, says ...string) {
		t.Helper()
		output, err := cmd.CombinedOutput()
		if err == nil {
			t.Fatal("a second broker started")
		}
		for _, say := range says {
			if !strings.Contains(string(output), say) {
				t.Errorf("it said %q; want %q in it", output, say)
			}
		}
	}
	t.Run("a second broker on the same data", func(t *testing.T) {
		refused(t, b.command("127.0.0.1:0"), b.dir, "held by another broker")
	})
	t.Run("a second broker on the same address", func(t *testing.T) {
		other := *b
		other.dir = t.TempDir()
		refused(t, other.command(b.address), b.address, "taken")
	})
	t.Run("a broker to be like that there is not", func(t *testing.T) {
		cmd := b.command("127.0.0.1:0")
		cmd.Env = append(cmd.Env, "BROKER_LIKE=pulsar")
		refused(t, cmd, "BROKER_LIKE", "pulsar")
	})
	t.Run("properties that Redpanda has not", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "bootstrap.yaml")
		if err := os.WriteFile(file, []byte("group_initial_rebalance_delay_ms: 0\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for like, says := range map[string]string{"redpanda": "group_initial_rebalance_delay_ms", "kafka": "BROKER_LIKE kafka"} {
			cmd := b.command("127.0.0.1:0")
			cmd.Env = append(cmd.Env, "BROKER_LIKE="+like, "BROKER_REDPANDA_PROPERTIES="+file)
			refused(t, cmd, "BROKER_REDPANDA_PROPERTIES", says)
		}
	})
	t.Run("an address that clients cannot reach", func(t *testing.T) {
		refused(t, b.command("0.0.0.0:9092"), "BROKER_ADDRESS", "0.0.0.0:9092")
	})
}
