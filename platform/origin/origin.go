// Package origin compares the log of pix.payments with the ledger. They belong together: on
// another log a commit means nothing, so acknowledged payments would be skipped in silence.
// The ledger names the batch with which each partition begins.
package origin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/stream"
)

const (
	// logsMax bounds how often a ledger's log can be given up.
	logsMax = 64
	// lookUpMax is less than the smallest limit of a server.
	lookUpMax = 128
	// doubt is between the two looks that a Mismatch needs: a broker that has just become
	// the leader may not know the end of its log for a moment.
	doubt = time.Second
)

// Names are the origins that the ledger holds.
type Names struct {
	Log     uint32 // the number of the ledger's log
	Origins map[int32]ledger.Origin
}

// Read reads the names of partitions 0 to partitions-1.
func Read(ctx context.Context, client tigerbeetle.Client, partitions int) (Names, error) {
	names := Names{Log: 1, Origins: map[int32]ledger.Origin{}}
	var ids []tb.Uint128
	for log := range uint32(logsMax) {
		ids = append(ids, ledger.GivenUpID(log+1))
	}
	found, err := lookUp(ctx, client, ids)
	if err != nil {
		return names, err
	}
	names.Log += uint32(len(found)) // a log is given up only after the one before it
	for first := 0; first < partitions; first += lookUpMax {
		ids = ids[:0]
		for partition := first; partition < min(partitions, first+lookUpMax); partition++ {
			ids = append(ids, ledger.OriginID(names.Log, int32(partition)))
		}
		if found, err = lookUp(ctx, client, ids); err != nil {
			return names, err
		}
		for _, transfer := range found {
			o := ledger.OriginOf(transfer)
			names.Origins[o.Partition] = o
		}
	}
	return names, nil
}

func lookUp(ctx context.Context, client tigerbeetle.Client, ids []tb.Uint128) ([]tb.Transfer, error) {
	return ledger.Ask(ctx, func() ([]tb.Transfer, error) { return client.LookupTransfers(ids) })
}

// Mismatch is an error that no wait can mend: the log is not the ledger's.
type Mismatch struct{ what string }

func (m *Mismatch) Error() string {
	return m.what + ". The topic was made anew or cut, or ledger and topics are of different systems. Nothing is fetched from it. Put the ledger's own log back; if it is lost for good, give it up with bootstrap's PAYMENTS_LOG_GIVEN_UP: see ForeignLog in deploy/runbook.md"
}

// Mismatched returns a Mismatch that says what is wrong.
func Mismatched(format string, values ...any) *Mismatch {
	return &Mismatch{fmt.Sprintf(format, values...)}
}

// Check compares the log with the ledger. It returns the names, which lack those of
// partitions without records or that nobody has named yet. A Mismatch was seen twice.
func Check(ctx context.Context, kafka *kgo.Client, client tigerbeetle.Client) (Names, map[int32]stream.Bounds, error) {
	return twice(ctx, kafka, client, func(named []int32) []int32 { return named })
}

// Watch compares the log with the ledger again and again. The first look is a Check. A later one
// compares the bounds of all partitions, and reads the first batch of one: a batch may have a
// megabyte. A topic that was made anew is noticed at the next look all the same, because each of
// its partitions is empty or begins with another batch. If only one partition has another content,
// as after the restore of a disk, it is noticed after as many looks as there are partitions.
type Watch struct{ looks int }

// Look compares once. After a Mismatch the same partition has its turn again.
func (w *Watch) Look(ctx context.Context, kafka *kgo.Client, client tigerbeetle.Client) error {
	_, _, err := twice(ctx, kafka, client, func(named []int32) []int32 {
		if len(named) == 0 || w.looks == 0 {
			return named
		}
		turn := w.looks % len(named)
		return named[turn : turn+1]
	})
	if err == nil {
		w.looks++
	}
	return err
}

// twice compares the log with the ledger. If they differ, it waits for doubt and compares again: the
// second result counts. read gets the named partitions, and returns those whose first batch is read.
func twice(ctx context.Context, kafka *kgo.Client, client tigerbeetle.Client, read func([]int32) []int32) (Names, map[int32]stream.Bounds, error) {
	names, bounds, err := check(ctx, kafka, client, read)
	if _, doubtful := errors.AsType[*Mismatch](err); doubtful {
		if !host.Sleep(ctx, doubt) {
			return names, bounds, ctx.Err()
		}
		return check(ctx, kafka, client, read)
	}
	return names, bounds, err
}

func check(ctx context.Context, kafka *kgo.Client, client tigerbeetle.Client, read func([]int32) []int32) (Names, map[int32]stream.Bounds, error) {
	bounds, err := stream.BoundsOf(ctx, kafka, stream.Payments)
	if err != nil {
		return Names{}, nil, err
	}
	names, err := Read(ctx, client, len(bounds))
	if err != nil {
		return names, bounds, err
	}
	named := slices.Sorted(maps.Keys(names.Origins))
	for _, partition := range named {
		o, b := names.Origins[partition], bounds[partition]
		switch {
		case b.Start > o.Offset:
			return names, bounds, Mismatched("partition %d of %s begins at offset %d, and the ledger's log begins at %d: the records between are gone", partition, stream.Payments, b.Start, o.Offset)
		case b.End <= o.Offset:
			return names, bounds, Mismatched("partition %d of %s ends at offset %d, and the ledger's log has a record at %d", partition, stream.Payments, b.End, o.Offset)
		}
	}
	begins := map[int32]int64{}
	for _, partition := range read(named) {
		begins[partition] = names.Origins[partition].Offset
	}
	hashes, err := stream.HashBatches(ctx, kafka, stream.Payments, begins)
	if err != nil {
		return names, bounds, err
	}
	for partition := range begins {
		if o := names.Origins[partition]; hashes[partition] != o.Hash {
			return names, bounds, Mismatched("partition %d of %s is not the ledger's log: its record at offset %d has the hash %x, and the ledger has %x (log %d)", partition, stream.Payments, o.Offset, hashes[partition], o.Hash, o.Log)
		}
	}
	return names, bounds, nil
}

// Name names the partition's log by its batch at an offset, the first there is. If another
// process was faster, both must have seen the same batch.
func Name(ctx context.Context, kafka *kgo.Client, client tigerbeetle.Client, log uint32, partition int32, start int64) (ledger.Origin, error) {
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
		return o, Mismatched("partition %d of %s begins at offset %d with the hash %x, and another engine has just named offset %d and hash %x", partition, stream.Payments, o.Offset, o.Hash, other.Offset, other.Hash)
	}
	return o, nil
}
