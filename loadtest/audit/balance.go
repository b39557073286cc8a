package audit

import (
	"cmp"
	"fmt"
	"slices"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// account is an account of the ledger, in centavos.
type account struct {
	posted  movement
	pending movement
}

// movement is the debits and credits of an account, in centavos. The audit compares both, not
// their difference: money that went in and out by error must show.
type movement struct{ debits, credits money }

func (m movement) balance() money { return m.credits.minus(m.debits) }

// funding is what the central bank paid to a bank, and the bank to its customers, in centavos.
// Acts go on with both.
type funding struct{ reserve, deposits money }

func centavos(amount tb.Uint128) (uint64, bool) {
	n := fromTigerBeetle(amount)
	return n.low, n.high == 0
}

func decimal(amount tb.Uint128) string { value := amount.BigInt(); return value.String() }

// Account takes an account of the ledger.
func (a *Auditor) Account(t tb.Account) {
	id := fromTigerBeetle(t.ID)
	kind := kindOf(id)
	if known := chart[kind]; t.Ledger != known.ledger || int(t.Code) != kind {
		a.add(WrongAccount, nameOf(id), "it has the ledger %d and the code %d", t.Ledger, t.Code)
		return
	}
	flags := t.AccountFlags()
	guarded := chart[kind].guarded
	if flags.DebitsMustNotExceedCredits != guarded || flags.CreditsMustNotExceedDebits || flags.Closed {
		a.add(WrongAccount, nameOf(id), "it has the flags %#x; debits_must_not_exceed_credits must be %t, and it must not be closed", t.Flags, guarded)
	}
	if id == issuance {
		a.population = populationIn(t.UserData128, t.UserData64)
	}
	a.accounts[id] = account{
		posted:  movement{moneyIn(t.DebitsPosted), moneyIn(t.CreditsPosted)},
		pending: movement{moneyIn(t.DebitsPending), moneyIn(t.CreditsPending)},
	}
}

// expectSettled adds what a settled payment must have moved.
func (a *Auditor) expectSettled(p *payment) {
	for leg := 1; leg <= 3; leg++ {
		if p.legs()&(firstLeg<<(leg-1)) != 0 {
			debit, credit := p.leg(leg)
			a.expect(debit, credit, p.content.centavos)
		}
	}
}

func (a *Auditor) expect(debit, credit accountID, amount uint64) {
	from := a.expected[debit]
	from.debits = from.debits.plus(moneyOf(amount))
	a.expected[debit] = from
	to := a.expected[credit]
	to.credits = to.credits.plus(moneyOf(amount))
	a.expected[credit] = to
}

// drift is how far wrong legs moved an account from where the reports put it, and the first of them.
type drift struct {
	movement
	cause *Finding
}

// mislead notes what a wrong leg did in place of the right one.
func (a *Auditor) mislead(cause *Finding, debit, credit accountID, amount uint64, insteadOf content, leg int) {
	move := func(id accountID, debits, credits money) {
		d := a.drifts[id]
		if d.cause == nil {
			d.cause = cause
		}
		a.drifts[id] = drift{movement{d.debits.plus(debits), d.credits.plus(credits)}, d.cause}
	}
	fromRight, toRight := insteadOf.leg(leg)
	moved, none := moneyOf(amount), money{}
	missing := none.minus(moneyOf(insteadOf.centavos))
	move(debit, moved, none)
	move(credit, none, moved)
	move(fromRight, missing, none)
	move(toRight, none, missing)
}

// off describes how far debits or credits are from what they must be.
func off(is, want money) string {
	switch {
	case want.less(is):
		return fmt.Sprintf("%v too much", is.minus(want))
	case is.less(want):
		return fmt.Sprintf("%v too little", want.minus(is))
	}
	return "right"
}

// judgeAccounts compares each account with the sum of funding and reports.
func (a *Auditor) judgeAccounts() {
	for id, account := range a.accounts {
		if k := kindOf(id); account.pending != (movement{}) && k != kindAllowance && k != kindAllowanceSource {
			a.add(Pending, nameOf(id), "%v centavos of debits and %v of credits are pending", account.pending.debits, account.pending.credits)
		}
		want := a.expected[id]
		if account.posted == want {
			continue
		}
		detail := fmt.Sprintf("debits %v (%s), credits %v centavos (%s), by funding, acts and reports",
			account.posted.debits, off(account.posted.debits, want.debits), account.posted.credits, off(account.posted.credits, want.credits))
		d := a.drifts[id]
		if d.cause != nil && account.posted.debits.minus(want.debits) == d.debits && account.posted.credits.minus(want.credits) == d.credits {
			d.cause.effect("balance of %s: %s", nameOf(id), detail)
			continue
		}
		a.add(WrongBalance, nameOf(id), "%s", detail)
	}
	for id, want := range a.expected {
		if _, known := a.accounts[id]; !known {
			a.add(WrongBalance, nameOf(id), "it is not in the ledger; by funding, acts and reports it has debits %v, credits %v centavos", want.debits, want.credits)
		}
	}
	a.judgeLaws()
}

// judgeLaws checks the laws of money in the ledger, whatever the reports say. A law that holds but
// for wrong legs is an effect of these.
func (a *Auditor) judgeLaws() {
	var causes *Finding
	driftOf := func(id accountID) money {
		d := a.drifts[id]
		if causes == nil && d.cause != nil {
			causes = d.cause
		}
		return d.balance()
	}
	is := a.lawsOf(func(id accountID) money { return a.accounts[id].posted.balance() })
	without := a.lawsOf(func(id accountID) money { return a.accounts[id].posted.balance().minus(driftOf(id)) })
	for i, l := range is {
		if l.left == l.right {
			continue
		}
		detail := fmt.Sprintf("%s: %v is not %v centavos", l.name, l.left, l.right)
		if causes != nil && without[i].left == without[i].right {
			causes.effect("law of %s: %s", l.subject, detail)
			continue
		}
		a.add(BrokenLaw, l.subject, "%s", detail)
	}
}

// law is an equation that must hold.
type law struct {
	subject, name string
	left, right   money
}

// lawsOf returns the laws with their two sides, always in the same order.
func (a *Auditor) lawsOf(balance func(accountID) money) (laws []law) {
	customers := map[accountID]money{} // by transit account
	var banks []accountID
	bank := func(transit accountID) accountID {
		if _, known := customers[transit]; !known {
			customers[transit] = money{}
			banks = append(banks, transit)
		}
		return transit
	}
	var reserves money
	_, hasRegister := a.accounts[register]
	for id := range a.accounts {
		switch kindOf(id) {
		case kindCustomer:
			transit := bank(transitOf(id))
			customers[transit] = customers[transit].plus(balance(id))
		case kindReserve:
			reserves = reserves.plus(balance(id))
			bank(transitOf(id)) // a bank without customers counts, too
		case kindTransit, kindBooks:
			bank(transitOf(id))
		}
	}
	slices.SortFunc(banks, func(x, y accountID) int { return cmp.Or(cmp.Compare(x.high, y.high), cmp.Compare(x.low, y.low)) })
	for _, transit := range banks {
		f := a.banks[transit]
		own := balance(reserveOf(transit)).plus(balance(transit))
		laws = append(laws,
			law{nameOf(transit), "reserve + transit = funding − deposits", own, f.reserve.minus(f.deposits)},
			law{nameOf(transit), "transit + its customers = 0", balance(transit).plus(customers[transit]), money{}})
		if hasRegister {
			laws = append(laws, law{nameOf(transit), "reserve + transit = books", own, balance(booksOf(transit))})
		}
	}
	return append(laws,
		law{"all banks", "sum of the reserves = sum of their funding", reserves, a.issued},
		law{"issuance", "issuance = −sum of the reserves", balance(issuance), money{}.minus(reserves)})
}

// GroupLag takes the engine group's offset in a partition, and the partition's end.
func (a *Auditor) GroupLag(partition int32, committed, end int64) {
	a.committed[partition] = committed
	if committed != end {
		a.add(Lag, fmt.Sprintf("partition %d of %s", partition, paymentsTopic), "the group %s has committed %d of %d", engineGroup, committed, end)
	}
}
