package audit

import (
	"fmt"
	"strconv"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// population is the banks and customers that bootstrap funded, derived from "Identity" in
// docs/reference.md. It is in the user_data of the issuance account and of the marker, which the
// ledger never changes.
type population struct {
	banks, customers uint64
	// deposit is what each ordinary customer got, reserve what each bank got, in centavos.
	deposit, reserve uint64
}

func populationIn(userData128 tb.Uint128, userData64 uint64) population {
	money := fromTigerBeetle(userData128)
	return population{banks: userData64 >> 32, customers: userData64 & (1<<32 - 1), deposit: money.low,
		reserve: money.high}
}

const (
	firstBank      = 10_000_001
	ordinaryBranch = "0001"
	richBranch     = "9010" // its one customer owns twice the reserve of the bank
)

var markerID = number128{low: 15}

// fundings returns how many transfers funded the population: one for each bank, each rich and
// each ordinary customer.
func (p population) fundings() uint64 {
	if p.banks == 0 {
		return 0 // nobody to spread customers over
	}

	return 2*p.banks + p.customers
}

// funding returns the account that a funding credits, and its amount in centavos. The id of
// the transfer is that of the account. i is less than fundings().
func (p population) funding(i uint64) (credit accountID, amount uint64) {
	bank, branch, number := i%p.banks, "", uint64(1)
	switch ordinary := i - 2*p.banks; {
	case i < p.banks:
		amount = p.reserve
	case i < 2*p.banks:
		branch, amount = richBranch, 2*p.reserve
	default:
		bank, branch, number, amount = ordinary%p.banks, ordinaryBranch, ordinary/p.banks+1, p.deposit
	}

	ispb := strconv.FormatUint(firstBank+bank, 10)
	if branch == "" {
		credit, _ = customerAccount(ispb, ordinaryBranch, "1")
		return reserveOf(credit), amount
	}
	credit, _ = customerAccount(ispb, branch, strconv.FormatUint(number, 10))

	return credit, amount
}

// opening returns what the fundings bring to the reserve and the transit account of a bank together.
func (p population) opening(bank uint64) money {
	customers := p.customers / p.banks
	if bank < p.customers%p.banks {
		customers++
	}
	deposits := moneyOf(p.reserve).times(2).plus(moneyOf(p.deposit).times(customers))

	return moneyOf(p.reserve).minus(deposits)
}

func (p population) String() string {
	return fmt.Sprintf("%d banks with %d centavos each, %d customers with %d", p.banks, p.reserve,
		p.customers, p.deposit)
}
