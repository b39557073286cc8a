package origin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// Checkpoint is what the topics say about one partition of pix.payments and about its ledger. See
// pixv1.Checkpoint.
type Checkpoint struct {
	Ledger ledger.Identity
	Seen   []tb.Uint128 // surely in that ledger
	Log    uint32
	Offset int64 // -1: nothing is finished
	Hint   string
	At     time.Time // when it was written, by its writer's clock
}

// Record returns the record that keeps the checkpoint of a partition.
func (c Checkpoint) Record(partition int32) *kgo.Record {
	message := &pixv1.Checkpoint{LedgerNumber: c.Ledger.Number, LedgerSince: c.Ledger.Since, Log: c.Log,
		Offset: c.Offset, Hint: c.Hint}
	for _, id := range c.Seen {
		bytes := id.Bytes()
		message.Seen = append(message.Seen, bytes[:])
	}

	value, err := message.MarshalVT()
	if err != nil {
		panic(fmt.Sprintf("broken law: a checkpoint can be encoded: %v", err))
	}

	return &kgo.Record{Topic: stream.Checkpoints, Partition: partition,
		Key: strconv.AppendInt(nil, int64(partition), 10), Value: value}
}

// checkpointOf is the inverse of Record. It reports whether the record is a checkpoint.
func checkpointOf(record *kgo.Record) (c Checkpoint, ok bool) {
	var message pixv1.Checkpoint
	if string(record.Key) != strconv.Itoa(int(record.Partition)) || message.UnmarshalVT(record.Value) != nil {
		return c, false
	}

	c = Checkpoint{
		Ledger: ledger.Identity{Number: message.LedgerNumber, Since: message.LedgerSince},
		Log:    message.Log, Offset: message.Offset, Hint: message.Hint, At: record.Timestamp,
	}
	for _, bytes := range message.Seen {
		if len(bytes) != 16 {
			return c, false
		}
		c.Seen = append(c.Seen, tb.BytesToUint128([16]byte(bytes)))
	}

	return c, c.Ledger.Number > 0 && len(c.Seen) <= seenMax
}

// seenMax bounds the transfers of a checkpoint: what each of the senders of an engine wrote last, what it found
// last, and its pulse.
const seenMax = 32

// ReadCheckpoints returns the newest checkpoint of each partition that has one.
func ReadCheckpoints(ctx context.Context, kafka *kgo.Client) (map[int32]Checkpoint, error) {
	known := map[int32]Checkpoint{}
	err := stream.LastRecords(ctx, kafka, stream.Checkpoints, func(record *kgo.Record) bool {
		checkpoint, ok := checkpointOf(record)
		if ok {
			known[record.Partition] = checkpoint
		}

		return ok
	})

	return known, err
}

// WriteCheckpoints writes checkpoints, and returns once all in-sync replicas have them.
func WriteCheckpoints(ctx context.Context, kafka *kgo.Client, checkpoints map[int32]Checkpoint) error {
	var records []*kgo.Record
	for partition, checkpoint := range checkpoints {
		records = append(records, checkpoint.Record(partition))
	}

	if err := kafka.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("cannot write %d checkpoints to %s: %w", len(records), stream.Checkpoints, err)
	}

	return nil
}

// NamedBy returns the identity that checkpoints name; the zero one, if there are none. It is an error if they
// name several: a change of identity was interrupted.
func NamedBy(known map[int32]Checkpoint) (named ledger.Identity, err error) {
	for _, partition := range slices.Sorted(maps.Keys(known)) {
		switch is := known[partition].Ledger; {
		case named == ledger.Identity{}:
			named = is
		case named != is:
			return named, fmt.Errorf("partition %d of %s names the ledger %s, and a partition before it %s", partition,
				stream.Checkpoints, is, named)
		}
	}

	return named, nil
}

// appendSeen appends what the ledger of the checkpoints must have, each id once.
func appendSeen(ids []tb.Uint128, known map[int32]Checkpoint) []tb.Uint128 {
	seen := map[tb.Uint128]bool{}

	for _, checkpoint := range known {
		for _, id := range checkpoint.Seen {
			if !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
		}
	}

	return ids
}

// compareLedger returns a Mismatch if the ledger that gave an answer is not the one of the checkpoints, which
// were read before it was asked, or if it lacks what was in it.
func compareLedger(known map[int32]Checkpoint, is ledger.Identity, found map[tb.Uint128]tb.Transfer) error {
	if len(known) == 0 {
		return ErrUnnamed
	}

	for _, partition := range slices.Sorted(maps.Keys(known)) {
		c := known[partition]
		switch {
		case is == ledger.Identity{}:
			return wrongLedger(c.Ledger,
				"the ledger has no marker, so it is new or not complete, and the topics (partition %d of %s) name the ledger %s",
				partition, stream.Checkpoints, c.Ledger)
		case c.Ledger != is:
			return wrongLedger(c.Ledger,
				"this is the ledger %s, and the topics (partition %d of %s) name the ledger %s", is, partition,
				stream.Checkpoints, c.Ledger)
		}

		for _, id := range c.Seen {
			if _, there := found[id]; !there {
				return Older(c.Ledger, id, c.At,
					fmt.Sprintf("an engine (partition %d of %s)", partition, stream.Checkpoints))
			}
		}
	}

	return nil
}

// Older returns a Mismatch: a ledger lacks a transfer that somebody saw in it before a time.
func Older(is ledger.Identity, lacks tb.Uint128, before time.Time, who string) *Mismatch {
	return wrongLedger(is, "the ledger is older than the topics: it lacks the transfer %v, which %s saw in it before %s",
		lacks, who, before.UTC().Format(time.RFC3339))
}
