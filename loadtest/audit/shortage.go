package audit

import (
	"container/heap"
	"slices"
	"sort"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// A refusal for lack of money is justified if the account was short of it at some time between
// the order and its verdict. The ledger keeps no refused transfer. So the audit follows the
// balances of the accounts that are said to have been short, through all transfers.

// shortages follows accounts. What it follows must be known before the first transfer.
type shortages struct {
	followed map[accountID]*followed
	open     map[number128]openHold
	ending   endings
}

// followed is an account that was said to be short of some amounts.
type followed struct {
	amounts   []uint64 // ascending, without repeats
	limit     money    // of an allowance: its cap
	available money    // credits less debits, posted and pending
	levels    []level
}

// level says that from a time on the account was short of all amounts from an index on.
type level struct {
	at   uint64 // by the ledger's clock, ns
	from int
}

type openHold struct {
	account  accountID
	centavos uint64
}

// holdEnd is when a hold has ended at the latest, by the ledger's clock, ns.
type holdEnd struct {
	id   number128
	ends uint64
}

// endings is a heap: the first hold ends first. Windows of caps are longer than other holds.
type endings []holdEnd

func (e endings) Len() int           { return len(e) }
func (e endings) Less(i, j int) bool { return e[i].ends < e[j].ends }
func (e endings) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *endings) Push(hold any)     { *e = append(*e, hold.(holdEnd)) }
func (e *endings) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// expiryMargin is how long after its timeout a hold's money may come back.
const expiryMargin = uint64(time.Minute)

// follow makes an account followed because of an amount that it was said to be short of.
func (s *shortages) follow(account accountID, centavos uint64) {
	if s.followed == nil {
		s.followed, s.open = map[accountID]*followed{}, map[number128]openHold{}
	}
	f := s.followed[account]
	if f == nil {
		f = &followed{levels: []level{{}}}
		s.followed[account] = f
	}
	if i, known := slices.BinarySearch(f.amounts, centavos); !known {
		f.amounts = slices.Insert(f.amounts, i, centavos)
	}
}

// limit takes note of the cap of an allowance: it counts, and not the adjustments.
func (s *shortages) limit(allowance accountID, centavos, at uint64) {
	if f := s.followed[allowance]; f != nil {
		f.move(moneyOf(centavos).minus(f.limit), at)
		f.limit = moneyOf(centavos)
	}
}

// take takes a transfer, in the order of the ledger.
func (s *shortages) take(t tb.Transfer) {
	if s.followed == nil {
		return
	}
	for len(s.ending) > 0 && s.ending[0].ends <= t.Timestamp {
		ended := heap.Pop(&s.ending).(holdEnd)
		s.release(ended.id, 0, ended.ends)
	}
	amount, ok := centavos(t.Amount)
	if !ok {
		return // a finding elsewhere
	}
	none := money{}
	debit, credit := fromTigerBeetle(t.DebitAccountID), fromTigerBeetle(t.CreditAccountID)
	switch flags := t.TransferFlags(); {
	case flags.Pending:
		if f := s.followed[debit]; f != nil {
			id := fromTigerBeetle(t.ID)
			s.open[id] = openHold{debit, amount}
			if t.Timeout > 0 {
				heap.Push(&s.ending, holdEnd{id, t.Timestamp + uint64(t.Timeout)*uint64(time.Second) + expiryMargin})
			}
			f.move(none.minus(moneyOf(amount)), t.Timestamp)
		}
		return
	case flags.VoidPendingTransfer:
		s.release(fromTigerBeetle(t.PendingID), 0, t.Timestamp)
		return
	case flags.PostPendingTransfer:
		s.release(fromTigerBeetle(t.PendingID), amount, t.Timestamp)
	case t.Ledger == allowanceLedger:
		return
	default:
		if f := s.followed[debit]; f != nil {
			f.move(none.minus(moneyOf(amount)), t.Timestamp)
		}
	}
	if f := s.followed[credit]; f != nil {
		f.move(moneyOf(amount), t.Timestamp)
	}
}

// release ends a hold of which some centavos were posted.
func (s *shortages) release(id number128, posted, at uint64) {
	hold, known := s.open[id]
	if known {
		delete(s.open, id)
		s.followed[hold.account].move(moneyOf(hold.centavos).minus(moneyOf(posted)), at)
	}
}

// move changes what is available. Only a change that matters to an amount is kept.
func (f *followed) move(by money, at uint64) {
	f.available = f.available.plus(by)
	from := sort.Search(len(f.amounts), func(i int) bool { return f.available.less(moneyOf(f.amounts[i])) })
	if from != f.levels[len(f.levels)-1].from {
		f.levels = append(f.levels, level{at, from})
	}
}

// wasShort reports whether an account was short of an amount at some time from one time of the
// ledger to another. known is false for an account that was not followed.
func (s *shortages) wasShort(account accountID, centavos, from, to uint64) (short, known bool) {
	f := s.followed[account]
	if f == nil {
		return false, false
	}
	wanted, known := slices.BinarySearch(f.amounts, centavos)
	if !known {
		return false, false
	}
	// The level at the first time, and those that follow until the last.
	i := sort.Search(len(f.levels), func(i int) bool { return f.levels[i].at > from }) - 1
	for ; i < len(f.levels) && f.levels[i].at <= to; i++ {
		if f.levels[i].from <= wanted {
			return true, true
		}
	}
	return false, true
}
