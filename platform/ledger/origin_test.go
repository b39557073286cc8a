package ledger

import (
	"math/big"
	"testing"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"pgregory.net/rapid"
)

// The ledger holds the layout forever. It is built here a second time: log number, then 32 bits of
// partition + 1, then role 15.
func TestOriginLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Origin{Log: rapid.Uint32().Draw(t, "log"), Partition: rapid.Int32Range(0, 1<<31-2).Draw(t, "partition"),
			Offset: rapid.Int64Min(0).Draw(t, "offset")}
		copy(o.Hash[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "hash"))
		id := new(big.Int).Lsh(big.NewInt(int64(o.Log)), 36)
		id.Or(id, new(big.Int).Lsh(big.NewInt(int64(o.Partition)+1), 4))
		id.Or(id, big.NewInt(15))

		transfer := o.Transfer()
		if bigOf(fromTB(transfer.ID)).Cmp(id) != 0 ||
			bigOf(fromTB(transfer.UserData128)).Cmp(new(big.Int).SetBytes(o.Hash[:])) != 0 {
			t.Fatalf("%+v has the id %s and the hash %s", o, transfer.ID, transfer.UserData128)
		}

		if want := (tb.Transfer{
			ID: transfer.ID, DebitAccountID: IssuanceAccount, CreditAccountID: RefusalsAccount, Ledger: 986, Code: 15,
			UserData128: transfer.UserData128, UserData64: uint64(o.Offset),
		}); transfer != want || OriginOf(transfer) != o {
			t.Fatalf("%+v is kept as %+v and read as %+v", o, transfer, OriginOf(transfer))
		}

		if given := bigOf(fromTB(GivenUp(o.Log).ID)); given.Cmp(
			new(big.Int).Add(new(big.Int).Lsh(big.NewInt(int64(o.Log)), 36), big.NewInt(15))) != 0 ||
			GivenUp(o.Log).Code != 16 {
			t.Fatalf("log %d is given up with %x", o.Log, given)
		}

		if MarkerID == transfer.ID || o.Log > 0 && MarkerID == GivenUpID(o.Log) {
			t.Fatalf("%+v has the id of the marker", o)
		}
	})
}

// Roles 9 to 15 are no payment's, and no account, so no funding, has a kind 0.
func TestNoPaymentAndNoFundingHasTheIDOfAnOrigin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := fromTB(OriginID(rapid.Uint32().Draw(t, "log"), rapid.Int32Min(-1).Draw(t, "partition")))
		if v.low&15 != 15 || v.shiftRight(124).low != 0 {
			t.Fatalf("%x has a role of payments, or the kind of an account", bigOf(v))
		}
	})
}
