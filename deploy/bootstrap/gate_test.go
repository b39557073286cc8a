package bootstrap

import (
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/origin"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// topicsAndLedgerBelongTogether is a step of TestTwoAtOnceFromNothingAndThenAgain: first and second are two
// ledgers, of which first is funded.
func topicsAndLedgerBelongTogether(t *testing.T, first, second ledger.Config) {
	config := smallConfig(t)
	config.Ledger, config.Stream = first, startKafka(t)
	run := func(of ledger.Config, givenUp string) error {
		config.Ledger, config.LedgerGivenUp, config.namedLog = of, givenUp, 0
		return Run(t.Context(), config, io.Discard)
	}
	kit.Must(t, run(first, ""))
	kafka := kafkaOf(t, config)
	of := identityOf(t, first)
	if named := namedBy(t, kafka); named != of || of.Number != 1 {
		t.Fatalf("the topics name %v, and the ledger is %v", named, of)
	}

	kit.Says(t, run(second, ""), "the ledger has no marker", "LEDGER_GIVEN_UP="+of.String()) // a ledger without a marker
	if accounts := accountsOf(t, second); accounts != 0 {
		t.Fatalf("bootstrap made %d accounts in a ledger that is not the topics'", accounts)
	}
	kit.Says(t, run(second, "7-7"), "LEDGER_GIVEN_UP is 7-7, and the topics name "+of.String())                      // another is given up
	kit.Says(t, (&Config{LedgerGivenUp: "last week's"}).Validate(), `LEDGER_GIVEN_UP: "last week's" is no identity`) // no identity
	kit.Says(t, run(first, of.String()), "is the ledger at hand")                                                    // the ledger at hand is given up

	// Not given up by mistake: while an engine runs it would name the former ledger again.
	engine, err := config.Stream.Client(kgo.ConsumerGroup(stream.EngineGroup), kgo.ConsumeTopics(stream.Payments))
	kit.Must(t, err)
	kit.Await(t, "a member of the group", func() (bool, string) {
		member, generation := engine.GroupMetadata()
		return generation > 0, member
	})
	kit.Says(t, run(second, of.String()), "stop all engines first") // engines run
	engine.Close()

	for range 2 { // the second has nothing to do
		kit.Must(t, run(second, of.String()))
		now := identityOf(t, second)
		if named := namedBy(t, kafka); named != now || now.Number != 2 {
			t.Fatalf("the topics name %v, and the ledger is %v", named, now)
		}
	}
	kit.Says(t, run(first, ""), "this is the ledger "+of.String()+", and the topics", "name the ledger 2-") // the former ledger comes back

	// An older copy lacks what an engine has seen.
	known, err := origin.ReadCheckpoints(t.Context(), kafka)
	kit.Must(t, err)
	checkpoint := known[1]
	checkpoint.Seen = append(checkpoint.Seen, tb.ID())
	kit.Must(t, origin.WriteCheckpoints(t.Context(), kafka, map[int32]origin.Checkpoint{1: checkpoint}))
	kit.Says(t, run(second, ""), "the ledger is older than the topics", "LEDGER_GIVEN_UP=2-") // an older copy
	kit.Must(t, run(second, identityOf(t, second).String()))
	if now := identityOf(t, second); now.Number != 3 {
		t.Errorf("an older copy that was accepted is %v", now)
	}
}

// topicsOfAnEarlierVersionAreAdopted is a step, too. Topics without checkpoints are the ledger's if it names their log,
// and knows what was finished and told last.
func topicsOfAnEarlierVersionAreAdopted(t *testing.T, of ledger.Config) {
	config := smallConfig(t)
	config.Ledger, config.Stream = of, startKafka(t)
	kafka := kafkaOf(t, config)
	prepare(t, config)
	client := connect(t, of)
	id := pix.NewEndToEndID("10000001", time.Now(), rand.New(rand.NewPCG(1, 2)))
	value, err := (&pixv1.SettlementReport{EndToEndId: id.String(), Status: pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC}).MarshalVT()
	kit.Must(t, err)
	for _, record := range []*kgo.Record{{Topic: stream.Payments, Value: []byte("x")}, {Topic: stream.Settlements, Value: value}} {
		kit.Must(t, kafka.ProduceSync(t.Context(), record).FirstErr())
	}
	adopt := func() error { return origin.Adopt(t.Context(), config.Stream, kafka, client) }
	kit.Says(t, Run(t.Context(), config, io.Discard), "LEDGER_GIVEN_UP=none", "If pix.checkpoints was lost, put its files back") // a ledger that knows nothing of the topics
	kit.Must(t, kit.ErrorOf(origin.Name(t.Context(), kafka, client, 1, 0, 0)))
	kit.Says(t, adopt(), "is about "+id.String()) // a ledger that does not know what was told last
	failed, err := client.CreateTransfers(ledger.AppendReceipt(nil, id, pix.Content{}, pix.ReasonUnknownPayerPSP, false))
	if err != nil || len(failed) > 0 {
		t.Fatal(failed, err)
	}
	if err := Run(t.Context(), config, io.Discard); err != nil {
		t.Errorf("the ledger of these topics: %v", err)
	}
	if named := namedBy(t, kafka); named != identityOf(t, of) {
		t.Errorf("the topics name %v", named)
	}
}

func identityOf(t *testing.T, config ledger.Config) ledger.Identity {
	t.Helper()
	return identity(t, connect(t, config))
}

func accountsOf(t *testing.T, config ledger.Config) int {
	t.Helper()
	found, err := connect(t, config).QueryAccounts(tb.QueryFilter{Limit: 10})
	kit.Must(t, err)
	return len(found)
}

func namedBy(t *testing.T, kafka *kgo.Client) ledger.Identity {
	t.Helper()
	known, err := origin.ReadCheckpoints(t.Context(), kafka)
	named, mixed := origin.NamedBy(known)
	if err := errors.Join(err, mixed); err != nil || len(known) != 3 {
		t.Fatalf("%d checkpoints: %v", len(known), err)
	}
	return named
}
