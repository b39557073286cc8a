package audit

import (
	"fmt"

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

// judgeAccounts compares each account with the sum of funding and reports.
func (a *Auditor) judgeAccounts() {
	for id, account := range a.accounts {
		if account.pending != (movement{}) {
			a.add(Pending, nameOf(id), "%d centavos of debits and %d of credits are pending", account.pending.debits, account.pending.credits)
		}
		if want := a.expected[id]; account.posted != want {
			a.add(WrongBalance, nameOf(id), "debits %d, credits %d centavos; by funding and reports %d and %d (%+d)",
				account.posted.debits, account.posted.credits, want.debits, want.credits, account.posted.balance()-want.balance())
		}
	}
	for id, want := range a.expected {
		if _, known := a.accounts[id]; !known {
			a.add(WrongBalance, nameOf(id), "it is not in the ledger; by funding and reports it has debits %d, credits %d centavos", want.debits, want.credits)
		}
	}
	a.judgeLaws()
}

// judgeLaws checks the laws of money in the ledger, whatever the reports say.
func (a *Auditor) judgeLaws() {
	customers := map[accountID]int64{} // by transit account
	var reserves int64
	for id, account := range a.accounts {
		switch kindOf(id) {
		case kindCustomer:
			customers[transitOf(id)] += account.posted.balance()
		case kindReserve:
			reserves += account.posted.balance()
			customers[transitOf(id)] += 0 // a bank without customers counts, too
		case kindTransit:
			customers[id] += 0
		}
	}
	law := func(subject, name string, left, right int64) {
		if left != right {
			a.add(BrokenLaw, subject, "%s: %d is not %d centavos", name, left, right)
		}
	}
	for transit, sum := range customers {
		reserve := reserveOf(transit)
		held := a.accounts[transit].posted.balance()
		f := a.banks[transit]
		law(nameOf(transit), "reserve + transit = funding − deposits", a.accounts[reserve].posted.balance()+held, f.reserve-f.deposits)
		law(nameOf(transit), "transit + its customers = 0", held+sum, 0)
	}
	law("all banks", "sum of the reserves = sum of their funding", reserves, a.issued)
	law("issuance", "issuance = −sum of the reserves", a.accounts[issuance].posted.balance(), -reserves)
}

// GroupLag takes the engine group's offset in a partition, and the partition's end.
func (a *Auditor) GroupLag(partition int32, committed, end int64) {
	if committed != end {
		a.add(Lag, fmt.Sprintf("partition %d of %s", partition, paymentsTopic), "the group %s has committed %d of %d", engineGroup, committed, end)
	}
}
