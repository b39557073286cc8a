package ledgermodel

import (
	"cmp"
	"slices"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// burns reports whether a transfer that failed so may never be tried again under its id.
func burns(result tb.CreateTransferResult) bool {
	return slices.Contains([]tb.CreateTransferResult{
		tb.TransferDebitAccountNotFound, tb.TransferCreditAccountNotFound, tb.TransferPendingTransferNotFound,
		tb.TransferExceedsCredits,
	}, result)
}

func expiresAt(t *tb.Transfer) uint64 {
	return t.Timestamp + uint64(t.Timeout)*uint64(time.Second)
}

var knownTransferFlags = tb.TransferFlags{
	Linked: true, Pending: true, PostPendingTransfer: true, VoidPendingTransfer: true, BalancingDebit: true,
	Imported: true,
}.ToUint16()

// isSent reports whether our programs send a transfer of this form.
func isSent(t *tb.Transfer) bool {
	zero, flags := tb.Uint128{}, t.TransferFlags()
	switch ends := flags.PostPendingTransfer || flags.VoidPendingTransfer; {
	case t.Flags&^knownTransferFlags != 0, t.ID == zero, t.Timeout != 0 && (!flags.Pending || flags.Imported):
		return false
	case ends:
		return flags.PostPendingTransfer != flags.VoidPendingTransfer && !flags.Pending && !flags.BalancingDebit &&
			t.PendingID != zero && t.PendingID != t.ID
	}

	return t.DebitAccountID != zero && t.CreditAccountID != zero && t.DebitAccountID != t.CreditAccountID &&
		t.PendingID == zero && t.Ledger != 0 && t.Code != 0 && (!flags.Pending || !flags.BalancingDebit)
}

// createTransfer checks in the server's order: the first check that fails is the result.
func (l *Ledger) createTransfer(timestamp uint64, t *tb.Transfer) tb.CreateTransferResult {
	if !isSent(t) {
		neverSent("such a transfer", *t)
	}

	if place, exists := l.places[t.ID]; exists {
		return l.existing(t, &l.transfers[place].Transfer)
	}

	flags := t.TransferFlags()
	switch {
	case l.burnt[t.ID]:
		return tb.TransferIDAlreadyFailed
	case flags.PostPendingTransfer || flags.VoidPendingTransfer:
		return l.endPending(timestamp, t, flags)
	}

	debit, credit := l.accounts[t.DebitAccountID], l.accounts[t.CreditAccountID]
	switch {
	case debit == nil:
		return tb.TransferDebitAccountNotFound
	case credit == nil:
		return tb.TransferCreditAccountNotFound
	case t.Ledger != debit.Ledger || t.Ledger != credit.Ledger || flags.Imported &&
		timestamp <= max(debit.Timestamp, credit.Timestamp):
		neverSent("a transfer on another ledger number, or older than its accounts", *t)
	case flags.Imported && l.regresses(timestamp):
		return tb.TransferImportedEventTimestampMustNotRegress
	}
	amount := numberOf(t.Amount)

	taken, _ := numberOf(debit.DebitsPosted).plus(numberOf(debit.DebitsPending))
	if has := numberOf(debit.CreditsPosted); flags.BalancingDebit {
		free := number{}
		if taken.less(has) {
			free = has.minus(taken)
		}

		if free.less(amount) {
			amount = free
		}
	}

	if result := exceeds(amount, flags.Pending, debit, credit); result != tb.TransferOK {
		return result
	}

	taken, _ = taken.plus(amount)
	if debit.AccountFlags().DebitsMustNotExceedCredits && numberOf(debit.CreditsPosted).less(taken) {
		return tb.TransferExceedsCredits
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
	l.remember(place, debit, credit)

	return tb.TransferOK
}

// remember keeps the balances after a transfer, of accounts with history.
func (l *Ledger) remember(place int, debit, credit *tb.Account) {
	t := &l.transfers[place]
	after := func(a *tb.Account) *tb.AccountBalance {
		if !a.AccountFlags().History {
			return nil
		}

		return &tb.AccountBalance{DebitsPending: a.DebitsPending, DebitsPosted: a.DebitsPosted,
			CreditsPending: a.CreditsPending, CreditsPosted: a.CreditsPosted, Timestamp: t.Timestamp}
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

// endPending posts or voids a pending transfer, wholly.
func (l *Ledger) endPending(timestamp uint64, t *tb.Transfer, flags tb.TransferFlags) tb.CreateTransferResult {
	place, exists := l.places[t.PendingID]
	if !exists {
		return tb.TransferPendingTransferNotFound
	}
	p := l.transfers[place]
	checkOf(t, &p.Transfer)

	switch {
	case p.status == posted:
		return tb.TransferPendingTransferAlreadyPosted
	case p.status == voided:
		return tb.TransferPendingTransferAlreadyVoided
	case p.status == expired, p.Timeout > 0 && expiresAt(&p.Transfer) <= timestamp:
		return tb.TransferPendingTransferExpired
	case flags.Imported && l.regresses(timestamp):
		return tb.TransferImportedEventTimestampMustNotRegress
	}

	created := p.Transfer
	created.ID, created.PendingID, created.Flags, created.Timestamp, created.Timeout = t.ID, t.PendingID, t.Flags,
		timestamp, 0
	created.UserData128, created.UserData64 = cmp.Or(t.UserData128, p.UserData128), cmp.Or(t.UserData64, p.UserData64)
	created.UserData32 = cmp.Or(t.UserData32, p.UserData32)

	made := l.insert(&created)
	if l.chain != nil {
		l.chain.ended = append(l.chain.ended, place)
	}
	debit, credit, amount := l.change(p.DebitAccountID), l.change(p.CreditAccountID), numberOf(p.Amount)
	subtract(&debit.DebitsPending, amount)
	subtract(&credit.CreditsPending, amount)

	l.transfers[place].status = voided
	if flags.PostPendingTransfer {
		l.transfers[place].status = posted
		add(&debit.DebitsPosted, amount)
		add(&credit.CreditsPosted, amount)
	}
	l.remember(made, debit, credit)

	return tb.TransferOK
}

// checkOf ends the process unless a post or void is of its hold, and of all of it.
func checkOf(t, p *tb.Transfer) {
	whole := tb.Uint128{}
	if t.TransferFlags().PostPendingTransfer {
		whole = numberMax.uint128()
	}

	if !p.TransferFlags().Pending || t.Amount != p.Amount && t.Amount != whole ||
		cmp.Or(t.DebitAccountID, p.DebitAccountID) != p.DebitAccountID ||
		cmp.Or(t.CreditAccountID, p.CreditAccountID) != p.CreditAccountID ||
		cmp.Or(t.Ledger, p.Ledger) != p.Ledger || cmp.Or(t.Code, p.Code) != p.Code {
		neverSent("a post or void that is not of its hold", *t)
	}
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
	case flags.BalancingDebit:
		if !numberOf(t.Amount).less(numberOf(e.Amount)) { // it was the most that may move
			same.Amount = e.Amount
		}
	case flags.PostPendingTransfer || flags.VoidPendingTransfer: // it has all else from its hold
		p := &l.transfers[l.places[t.PendingID]].Transfer
		checkOf(t, p)
		same = *e
		same.UserData128 = cmp.Or(t.UserData128, p.UserData128)
		same.UserData64 = cmp.Or(t.UserData64, p.UserData64)
		same.UserData32 = cmp.Or(t.UserData32, p.UserData32)
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
	case same.Code != e.Code:
		return tb.TransferExistsWithDifferentCode
	case same.Ledger != e.Ledger:
		neverSent("the id of a transfer on another ledger number", *t)
	}

	return tb.TransferExists
}
