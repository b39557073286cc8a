package ledgerfacts

import (
	"testing"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
)

// The first name of a log stays. Another engine that saw the same batch gets exists, one that saw
// another batch a status of its own, and both read the first name.
func TestTheFirstNameOfALogStays(t *testing.T) {
	first := ledger.Origin{Log: 7, Partition: 3, Offset: 5, Hash: [16]byte{1, 2}}
	another, elsewhere := first, first
	another.Hash[0]++
	elsewhere.Offset++
	for _, try := range []struct {
		origin ledger.Origin
		want   tb.CreateTransferResult
	}{
		{first, tb.TransferOK}, {first, tb.TransferExists},
		{another, tb.TransferExistsWithDifferentUserData128}, {elsewhere, tb.TransferExistsWithDifferentUserData64}, {first, tb.TransferExists},
	} {
		results, err := client.CreateTransfers([]tb.Transfer{try.origin.Transfer()})
		got := tb.TransferOK
		if len(results) > 0 {
			got = results[0].Result
		}
		if err != nil || got != try.want {
			t.Errorf("%+v: %s, %v; want %s", try.origin, got, err, try.want)
		}
		found, err := client.LookupTransfers([]tb.Uint128{ledger.OriginID(7, 3)})
		if err != nil || len(found) != 1 || ledger.OriginOf(found[0]) != first {
			t.Fatalf("the ledger has %+v, %v", found, err)
		}
	}
	byCode, err := client.QueryTransfers(tb.QueryFilter{Code: ledger.CodeOrigin, Limit: 10})
	if err != nil || len(byCode) != 1 || ledger.OriginOf(byCode[0]) != first {
		t.Errorf("a query by the code finds %+v, %v", byCode, err)
	}
}
