package spec

import (
	"fmt"
	"strconv"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// Population is the banks and customers that bootstrap funded, derived from "Identity" in
// docs/reference.md. It is in the user_data of the issuance account and of the marker, which the
// ledger never changes.
type Population struct {
	Banks, customers uint64
	// deposit is what each ordinary customer got, reserve what each bank got, in centavos.
	deposit, reserve uint64
}

// PopulationIn reads the population in user_data.
func PopulationIn(userData128 tb.Uint128, userData64 uint64) Population {
	money := NumberOf(userData128)
	return Population{Banks: userData64 >> 32, customers: userData64 & (1<<32 - 1), deposit: money.Low,
		reserve: money.High}
}

const (
	firstBank      = 10_000_001
	ordinaryBranch = 1
	richBranch     = 9010 // its one customer owns twice the reserve of the bank
)

// MarkerID is the id of bootstrap's last transfer.
var MarkerID = Number{Low: 15}

// bank returns the place of an account's bank among those that bootstrap funded.
func (p Population) bank(of AccountID) (bank uint64, known bool) {
	number, err := strconv.ParseUint(ISPBOf(of), 10, 64)
	return number - firstBank, err == nil && number >= firstBank && number-firstBank < p.Banks
}

// customersOf returns how many ordinary customers a bank has.
func (p Population) customersOf(bank uint64) uint64 {
	return (p.customers + p.Banks - 1 - bank) / p.Banks
}

// Fundings returns how many transfers funded the population: one for each bank, each rich and
// each ordinary customer.
func (p Population) Fundings() uint64 {
	if p.Banks == 0 {
		return 0 // nobody to spread customers over
	}

	return 2*p.Banks + p.customers
}

// Funding returns with how many centavos bootstrap funded an account, if it did. The id of the transfer is that of the
// account.
func (p Population) Funding(account AccountID) (centavos uint64, funded bool) {
	bank, known := p.bank(account)
	switch branch := account.High >> BranchShift & (1<<14 - 1); {
	case !known:
		return 0, false
	case account == ReserveOf(account):
		return p.reserve, true
	case KindOf(account) != KindCustomer || account.High&(1<<BranchShift-1) != 0 || account.Low == 0:
		return 0, false
	case branch == richBranch:
		return 2 * p.reserve, account.Low == 1
	default:
		return p.deposit, branch == ordinaryBranch && account.Low <= p.customersOf(bank)
	}
}

// Opening returns what the fundings bring to the reserve and the transit account of a bank together.
func (p Population) Opening(books AccountID) (sum Money, funded bool) {
	bank, known := p.bank(books)
	if !known {
		return sum, false
	}
	deposits := MoneyOf(p.reserve).times(2).Plus(MoneyOf(p.deposit).times(p.customersOf(bank)))

	return MoneyOf(p.reserve).Minus(deposits), true
}

func (p Population) String() string {
	return fmt.Sprintf("%d banks with %d centavos each, %d customers with %d", p.Banks, p.reserve,
		p.customers, p.deposit)
}
