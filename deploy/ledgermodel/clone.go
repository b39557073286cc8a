package ledgermodel

import (
	"bytes"
	"encoding/binary"
	"iter"
	"maps"
	"slices"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// ConnectAt returns a client whose requests come at the time that a clock says, and take none.
func (l *Ledger) ConnectAt(clock func() time.Time) *Client {
	c := l.Connect(nil)
	c.clock = clock
	return c
}

// Clone returns a ledger that goes on from here alone. Requests under way are not in it.
func (l *Ledger) Clone() *Ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := New()

	c.last, c.transfers, c.burnt, c.places, c.open = l.last, slices.Clone(l.transfers), maps.Clone(l.burnt),
		maps.Clone(l.places), slices.Clone(l.open)
	for _, a := range l.created {
		account := *a
		c.accounts[a.ID], c.created = &account, append(c.created, &account)
	}

	return c
}

// AppendState appends what answers depend on: accounts, transfers, what became of them, and burnt
// ids. Two ledgers with one state answer alike, but for the order of their transfers in queries,
// and for times, which count here in whole seconds.
func (l *Ledger) AppendState(state []byte) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	number := func(n uint64) { state = binary.AppendUvarint(state, n) }

	ids := func(ids ...tb.Uint128) {
		for _, id := range ids {
			raw := id.Bytes()
			state = append(state, raw[:]...)
		}
	}
	for _, a := range l.created {
		ids(a.ID, a.DebitsPending, a.DebitsPosted, a.CreditsPending, a.CreditsPosted)
		number(uint64(a.Flags))
	}
	number(uint64(len(l.transfers)))

	for _, id := range inOrder(maps.Keys(l.places)) {
		t := &l.transfers[l.places[id]]
		ids(t.ID, t.DebitAccountID, t.CreditAccountID, t.Amount, t.PendingID, t.UserData128)

		for _, n := range []uint64{
			t.UserData64, uint64(t.UserData32), uint64(t.Timeout), uint64(t.Ledger), uint64(t.Code), uint64(t.Flags),
			t.Timestamp / uint64(time.Second), uint64(t.status),
		} {
			number(n)
		}
	}
	ids(inOrder(maps.Keys(l.burnt))...)

	return state
}

// inOrder sorts ids, so that equal sets make equal states.
func inOrder(ids iter.Seq[tb.Uint128]) []tb.Uint128 {
	return slices.SortedFunc(ids, func(a, b tb.Uint128) int {
		left, right := a.Bytes(), b.Bytes()
		return bytes.Compare(left[:], right[:])
	})
}
