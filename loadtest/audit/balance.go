package audit

import (
	"cmp"
	"fmt"
	"slices"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// ledgerNumber is the TigerBeetle ledger of all money: ISO 4217 number of BRL.
const ledgerNumber = 986

// account is an account of the ledger, in centavos.
type account struct {
	posted  movement
	pending movement
}

// movement is the debits and credits of an account, in centavos. The audit compares both, not
// their difference: money that went in and out by error must show.
type movement struct{ debits, credits uint64 }

func (m movement) balance() int64 { return int64(m.credits) - int64(m.debits) }

// funding is what the central bank paid to a bank, and the bank to its customers, in centavos.
type funding struct{ reserve, deposits int64 }

// centavosMax keeps every sum of this package inside 63 bits.
const centavosMax = 1 << 62

func centavos(amount tb.Uint128) (uint64, bool) {
	n := fromTigerBeetle(amount)
	return n.low, n.high == 0
}

func decimal(amount tb.Uint128) string { value := amount.BigInt(); return value.String() }

// Account takes an account of the ledger.
func (a *Auditor) Account(t tb.Account) {
	id := fromTigerBeetle(t.ID)
	kind := kindOf(id)
	if t.Ledger != ledgerNumber || int(t.Code) != kind || kind < kindIssuance || kind > kindRefusals {
		a.add(WrongAccount, nameOf(id), "it has the ledger %d and the code %d", t.Ledger, t.Code)
		return
	}
	flags := t.AccountFlags()
	guarded := kind == kindReserve || kind == kindCustomer
	if flags.DebitsMustNotExceedCredits != guarded || flags.CreditsMustNotExceedDebits || flags.Closed {
		a.add(WrongAccount, nameOf(id), "it has the flags %#x; debits_must_not_exceed_credits must be %t, and it must not be closed", t.Flags, guarded)
	}
	var values [4]uint64
	for i, amount := range [...]tb.Uint128{t.DebitsPosted, t.CreditsPosted, t.DebitsPending, t.CreditsPending} {
		value, ok := centavos(amount)
		if !ok || value > centavosMax {
			a.add(WrongAccount, nameOf(id), "an amount of %s centavos is too large", decimal(amount))
			return
		}
		values[i] = value
	}
	if id == issuance {
		a.population = populationIn(t.UserData128, t.UserData64)
	}
	a.accounts[id] = account{posted: movement{values[0], values[1]}, pending: movement{values[2], values[3]}}
}

// expectSettled adds what a settled payment must have moved.
func (a *Auditor) expectSettled(p *payment) {
	if p.content.centavos > centavosMax {
		a.add(BadReport, p.id.String(), "%d centavos settled, which is too much", p.content.centavos)
		return
	}
	for leg := 1; leg <= 3; leg++ {
		if p.legs()&(firstLeg<<(leg-1)) != 0 {
			debit, credit := p.leg(leg)
			a.expect(debit, credit, p.content.centavos)
		}
	}
}

func (a *Auditor) expect(debit, credit accountID, amount uint64) {
	from := a.expected[debit]
	from.debits += amount
	a.expected[debit] = from
	to := a.expected[credit]
	to.credits += amount
	a.expected[credit] = to
}

// drift is how far wrong legs moved an account from where the reports put it, and the first of them.
type drift struct {
	debits, credits int64
	cause           *Finding
}

// mislead notes what a wrong leg did in place of the right one.
func (a *Auditor) mislead(cause *Finding, debit, credit accountID, amount uint64, insteadOf content, leg int) {
	move := func(id accountID, debits, credits int64) {
		d := a.drifts[id]
		if d.cause == nil {
			d.cause = cause
		}
		a.drifts[id] = drift{d.debits + debits, d.credits + credits, d.cause}
	}
	fromRight, toRight := insteadOf.leg(leg)
	move(debit, int64(amount), 0)
	move(credit, 0, int64(amount))
	move(fromRight, -int64(insteadOf.centavos), 0)
	move(toRight, 0, -int64(insteadOf.centavos))
}

// off describes how far debits or credits are from what they must be.
func off(is, want uint64) string {
	switch {
	case is > want:
		return fmt.Sprintf("%d too much", is-want)
	case is < want:
		return fmt.Sprintf("%d too little", want-is)
	}
	return "right"
}

// judgeAccounts compares each account with the sum of funding and reports.
func (a *Auditor) judgeAccounts() {
	for id, account := range a.accounts {
		if account.pending != (movement{}) {
			a.add(Pending, nameOf(id), "%d centavos of debits and %d of credits are pending", account.pending.debits, account.pending.credits)
		}
		want := a.expected[id]
		if account.posted == want {
			continue
		}
		detail := fmt.Sprintf("debits %d (%s), credits %d centavos (%s), by funding and reports",
			account.posted.debits, off(account.posted.debits, want.debits), account.posted.credits, off(account.posted.credits, want.credits))
		d := a.drifts[id]
		if d.cause != nil && int64(account.posted.debits-want.debits) == d.debits && int64(account.posted.credits-want.credits) == d.credits {
			d.cause.effect("balance of %s: %s", nameOf(id), detail)
			continue
		}
		a.add(WrongBalance, nameOf(id), "%s", detail)
	}
	for id, want := range a.expected {
		if _, known := a.accounts[id]; !known {
			a.add(WrongBalance, nameOf(id), "it is not in the ledger; by funding and reports it has debits %d, credits %d centavos", want.debits, want.credits)
		}
	}
	a.judgeLaws()
}

// judgeLaws checks the laws of money in the ledger, whatever the reports say. A law that holds but
// for wrong legs is an effect of these.
func (a *Auditor) judgeLaws() {
	var causes *Finding
	driftOf := func(id accountID) int64 {
		d := a.drifts[id]
		if causes == nil && d.cause != nil {
			causes = d.cause
		}
		return d.credits - d.debits
	}
	is := a.lawsOf(func(id accountID) int64 { return a.accounts[id].posted.balance() })
	without := a.lawsOf(func(id accountID) int64 { return a.accounts[id].posted.balance() - driftOf(id) })
	for i, l := range is {
		if l.left == l.right {
			continue
		}
		detail := fmt.Sprintf("%s: %d is not %d centavos", l.name, l.left, l.right)
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
	left, right   int64
}

// lawsOf returns the laws with their two sides, always in the same order.
func (a *Auditor) lawsOf(balance func(accountID) int64) (laws []law) {
	customers := map[accountID]int64{} // by transit account
	var banks []accountID
	bank := func(transit accountID) accountID {
		if _, known := customers[transit]; !known {
			customers[transit] = 0
			banks = append(banks, transit)
		}
		return transit
	}
	var reserves int64
	for id := range a.accounts {
		switch kindOf(id) {
		case kindCustomer:
			customers[bank(transitOf(id))] += balance(id)
		case kindReserve:
			reserves += balance(id)
			bank(transitOf(id)) // a bank without customers counts, too
		case kindTransit:
			bank(id)
		}
	}
	slices.SortFunc(banks, func(x, y accountID) int { return cmp.Or(cmp.Compare(x.high, y.high), cmp.Compare(x.low, y.low)) })
	for _, transit := range banks {
		f := a.banks[transit]
		laws = append(laws,
			law{nameOf(transit), "reserve + transit = funding − deposits", balance(reserveOf(transit)) + balance(transit), f.reserve - f.deposits},
			law{nameOf(transit), "transit + its customers = 0", balance(transit) + customers[transit], 0})
	}
	return append(laws,
		law{"all banks", "sum of the reserves = sum of their funding", reserves, a.issued},
		law{"issuance", "issuance = −sum of the reserves", balance(issuance), -reserves})
}

// GroupLag takes the engine group's offset in a partition, and the partition's end.
func (a *Auditor) GroupLag(partition int32, committed, end int64) {
	a.committed[partition] = committed
	if committed != end {
		a.add(Lag, fmt.Sprintf("partition %d of %s", partition, paymentsTopic), "the group %s has committed %d of %d", engineGroup, committed, end)
	}
}
