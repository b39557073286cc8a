package origin

import (
	"context"
	"errors"
	"fmt"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/stream"
)

// Used reports whether a system has worked with the topics: they have had records, or there are commits. told:
// something was reported, or committed.
func Used(ctx context.Context, kafka *kgo.Client) (used, told bool, err error) {
	for _, topic := range []string{stream.Payments, stream.Settlements, stream.DeadLetters} {
		bounds, err := stream.BoundsOf(ctx, kafka, topic)
		if err != nil {
			return used, told, err
		}

		for _, b := range bounds {
			used, told = used || b.End > 0, told || b.End > 0 && topic != stream.Payments
		}
	}

	commits, err := Commits(ctx, kafka)
	for _, o := range commits {
		used, told = used || o.At > 0, told || o.At > 0
	}

	return used, told, err
}

// Commits returns the commits of the engines' group by partition, whoever has written them.
func Commits(ctx context.Context, kafka *kgo.Client) (map[int32]kadm.Offset, error) {
	committed, err := kadm.NewClient(kafka).FetchOffsetsForTopics(ctx, stream.EngineGroup, stream.Payments)
	if err == nil {
		err = committed.Error()
	}

	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil, nil
	}

	if err != nil {
		return nil, fmt.Errorf("cannot read the offsets of the group %s: %w", stream.EngineGroup, err)
	}
	commits := map[int32]kadm.Offset{}
	committed.Each(func(o kadm.OffsetResponse) {
		if o.At >= 0 {
			commits[o.Partition] = o.Offset
		}
	})

	return commits, nil
}

// First returns the first checkpoint of each partition of a log that has none yet.
func First(known map[int32]Checkpoint, partitions int, names Names) map[int32]Checkpoint {
	first := map[int32]Checkpoint{}

	for partition := range int32(partitions) {
		if _, has := known[partition]; !has {
			first[partition] = Checkpoint{Ledger: names.Ledger,
				Seen: []tb.Uint128{ledger.IdentityID(names.Ledger.Number)}, Log: names.Log, Offset: -1}
		}
	}

	return first
}

// NameLedger lets new topics name a ledger, without a look at what they hold. Bootstrap decides whether it may.
func NameLedger(ctx context.Context, kafka *kgo.Client, client tigerbeetle.Client, partitions int) error {
	names, err := Read(ctx, client, partitions)
	if err != nil {
		return err
	}

	return WriteCheckpoints(ctx, kafka, First(nil, partitions, names))
}
