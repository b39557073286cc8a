// Package ledgermodel is a TigerBeetle ledger in memory, for tests in virtual time, where the
// server cannot be. It answers as TigerBeetle 0.16.78 does; its tests prove that against the real
// server. What it does not model panics: change events.
//
// No service may import it: a test sees to that.
package ledgermodel

import (
	"container/heap"
	"math"
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

	transfers  []transfer // in the order of time
	places     map[tb.Uint128]int
	burnt      map[tb.Uint128]bool // ids that failed once: they are never taken again
	expiries   expiries
	byAccount  map[tb.Uint128][]int
	byUserData map[tb.Uint128][]int
	byCode     map[uint16][]int
	chain      *undo // nil: no linked chain is under way
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
	transfers, created int                       // how many there were before
	accounts           map[tb.Uint128]tb.Account // as they were before
	ended              []int                     // places of pending transfers that it posted or voided
}

// New returns an empty ledger.
func New() *Ledger {
	return &Ledger{
		accounts: map[tb.Uint128]*tb.Account{}, places: map[tb.Uint128]int{}, burnt: map[tb.Uint128]bool{},
		byAccount: map[tb.Uint128][]int{}, byUserData: map[tb.Uint128][]int{}, byCode: map[uint16][]int{},
	}
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

// createAccounts is the operation of this name.
func (l *Ledger) createAccounts(timestamp uint64, accounts []tb.Account) []tb.AccountEventResult {
	var results []tb.AccountEventResult
	l.create(timestamp, len(accounts), accountHeadings,
		func(i int) heading {
			flags := accounts[i].AccountFlags()
			return heading{flags.Linked, flags.Imported, accounts[i].Timestamp}
		},
		func(i int, at uint64) uint32 { return uint32(l.createAccount(at, &accounts[i])) },
		func(i int, result uint32) {
			results = append(results, tb.AccountEventResult{Index: uint32(i), Result: tb.CreateAccountResult(result)})
		})
	return results
}

// createTransfers is the operation of this name.
func (l *Ledger) createTransfers(timestamp uint64, transfers []tb.Transfer) []tb.TransferEventResult {
	var results []tb.TransferEventResult
	l.create(timestamp, len(transfers), transferHeadings,
		func(i int) heading {
			flags := transfers[i].TransferFlags()
			return heading{flags.Linked, flags.Imported, transfers[i].Timestamp}
		},
		func(i int, at uint64) uint32 { return uint32(l.createTransfer(at, &transfers[i])) },
		func(i int, result uint32) {
			if burns(tb.CreateTransferResult(result)) {
				l.burnt[transfers[i].ID] = true
			}
			results = append(results, tb.TransferEventResult{Index: uint32(i), Result: tb.CreateTransferResult(result)})
		})
	return results
}

// heading is what decides about an event before anything else.
type heading struct {
	linked, imported bool
	timestamp        uint64 // that it is given
}

// headingResults are the results of headings that are wrong. They differ between accounts and transfers.
type headingResults struct{ expected, notExpected, outOfRange, advances, mustBeZero uint32 }

var (
	accountHeadings = headingResults{uint32(tb.AccountImportedEventExpected), uint32(tb.AccountImportedEventNotExpected), uint32(tb.AccountImportedEventTimestampOutOfRange),
		uint32(tb.AccountImportedEventTimestampMustNotAdvance), uint32(tb.AccountTimestampMustBeZero)}
	transferHeadings = headingResults{uint32(tb.TransferImportedEventExpected), uint32(tb.TransferImportedEventNotExpected), uint32(tb.TransferImportedEventTimestampOutOfRange),
		uint32(tb.TransferImportedEventTimestampMustNotAdvance), uint32(tb.TransferTimestampMustBeZero)}
)

// check returns what is wrong with an event of a request, or 0. All of a request are imported, or none.
func (r *headingResults) check(h heading, imports bool, now uint64) uint32 {
	switch {
	case imports && !h.imported:
		return r.expected
	case !imports && h.imported:
		return r.notExpected
	case !imports && h.timestamp != 0:
		return r.mustBeZero
	case imports && (h.timestamp == 0 || h.timestamp > math.MaxInt64):
		return r.outOfRange
	case imports && h.timestamp >= now:
		return r.advances
	}
	return 0
}

// create creates events one after the other, linked ones wholly or not at all. The codes of a
// chain's results are the same for accounts and transfers.
func (l *Ledger) create(timestamp uint64, events int, results headingResults, headingOf func(i int) heading, event func(i int, at uint64) uint32, failed func(i int, result uint32)) {
	const chainFailed, chainOpen = uint32(tb.TransferLinkedEventFailed), uint32(tb.TransferLinkedEventChainOpen)
	first, broken := -1, false // of the chain
	linked := func(i int) bool { return headingOf(i).linked }
	for i := range events {
		var result uint32
		if linked(i) && first < 0 {
			first, broken = i, false
			l.begin()
		}
		switch {
		case linked(i) && i == events-1:
			result = chainOpen
		case broken:
			result = chainFailed
		default:
			h := headingOf(i)
			at := timestamp - uint64(events-1-i)
			if h.imported {
				at = h.timestamp
			}
			if result = results.check(h, headingOf(0).imported, timestamp); result == 0 {
				result = event(i, at)
			}
		}
		if result != 0 {
			if first >= 0 && !broken {
				broken = true
				l.discard()
				for before := first; before < i; before++ {
					failed(before, chainFailed)
				}
			}
			failed(i, result)
		}
		if first >= 0 && !linked(i) || result == chainOpen {
			l.chain, first, broken = nil, -1, false
		}
	}
}

func (l *Ledger) begin() {
	l.chain = &undo{transfers: len(l.transfers), created: len(l.created), accounts: map[tb.Uint128]tb.Account{}}
}

// discard takes back what the chain has changed.
func (l *Ledger) discard() {
	for _, place := range l.chain.ended {
		l.transfers[place].status = pending
	}
	for id, before := range l.chain.accounts {
		*l.accounts[id] = before
	}
	for place := len(l.transfers) - 1; place >= l.chain.transfers; place-- {
		t := &l.transfers[place]
		delete(l.places, t.ID)
		drop(l.byAccount, t.DebitAccountID)
		drop(l.byAccount, t.CreditAccountID)
		drop(l.byUserData, t.UserData128)
		drop(l.byCode, t.Code)
	}
	l.transfers = l.transfers[:l.chain.transfers]
	for _, account := range l.created[l.chain.created:] {
		delete(l.accounts, account.ID)
	}
	l.created, l.chain = l.created[:l.chain.created], nil
}

func drop[K comparable](index map[K][]int, key K) { index[key] = index[key][:len(index[key])-1] }

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

func (l *Ledger) createAccount(timestamp uint64, a *tb.Account) tb.CreateAccountResult {
	flags := a.AccountFlags()
	zero, most := tb.Uint128{}, numberMax.uint128()
	e := l.accounts[a.ID]
	switch {
	case a.Reserved != 0:
		return tb.AccountReservedField
	case a.Flags >= 1<<6:
		return tb.AccountReservedFlag
	case a.ID == zero:
		return tb.AccountIDMustNotBeZero
	case a.ID == most:
		return tb.AccountIDMustNotBeIntMax
	case e != nil && a.Flags != e.Flags:
		return tb.AccountExistsWithDifferentFlags
	case e != nil && a.UserData128 != e.UserData128:
		return tb.AccountExistsWithDifferentUserData128
	case e != nil && a.UserData64 != e.UserData64:
		return tb.AccountExistsWithDifferentUserData64
	case e != nil && a.UserData32 != e.UserData32:
		return tb.AccountExistsWithDifferentUserData32
	case e != nil && a.Ledger != e.Ledger:
		return tb.AccountExistsWithDifferentLedger
	case e != nil && a.Code != e.Code:
		return tb.AccountExistsWithDifferentCode
	case e != nil:
		return tb.AccountExists
	case flags.DebitsMustNotExceedCredits && flags.CreditsMustNotExceedDebits:
		return tb.AccountFlagsAreMutuallyExclusive
	case a.DebitsPending != zero:
		return tb.AccountDebitsPendingMustBeZero
	case a.DebitsPosted != zero:
		return tb.AccountDebitsPostedMustBeZero
	case a.CreditsPending != zero:
		return tb.AccountCreditsPendingMustBeZero
	case a.CreditsPosted != zero:
		return tb.AccountCreditsPostedMustBeZero
	case a.Ledger == 0:
		return tb.AccountLedgerMustNotBeZero
	case a.Code == 0:
		return tb.AccountCodeMustNotBeZero
	case flags.Imported && (l.accountsFrom(timestamp) < len(l.created) || l.hasTransferAt(timestamp)):
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

func (l *Ledger) hasAccountAt(timestamp uint64) bool {
	i := l.accountsFrom(timestamp)
	return i < len(l.created) && l.created[i].Timestamp == timestamp
}

func (l *Ledger) hasTransferAt(timestamp uint64) bool {
	i := l.transfersFrom(timestamp)
	return i < len(l.transfers) && l.transfers[i].Timestamp == timestamp
}

// regresses reports whether an imported transfer comes too late.
func (l *Ledger) regresses(timestamp uint64) bool {
	return l.transfersFrom(timestamp) < len(l.transfers) || l.hasAccountAt(timestamp)
}

// expiries are the pending transfers with a timeout, the next one to expire first.
type expiries []expiry

type expiry struct {
	at    uint64
	place int
}

func (e expiries) Len() int { return len(e) }
func (e expiries) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].place < e[j].place
}
func (e expiries) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *expiries) Push(x any)   { *e = append(*e, x.(expiry)) }
func (e *expiries) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// expire notes when a pending transfer expires.
func (l *Ledger) expire(place int) {
	if t := &l.transfers[place]; t.Timeout > 0 {
		heap.Push(&l.expiries, expiry{expiresAt(&t.Transfer), place})
	}
}

// expireUntil gives the money of expired holds back. The server does so a little after they
// expired, a model at once.
func (l *Ledger) expireUntil(timestamp uint64) {
	for len(l.expiries) > 0 && l.expiries[0].at <= timestamp {
		next := heap.Pop(&l.expiries).(expiry)
		if next.place >= len(l.transfers) {
			continue // its chain was discarded
		}
		t := &l.transfers[next.place]
		if t.Timeout == 0 || t.status != pending || expiresAt(&t.Transfer) != next.at {
			continue // it was posted or voided, or its chain was discarded and its place taken
		}
		t.status = expired
		debit, credit := l.accounts[t.DebitAccountID], l.accounts[t.CreditAccountID]
		subtract(&debit.DebitsPending, numberOf(t.Amount))
		subtract(&credit.CreditsPending, numberOf(t.Amount))
		reopen(&t.Transfer, debit, credit)
	}
}
