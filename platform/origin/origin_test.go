package origin

import (
	"errors"
	"maps"
	"sync"
	"testing"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/stream"
)

// firstWins keeps the first transfer of an id, as the ledger does: deploy/ledgerfacts.
type firstWins struct {
	tigerbeetle.Client
	mu        sync.Mutex
	transfers map[tb.Uint128]tb.Transfer
}

func (l *firstWins) CreateTransfers(transfers []tb.Transfer) (results []tb.TransferEventResult, _ error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	for i, transfer := range transfers {
		if before, exists := l.transfers[transfer.ID]; !exists {
			l.transfers[transfer.ID] = transfer
		} else if result := tb.TransferExists; before != transfer {
			results = append(results,
				tb.TransferEventResult{Index: uint32(i), Result: tb.TransferExistsWithDifferentUserData128})
		} else {
			results = append(results, tb.TransferEventResult{Index: uint32(i), Result: result})
		}
	}

	return results, nil
}

func (l *firstWins) LookupTransfers(ids []tb.Uint128) (found []tb.Transfer, _ error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	for _, id := range ids {
		if transfer, exists := l.transfers[id]; exists {
			found = append(found, transfer)
		}
	}

	return found, nil
}

func startKafka(t *testing.T) *kgo.Client {
	t.Helper()

	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, stream.Payments, stream.Checkpoints))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)

	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)

	return client
}

// newLedger returns a ledger whose marker was written at a time.
func newLedger(at uint64) *firstWins {
	marker := ledger.Marker{}.Transfer()
	marker.Timestamp = at
	return &firstWins{transfers: map[tb.Uint128]tb.Transfer{ledger.MarkerID: marker}}
}

// takeLedger lets topics name their ledger, as bootstrap does.
func takeLedger(t *testing.T, kafka *kgo.Client, client tigerbeetle.Client) {
	t.Helper()

	if err := NameLedger(t.Context(), kafka, client, 3); err != nil {
		t.Fatal(err)
	}
}

func produce(t *testing.T, client *kgo.Client, value string) {
	t.Helper()

	if err := client.ProduceSync(t.Context(),
		&kgo.Record{Topic: stream.Payments, Partition: 1, Value: []byte(value)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func TestManyMayNameOneLogAndAllSeeTheSame(t *testing.T) {
	kafka, client := startKafka(t), newLedger(1)
	produce(t, kafka, "first")

	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := Name(t.Context(), kafka, client, 1, 1, 0); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	produce(t, kafka, "second")
	takeLedger(t, kafka, client)

	found, err := Check(t.Context(), kafka, client)
	if err != nil || len(found.Origins) != 1 || len(found.Bounds) != 3 || len(client.transfers) != 2 {
		t.Fatalf("%+v, %v", found, err)
	}
}

// A look reads the first batch of one partition. All have their turn, and one that differs stays
// a mismatch: what may be taken must not come and go.
func TestAWatchReadsEachPartitionInTurn(t *testing.T) {
	kafka, client := startKafka(t), newLedger(1)
	takeLedger(t, kafka, client)

	for partition := range int32(3) {
		if err := kafka.ProduceSync(t.Context(),
			&kgo.Record{Topic: stream.Payments, Partition: partition}).FirstErr(); err != nil {
			t.Fatal(err)
		}

		if _, err := Name(t.Context(), kafka, client, 1, partition, 0); err != nil {
			t.Fatal(err)
		}
	}

	var w Watch
	for range 4 {
		if err := w.Look(t.Context(), kafka, client); err != nil {
			t.Fatal(err)
		}
	}
	other := client.transfers[ledger.OriginID(1, 0)]
	other.UserData128 = tb.ToUint128(1)
	client.transfers[other.ID] = other

	looks := 0 // at partitions 1 and 2
	for ; looks < 3 && w.Look(t.Context(), kafka, client) == nil; looks++ {
	}

	for range 2 {
		if _, mismatch := errors.AsType[*Mismatch](w.Look(t.Context(), kafka, client)); !mismatch || looks != 2 {
			t.Errorf("the other content of partition 0 was noticed after %d looks, and then: %t", looks, mismatch)
		}
	}
}

// An equal record in another log is another batch: it has its own producer and time.
func TestALogWithAnEqualRecordIsAnotherOne(t *testing.T) {
	client := newLedger(1)

	for i := range 2 {
		kafka := startKafka(t)
		takeLedger(t, kafka, client)
		produce(t, kafka, "the same")

		_, err := Name(t.Context(), kafka, client, 1, 1, 0)
		if _, mismatch := errors.AsType[*Mismatch](err); mismatch != (i == 1) {
			t.Fatalf("log %d: %v", i, err)
		}

		_, err = Check(t.Context(), kafka, client)
		if _, mismatch := errors.AsType[*Mismatch](err); mismatch != (i == 1) {
			t.Fatalf("log %d: %v", i, err)
		}
	}
	client.transfers[ledger.GivenUpID(1)] = ledger.GivenUp(1)
	kafka := startKafka(t)
	takeLedger(t, kafka, client)

	if found, err := Check(t.Context(), kafka, client); err != nil || found.Log != 2 || len(found.Origins) != 0 {
		t.Errorf("after the log was given up: %+v, %v", found, err)
	}
}

// An older copy of a ledger may have some of what a checkpoint saw, in any place of it: what was looked up last is old.
func TestAllThatACheckpointSawMustBeThere(t *testing.T) {
	is := ledger.Identity{Number: 1, Since: 7}
	seen := []tb.Uint128{tb.ToUint128(1), tb.ToUint128(2), tb.ToUint128(3)}
	known := map[int32]Checkpoint{0: {Ledger: is, Seen: seen}}
	found := map[tb.Uint128]tb.Transfer{}

	for _, id := range seen {
		found[id] = tb.Transfer{ID: id}
	}

	if err := compareLedger(known, is, found); err != nil {
		t.Errorf("with all of it: %v", err)
	}

	for _, id := range seen {
		lacks := maps.Clone(found)
		delete(lacks, id)

		if _, noticed := errors.AsType[*Mismatch](compareLedger(known, is, lacks)); !noticed {
			t.Errorf("a ledger without %v is taken", id)
		}
	}
}
