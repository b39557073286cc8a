package ledgermodel

import (
	"math"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// closed is the flag of an account that a closing transfer has closed.
var closed = tb.AccountFlags{Closed: true}.ToUint16()

// burns says whether a transfer that failed so may never be tried again under its id.
func burns(result tb.CreateTransferResult) bool {
	switch result {
	case tb.TransferDebitAccountNotFound, tb.TransferCreditAccountNotFound, tb.TransferPendingTransferNotFound,
		tb.TransferExceedsCredits, tb.TransferExceedsDebits, tb.TransferDebitAccountAlreadyClosed, tb.TransferCreditAccountAlreadyClosed:
		return true
	default:
		return false
	}
}

func expiresAt(t *tb.Transfer) uint64 {
	return t.Timestamp + uint64(t.Timeout)*uint64(time.Second)
}

// createTransfer checks in the server's order: the first check that fails is the result.
func (l *Ledger) createTransfer(timestamp uint64, t *tb.Transfer) tb.CreateTransferResult {
	flags := t.TransferFlags()
	zero, most := tb.Uint128{}, numberMax.uint128()
	switch {
	case t.Flags >= 1<<9:
		return tb.TransferReservedFlag
	case t.ID == zero:
		return tb.TransferIDMustNotBeZero
	case t.ID == most:
		return tb.TransferIDMustNotBeIntMax
	}
	if place, exists := l.places[t.ID]; exists {
		return l.existing(t, &l.transfers[place].Transfer)
	}
	switch {
	case l.burnt[t.ID]:
		return tb.TransferIDAlreadyFailed
	case flags.PostPendingTransfer || flags.VoidPendingTransfer:
		return l.endPending(timestamp, t, flags)
	case t.DebitAccountID == zero:
		return tb.TransferDebitAccountIDMustNotBeZero
	case t.DebitAccountID == most:
		return tb.TransferDebitAccountIDMustNotBeIntMax
	case t.CreditAccountID == zero:
		return tb.TransferCreditAccountIDMustNotBeZero
	case t.CreditAccountID == most:
		return tb.TransferCreditAccountIDMustNotBeIntMax
	case t.CreditAccountID == t.DebitAccountID:
		return tb.TransferAccountsMustBeDifferent
	case t.PendingID != zero:
		return tb.TransferPendingIDMustBeZero
	case !flags.Pending && t.Timeout != 0:
		return tb.TransferTimeoutReservedForPendingTransfer
	case !flags.Pending && (flags.ClosingDebit || flags.ClosingCredit):
		return tb.TransferClosingTransferMustBePending
	case t.Ledger == 0:
		return tb.TransferLedgerMustNotBeZero
	case t.Code == 0:
		return tb.TransferCodeMustNotBeZero
	}
	debit, credit := l.accounts[t.DebitAccountID], l.accounts[t.CreditAccountID]
	switch {
	case debit == nil:
		return tb.TransferDebitAccountNotFound
	case credit == nil:
		return tb.TransferCreditAccountNotFound
	case debit.Ledger != credit.Ledger:
		return tb.TransferAccountsMustHaveTheSameLedger
	case t.Ledger != debit.Ledger:
		return tb.TransferTransferMustHaveTheSameLedgerAsAccounts
	case flags.Imported && l.regresses(timestamp):
		return tb.TransferImportedEventTimestampMustNotRegress
	case flags.Imported && timestamp <= debit.Timestamp:
		return tb.TransferImportedEventTimestampMustPostdateDebitAccount
	case flags.Imported && timestamp <= credit.Timestamp:
		return tb.TransferImportedEventTimestampMustPostdateCreditAccount
	case flags.Imported && t.Timeout != 0:
		return tb.TransferImportedEventTimeoutMustBeZero
	case debit.Flags&closed != 0:
		return tb.TransferDebitAccountAlreadyClosed
	case credit.Flags&closed != 0:
		return tb.TransferCreditAccountAlreadyClosed
	}
	amount := numberOf(t.Amount)
	if flags.BalancingDebit {
		amount = amount.atMost(room(debit.CreditsPosted, debit.DebitsPosted, debit.DebitsPending))
	}
	if flags.BalancingCredit {
		amount = amount.atMost(room(credit.DebitsPosted, credit.CreditsPosted, credit.CreditsPending))
	}
	if result := exceeds(amount, flags.Pending, debit, credit); result != tb.TransferOK {
		return result
	}
	if timestamp+uint64(t.Timeout)*uint64(time.Second) > math.MaxInt64 {
		return tb.TransferOverflowsTimeout
	}
	debits, _ := numberOf(debit.DebitsPending).plus(numberOf(debit.DebitsPosted))
	debits, _ = debits.plus(amount)
	if debit.AccountFlags().DebitsMustNotExceedCredits && numberOf(debit.CreditsPosted).less(debits) {
		return tb.TransferExceedsCredits
	}
	credits, _ := numberOf(credit.CreditsPending).plus(numberOf(credit.CreditsPosted))
	credits, _ = credits.plus(amount)
	if credit.AccountFlags().CreditsMustNotExceedDebits && numberOf(credit.DebitsPosted).less(credits) {
		return tb.TransferExceedsDebits
	}

	created := *t
	created.Timestamp, created.Amount = timestamp, amount.uint128()
	place := l.insert(&created)
	debit, credit = l.change(t.DebitAccountID), l.change(t.CreditAccountID)
	if flags.Pending {
		add(&debit.DebitsPending, amount)
		add(&credit.CreditsPending, amount)
		l.expire(place)
	} else {
		add(&debit.DebitsPosted, amount)
		add(&credit.CreditsPosted, amount)
	}
	if flags.ClosingDebit {
		debit.Flags |= closed
	}
	if flags.ClosingCredit {
		credit.Flags |= closed
	}
	l.remember(place, debit, credit)
	return tb.TransferOK
}

// room returns how much of a total two balances leave.
func room(total, balance, other tb.Uint128) number {
	taken, _ := numberOf(balance).plus(numberOf(other))
	if numberOf(total).less(taken) {
		return number{}
	}
	return numberOf(total).minus(taken)
}

// remember keeps the balances after a transfer, of accounts with history.
func (l *Ledger) remember(place int, debit, credit *tb.Account) {
	t := &l.transfers[place]
	after := func(a *tb.Account) *tb.AccountBalance {
		if !a.AccountFlags().History {
			return nil
		}
		return &tb.AccountBalance{DebitsPending: a.DebitsPending, DebitsPosted: a.DebitsPosted, CreditsPending: a.CreditsPending, CreditsPosted: a.CreditsPosted, Timestamp: t.Timestamp}
	}
	t.debitAfter, t.creditAfter = after(debit), after(credit)
}

// exceeds says which balance an amount would lift above 128 bits.
func exceeds(amount number, isPending bool, debit, credit *tb.Account) tb.CreateTransferResult {
	over := func(balances ...tb.Uint128) bool {
		sum := amount
		for _, balance := range balances {
			var overflow bool
			if sum, overflow = sum.plus(numberOf(balance)); overflow {
				return true
			}
		}
		return false
	}
	switch {
	case isPending && over(debit.DebitsPending):
		return tb.TransferOverflowsDebitsPending
	case isPending && over(credit.CreditsPending):
		return tb.TransferOverflowsCreditsPending
	case over(debit.DebitsPosted):
		return tb.TransferOverflowsDebitsPosted
	case over(credit.CreditsPosted):
		return tb.TransferOverflowsCreditsPosted
	case over(debit.DebitsPending, debit.DebitsPosted):
		return tb.TransferOverflowsDebits
	case over(credit.CreditsPending, credit.CreditsPosted):
		return tb.TransferOverflowsCredits
	default:
		return tb.TransferOK
	}
}

func (l *Ledger) insert(t *tb.Transfer) (place int) {
	place = len(l.transfers)
	l.transfers = append(l.transfers, transfer{Transfer: *t})
	l.places[t.ID] = place
	l.byAccount[t.DebitAccountID] = append(l.byAccount[t.DebitAccountID], place)
	l.byAccount[t.CreditAccountID] = append(l.byAccount[t.CreditAccountID], place)
	l.byUserData[t.UserData128] = append(l.byUserData[t.UserData128], place)
	l.byCode[t.Code] = append(l.byCode[t.Code], place)
	return place
}

// endPending posts or voids a pending transfer.
func (l *Ledger) endPending(timestamp uint64, t *tb.Transfer, flags tb.TransferFlags) tb.CreateTransferResult {
	zero, most := tb.Uint128{}, numberMax.uint128()
	switch {
	case flags.PostPendingTransfer && flags.VoidPendingTransfer, flags.Pending, flags.BalancingDebit, flags.BalancingCredit, flags.ClosingDebit, flags.ClosingCredit:
		return tb.TransferFlagsAreMutuallyExclusive
	case t.PendingID == zero:
		return tb.TransferPendingIDMustNotBeZero
	case t.PendingID == most:
		return tb.TransferPendingIDMustNotBeIntMax
	case t.PendingID == t.ID:
		return tb.TransferPendingIDMustBeDifferent
	case t.Timeout != 0:
		return tb.TransferTimeoutReservedForPendingTransfer
	}
	place, exists := l.places[t.PendingID]
	if !exists {
		return tb.TransferPendingTransferNotFound
	}
	p := l.transfers[place]
	if !p.TransferFlags().Pending {
		return tb.TransferPendingTransferNotPending
	}
	amount, held := numberOf(t.Amount), numberOf(p.Amount)
	if flags.VoidPendingTransfer && amount.zero() || flags.PostPendingTransfer && amount == numberMax {
		amount = held
	}
	debit, credit := l.accounts[p.DebitAccountID], l.accounts[p.CreditAccountID]
	switch {
	case t.DebitAccountID != zero && t.DebitAccountID != p.DebitAccountID:
		return tb.TransferPendingTransferHasDifferentDebitAccountID
	case t.CreditAccountID != zero && t.CreditAccountID != p.CreditAccountID:
		return tb.TransferPendingTransferHasDifferentCreditAccountID
	case t.Ledger != 0 && t.Ledger != p.Ledger:
		return tb.TransferPendingTransferHasDifferentLedger
	case t.Code != 0 && t.Code != p.Code:
		return tb.TransferPendingTransferHasDifferentCode
	case held.less(amount):
		return tb.TransferExceedsPendingTransferAmount
	case flags.VoidPendingTransfer && amount.less(held):
		return tb.TransferPendingTransferHasDifferentAmount
	case p.status == posted:
		return tb.TransferPendingTransferAlreadyPosted
	case p.status == voided:
		return tb.TransferPendingTransferAlreadyVoided
	case p.status == expired, p.Timeout > 0 && expiresAt(&p.Transfer) <= timestamp:
		return tb.TransferPendingTransferExpired
	case flags.Imported && l.regresses(timestamp):
		return tb.TransferImportedEventTimestampMustNotRegress
	case debit.Flags&closed != 0 && !flags.VoidPendingTransfer:
		return tb.TransferDebitAccountAlreadyClosed
	case credit.Flags&closed != 0 && !flags.VoidPendingTransfer:
		return tb.TransferCreditAccountAlreadyClosed
	}

	created := tb.Transfer{
		ID: t.ID, DebitAccountID: p.DebitAccountID, CreditAccountID: p.CreditAccountID, Amount: amount.uint128(), PendingID: t.PendingID,
		UserData128: orElse(t.UserData128, p.UserData128), UserData64: orElse(t.UserData64, p.UserData64), UserData32: orElse(t.UserData32, p.UserData32),
		Ledger: p.Ledger, Code: p.Code, Flags: t.Flags, Timestamp: timestamp,
	}
	made := l.insert(&created)
	if l.chain != nil {
		l.chain.ended = append(l.chain.ended, place)
	}
	debit, credit = l.change(p.DebitAccountID), l.change(p.CreditAccountID)
	subtract(&debit.DebitsPending, held)
	subtract(&credit.CreditsPending, held)
	if flags.PostPendingTransfer {
		l.transfers[place].status = posted
		add(&debit.DebitsPosted, amount)
		add(&credit.CreditsPosted, amount)
	} else {
		l.transfers[place].status = voided
		reopen(&p.Transfer, debit, credit)
	}
	l.remember(made, debit, credit)
	return tb.TransferOK
}

// reopen takes back that a pending transfer closed its accounts.
func reopen(p *tb.Transfer, debit, credit *tb.Account) {
	if p.TransferFlags().ClosingDebit {
		debit.Flags &^= closed
	}
	if p.TransferFlags().ClosingCredit {
		credit.Flags &^= closed
	}
}

// orElse returns a value, or another one if it is zero.
func orElse[T comparable](value, other T) T {
	var zero T
	if value != zero {
		return value
	}
	return other
}

// existing compares a transfer with the one that has its id.
func (l *Ledger) existing(t, e *tb.Transfer) tb.CreateTransferResult {
	if t.Flags != e.Flags {
		return tb.TransferExistsWithDifferentFlags
	}
	if t.PendingID != e.PendingID {
		return tb.TransferExistsWithDifferentPendingID
	}
	if t.Timeout != e.Timeout {
		return tb.TransferExistsWithDifferentTimeout
	}
	same := *t
	switch flags := t.TransferFlags(); {
	case flags.BalancingDebit || flags.BalancingCredit:
		if !numberOf(t.Amount).less(numberOf(e.Amount)) { // it was the most that may move
			same.Amount = e.Amount
		}
	case flags.PostPendingTransfer || flags.VoidPendingTransfer:
		p := &l.transfers[l.places[t.PendingID]]
		same.DebitAccountID = orElse(t.DebitAccountID, e.DebitAccountID)
		same.CreditAccountID = orElse(t.CreditAccountID, e.CreditAccountID)
		if amount := numberOf(t.Amount); flags.VoidPendingTransfer && amount.zero() || flags.PostPendingTransfer && amount == numberMax {
			same.Amount = p.Amount
		}
		same.UserData128 = orElse(t.UserData128, p.UserData128)
		same.UserData64 = orElse(t.UserData64, p.UserData64)
		same.UserData32 = orElse(t.UserData32, p.UserData32)
		same.Ledger = orElse(t.Ledger, e.Ledger)
		same.Code = orElse(t.Code, e.Code)
	}
	switch {
	case same.DebitAccountID != e.DebitAccountID:
		return tb.TransferExistsWithDifferentDebitAccountID
	case same.CreditAccountID != e.CreditAccountID:
		return tb.TransferExistsWithDifferentCreditAccountID
	case same.Amount != e.Amount:
		return tb.TransferExistsWithDifferentAmount
	case same.UserData128 != e.UserData128:
		return tb.TransferExistsWithDifferentUserData128
	case same.UserData64 != e.UserData64:
		return tb.TransferExistsWithDifferentUserData64
	case same.UserData32 != e.UserData32:
		return tb.TransferExistsWithDifferentUserData32
	case same.Ledger != e.Ledger:
		return tb.TransferExistsWithDifferentLedger
	case same.Code != e.Code:
		return tb.TransferExistsWithDifferentCode
	default:
		return tb.TransferExists
	}
}
