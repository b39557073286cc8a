package origin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// Topics of a version without checkpoints name no ledger. Whether they belong to the one at hand shows by
// samples: what was finished last, and what was told last, must be in it.

// samplesMax is how many records of a partition are looked at, of each kind.
const samplesMax = 16

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

// Adopt returns nil if topics that name no ledger belong to the one at hand: it names the log's first batches, and
// knows what was finished and told last. Otherwise the error says what it lacks.
func Adopt(ctx context.Context, config stream.Config, kafka *kgo.Client, client tigerbeetle.Client) error {
	found := Found{}

	var err error
	if found.Bounds, err = stream.BoundsOf(ctx, kafka, stream.Payments); err != nil {
		return err
	}

	if found.Names, err = Read(ctx, client, len(found.Bounds)); err != nil {
		return err
	}

	if err := compareLog(ctx, kafka, found, func(named []int32) []int32 { return named }); err != nil {
		return err
	}

	commits, err := Commits(ctx, kafka)
	if err != nil {
		return err
	}
	var samples []sample

	for _, partition := range slices.Sorted(maps.Keys(found.Bounds)) {
		b, commit := found.Bounds[partition], commits[partition]
		if _, named := found.Origins[partition]; !named && commit.At > b.Start {
			return fmt.Errorf("the group %s has finished all below offset %d of partition %d of %s, and the ledger does not name that log",
				stream.EngineGroup, commit.At, partition, stream.Payments)
		}

		if stream.IsHint(commit.Metadata) {
			if samples, err = sampleOf(ctx, config, samples, stream.Payments, partition, b.Start,
				min(commit.At, b.Stable), orderIn); err != nil {
				return err
			}
		}
	}

	told, err := stream.BoundsOf(ctx, kafka, stream.Settlements)
	if err != nil {
		return err
	}

	for _, partition := range slices.Sorted(maps.Keys(told)) {
		if samples, err = sampleOf(ctx, config, samples, stream.Settlements, partition, told[partition].Start,
			told[partition].End, reportIn); err != nil {
			return err
		}
	}

	if len(found.Origins) == 0 {
		return errors.New("the ledger does not name the log of any partition")
	}

	return missing(ctx, client, samples)
}

// sample is a record of an order that the ledger must know, by one of two transfers.
type sample struct {
	topic     string
	partition int32
	offset    int64
	id        string
	either    [2]tb.Uint128
}

// sampleOf appends the last records of a part of a partition that of understands.
func sampleOf(ctx context.Context, config stream.Config, samples []sample, topic string, partition int32, from,
	to int64, of func(*kgo.Record) (string, [2]tb.Uint128)) ([]sample, error) {
	err := stream.ReadRange(ctx, config, host.System().Dial, topic, partition, max(from, to-samplesMax), to,
		func(record *kgo.Record) {
			if id, either := of(record); id != "" {
				samples = append(samples, sample{topic, partition, record.Offset, id, either})
			}
		})

	return samples, err
}

// orderIn returns the id of a valid payment order, and its verdict and hold.
func orderIn(record *kgo.Record) (string, [2]tb.Uint128) {
	var message pixv1.PaymentOrder
	if message.UnmarshalVT(record.Value) != nil || message.ReturnOrder != nil {
		return "", [2]tb.Uint128{}
	}

	order, err := pix.Draft{
		EndToEndID: message.EndToEndId, Payer: pix.AccountIn(message.Payer), Payee: pix.AccountIn(message.Payee),
		AmountCentavos:   message.AmountCentavos,
		AcceptedAtUnixMs: message.AcceptedAtUnixMs, RemittanceInformation: message.RemittanceInformation,
	}.Validate(record.Timestamp)
	if err != nil {
		return "", [2]tb.Uint128{} // a dead letter
	}
	ids := ledger.IDsOf(order.ID)

	return order.ID.String(), [2]tb.Uint128{ids.Verdict(), ids.Pending(1)}
}

// reportIn returns the id of a report, and its verdict.
func reportIn(record *kgo.Record) (string, [2]tb.Uint128) {
	var message pixv1.SettlementReport
	if message.UnmarshalVT(record.Value) != nil {
		return "", [2]tb.Uint128{}
	}

	if id, err := pix.ParseReturnID(message.EndToEndId); err == nil {
		return message.EndToEndId, [2]tb.Uint128{ledger.ReturnVerdict(id), ledger.ReturnVerdict(id)}
	}

	id, err := pix.ParseEndToEndID(message.EndToEndId)
	if err != nil {
		return "", [2]tb.Uint128{}
	}

	return message.EndToEndId, [2]tb.Uint128{ledger.IDsOf(id).Verdict(), ledger.IDsOf(id).Verdict()}
}

// missing returns an error that names the first sample that the ledger does not know.
func missing(ctx context.Context, client tigerbeetle.Client, samples []sample) error {
	var ids []tb.Uint128
	for _, s := range samples {
		ids = append(ids, s.either[:]...)
	}

	found, err := lookUp(ctx, client, ids)
	if err != nil {
		return err
	}

	there := map[tb.Uint128]bool{}
	for _, transfer := range found {
		there[transfer.ID] = true
	}

	for _, s := range samples {
		if !there[s.either[0]] && !there[s.either[1]] {
			return fmt.Errorf("offset %d of partition %d of %s is about %s, and the ledger does not know it", s.offset,
				s.partition, s.topic, s.id)
		}
	}

	return nil
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
