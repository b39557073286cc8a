package sandbox

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/settings"
)

func populations() *rapid.Generator[Population] {
	return rapid.Custom(func(t *rapid.T) Population {
		banks := rapid.IntRange(2, 1000).Draw(t, "banks")

		return Population{
			Banks: banks, Customers: rapid.IntRange(2*banks, 4*banks).Draw(t, "customers"),
			DepositCentavos: rapid.Uint64Range(1, 1e12).Draw(t, "deposit"),
			ReserveCentavos: rapid.Uint64Range(1, 1e15).Draw(t, "reserve"),
		}
	})
}

func TestEveryAccountIsValidAndThereOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := populations().Draw(t, "population")
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		seen, perBank := map[pix.Account]bool{}, map[pix.ISPB]int{}
		add := func(account pix.Account) {
			if err := account.Validate(); err != nil || seen[account] {
				t.Fatalf("%v: there already: %v, %v", account, seen[account], err)
			}
			seen[account] = true
		}

		for i := range p.Customers {
			customer := p.Customer(i)
			add(customer)

			perBank[customer.ISPB]++
			if customer.ISPB != p.Bank(i%p.Banks) || p.DepositOf(customer) != p.DepositCentavos {
				t.Fatalf("customer %d is %v with %d", i, customer, p.DepositOf(customer))
			}
		}

		for i := range p.Banks {
			if perBank[p.Bank(i)] < 2 {
				t.Fatalf("%s has %d customers: payments inside one bank need two", p.Bank(i), perBank[p.Bank(i)])
			}

			deposits := uint64(perBank[p.Bank(i)]) * p.DepositCentavos
			for _, branch := range SpecialBranches {
				add(p.Special(i, branch))
				deposits += p.DepositOf(p.Special(i, branch))
			}

			if number, ok := p.BankNumber(p.Bank(i)); !ok || number != i || p.DepositsOf(i) != deposits {
				t.Fatalf("bank %d is number %d, %v, with deposits of %d, want %d", i, number, ok,
					p.DepositsOf(i), deposits)
			}
		}

		for _, stranger := range []pix.ISPB{p.Bank(-1), p.Bank(p.Banks), "ABCDEFGH"} {
			if number, ok := p.BankNumber(stranger); ok {
				t.Fatalf("%s is bank %d", stranger, number)
			}
		}

		if len(perBank) != p.Banks {
			t.Fatalf("%d banks, want %d", len(perBank), p.Banks)
		}
	})
}

func TestOnlyTheRichOwnMoreThanTheReserve(t *testing.T) {
	p := Population{Banks: 2, Customers: 4, DepositCentavos: 10, ReserveCentavos: 1000}
	for branch, want := range map[string]uint64{OrdinaryBranch: 10, RichBranch: 2000, SilentBranch: 0, LateBranch: 0,
		BlockedBranch: 0, ClosedBranch: 0, "1234": 0} {
		if got := p.DepositOf(p.Special(0, branch)); got != want {
			t.Errorf("branch %s owns %d, want %d", branch, got, want)
		}
	}
}

// The ledger's amounts are read as 63 bits: no account may ever hold more.
func TestAllTheMoneyFits(t *testing.T) {
	p := Population{Banks: 1000, Customers: 2_000_000, DepositCentavos: 1e12, ReserveCentavos: 1e15}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}

	total := float64(p.Banks)*float64(p.ReserveCentavos)*3 + float64(p.Customers)*float64(p.DepositCentavos)
	if total > math.MaxInt64 {
		t.Errorf("all reserves, deposits and the rich together own %g, more than 2^63", total)
	}
}

func TestValidateNamesTheVariableAndTheValue(t *testing.T) {
	for _, c := range []struct {
		change func(*Population)
		says   string
	}{
		{func(p *Population) { p.Banks = 1 }, "SANDBOX_BANKS is 1: it must be from 2 to 1000"},
		{func(p *Population) { p.Banks = 1001 }, "SANDBOX_BANKS is 1001"},
		{func(p *Population) { p.Customers = 9 }, "SANDBOX_CUSTOMERS is 9: it must be from 10 (2 per PSP) to 2000000"},
		{func(p *Population) { p.Customers = 2_000_001 }, "SANDBOX_CUSTOMERS is 2000001"},
		{func(p *Population) { p.DepositCentavos = 0 }, "SANDBOX_DEPOSIT_CENTAVOS is 0"},
		{func(p *Population) { p.DepositCentavos = 1e12 + 1 }, "SANDBOX_DEPOSIT_CENTAVOS is 1000000000001"},
		{func(p *Population) { p.ReserveCentavos = 0 }, "SANDBOX_RESERVE_CENTAVOS is 0"},
		{func(p *Population) {
			p.ReserveCentavos = math.MaxUint64
		}, "SANDBOX_RESERVE_CENTAVOS is 18446744073709551615"},
	} {
		var p Population
		if err := settings.Parse(&p); err != nil {
			t.Fatalf("the defaults are refused: %v", err)
		}
		c.change(&p)

		if err := settings.Check(&p); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("got %v, want %s", err, c.says)
		}
	}
}
