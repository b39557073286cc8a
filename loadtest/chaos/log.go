package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
)

// hangTransaction opens a transaction on one partition of the payments. An engine must name its
// first record within 10 s. Then the transaction is aborted: its order was never given.
func hangTransaction(ctx context.Context, w *world, f *fault) error {
	free, err := w.take(ctx, append([]string{stack.Broker}, w.engines...)...) // nothing else is to explain it
	if err != nil {
		return err
	}
	defer free()
	client, err := w.Kafka().Client(kgo.TransactionalID(fmt.Sprintf("chaos-%x", f.random.Uint64())), kgo.TransactionTimeout(time.Minute))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	key := pix.NewEndToEndID("10000001", time.Now(), f.random).String()
	record := &kgo.Record{Topic: stream.Payments, Key: []byte(key), Value: []byte("never given")}
	if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
		return err
	}
	f.Target, f.Detail, f.Partitions = stream.Payments, fmt.Sprintf("partition %d, offset %d", record.Partition, record.Offset), []int32{record.Partition}
	w.begin(f)
	named := w.standsAt(ctx, key, 10*time.Second)
	err = client.EndTransaction(ctx, kgo.TryAbort)
	w.end(f)
	if err == nil && !named {
		err = fmt.Errorf("no engine named %s, the first record of a transaction that was not ended, within 10 s", key)
	}
	if err != nil {
		return err
	}
	for _, name := range w.engines {
		if err := w.WaitReady(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// addPartition adds one partition to all topics as bootstrap does: to the payments last, when the banks have had
// the time to find the others.
func addPartition(ctx context.Context, w *world, f *fault) error {
	free, err := w.take(ctx, stack.Broker)
	if err != nil {
		return err
	}
	defer free()
	topics, err := w.admin.ListTopics(ctx, stream.Payments)
	if err != nil {
		return err
	}
	want := len(topics[stream.Payments].Partitions) + 1
	f.Target, f.Detail = stream.Payments, fmt.Sprintf("%d partitions", want)
	w.begin(f)
	defer w.end(f)
	for _, topic := range slices.Backward(stream.TopicNames()) {
		if topic == stream.Payments {
			f.hold(ctx, 10*time.Second, 10*time.Second)
		}
		response, err := w.admin.UpdatePartitions(ctx, want, topic)
		if err == nil {
			err = response.Error()
		}
		if err != nil {
			return fmt.Errorf("adding a partition to %s: %w", topic, err)
		}
	}
	return nil
}

// standsAt reports whether an engine says within a time that a partition stands at a key.
func (w *world) standsAt(ctx context.Context, key string, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return nil == persist(ctx, 200*time.Millisecond, func() error {
		for _, name := range w.allEngines() {
			if err := w.processes.Ready(ctx, name); err != nil && strings.Contains(err.Error(), key) {
				return nil
			}
		}
		return errors.New("not yet")
	})
}

// recreateTopic starts an engine on a broker whose topics were made anew. It must end before it
// reads anything, say why, and do so again. Then it gets its own broker back.
func recreateTopic(ctx context.Context, w *world, f *fault, name string) error {
	free, err := w.take(ctx, w.Replicas()...) // without a ledger the engine would wait
	if err != nil {
		return err
	}
	defer free()
	topics, err := w.admin.ListTopics(ctx, stream.Payments)
	if err != nil {
		return err
	}
	other, address, err := brokerMadeAnew(ctx, len(topics[stream.Payments].Partitions))
	if err != nil {
		return err
	}
	defer other.Close()
	w.begin(f)
	if err := w.StopProcess(ctx, name); err != nil {
		return err
	}
	problem := errors.Join(w.refusesToStart(name, "see ForeignLog in deploy/runbook.md", "KAFKA_BROKERS="+address),
		w.refusesToStart(name, "see ForeignLog in deploy/runbook.md", "KAFKA_BROKERS="+address))
	return errors.Join(problem, w.bring(ctx, f, name))
}

// refusesToStart starts a program that must end by itself and say why.
func (w *world) refusesToStart(name, why string, env ...string) error {
	before, err := os.ReadFile(w.processes.Log(name))
	if err != nil {
		return err
	}
	died, err := w.processes.StartToDie(name, env...)
	if err != nil {
		return err
	}
	select {
	case <-died:
	case <-time.After(diesWithin):
		return errors.Join(fmt.Errorf("%s goes on, and had to say %q", name, why), w.Kill(name))
	}
	after, err := os.ReadFile(w.processes.Log(name))
	if err == nil && !strings.Contains(string(after[min(len(before), len(after)):]), why) {
		err = fmt.Errorf("%s ended without saying %q", name, why)
	}
	return err
}

// damageLog flips a byte or cuts the tail of a log while the embedded broker is down. It must refuse to start,
// and name the log. Then the files come back.
func damageLog(ctx context.Context, w *world, f *fault, name string) error {
	if err := w.Kill(name); err != nil {
		return err
	}
	w.begin(f)
	kept := []string{stream.Payments, stream.Settlements, stream.DeadLetters}
	topic := kept[f.random.IntN(len(kept))]
	segments, err := filepath.Glob(filepath.Join(w.processes.KafkaFolder(), "partitions", topic+"-*", "*.dat"))
	if err != nil || len(segments) == 0 { // not the embedded broker, or nothing is there yet
		return errors.Join(err, w.bring(ctx, f, name))
	}
	segment := segments[f.random.IntN(len(segments))]
	whole, err := os.ReadFile(segment)
	if err != nil {
		return err
	}
	at := f.random.IntN(len(whole)/2 + 1) // at the end there may be what nobody has acknowledged
	damaged := slices.Clone(whole[:at])
	f.Detail = fmt.Sprintf("%s ends at byte %d", segment, at)
	if f.random.IntN(2) == 0 {
		damaged = slices.Clone(whole)
		damaged[at] ^= 1 << f.random.IntN(8)
		f.Detail = fmt.Sprintf("%s has another byte %d", segment, at)
	}
	if err := os.WriteFile(segment, damaged, 0o600); err != nil {
		return err
	}
	problem := w.refusesToStart(name, "BROKER_LOSS_ACCEPTED="+topic+"/")
	if problem != nil {
		problem = fmt.Errorf("%s: %w", f.Detail, problem)
	}
	return errors.Join(problem, os.WriteFile(segment, whole, 0o600), w.bring(ctx, f, name))
}

// brokerMadeAnew returns a broker with empty topics but for one record in each partition of the
// payments.
func brokerMadeAnew(ctx context.Context, partitions int) (*kfake.Cluster, string, error) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		return nil, "", err
	}
	address := cluster.ListenAddrs()[0]
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err == nil {
		defer client.Close()
		for _, topic := range stream.Topics {
			if _, err = kadm.NewClient(client).CreateTopic(ctx, int32(partitions), 1, nil, topic.Name); err != nil {
				break
			}
		}
		for partition := range int32(partitions) {
			if err == nil {
				err = client.ProduceSync(ctx, &kgo.Record{Topic: stream.Payments, Partition: partition, Value: []byte("of another log")}).FirstErr()
			}
		}
	}
	if err != nil {
		cluster.Close()
		return nil, "", err
	}
	return cluster, address, nil
}
