package audit

import (
	"fmt"
	"strconv"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// population is the banks and customers that bootstrap funded, derived from "Identity" in
// ARCHITECTURE.md. It is in the user_data of the issuance account and of the marker, which the
// ledger never changes.
type population struct {
	banks, customers uint64
	// deposit is what each ordinary customer got, reserve what each bank got, in centavos.
	deposit, reserve uint64
}

func populationIn(userData128 tb.Uint128, userData64 uint64) population {
	money := fromTigerBeetle(userData128)
	return population{banks: userData64 >> 32, customers: userData64 & (1<<32 - 1), deposit: money.low, reserve: money.high}
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

// fundingOf returns the amount with which the population's bootstrap funded an account. It
// returns false if it did not fund it.
func (p population) fundingOf(credit accountID) (amount uint64, funded bool) {
	bank, known := p.bank(credit)
	if !known {
		return 0, false
	}
	i := bank
	if kindOf(credit) == kindCustomer {
		switch branch := branchOf(credit); {
		case branch == richBranch && credit.low == 1:
			i += p.banks
		case branch == ordinaryBranch && credit.low > 0 && credit.low <= p.customers:
			i = 2*p.banks + (credit.low-1)*p.banks + bank
		}
	}
	if i >= p.fundings() {
		return 0, false
	}
	want, amount := p.funding(i)
	return amount, want == credit
}

// bank returns the number of the bank of an account, from 0.
func (p population) bank(of accountID) (number uint64, known bool) {
	ispb, err := strconv.ParseUint(ispbOf(of), 10, 64)
	return ispb - firstBank, err == nil && ispb >= firstBank && ispb-firstBank < p.banks
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

// takeFunding takes a transfer that brings money in: from issuance to a reserve, or a deposit
// from a bank's transit account to its customer.
func (a *Auditor) takeFunding(t tb.Transfer) {
	debit, credit := fromTigerBeetle(t.DebitAccountID), fromTigerBeetle(t.CreditAccountID)
	amount, ok := centavos(t.Amount)
	if !ok || t.Flags&^linkedFlag != 0 {
		a.add(UnexplainedMoney, transferName(t), "funding of %s centavos with the flags %#x", decimal(t.Amount), t.Flags)
		return
	}
	switch {
	case debit == issuance && kindOf(credit) == kindReserve:
		bank := transitOf(credit)
		f := a.banks[bank]
		f.reserve = f.reserve.plus(moneyOf(amount))
		a.banks[bank] = f
		a.issued = a.issued.plus(moneyOf(amount))
	case kindOf(credit) == kindCustomer && debit == transitOf(credit):
		f := a.banks[debit]
		f.deposits = f.deposits.plus(moneyOf(amount))
		a.banks[debit] = f
	default:
		a.add(UnexplainedMoney, transferName(t), "funding from %s to %s", nameOf(debit), nameOf(credit))
		return
	}
	// It counts also if it is wrong: one forged funding is one finding, not one more for each
	// account that it touched.
	a.expect(debit, credit, amount)
	want, funded := a.population.fundingOf(credit)
	if funded && fromTigerBeetle(t.ID) == credit {
		a.funded[credit] = struct{}{}
	}
	switch {
	case !funded:
		a.add(WrongFunding, transferName(t), "%d centavos from %s to %s, but bootstrap did not fund this account: %v", amount, nameOf(debit), nameOf(credit), a.population)
	case fromTigerBeetle(t.ID) != credit:
		a.add(WrongFunding, transferName(t), "%d centavos from %s to %s, but the account's one funding has the account's id", amount, nameOf(debit), nameOf(credit))
	case amount != want:
		a.add(WrongFunding, transferName(t), "%d centavos from %s to %s, but bootstrap funded the account with %d: %v", amount, nameOf(debit), nameOf(credit), want, a.population)
	}
}

// takeMarker takes bootstrap's last transfer.
func (a *Auditor) takeMarker(t tb.Transfer) {
	debit, credit := fromTigerBeetle(t.DebitAccountID), fromTigerBeetle(t.CreditAccountID)
	if fromTigerBeetle(t.ID) != markerID || t.Amount != (tb.Uint128{}) || t.Flags != 0 || debit != issuance || credit != refusals {
		a.add(WrongFunding, transferName(t), "a marker of %s centavos with the flags %#x from %s to %s; the one marker has the id 15 and moves none from issuance to refusals",
			decimal(t.Amount), t.Flags, nameOf(debit), nameOf(credit))
		return
	}
	a.marked = true
	if is := populationIn(t.UserData128, t.UserData64); is != a.population {
		a.add(WrongFunding, transferName(t), "the marker says %v, but the issuance account says %v", is, a.population)
	}
}

// judgeFundings finds the fundings that are not in the ledger. Each one that is was compared
// as it came.
func (a *Auditor) judgeFundings() {
	if _, opened := a.accounts[issuance]; !opened && !a.marked {
		return // bootstrap has not begun: takeFunding finds every funding
	}
	if !a.marked {
		a.add(WrongFunding, "marker", "it is not in the ledger: bootstrap has not finished")
	}
	// A forged population may be huge, so the loop ends at the last one that is missing, and
	// names only the first.
	missing := a.population.fundings() - uint64(len(a.funded))
	for i := uint64(0); missing > 0; i++ {
		credit, amount := a.population.funding(i)
		if _, found := a.funded[credit]; found {
			continue
		}
		a.add(WrongFunding, fmt.Sprintf("transfer %016x%016x", credit.high, credit.low), "the funding of %s with %d centavos is missing, and %d others are: %v", nameOf(credit), amount, missing-1, a.population)
		return
	}
}

func (p population) String() string {
	return fmt.Sprintf("%d banks with %d centavos each, %d customers with %d", p.banks, p.reserve, p.customers, p.deposit)
}
