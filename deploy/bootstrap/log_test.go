package bootstrap

import (
	"io"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/origin"
	"github.com/liquida/liquida/platform/stream"
)

// aTopicThatTheLedgerNamesIsNotCreatedAgain is a step of TestTwoAtOnceFromNothingAndThenAgain.
func aTopicThatTheLedgerNamesIsNotCreatedAgain(t *testing.T, ofLedger ledger.Config) {
	config := smallConfig(t)
	config.Ledger, config.Stream = ofLedger, startKafka(t)
	run := func(givenUp int) error {
		config.LogGivenUp, config.namedLog = givenUp, 0
		return Run(t.Context(), config, io.Discard)
	}
	kit.Must(t, run(0))
	kafka := kafkaOf(t, config)
	client := connect(t, config.Ledger)
	admin := kadm.NewClient(kafka)
	kit.Must(t, kafka.ProduceSync(t.Context(), &kgo.Record{Topic: stream.Payments, Value: []byte("x")}).FirstErr())
	bounds, err := stream.BoundsOf(t.Context(), kafka, stream.Payments)
	kit.Must(t, err)
	for partition, b := range bounds {
		if b.End > 0 {
			kit.Must(t, kit.ErrorOf(origin.Name(t.Context(), kafka, client, 1, partition, 0)))
		}
	}
	committed := kadm.Offsets{}
	committed.AddOffset(stream.Payments, 0, 1, -1)
	kit.Must(t, admin.CommitAllOffsets(t.Context(), stream.EngineGroup, committed))
	if err := run(0); err != nil {
		t.Fatalf("the topic is there: %v", err)
	}
	kit.Says(t, run(2), "PAYMENTS_LOG_GIVEN_UP is 2, and the ledger's log has the number 1") // a log that does not exist is given up

	kit.Must(t, kit.ErrorOf(admin.DeleteTopic(t.Context(), stream.Payments)))
	for range 2 {
		if err := run(0); err == nil || !strings.Contains(err.Error(), "PAYMENTS_LOG_GIVEN_UP=1 if it is lost for good") {
			t.Fatalf("a run without the topic: %v", err)
		}
	}
	if topics, err := admin.ListTopics(t.Context()); err != nil || topics.Has(stream.Payments) {
		t.Fatalf("it created the topic: %v", err)
	}
	kit.Must(t, kit.ErrorOf(admin.CreateTopic(t.Context(), int32(config.Partitions), 1, nil, stream.Payments)))
	kit.Says(t, run(0), "the ledger's log has a record at 0. The topic was made anew", "PAYMENTS_LOG_GIVEN_UP=1 gives it up") // a topic that somebody made anew
	kit.Must(t, kit.ErrorOf(admin.DeleteTopic(t.Context(), stream.Payments)))
	for range 2 { // the second has nothing to do
		kit.Must(t, run(1))
		names, err := origin.Read(t.Context(), client, config.Partitions)
		if err != nil || names.Log != 2 || len(names.Origins) > 0 {
			t.Fatalf("the ledger's log is %+v, %v", names, err)
		}
	}
	if topics, err := admin.ListTopics(t.Context()); err != nil || !topics.Has(stream.Payments) {
		t.Errorf("it did not create the topic: %v", err)
	}
	if offsets, err := admin.FetchOffsetsForTopics(t.Context(), stream.EngineGroup, stream.Payments); err != nil {
		t.Error(err)
	} else if offset, ok := offsets.Lookup(stream.Payments, 0); ok && offset.At >= 0 {
		t.Errorf("the commit %d of the lost log is still there", offset.At)
	}
}
