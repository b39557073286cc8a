// Package sandbox knows the population of the test system: the banks and customers that
// bootstrap creates, and the payee branches that the bank simulator treats in a special way.
// The population is a function of a few numbers, so nothing has to be looked up.
package sandbox

import (
	"fmt"
	"strconv"

	"github.com/liquida/liquida/platform/pix"
)

// Population is the number of banks and ordinary customers, and what they own.
type Population struct {
	Banks           int    `env:"SANDBOX_BANKS" envDefault:"5" range:"2 to 1000" help:"number of PSPs"`
	Customers       int    `env:"SANDBOX_CUSTOMERS" envDefault:"5000" help:"number of ordinary customers, spread evenly over the PSPs, at least 2 for each PSP, at most 2000000"`
	DepositCentavos uint64 `env:"SANDBOX_DEPOSIT_CENTAVOS" envDefault:"100000000" range:"1 to 1000000000000" help:"initial deposit of each ordinary customer in centavos"`
	ReserveCentavos uint64 `env:"SANDBOX_RESERVE_CENTAVOS" envDefault:"1000000000000" range:"1 to 1000000000000000" help:"initial reserve of each PSP in centavos"`
}

// Validate names the variable and the value that is wrong.
func (p Population) Validate() error {
	if p.Customers < 2*p.Banks || p.Customers > 2_000_000 {
		return fmt.Errorf("SANDBOX_CUSTOMERS is %d: it must be from %d (2 per PSP) to 2000000", p.Customers, 2*p.Banks)
	}

	return nil
}

// The branches. Every PSP has one account, number 1, in each special branch.
const (
	OrdinaryBranch = "0001"
	SilentBranch   = "9001" // the bank never answers for its payees: AB03
	LateBranch     = "9002" // the bank accepts, but after the deadline: AB03
	BlockedBranch  = "9003" // the bank rejects with AC06
	ClosedBranch   = "9004" // the bank rejects with AC07
	RichBranch     = "9010" // its customer owns twice the PSP's reserve, so that a payer can exceed the reserve: AM04
)

// SpecialBranches lists the branches other than the ordinary one.
var SpecialBranches = []string{SilentBranch, LateBranch, BlockedBranch, ClosedBranch, RichBranch}

// firstBank is the ISPB of bank 0.
const firstBank = 10_000_001

// Bank returns the ISPB of bank i, 0 ≤ i < Banks.
func (p Population) Bank(i int) pix.ISPB { return pix.ISPB(strconv.Itoa(firstBank + i)) }

// BankNumber is the inverse of Bank. It is false for a bank that is not of the population.
func (p Population) BankNumber(psp pix.ISPB) (int, bool) {
	number, err := strconv.Atoi(string(psp))
	bank := number - firstBank
	return bank, err == nil && bank >= 0 && bank < p.Banks
}

// Customer returns ordinary customer i, 0 ≤ i < Customers; its PSP is Bank(i mod Banks).
func (p Population) Customer(i int) pix.Account {
	return pix.Account{ISPB: p.Bank(i % p.Banks), Branch: OrdinaryBranch, Number: strconv.Itoa(i/p.Banks + 1)}
}

// Special returns the one account of a PSP in a special branch.
func (p Population) Special(bank int, branch string) pix.Account {
	return pix.Account{ISPB: p.Bank(bank), Branch: branch, Number: "1"}
}

// DepositsOf returns the sum of the initial deposits of a bank's customers in centavos.
func (p Population) DepositsOf(bank int) uint64 {
	customers := p.Customers / p.Banks
	if bank < p.Customers%p.Banks {
		customers++
	}

	deposits := uint64(customers) * p.DepositCentavos
	for _, branch := range SpecialBranches {
		deposits += p.DepositOf(p.Special(bank, branch))
	}

	return deposits
}

// DepositOf returns the initial deposit of an account of the population in centavos.
func (p Population) DepositOf(account pix.Account) uint64 {
	switch account.Branch {
	case OrdinaryBranch:
		return p.DepositCentavos
	case RichBranch:
		return 2 * p.ReserveCentavos
	}

	return 0
}
