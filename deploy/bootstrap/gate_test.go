package bootstrap

import (
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/origin"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// topicsAndLedgerBelongTogether is a step of TestTwoAtOnceFromNothingAndThenAgain: first and second are two
// ledgers, of which first is funded. Older copies are in TestAnOlderLedgerIsNotTaken of loadtest/e2e.
func topicsAndLedgerBelongTogether(t *testing.T, first, second ledger.Config) {
	config := onKafka(t, first)
	kafka := kafkaOf(t, config)
	run := func(of ledger.Config, givenUp string) error {
		config.Ledger, config.LedgerGivenUp, config.namedLog = of, givenUp, 0
		return Run(t.Context(), config, io.Discard)
	}
	kit.Must(t, run(first, ""))
	named := namedBy(t, kafka, first, 1).String()

	kit.Says(t, run(second, ""), "the ledger has no marker", "LEDGER_GIVEN_UP="+named)

	if accounts := accountsOf(t, connect(t, second)); len(accounts) > 0 {
		t.Fatalf("bootstrap made %d accounts in a ledger that is not the topics'", len(accounts))
	}
	kit.Says(t, run(second, "7-7"), "LEDGER_GIVEN_UP is 7-7, and the topics name "+named)
	kit.Says(t, run(first, named), "is the ledger at hand")

	// Not given up by mistake: while an engine runs it would name the former ledger again.
	engine, err := config.Stream.Client(kgo.ConsumerGroup(stream.EngineGroup), kgo.ConsumeTopics(stream.Payments))
	kit.Must(t, err)
	kit.Await(t, "a member of the group", func() (bool, string) {
		member, generation := engine.GroupMetadata()
		return generation > 0, member
	})
	kit.Says(t, run(second, named), "stop all engines first")
	engine.Close()

	for range 2 { // the second has nothing to do
		kit.Must(t, run(second, named))
		namedBy(t, kafka, second, 2)
	}
	kit.Says(t, run(first, ""), "this is the ledger "+named+", and the topics", "name the ledger 2-")
}

// namedBy returns the ledger that all checkpoints name, which must be this one.
func namedBy(t *testing.T, kafka *kgo.Client, of ledger.Config, number uint32) ledger.Identity {
	t.Helper()
	known, err := origin.ReadCheckpoints(t.Context(), kafka)
	named, mixed := origin.NamedBy(known)

	is, unread := ledger.ReadIdentity(t.Context(), connect(t, of))
	if err := errors.Join(err, mixed, unread); err != nil || len(known) != 3 || named != is ||
		is.Number != number {
		t.Fatalf("%d checkpoints name %v, and the ledger is %v: %v", len(known), named, is, err)
	}

	return named
}

// topicsOfAnEarlierVersionAreAdopted is a step, too. Topics without checkpoints are the ledger's if it names their log,
// and knows what was finished and told last.
func topicsOfAnEarlierVersionAreAdopted(t *testing.T, of ledger.Config) {
	config := onKafka(t, of)
	kafka, client := kafkaOf(t, config), connect(t, of)
	kit.Must(t, kit.ErrorOf(prepare(t, config)))
	id := pix.NewEndToEndID("10000001", time.Now(), rand.New(rand.NewPCG(1, 2)))
	value, err := (&pixv1.SettlementReport{EndToEndId: id.String(),
		Status: pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC}).MarshalVT()
	kit.Must(t, err)

	for _, record := range []*kgo.Record{{Topic: stream.Payments, Value: []byte("x")},
		{Topic: stream.Settlements, Value: value}} {
		kit.Must(t, kafka.ProduceSync(t.Context(), record).FirstErr())
	}
	kit.Says(t, Run(t.Context(), config, io.Discard), "LEDGER_GIVEN_UP=none",
		"If pix.checkpoints was lost, put its files back")
	kit.Must(t, kit.ErrorOf(origin.Name(t.Context(), kafka, client, 1, 0, 0)))
	// what was told last, and it does not know
	kit.Says(t, Run(t.Context(), config, io.Discard), "is about "+id.String())
	write(t, client, ledger.AppendReceipt(nil, id, pix.Content{}, pix.ReasonUnknownPayerPSP, false))
	kit.Must(t, Run(t.Context(), config, io.Discard))
	namedBy(t, kafka, of, 2)
}

// aTopicThatTheLedgerNamesIsNotCreatedAgain is a step of TestTwoAtOnceFromNothingAndThenAgain.
func aTopicThatTheLedgerNamesIsNotCreatedAgain(t *testing.T, ofLedger ledger.Config) {
	config := onKafka(t, ofLedger)
	run := func(givenUp int) error {
		config.LogGivenUp, config.namedLog = givenUp, 0
		return Run(t.Context(), config, io.Discard)
	}
	kit.Must(t, run(0))
	kafka, client := kafkaOf(t, config), connect(t, config.Ledger)
	admin := kadm.NewClient(kafka)
	// to partition 0
	kit.Must(t, kafka.ProduceSync(t.Context(), &kgo.Record{Topic: stream.Payments, Value: []byte("x")}).FirstErr())
	kit.Must(t, kit.ErrorOf(origin.Name(t.Context(), kafka, client, 1, 0, 0)))
	committed := kadm.Offsets{}
	committed.AddOffset(stream.Payments, 0, 1, -1)
	kit.Must(t, admin.CommitAllOffsets(t.Context(), stream.EngineGroup, committed))
	kit.Must(t, run(0))
	kit.Says(t, run(2), "PAYMENTS_LOG_GIVEN_UP is 2, and the ledger's log has the number 1")

	kit.Must(t, kit.ErrorOf(admin.DeleteTopic(t.Context(), stream.Payments)))

	there := func() bool {
		topics, err := admin.ListTopics(t.Context())
		kit.Must(t, err)
		return topics.Has(stream.Payments)
	}
	for range 2 {
		if kit.Says(t, run(0), "PAYMENTS_LOG_GIVEN_UP=1 if it is lost for good"); there() {
			t.Fatal("it created the topic")
		}
	}
	// somebody made it anew
	kit.Must(t, kit.ErrorOf(admin.CreateTopic(t.Context(), int32(config.Partitions), 1, nil, stream.Payments)))
	kit.Says(t, run(0), "the ledger's log has a record at 0. The topic was made anew",
		"PAYMENTS_LOG_GIVEN_UP=1 gives it up")
	kit.Must(t, kit.ErrorOf(admin.DeleteTopic(t.Context(), stream.Payments)))

	for range 2 { // the second has nothing to do
		kit.Must(t, run(1))

		names, err := origin.Read(t.Context(), client, config.Partitions)
		if err != nil || names.Log != 2 || len(names.Origins) > 0 || !there() {
			t.Fatalf("the ledger's log is %+v, %v; the topic exists: %v", names, err, there())
		}
	}
	offsets, err := admin.FetchOffsetsForTopics(t.Context(), stream.EngineGroup, stream.Payments)
	kit.Must(t, err)

	if offset, ok := offsets.Lookup(stream.Payments, 0); ok && offset.At >= 0 {
		t.Errorf("the commit %d of the lost log is still there", offset.At)
	}
}
