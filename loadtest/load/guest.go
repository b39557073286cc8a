package load

import (
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// Guest is a bank that joins beside the population. It has the ISPB of a real bank, which packs to 0: what
// TigerBeetle takes for "no filter" in a query. So whoever mistakes a zero for nothing shows it here.
const Guest pix.ISPB = "00000000"

// GuestAccounts are the accounts that Guest opens, with the lowest branch.
var GuestAccounts = []pix.Account{{ISPB: Guest, Branch: "0000", Number: "1"},
	{ISPB: Guest, Branch: "0000", Number: "2"}}

// Invite has Guest join with money, a key to the HTTP API, and its accounts.
func (o *Operator) Invite(key string) error {
	acts := []ledger.Act{
		{Kind: ledger.Joined, Bank: Guest, ByCentralBank: true},
		{Kind: ledger.KeyNamed, Bank: Guest, Digest: ledger.ActDigest(keys.DigestOf(key)), ByCentralBank: true},
		{Kind: ledger.LiquidityIn, Bank: Guest, Centavos: int64(o.Population.ReserveCentavos), ByCentralBank: true}, //nolint:gosec // its range
	}
	for _, account := range GuestAccounts {
		acts = append(acts, ledger.Act{Kind: ledger.AccountOpened, Bank: Guest, Account: account},
			ledger.Act{Kind: ledger.Deposit, Bank: Guest, Account: account, Centavos: int64(o.Population.DepositCentavos)}) //nolint:gosec // its range
	}

	for _, act := range acts {
		if err := o.Do(act); err != nil {
			return err
		}
	}

	return nil
}
