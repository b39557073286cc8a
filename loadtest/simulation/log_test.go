package simulation

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/services/clearing-engine/engine"
)

// While payments flow, nobody ends a transaction on one partition: an engine names its first record.
// Then one of two engines meets a broker whose topics were made anew. It refuses them each time it
// starts, and goes on once it has its own broker back.
func TestForeignLogAndHangingTransaction(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(2)
		load := s.send("demo", 20, 1000, duringFaults...)
		s.pass(2*time.Second, 4*time.Second)

		hanging, err := kgo.NewClient(append(s.kafka(), kgo.TransactionalID("hanging"), kgo.TransactionTimeout(time.Minute))...)
		if err != nil {
			s.t.Fatal(err)
		}
		defer hanging.Close()
		if err := hanging.BeginTransaction(); err != nil {
			s.t.Fatal(err)
		}
		key := pix.NewEndToEndID("10000001", time.Now(), s.random).String()
		if err := hanging.ProduceSync(s.ends, &kgo.Record{Topic: stream.Payments, Key: []byte(key), Value: []byte("never given")}).FirstErr(); err != nil {
			s.t.Fatal(err)
		}
		began := time.Now()
		s.eventually("an engine that names "+key, func() bool {
			_, first := s.get(s.engine(0), "/readyz")
			_, second := s.get(s.engine(1), "/readyz")
			return strings.Contains(first+second, key)
		})
		if took := time.Since(began); took > 10*time.Second {
			s.t.Errorf("the transaction is named after %v", took)
		}
		if err := hanging.EndTransaction(s.ends, kgo.TryAbort); err != nil {
			s.t.Fatal(err)
		}
		s.ready(s.engine(0), s.engine(1))

		elsewhere := s.brokerMadeAnew()
		refusals := func() (n int) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, line := range s.trace {
				if strings.Contains(line, engineName(1)+" ends: ") && strings.Contains(line, "see ForeignLog in deploy/runbook.md") {
					n++
				}
			}
			return n
		}
		s.engine(1).restartWith(func(c *engine.Config) { c.Stream.Brokers = []string{elsewhere} })
		s.eventually("two refusals", func() bool { return refusals() >= 2 })
		if code, _ := s.get(s.engine(1), "/readyz"); code == http.StatusOK {
			s.t.Error("it is ready with another log")
		}
		s.engine(1).restartWith(nil)
		s.ready(s.engine(1))
		load.wait(0.4)
		s.verdict()
	})
}

// brokerMadeAnew returns the address of a broker with empty topics but for one record in each
// partition of the payments.
func (s *scenario) brokerMadeAnew() string {
	s.t.Helper()
	const port, address = 9192, "127.0.0.1:9192"
	var topics []string
	for _, topic := range stream.Topics {
		topics = append(topics, topic.Name)
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port), kfake.ListenFn(s.network.Listen), kfake.SeedTopics(partitions, topics...))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(cluster.Close)
	client, err := kgo.NewClient(append(s.kafka(), kgo.SeedBrokers(address), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		s.t.Fatal(err)
	}
	defer client.Close()
	for partition := range int32(partitions) {
		record := &kgo.Record{Topic: stream.Payments, Partition: partition, Value: []byte("of another log")}
		if err := client.ProduceSync(s.ends, record).FirstErr(); err != nil {
			s.t.Fatal(err)
		}
	}
	return address
}
