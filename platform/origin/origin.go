// Package origin compares topics and ledger, which belong together, both ways. On another log a commit
// means nothing, so acknowledged payments would be skipped in silence: the ledger names the batch with
// which each partition of pix.payments begins. With another ledger, or an older copy of this one, what was
// told is untrue, and an order settles twice: the checkpoints name the ledger, and what was surely in it.
package origin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/stream"
)

const (
	// logsMax bounds how often a ledger's log can be given up.
	logsMax = 64
	// lookUpMax is less than the smallest limit of a server, 253.
	lookUpMax = 250
	// doubt is between the two looks that a Mismatch needs: a broker that has just become
	// the leader may not know the end of its log for a moment.
	doubt = time.Second
)

// Names are who the ledger is, and what it says of the log.
type Names struct {
	Ledger ledger.Identity
	// Unconfirmed: the ledger was built again, and nobody has confirmed that the acts that it lacks were done again.
	Unconfirmed bool
	Log         uint32 // the number of the ledger's log
	Origins     map[int32]ledger.Origin
}

// Read reads the names of partitions 0 to partitions-1.
func Read(ctx context.Context, client tigerbeetle.Client, partitions int) (Names, error) {
	names, _, err := readWith(ctx, client, partitions, nil)
	return names, err
}

// readWith is Read. It also returns those of other transfers that the ledger has: it is asked once.
func readWith(ctx context.Context, client tigerbeetle.Client, partitions int,
	others []tb.Uint128) (Names, map[tb.Uint128]tb.Transfer, error) {
	names, there := Names{Log: 1, Origins: map[int32]ledger.Origin{}}, map[tb.Uint128]tb.Transfer{}

	ids := append(ledger.AppendIdentityIDs(slices.Clone(others)), ledger.RebuiltID, ledger.ConfirmedID)
	for log := range uint32(logsMax) {
		ids = append(ids, ledger.GivenUpID(log+1))
	}

	found, err := lookUp(ctx, client, ids)
	if err != nil {
		return names, there, err
	}

	names.Ledger, _ = ledger.IdentityIn(found)
	for _, transfer := range found {
		there[transfer.ID] = transfer
		if transfer.Code == ledger.CodeGivenUp {
			names.Log++ // a log is given up only after the one before it
		}
	}

	_, rebuilt := there[ledger.RebuiltID]
	_, confirmed := there[ledger.ConfirmedID]
	names.Unconfirmed = rebuilt && !confirmed

	ids = ids[:0]
	for partition := range partitions {
		ids = append(ids, ledger.OriginID(names.Log, int32(partition)))
	}

	if found, err = lookUp(ctx, client, ids); err != nil {
		return names, there, err
	}

	for _, transfer := range found {
		o := ledger.OriginOf(transfer)
		names.Origins[o.Partition] = o
	}

	return names, there, nil
}

// lookUp returns those transfers that exist.
func lookUp(ctx context.Context, client tigerbeetle.Client, ids []tb.Uint128) (all []tb.Transfer, err error) {
	for part := range slices.Chunk(ids, lookUpMax) {
		found, err := ledger.Ask(ctx, func() ([]tb.Transfer, error) { return client.LookupTransfers(part) })
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}

	return all, nil
}

// ErrUnnamed means that the topics name no ledger yet: nobody may go on before bootstrap has found out
// whether they belong to this one.
var ErrUnnamed = fmt.Errorf(
	"%s names no ledger: run bootstrap, which finds out whether topics and ledger belong together", stream.Checkpoints)

// ErrUnconfirmed means that nothing is cleared, and no order is taken: acts are.
var ErrUnconfirmed = errors.New(
	"the ledger was built again, and acts may be missing: do them again, above all what revoked keys and suspended banks, then run `bootstrap rebuild confirm`; until then nothing but acts is taken")

// Mismatch is an error that no wait can mend: topics and ledger do not belong together.
type Mismatch struct{ what, whatToDo string }

func (m *Mismatch) Error() string { return m.what + ". " + m.whatToDo }

// Mismatched returns a Mismatch that says what is wrong with the ledger's log, which has a number; 0: it is not known.
func Mismatched(log uint32, format string, values ...any) *Mismatch {
	setting := "PAYMENTS_LOG_GIVEN_UP"
	if log > 0 {
		setting += fmt.Sprintf("=%d", log)
	}

	return &Mismatch{fmt.Sprintf(format, values...),
		"The topic was made anew or cut, or ledger and topics are of different systems. Nothing is fetched from it. Put the ledger's own log back; if it is lost for good, bootstrap's " + setting + " gives it up: see ForeignLog in deploy/runbook.md"}
}

// wrongLedger returns a Mismatch that says what is wrong with the ledger beside topics that name another.
func wrongLedger(named ledger.Identity, format string, values ...any) *Mismatch {
	return &Mismatch{fmt.Sprintf(format, values...),
		fmt.Sprintf("The ledger's file was lost, or an older copy of it was put back, or TIGERBEETLE_ADDRESSES or KAFKA_BROKERS are of another system. Nothing is taken, cleared or answered. Put the topics' own ledger back, as it was last; if it is lost for good, build it again as in docs/backup.md, or bootstrap's LEDGER_GIVEN_UP=%s makes the topics take the ledger at hand: see ForeignLog in deploy/runbook.md, and docs/backup.md for what that loses",
			named)}
}

// Found is what a comparison has read.
type Found struct {
	Checkpoints map[int32]Checkpoint
	Names
	Bounds map[int32]stream.Bounds // of pix.payments
}

// CompareLedger compares the checkpoints with the ledger, and nothing else. It returns the checkpoints; none, if
// there is no topic for them yet.
func CompareLedger(ctx context.Context, kafka *kgo.Client, client tigerbeetle.Client) (map[int32]Checkpoint, error) {
	known, err := ReadCheckpoints(ctx, kafka)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil, ErrUnnamed
	}

	if err != nil {
		return nil, err
	}

	names, there, err := readWith(ctx, client, 0, appendSeen(nil, known))
	if err != nil {
		return known, err
	}

	return known, compareLedger(known, names.Ledger, there)
}

// Check compares topics and ledger. The names lack those of partitions without records or that nobody has
// named yet. A Mismatch was seen twice.
func Check(ctx context.Context, kafka *kgo.Client, client tigerbeetle.Client) (Found, error) {
	return twice(ctx, kafka, client, func(named []int32) []int32 { return named })
}

// CheckLedger is Check, but reads no batch of the log.
func CheckLedger(ctx context.Context, kafka *kgo.Client, client tigerbeetle.Client) (Found, error) {
	return twice(ctx, kafka, client, func([]int32) []int32 { return nil })
}

// CheckLog is Check, but compares only the log, whatever ledger the topics name.
func CheckLog(ctx context.Context, kafka *kgo.Client, client tigerbeetle.Client) error {
	return inDoubt(ctx, func() error {
		bounds, err := stream.BoundsOf(ctx, kafka, stream.Payments)
		if err != nil {
			return err
		}

		names, err := Read(ctx, client, len(bounds))
		if err != nil {
			return err
		}

		return compareLog(ctx, kafka, Found{Names: names, Bounds: bounds}, func(named []int32) []int32 { return named })
	})
}

// inDoubt looks again after a Mismatch: the second result counts.
func inDoubt(ctx context.Context, look func() error) error {
	err := look()
	if _, doubtful := errors.AsType[*Mismatch](err); !doubtful {
		return err
	}

	if !host.Sleep(ctx, doubt) {
		return ctx.Err()
	}

	return look()
}

// Watch compares topics and ledger again and again. The first look is a Check. A later one
// compares the bounds of all partitions, and reads the first batch of one: a batch may have a
// megabyte. A topic that was made anew is noticed at the next look all the same, because each of
// its partitions is empty or begins with another batch. If only one partition has another content,
// as after the restore of a disk, it is noticed after as many looks as there are partitions.
type Watch struct {
	Found Found // by the last look that found no fault
	looks int
}

// Look compares once. After a Mismatch the same partition has its turn again.
func (w *Watch) Look(ctx context.Context, kafka *kgo.Client, client tigerbeetle.Client) error {
	found, err := twice(ctx, kafka, client, func(named []int32) []int32 {
		if len(named) == 0 || w.looks == 0 {
			return named
		}
		turn := w.looks % len(named)

		return named[turn : turn+1]
	})
	if err == nil {
		w.Found = found
		w.looks++
	}

	return err
}

// twice compares the log with the ledger. read gets the named partitions, and returns those whose first batch is read.
func twice(ctx context.Context, kafka *kgo.Client, client tigerbeetle.Client,
	read func([]int32) []int32) (found Found, err error) {
	err = inDoubt(ctx, func() (err error) {
		found, err = check(ctx, kafka, client, read)
		return err
	})

	return found, err
}

// check reads the topics before it asks the ledger: what they name was in it by then. Only what the ledger has
// answered counts, so one that is silent, or changes its primary, alarms nobody.
func check(ctx context.Context, kafka *kgo.Client, client tigerbeetle.Client,
	read func([]int32) []int32) (found Found, err error) {
	if found.Checkpoints, err = ReadCheckpoints(ctx, kafka); err != nil {
		return found, err
	}

	if found.Bounds, err = stream.BoundsOf(ctx, kafka, stream.Payments); err != nil {
		return found, err
	}

	var there map[tb.Uint128]tb.Transfer
	if found.Names, there, err = readWith(ctx, client, len(found.Bounds),
		appendSeen(nil, found.Checkpoints)); err != nil {
		return found, err
	}

	unlike := compareLedger(found.Checkpoints, found.Ledger, there)
	if unlike != nil && !errors.Is(unlike, ErrUnnamed) {
		return found, unlike
	}

	return found, cmp.Or(compareLog(ctx, kafka, found, read), unlike) // a Kafka that was made anew names nothing
}

// compareLog returns a Mismatch if the log of pix.payments is not the one that the ledger names.
func compareLog(ctx context.Context, kafka *kgo.Client, found Found, read func([]int32) []int32) error {
	named := slices.Sorted(maps.Keys(found.Origins))
	for _, partition := range named {
		o, b := found.Origins[partition], found.Bounds[partition]
		switch {
		case b.Start > o.Offset:
			return Mismatched(found.Log,
				"partition %d of %s begins at offset %d, and the ledger's log begins at %d: the records between are gone",
				partition, stream.Payments, b.Start, o.Offset)
		case b.End <= o.Offset:
			return Mismatched(found.Log,
				"partition %d of %s ends at offset %d, and the ledger's log has a record at %d", partition,
				stream.Payments, b.End, o.Offset)
		}
	}

	begins := map[int32]int64{}
	for _, partition := range read(named) {
		begins[partition] = found.Origins[partition].Offset
	}

	hashes, err := stream.HashBatches(ctx, kafka, stream.Payments, begins)
	if err != nil {
		return err
	}

	for partition := range begins {
		if o := found.Origins[partition]; hashes[partition] != o.Hash {
			return Mismatched(found.Log,
				"partition %d of %s is not the ledger's log: its record at offset %d has the hash %x, and the ledger has %x (log %d)",
				partition, stream.Payments, o.Offset, hashes[partition], o.Hash, o.Log)
		}
	}

	return nil
}

// Name names the partition's log by its batch at an offset, the first there is. If another
// process was faster, both must have seen the same batch.
func Name(ctx context.Context, kafka *kgo.Client, client tigerbeetle.Client, log uint32, partition int32,
	start int64) (ledger.Origin, error) {
	hashes, err := stream.HashBatches(ctx, kafka, stream.Payments, map[int32]int64{partition: start})
	if err != nil {
		return ledger.Origin{}, err
	}
	o := ledger.Origin{Log: log, Partition: partition, Offset: start, Hash: hashes[partition]}

	results, err := ledger.Ask(ctx, func() ([]tb.TransferEventResult, error) {
		return client.CreateTransfers([]tb.Transfer{o.Transfer()})
	})
	if err != nil {
		return o, err
	}

	found, err := lookUp(ctx, client, []tb.Uint128{ledger.OriginID(log, partition)})
	if err != nil {
		return o, err
	}

	if len(found) == 0 {
		return o, fmt.Errorf("the ledger refuses to name partition %d of %s: %v", partition, stream.Payments, results)
	}

	if other := ledger.OriginOf(found[0]); other != o {
		return o, Mismatched(log,
			"partition %d of %s begins at offset %d with the hash %x, and another engine has just named offset %d and hash %x",
			partition, stream.Payments, o.Offset, o.Hash, other.Offset, other.Hash)
	}

	return o, nil
}
