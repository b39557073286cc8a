// Package ledgermodel is a TigerBeetle ledger in memory, for tests in virtual time, where the
// server cannot be. It answers as TigerBeetle 0.16.78 does; its tests prove that against the real
// server. It models what our programs send, and panics at all else.
//
// No service may import it: a test sees to that.
package ledgermodel

import (
	"fmt"
	"slices"
	"sort"
	"sync"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// EventsMax is how many events or results one request holds.
const EventsMax = 8189

// Ledger is the state of a cluster. Timestamps are nanoseconds since 1970. The timestamp of a
// request is that of its last event.
type Ledger struct {
	mu       sync.Mutex
	last     uint64 // timestamp of the last request
	accounts map[tb.Uint128]*tb.Account
	created  []*tb.Account // in the order of time

	transfers []transfer // in the order of time
	places    map[tb.Uint128]int
	burnt     map[tb.Uint128]bool // ids that failed once: they are never taken again
	open      []int               // places of holds that may expire, and of some that were ended
	chain     *undo               // nil: no linked chain is under way
}

// transfer is a transfer and, if it is a pending one, what became of it.
type transfer struct {
	tb.Transfer
	status                  pendingStatus
	debitAfter, creditAfter *tb.AccountBalance // of accounts with history
}

type pendingStatus uint8

const (
	pending pendingStatus = iota
	posted
	voided
	expired
)

// undo is what a linked chain has changed.
type undo struct {
	transfers int                       // how many there were before
	accounts  map[tb.Uint128]tb.Account // as they were before
	ended     []int                     // places of pending transfers that it posted or voided
}

// New returns an empty ledger.
func New() *Ledger {
	return &Ledger{accounts: map[tb.Uint128]*tb.Account{}, places: map[tb.Uint128]int{}, burnt: map[tb.Uint128]bool{}}
}

// request carries out a request that creates a number of events. Its timestamp is now, or later if
// the ledger's time is ahead.
func (l *Ledger) request(now uint64, creates int, apply func(timestamp uint64) any) any {
	l.mu.Lock()
	defer l.mu.Unlock()
	now = max(now, l.last+1)
	l.expireUntil(now)
	l.last = now + uint64(creates)

	return apply(l.last)
}

// neverSent ends the process: what our programs never send is not modelled, so whoever sends it has a bug.
func neverSent(what string, event any) {
	panic(fmt.Sprintf("ledgermodel: %s is not modelled, because no program sends it: %+v", what, event))
}

// createAccounts is the operation of this name.
func (l *Ledger) createAccounts(timestamp uint64, accounts []tb.Account) (results []tb.AccountEventResult) {
	for i := range accounts {
		a := &accounts[i]

		at := eventTime(timestamp, i, len(accounts), a.AccountFlags().Imported, accounts[0].AccountFlags().Imported,
			a.Timestamp)
		if result := l.createAccount(at, a); result != tb.AccountOK {
			results = append(results, tb.AccountEventResult{Index: uint32(i), Result: result})
		}
	}

	return results
}

// eventTime returns when an event of a request is created. An imported one says so itself; all of a request are
// imported, or none.
func eventTime(timestamp uint64, i, events int, imported, imports bool, given uint64) uint64 {
	switch {
	case imported != imports || imported == (given == 0) || given >= timestamp:
		neverSent("a time that is wrong", given)
	case imported:
		return given
	}

	return timestamp - uint64(events-1-i)
}

// createTransfers is the operation of this name: one transfer after the other, linked ones wholly or not at all.
func (l *Ledger) createTransfers(timestamp uint64, transfers []tb.Transfer) (results []tb.TransferEventResult) {
	failed := func(i int, result tb.CreateTransferResult) {
		if burns(result) {
			l.burnt[transfers[i].ID] = true
		}
		results = append(results, tb.TransferEventResult{Index: uint32(i), Result: result})
	}
	first, broken := -1, false // of the chain

	for i := range transfers {
		t := &transfers[i]

		flags := t.TransferFlags()
		if flags.Linked && first < 0 {
			first, broken = i, false
			l.chain = &undo{transfers: len(l.transfers), accounts: map[tb.Uint128]tb.Account{}}
		}

		if flags.Linked && i == len(transfers)-1 {
			neverSent("a chain that stays open", *t)
		}

		at := eventTime(timestamp, i, len(transfers), flags.Imported, transfers[0].TransferFlags().Imported,
			t.Timestamp)
		if broken {
			failed(i, tb.TransferLinkedEventFailed)
		} else if result := l.createTransfer(at, t); result != tb.TransferOK {
			if first >= 0 {
				broken = true
				l.discard()

				for before := first; before < i; before++ {
					failed(before, tb.TransferLinkedEventFailed)
				}
			}
			failed(i, result)
		}

		if first >= 0 && !flags.Linked {
			l.chain, first, broken = nil, -1, false
		}
	}

	return results
}

// discard takes back what the chain has changed.
func (l *Ledger) discard() {
	for _, place := range l.chain.ended {
		l.transfers[place].status = pending
	}

	for id, before := range l.chain.accounts {
		*l.accounts[id] = before
	}

	for _, t := range l.transfers[l.chain.transfers:] {
		delete(l.places, t.ID)
	}

	l.open = slices.DeleteFunc(l.open, func(place int) bool { return place >= l.chain.transfers })
	l.transfers, l.chain = l.transfers[:l.chain.transfers], nil
}

// change returns an account that is about to change.
func (l *Ledger) change(id tb.Uint128) *tb.Account {
	account := l.accounts[id]
	if l.chain != nil {
		if _, kept := l.chain.accounts[id]; !kept {
			l.chain.accounts[id] = *account
		}
	}

	return account
}

var knownAccountFlags = tb.AccountFlags{DebitsMustNotExceedCredits: true, History: true, Imported: true}.ToUint16()

func (l *Ledger) createAccount(timestamp uint64, a *tb.Account) tb.CreateAccountResult {
	zero := tb.Uint128{}

	e := l.accounts[a.ID]
	if a.Flags&^knownAccountFlags != 0 || a.ID == zero || a.Ledger == 0 || a.Code == 0 || a.UserData32 != 0 ||
		a.DebitsPending != zero || a.DebitsPosted != zero || a.CreditsPending != zero || a.CreditsPosted != zero ||
		e != nil && (a.Ledger != e.Ledger || a.Code != e.Code) {
		neverSent("such an account", *a)
	}

	switch {
	case e != nil && a.Flags != e.Flags:
		return tb.AccountExistsWithDifferentFlags
	case e != nil && a.UserData128 != e.UserData128:
		return tb.AccountExistsWithDifferentUserData128
	case e != nil && a.UserData64 != e.UserData64:
		return tb.AccountExistsWithDifferentUserData64
	case e != nil:
		return tb.AccountExists
	case a.AccountFlags().Imported && (l.accountsFrom(timestamp) < len(l.created) || l.hasTransferAt(timestamp)):
		return tb.AccountImportedEventTimestampMustNotRegress
	}
	account := *a
	account.Timestamp = timestamp
	l.accounts[a.ID] = &account
	l.created = append(l.created, &account)

	return tb.AccountOK
}

// accountsFrom returns how many accounts are older than a time.
func (l *Ledger) accountsFrom(timestamp uint64) int {
	return sort.Search(len(l.created), func(i int) bool { return l.created[i].Timestamp >= timestamp })
}

// transfersFrom returns how many transfers are older than a time.
func (l *Ledger) transfersFrom(timestamp uint64) int {
	return sort.Search(len(l.transfers), func(i int) bool { return l.transfers[i].Timestamp >= timestamp })
}

func (l *Ledger) hasTransferAt(timestamp uint64) bool {
	i := l.transfersFrom(timestamp)
	return i < len(l.transfers) && l.transfers[i].Timestamp == timestamp
}

// regresses reports whether an imported transfer comes too late.
func (l *Ledger) regresses(timestamp uint64) bool {
	i := l.accountsFrom(timestamp)
	return l.transfersFrom(timestamp) < len(l.transfers) || i < len(l.created) && l.created[i].Timestamp == timestamp
}

// expireUntil gives the money of expired holds back. The server does so a little after they
// expired, a model at once.
func (l *Ledger) expireUntil(timestamp uint64) {
	l.open = slices.DeleteFunc(l.open, func(place int) bool {
		t := &l.transfers[place]
		if t.status == pending && expiresAt(&t.Transfer) <= timestamp {
			t.status = expired
			subtract(&l.accounts[t.DebitAccountID].DebitsPending, number(t.Amount))
			subtract(&l.accounts[t.CreditAccountID].CreditsPending, number(t.Amount))
		}

		return t.status != pending
	})
}
