package ledgerfacts

import (
	"testing"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// A zero in a field of a query means that the field does not matter. So no query may filter on what a legal id
// makes zero: it would find what is everybody's. An account without an id is no account at all.
func TestAZeroInAFilterIsNoFilter(t *testing.T) {
	zero, other := pix.Account{ISPB: "00000000", Branch: "0000", Number: "7"}, pix.Account{ISPB: "00000009", Branch: "0000", Number: "7"}
	for _, account := range []pix.Account{zero, other} {
		opened := ledger.NewAccount(ledger.CustomerAccount(account))
		opened.UserData64 = account.ISPB.Pack()
		kit.Must(t, createAccounts(opened))
	}
	banks := func(packed uint64) (banks map[pix.ISPB]bool) {
		found, err := client.QueryAccounts(tb.QueryFilter{Code: uint16(ledger.Customer), UserData64: packed, Limit: 8189})
		kit.Must(t, err)
		banks = map[pix.ISPB]bool{}
		for _, account := range found {
			_, named := ledger.UnpackAccount(account.ID)
			banks[named.ISPB] = true
		}
		return banks
	}
	if found := banks(other.ISPB.Pack()); len(found) != 1 || !found[other.ISPB] {
		t.Errorf("with the ISPB %s it finds accounts of %v", other.ISPB, found)
	}
	if found := banks(zero.ISPB.Pack()); !found[zero.ISPB] || !found[other.ISPB] {
		t.Errorf("with the ISPB %s, which packs to 0, it finds accounts of %v only", zero.ISPB, found)
	}
	if found, err := client.GetAccountTransfers(tb.AccountFilter{Limit: 8189, Flags: tb.AccountFilterFlags{Debits: true, Credits: true}.ToUint32()}); err != nil || len(found) > 0 {
		t.Errorf("an account without an id has transfers: %v %v", found, err)
	}
}
