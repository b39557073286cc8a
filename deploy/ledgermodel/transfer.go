package ledgermodel

import (
	"bytes"
	"cmp"
	"encoding/binary"
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

// most is the amount of a post that means all of its hold.
var most = tb.BytesToUint128([16]byte(bytes.Repeat([]byte{0xff}, 16)))

// number returns an amount or a balance. They have 64 bits: money is less than 2^63 centavos.
func number(value tb.Uint128) uint64 {
	raw := value.Bytes()
	if binary.LittleEndian.Uint64(raw[8:]) != 0 {
		neverSent("so much", value)
	}

	return binary.LittleEndian.Uint64(raw[:8])
}

func add(balance *tb.Uint128, amount uint64)      { *balance = tb.ToUint128(number(*balance) + amount) }
func subtract(balance *tb.Uint128, amount uint64) { *balance = tb.ToUint128(number(*balance) - amount) }

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
	amount, has := number(t.Amount), number(debit.CreditsPosted)
	taken := number(debit.DebitsPosted) + number(debit.DebitsPending)

	free := has - min(has, taken)
	if flags.BalancingDebit {
		amount = min(amount, free)
	}

	if debit.AccountFlags().DebitsMustNotExceedCredits && amount > free {
		return tb.TransferExceedsCredits
	}

	created := *t
	created.Timestamp, created.Amount = timestamp, tb.ToUint128(amount)
	place := l.insert(&created)

	debit, credit = l.change(t.DebitAccountID), l.change(t.CreditAccountID)
	if flags.Pending {
		add(&debit.DebitsPending, amount)
		add(&credit.CreditsPending, amount)

		if t.Timeout > 0 {
			l.open = append(l.open, place)
		}
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

func (l *Ledger) insert(t *tb.Transfer) (place int) {
	place = len(l.transfers)
	l.transfers = append(l.transfers, transfer{Transfer: *t})
	l.places[t.ID] = place

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
	debit, credit, amount := l.change(p.DebitAccountID), l.change(p.CreditAccountID), number(p.Amount)
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
		whole = most
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
	switch {
	case t.Flags != e.Flags:
		return tb.TransferExistsWithDifferentFlags
	case t.PendingID != e.PendingID:
		return tb.TransferExistsWithDifferentPendingID
	case t.Timeout != e.Timeout:
		return tb.TransferExistsWithDifferentTimeout
	}

	same := *t
	switch flags := t.TransferFlags(); {
	case flags.BalancingDebit:
		if number(t.Amount) >= number(e.Amount) { // it was the most that may move
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
