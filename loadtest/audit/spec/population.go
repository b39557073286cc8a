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

func PopulationIn(userData128 tb.Uint128, userData64 uint64) Population {
	money := NumberOf(userData128)
	return Population{Banks: userData64 >> 32, customers: userData64 & (1<<32 - 1), deposit: money.Low,
		reserve: money.High}
}

const (
	firstBank      = 10_000_001
	ordinaryBranch = "0001"
	richBranch     = "9010" // its one customer owns twice the reserve of the bank
)

var MarkerID = Number{Low: 15}

// Fundings returns how many transfers funded the population: one for each bank, each rich and
// each ordinary customer.
func (p Population) Fundings() uint64 {
	if p.Banks == 0 {
		return 0 // nobody to spread customers over
	}

	return 2*p.Banks + p.customers
}

// Funding returns the account that a funding credits, and its amount in centavos. The id of
// the transfer is that of the account. i is less than fundings().
func (p Population) Funding(i uint64) (credit AccountID, amount uint64) {
	bank, branch, number := i%p.Banks, "", uint64(1)
	switch ordinary := i - 2*p.Banks; {
	case i < p.Banks:
		amount = p.reserve
	case i < 2*p.Banks:
		branch, amount = richBranch, 2*p.reserve
	default:
		bank, branch, number, amount = ordinary%p.Banks, ordinaryBranch, ordinary/p.Banks+1, p.deposit
	}

	ispb := strconv.FormatUint(firstBank+bank, 10)
	if branch == "" {
		credit, _ = CustomerAccount(ispb, ordinaryBranch, "1")
		return ReserveOf(credit), amount
	}
	credit, _ = CustomerAccount(ispb, branch, strconv.FormatUint(number, 10))

	return credit, amount
}

// Opening returns what the fundings bring to the reserve and the transit account of a bank together.
func (p Population) Opening(bank uint64) Money {
	customers := p.customers / p.Banks
	if bank < p.customers%p.Banks {
		customers++
	}
	deposits := MoneyOf(p.reserve).times(2).Plus(MoneyOf(p.deposit).times(customers))

	return MoneyOf(p.reserve).Minus(deposits)
}

func (p Population) String() string {
	return fmt.Sprintf("%d banks with %d centavos each, %d customers with %d", p.Banks, p.reserve,
		p.customers, p.deposit)
}
