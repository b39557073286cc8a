package source

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/origin"
	"github.com/liquida/liquida/platform/stream"

	"github.com/liquida/liquida/loadtest/audit/spec"
)

// namingLedger holds nothing but names of logs.
type namingLedger struct {
	tigerbeetle.Client
	transfers []tb.Transfer
}

func (l *namingLedger) QueryTransfers(filter tb.QueryFilter) (found []tb.Transfer, _ error) {
	for i, transfer := range l.transfers {
		transfer.Timestamp = uint64(i + 1)
		if transfer.Code == filter.Code && transfer.Timestamp >= filter.TimestampMin {
			found = append(found, transfer)
		}
	}

	return found, nil
}

func (l *namingLedger) LookupTransfers(ids []tb.Uint128) (found []tb.Transfer, _ error) {
	for i, transfer := range l.transfers {
		if transfer.Timestamp = uint64(i + 1); slices.Contains(ids, transfer.ID) {
			found = append(found, transfer)
		}
	}

	return found, nil
}

// The two derivations of ids and hashes meet only here.
func TestTheLogMustBeTheLedgers(t *testing.T) {
	_, topics := fakeTopics(t, 2, Payments, Settlements, DeadLetters, checkpointsTopic)
	for range 3 {
		produceOne(t, topics.client, Payments, 1)
	}
	hashes, err := stream.HashBatches(t.Context(), topics.client, Payments, map[int32]int64{1: 0})
	kit.Must(t, err)
	right := ledger.Origin{Log: 1, Partition: 1, Hash: hashes[1]}

	changed := func(change func(*ledger.Origin)) tb.Transfer { o := right; change(&o); return o.Transfer() }
	otherBatch := changed(func(o *ledger.Origin) { o.Hash[0]++ })
	inPartition := func(p int32) tb.Transfer { return changed(func(o *ledger.Origin) { o.Partition = p }) }

	for _, c := range []struct {
		name      string
		transfers []tb.Transfer
		committed int64
		want      string // empty: no error
	}{
		{"nothing cleared, nothing named", nil, 0, ""},
		{"cleared and not named", nil, 3, "the ledger does not name that log"},
		{"the ledger's log", []tb.Transfer{right.Transfer()}, 3, ""},
		{"another first batch", []tb.Transfer{changed(func(o *ledger.Origin) {
			o.Hash[15]++
		})}, 3, "partition 1 of pix.payments begins with another batch"},
		{"an empty partition", []tb.Transfer{inPartition(0)}, 0, "partition 0 of pix.payments has the offsets 0 to 0"},
		{"a partition that is not there", []tb.Transfer{inPartition(9)}, 0,
			"partition 9 of pix.payments has the offsets 0 to 0"},
		{"a log that was given up", []tb.Transfer{otherBatch, ledger.GivenUp(1),
			changed(func(o *ledger.Origin) { o.Log = 2 })}, 0, ""},
		{"another log after that", []tb.Transfer{right.Transfer(), ledger.GivenUp(1), changed(func(o *ledger.Origin) {
			o.Log = 2
			o.Hash[0]++
		})}, 0, "begins with another batch"},
		{"a commit above the end", []tb.Transfer{right.Transfer()}, 4, "has committed offset 4 of partition 1"},
	} {
		b, err := topics.Bounds(t.Context())
		kit.Must(t, err)

		err = checkLog(t.Context(), &namingLedger{transfers: c.transfers}, topics, b, map[int32]int64{1: c.committed})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// Before the topics name a ledger, a wrong log is all that is known. Then the wrong ledger comes first.
	wrong := &namingLedger{transfers: []tb.Transfer{{ID: spec.MarkerID.TigerBeetle(), Code: spec.CodeMarker}, otherBatch}}
	for _, want := range []string{"begins with another batch",
		"partition 0 of pix.checkpoints names the ledger 1-77, and this is 1-1"} {
		kit.Says(t, CheckPair(t.Context(), wrong, topics), want)
		checkpoint := origin.Checkpoint{Ledger: ledger.Identity{Number: 1, Since: 77}, Log: 1, Offset: -1}
		kit.Must(t, origin.WriteCheckpoints(t.Context(), topics.client, map[int32]origin.Checkpoint{0: checkpoint}))
	}
	kit.Must(t, kit.ErrorOf(
		topics.admin.DeleteRecords(t.Context(),
			kadm.Offsets{Payments: {1: {Topic: Payments, Partition: 1, At: 1}}})))

	b, err := topics.Bounds(t.Context())
	kit.Must(t, err)
	// a log that was cut
	kit.Says(t, checkLog(t.Context(), &namingLedger{transfers: []tb.Transfer{right.Transfer()}}, topics, b, nil),
		"has the offsets 1 to 3")
}
