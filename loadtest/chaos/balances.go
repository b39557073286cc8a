package chaos

import (
	"context"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/loadtest/answers"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/sandbox"
)

const balancesEvery = 200 * time.Millisecond

// readBalances reads reserve, transit and books of every bank in one request, again and again. It
// returns after ctx has ended and the last request is done.
func readBalances(ctx context.Context, client tigerbeetle.Client, population sandbox.Population, judge *answers.Judge) error {
	var ids []tb.Uint128
	for bank := range population.Banks {
		ids = append(ids, ledger.ReserveAccount(population.Bank(bank)), ledger.TransitAccount(population.Bank(bank)), ledger.BooksAccount(population.Bank(bank)))
	}
	for ctx.Err() == nil {
		accounts, err := client.LookupAccounts(ids)
		if err != nil {
			return err
		}
		funds := make([]int64, len(accounts)/3)
		for i, account := range accounts {
			if has := ledger.Less(account.CreditsPosted, account.DebitsPosted); i%3 < 2 {
				funds[i/3] += has
			} else {
				funds[i/3] -= has
			}
		}
		judge.TakeFunds(funds)
		host.Sleep(ctx, balancesEvery)
	}
	return nil
}
