package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	pixv1 "github.com/liquida/liquida/proto/pix/v1"

	"github.com/liquida/liquida/loadtest/audit/spec"
)

// The topics name their ledger, and what was surely in it. Without this an audit could call an older copy of
// the ledger clean: whatever was paid after the copy is paid again, and nothing shows it.

const checkpointsTopic = "pix.checkpoints"

// renewalsMax is how many identities a ledger can have had after its first.
const renewalsMax = 64

// Compare returns what is wrong with the ledger beside these topics, or nothing. An error means that it is not
// known. It waits as long as the ledger does not answer.
func (t *Topics) Compare(ctx context.Context, ledger tigerbeetle.Client) (wrong string, err error) {
	checkpoints, err := t.checkpoints(ctx) // before the ledger is asked: what they name was in it
	if err != nil {
		return "", err
	}

	if len(checkpoints) == 0 {
		return "", fmt.Errorf("%s names no ledger: run bootstrap", checkpointsTopic)
	}

	ids := []tb.Uint128{}
	for number := range uint64(renewalsMax + 1) {
		ids = append(ids, identityID(number+1).TigerBeetle())
	}

	for _, c := range checkpoints {
		for _, id := range c.seen {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	there := map[tb.Uint128]tb.Transfer{}

	for part := range slices.Chunk(ids, 250) { // less than the smallest limit of a server
		found, err := ledger.LookupTransfers(part)
		if err != nil {
			return "", fmt.Errorf("cannot ask the ledger who it is: %w", err)
		}

		for _, transfer := range found {
			there[transfer.ID] = transfer
		}
	}
	var is Identity

	for number := range uint64(renewalsMax + 1) {
		if begin, known := there[identityID(number+1).TigerBeetle()]; known {
			is = Identity{uint32(number + 1), begin.Timestamp}
		}
	}

	for _, c := range checkpoints {
		if c.ledger != is {
			return fmt.Sprintf("partition %d of %s names the ledger %v, and this is %v", c.partition, checkpointsTopic,
				c.ledger, is), nil
		}

		for _, id := range c.seen {
			if _, known := there[id]; !known {
				return fmt.Sprintf("it is an older copy: it lacks the transfer %v, which an engine saw in it before %s (partition %d of %s)",
					id, c.at.UTC().Format(time.RFC3339), c.partition, checkpointsTopic), nil
			}
		}
	}

	return "", nil
}

// Identity is which ledger one is: the number of its identity, and the ledger's time of the transfer that began it.
type Identity struct {
	Number uint32
	Since  uint64
}

func (i Identity) String() string {
	if i.Number == 0 {
		return "one without a marker"
	}

	return fmt.Sprintf("%d-%d", i.Number, i.Since)
}

// identityID returns the id of the transfer that begins an identity: its number - 1, 64 bits of zero, and role
// 15. That of the first is the marker's.
func identityID(number uint64) spec.Number { return spec.Number{High: (number - 1) << 4, Low: 15} }

type checkpoint struct {
	partition int32
	ledger    Identity
	seen      []tb.Uint128
	at        time.Time
	end       int64 // of the partition when it was read
}

// lookBackMax is how many records before the last one may be no checkpoints.
const lookBackMax = 64

// checkpoints returns the last checkpoint of each partition that has one.
func (t *Topics) checkpoints(ctx context.Context) (all []checkpoint, err error) {
	b, err := t.BoundsOf(ctx, checkpointsTopic)
	if err != nil {
		return nil, err
	}

	for partition, end := range b.Ends[checkpointsTopic] {
		if c := t.last[partition]; c.end == end.Offset && end.Offset > 0 {
			all = append(all, c)
			continue
		}

		least := max(b.Starts[checkpointsTopic][partition].Offset, end.Offset-lookBackMax)
		for offset := end.Offset - 1; offset >= least; offset-- {
			stored, err := t.fetchAt(ctx, checkpointsTopic, partition, offset)
			if err != nil {
				return nil, fmt.Errorf("cannot read offset %d of %s, partition %d: %w", offset, checkpointsTopic,
					partition, err)
			}

			if c, ok := checkpointIn(stored, partition, offset); ok {
				c.end = end.Offset
				all, t.last[partition] = append(all, c), c
				break
			}
		}
	}
	slices.SortFunc(all, func(a, b checkpoint) int { return int(a.partition - b.partition) })

	return all, nil
}

// checkpointIn returns the checkpoint at an offset of what is stored, and false if that is something else.
func checkpointIn(stored *kmsg.FetchResponseTopicPartition, partition int32, offset int64) (c checkpoint, ok bool) {
	read, _ := kgo.ProcessFetchPartition(
		kgo.ProcessFetchPartitionOpts{Offset: offset, Topic: checkpointsTopic, Partition: partition}, stored,
		uncompressed{}, nil)

	at := slices.IndexFunc(read.Records, func(r *kgo.Record) bool { return r.Offset == offset })
	if at < 0 {
		return c, false
	}
	var message pixv1.Checkpoint

	record := read.Records[at]
	if string(record.Key) != strconv.Itoa(int(partition)) || message.UnmarshalVT(record.Value) != nil ||
		message.LedgerNumber == 0 {
		return c, false
	}

	c = checkpoint{partition: partition, ledger: Identity{message.LedgerNumber, message.LedgerSince},
		at: record.Timestamp}
	for _, id := range message.Seen {
		if len(id) != 16 {
			return c, false
		}
		c.seen = append(c.seen, tb.BytesToUint128([16]byte(id)))
	}

	return c, true
}

// uncompressed unpacks nothing: engines do not compress, and what others pack may have any size.
type uncompressed struct{}

func (uncompressed) Decompress(bytes []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	if codec != kgo.CodecNone {
		return nil, fmt.Errorf("a batch with the compression %v", codec)
	}

	return bytes, nil
}

// CheckPair fails if topics and ledger do not belong together: then there is nothing to audit. That the ledger is
// another or older comes first, because then it may well name another log.
func CheckPair(ctx context.Context, ledger tigerbeetle.Client, t *Topics) error {
	b, err := t.Bounds(ctx)
	if err != nil {
		return err
	}

	committed, err := t.Committed(ctx, b)
	if err != nil {
		return err
	}

	if b, err = t.Bounds(ctx); err != nil { // again: an end must not be older than a commit
		return err
	}

	wrong, err := t.Compare(ctx, ledger)
	if wrong != "" {
		return errors.New("the ledger is not the topics': " + wrong +
			"; put the topics' own ledger back, see ForeignLog in deploy/runbook.md")
	}

	return cmp.Or(checkLog(ctx, ledger, t, b, committed), err) // a Kafka that was made anew names nothing
}
