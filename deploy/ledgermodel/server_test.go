package ledgermodel

import (
	"cmp"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/deploy/ledgertest"
	"github.com/liquida/liquida/platform/ledger"
)

var (
	requests = flag.Int("requests", 6_000, "how many random requests to compare with the real server")
	seed     = flag.Uint64("seed", 1, "what the random requests are made from")
)

// kinds is how many kinds of results the model gives, OK among them. Each must be among the answers.
const kinds = 27

// TestTheModelAnswersAsTheServer sends random requests to a real server, as our programs may send them, and asks the
// model for its answers to the same requests. All results, balances and timestamps must be equal. What no answer shows
// is when the server returned the money of an expired hold: there some moment must explain the answer.
func TestTheModelAnswersAsTheServer(t *testing.T) {
	server, err := ledgertest.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()

	clients := make([]tigerbeetle.Client, 3)
	for i := range clients {
		if clients[i], err = ledger.Connect(server.Config); err != nil {
			t.Fatal(err)
		}
		defer clients[i].Close()
	}

	var mu sync.Mutex
	seen := map[string]int{}
	run := func(no int, imports bool) {
		tr := &trial{no: uint32(no), client: clients[no%len(clients)], model: New(), imports: imports,
			random: rand.New(rand.NewPCG(*seed, uint64(no))), seen: map[string]int{}}
		if err := tr.run(); err != nil {
			t.Errorf("trial %d of seed %d, imports %v: %v", no, *seed, imports, err)
		}
		mu.Lock()
		defer mu.Unlock()

		for result, n := range tr.seen {
			seen[result] += n
		}
	}

	var group sync.WaitGroup
	trials, numbers := *requests/trialRequests, make(chan int)

	for range 16 {
		group.Go(func() {
			for no := range numbers {
				run(no, false)
			}
		})
	}

	for no := 1; no <= trials && !t.Failed(); no++ {
		numbers <- no
	}
	close(numbers)
	group.Wait()

	for no := range 1 + *requests/20_000 { // alone: an import comes after all others
		run(trials+1+no, true)
	}
	t.Logf("%d trials of %d requests: %v", trials, trialRequests, seen)

	if len(seen) != kinds {
		t.Errorf("of the %d kinds of results the answers have %d: the trials prove nothing about the others",
			kinds, len(seen))
	}
}

// trial is some hundred requests about accounts of its own, on ledger numbers of its own, one after the other.
type trial struct {
	no      uint32
	random  *rand.Rand
	client  tigerbeetle.Client
	model   *Ledger
	seen    map[string]int
	imports bool   // most of its requests import
	last    uint64 // time of what it imported last
	probes  uint64
	sent    []tb.Transfer // to be repeated
}

const (
	trialRequests = 300
	accountsEnd   = 85 // above the numbers of all accounts
	loose         = 90 // number of the first loose transfer
)

// Loose transfers have numbers by kind, so that a post names no transfer that is no hold.
const (
	looseHold = iota
	loosePlain
	looseEnd
	looseKinds
)

// id returns the trial's n-th id.
func (tr *trial) id(n uint64) tb.Uint128 {
	var raw [16]byte
	binary.LittleEndian.PutUint64(raw[:8], n)
	binary.LittleEndian.PutUint64(raw[8:], uint64(tr.no)|7<<40)

	return tb.BytesToUint128(raw)
}

func (tr *trial) looseID(kind uint64) tb.Uint128 {
	return tr.id(loose + kind + looseKinds*tr.random.Uint64N(70))
}

func (tr *trial) ledger() uint32 { return tr.no*2 + 1000 }

func (tr *trial) run() error {
	if err := tr.open(); err != nil {
		return err
	}
	tr.last = uint64(time.Now().UnixNano())

	for range 2 {
		for range trialRequests / 2 {
			if err := tr.request(); err != nil {
				return err
			}
		}

		if err := tr.settle(); err != nil {
			return err
		}
	}

	return nil
}

// open creates the accounts: 1 and 2 are the probes', 3 to 5 may not be overdrawn, 3 keeps its history. There are no 11
// and 12. 13 is an allowance and 14 its source, both on the other ledger number.
func (tr *trial) open() error {
	var accounts []tb.Account

	for _, n := range []uint64{1, 2, 3, 4, 5, 8, 9, 10, 13, 14} {
		a := tb.Account{ID: tr.id(n), Ledger: tr.ledger(), Code: uint16(1 + n%2), UserData64: n % 3}
		if n >= 13 {
			a.Ledger++
		}
		a.Flags = tb.AccountFlags{DebitsMustNotExceedCredits: n >= 3 && n <= 5 || n == 13, History: n == 3}.ToUint16()
		accounts = append(accounts, a)
	}

	if err := tr.createAccounts(accounts); err != nil {
		return err
	}

	var funding []tb.Transfer
	for n := uint64(3); n <= 5; n++ {
		funding = append(funding, tb.Transfer{ID: tr.id(50 + n), DebitAccountID: tr.id(2), CreditAccountID: tr.id(n),
			Amount: tb.ToUint128(2000), Ledger: tr.ledger(), Code: 9})
	}
	allowance := tb.Transfer{ID: tr.id(57), DebitAccountID: tr.id(14), CreditAccountID: tr.id(13),
		Amount: tb.ToUint128(200), Ledger: tr.ledger() + 1, Code: 51}
	funding = append(funding, allowance)

	return tr.createTransfers(funding)
}

// compare asks the model what the server was asked, with the money of none, some or all holds returned that have
// expired until then.
func (tr *trial) compare(question any, until uint64, answer any, ask func(*Ledger) any) error {
	for try := tr.model; ; {
		next := try.Clone()

		is := ask(next)
		if reflect.DeepEqual(is, answer) {
			tr.model = next
			return nil
		}

		if try.nextExpiry() > until {
			return fmt.Errorf("at %d: %+v\nthe server: %+v\nthe model:  %+v", until, question, answer, is)
		}
		try = try.Clone()
		try.expireUntil(try.nextExpiry())
	}
}

// nextExpiry returns when the next hold expires.
func (l *Ledger) nextExpiry() uint64 {
	next := uint64(math.MaxUint64)

	for _, place := range l.open {
		if t := &l.transfers[place]; t.status == pending {
			next = min(next, expiresAt(&t.Transfer))
		}
	}

	return next
}

func read[Q, A any](tr *trial, question Q, ask func(Q) (A, error), model func(*Ledger, Q) A) error {
	answer, err := ask(question)
	if err != nil {
		return err
	}

	return tr.compare(question, uint64(time.Now().UnixNano()), answer, func(l *Ledger) any {
		return model(l, question)
	})
}

// newProbe is the id of what comes first in each request: its timestamp is the request's. Imports have none, and come
// when they end.
func (tr *trial) newProbe() tb.Uint128 {
	tr.probes++
	return tr.id(1_000_000 + tr.probes)
}

func (tr *trial) createAccounts(accounts []tb.Account) error {
	probe := tb.Account{ID: tr.newProbe(), Ledger: tr.ledger(), Code: 99}
	if !accounts[0].AccountFlags().Imported {
		accounts = append([]tb.Account{probe}, accounts...)
	}

	results, err := tr.client.CreateAccounts(accounts)
	if err != nil {
		return err
	}
	stored, err := tr.client.LookupAccounts([]tb.Uint128{probe.ID})

	at := uint64(time.Now().UnixNano())
	if len(stored) > 0 {
		at = stored[0].Timestamp + uint64(len(accounts)-1)
	}

	for _, result := range results {
		tr.seen[result.Result.String()]++
	}

	return cmp.Or(err, tr.compare(accounts, at, results, func(l *Ledger) any {
		return orEmpty(l.createAccounts(at, accounts))
	}))
}

// written is what became of a request: results, its transfers, and the balances that it left behind if holds may have
// expired before it.
type written struct {
	results  []tb.TransferEventResult
	stored   []tb.Transfer
	balances []tb.AccountBalance
}

func (tr *trial) createTransfers(transfers []tb.Transfer) error {
	probe := tb.Transfer{ID: tr.newProbe(), DebitAccountID: tr.id(1), CreditAccountID: tr.id(2),
		Ledger: tr.ledger(), Code: 99}
	if !transfers[0].TransferFlags().Imported {
		transfers = append([]tb.Transfer{probe}, transfers...)
	}

	ids := make([]tb.Uint128, len(transfers))
	for i := range transfers {
		ids[i] = transfers[i].ID
	}
	newest := tb.AccountFilter{AccountID: tr.id(3), Limit: 20,
		Flags: tb.AccountFilterFlags{Debits: true, Credits: true, Reversed: true}.ToUint32()}
	var is written
	var failed [3]error
	is.results, failed[0] = tr.client.CreateTransfers(transfers)
	at := uint64(time.Now().UnixNano())
	is.stored, failed[1] = tr.client.LookupTransfers(ids)

	unsure := tr.model.nextExpiry() <= at // the balances say what had expired
	if unsure {
		is.balances, failed[2] = tr.client.GetAccountBalances(newest)
	}

	if err := cmp.Or(failed[:]...); err != nil {
		return err
	}

	if is.stored = orEmpty(is.stored); ids[0] == probe.ID {
		at = is.stored[0].Timestamp + uint64(len(transfers)-1)
	}

	for _, result := range is.results {
		tr.seen[result.Result.String()]++
	}
	tr.seen[tb.TransferOK.String()] += len(transfers) - len(is.results)

	return tr.compare(transfers, at, is, func(l *Ledger) any {
		is := written{results: orEmpty(l.createTransfers(at, transfers)), stored: l.lookUpTransfers(ids)}
		if unsure {
			is.balances = l.accountBalances(newest)
		}

		return is
	})
}

func orEmpty[T any](results []T) []T { return append([]T{}, results...) }

func (tr *trial) request() error {
	what := tr.random.IntN(20)
	if tr.imports { // it is alone, so it does nothing else
		what = pick(tr, 0, 7, 7, 7)
	}

	switch what {
	case 0:
		accounts := make([]tb.Account, 1+tr.random.IntN(4))
		for i := range accounts {
			accounts[i] = tr.account()
		}
		tr.imported(len(accounts), func(i int, at uint64) {
			accounts[i].Flags, accounts[i].Timestamp = accounts[i].Flags|tb.AccountFlags{Imported: true}.ToUint16(), at
		})

		return tr.createAccounts(accounts)
	case 1:
		return read(tr, []tb.Uint128{tr.accountID(), tr.id(27), tr.accountID()}, tr.client.LookupAccounts,
			(*Ledger).lookUpAccounts)
	case 2:
		ids := []tb.Uint128{tr.looseID(looseHold), tr.looseID(looseEnd), tr.looseID(loosePlain)}
		return read(tr, ids, tr.client.LookupTransfers, (*Ledger).lookUpTransfers)
	case 3:
		return read(tr, tr.accountFilter(), tr.client.GetAccountTransfers, (*Ledger).accountTransfers)
	case 4:
		return read(tr, tr.queryFilter(), tr.client.QueryTransfers, (*Ledger).queryTransfers)
	case 5:
		return read(tr, tr.queryFilter(), tr.client.QueryAccounts, (*Ledger).queryAccounts)
	case 6:
		return read(tr, tr.accountFilter(), tr.client.GetAccountBalances, (*Ledger).accountBalances)
	}
	var transfers []tb.Transfer

	for range 1 + tr.random.IntN(8) {
		if tr.random.IntN(8) == 0 {
			transfers = append(transfers, tr.repeated())
		} else {
			transfers = append(transfers, tr.loose())
		}
	}
	transfers[len(transfers)-1].Flags &^= linked
	tr.imported(len(transfers), func(i int, at uint64) {
		t := &transfers[i]
		if t.PendingID != zero {
			at = tr.last // the server ends if it is not after its hold
		}
		t.Flags, t.Timestamp, t.Timeout = t.Flags|tb.TransferFlags{Imported: true}.ToUint16(), at, 0
	})
	tr.sent = append(tr.sent, transfers...)

	return tr.createTransfers(transfers)
}

var zero, linked = tb.Uint128{}, tb.TransferFlags{Linked: true}.ToUint16()

// imported gives each event of a request that imports a time of its own: mostly one that is right.
func (tr *trial) imported(events int, give func(i int, at uint64)) {
	if !tr.imports || tr.random.IntN(4) == 0 {
		return
	}
	before := tr.last

	tr.last = uint64(time.Now().UnixNano())
	for i := range events {
		tr.last += 1 + tr.random.Uint64N(50)
		if give(i, tr.last); tr.random.IntN(10) == 0 {
			give(i, before)
		}
	}
}

func pick[T any](tr *trial, of ...T) T { return of[tr.random.IntN(len(of))] }

// seldom returns a value, and once in a while one of the others.
func seldom[T any](tr *trial, value T, others ...T) T {
	if tr.random.IntN(40) == 0 {
		return pick(tr, others...)
	}

	return value
}

func (tr *trial) account() tb.Account {
	flags := tb.AccountFlags{DebitsMustNotExceedCredits: tr.random.IntN(3) == 0, History: tr.random.IntN(8) == 0}

	return tb.Account{
		ID: tr.id(20 + tr.random.Uint64N(accountsEnd-20)), Ledger: tr.ledger(), Code: 1, Flags: flags.ToUint16(),
		UserData128: seldom(tr, zero, most), UserData64: seldom[uint64](tr, 0, 1),
	}
}

// accountID is mostly one that is there.
func (tr *trial) accountID() tb.Uint128 {
	return seldom(tr, tr.id(pick[uint64](tr, 2, 3, 3, 4, 4, 5, 8, 9, 10)), tr.id(11), tr.id(12))
}

// loose is a transfer of any kind.
func (tr *trial) loose() tb.Transfer {
	t := tb.Transfer{
		ID: tr.looseID(loosePlain), Amount: tb.ToUint128(tr.random.Uint64N(60)),
		UserData128: pick(tr, zero, tr.id(5), tr.id(6)),
		UserData64:  seldom[uint64](tr, 0, 1), UserData32: seldom[uint32](tr, 0, 1),
	}

	flags := tb.TransferFlags{Linked: tr.random.IntN(3) == 0}
	if tr.random.IntN(3) == 0 {
		t.ID, t.PendingID, t.Amount = tr.looseID(looseEnd), tr.looseID(looseHold), zero
		if flags.PostPendingTransfer = tr.random.IntN(2) == 0; flags.PostPendingTransfer {
			t.Amount = most
		}
		flags.VoidPendingTransfer = !flags.PostPendingTransfer

		if place, exists := tr.model.places[t.PendingID]; exists && tr.random.IntN(3) == 0 { // as an archive has it
			p := tr.model.transfers[place]
			t.Amount, t.DebitAccountID, t.CreditAccountID, t.Ledger, t.Code = p.Amount, p.DebitAccountID,
				p.CreditAccountID, p.Ledger, p.Code
		}
		t.Flags = flags.ToUint16()

		return t
	}

	for t.DebitAccountID == t.CreditAccountID {
		t.DebitAccountID, t.CreditAccountID = tr.accountID(), tr.accountID()
	}

	t.Ledger, t.Code = tr.ledger(), seldom[uint16](tr, 1, 2)
	if tr.random.IntN(6) == 0 { // an allowance
		t.DebitAccountID, t.CreditAccountID, t.Ledger = tr.id(13), tr.id(14), tr.ledger()+1
		if tr.random.IntN(3) == 0 {
			t.DebitAccountID, t.CreditAccountID = t.CreditAccountID, t.DebitAccountID
		}
	}

	if flags.Pending = tr.random.IntN(2) == 0; flags.Pending {
		t.ID, t.Timeout = tr.looseID(looseHold), pick[uint32](tr, 0, 1, 1, 2, 3600)
	} else {
		flags.BalancingDebit = tr.random.IntN(6) == 0
	}
	t.Flags = flags.ToUint16()

	return t
}

// repeated is a transfer that was sent before, as it was or with another value in one field.
func (tr *trial) repeated() tb.Transfer {
	if len(tr.sent) == 0 {
		return tr.loose()
	}
	t := pick(tr, tr.sent...)
	t.Flags, t.Timestamp = t.Flags&^tb.TransferFlags{Imported: true}.ToUint16(), 0

	ends, own := t.PendingID != zero, t.Ledger == tr.ledger()
	switch kind := tr.random.IntN(16); {
	case kind == 0:
		t.UserData128 = tr.id(tr.random.Uint64N(9))
	case kind == 1:
		t.UserData64++
	case kind == 2:
		t.UserData32++
	case kind == 3:
		t.Flags ^= linked
	case kind == 4 && ends:
		t.PendingID, t.DebitAccountID, t.CreditAccountID, t.Ledger, t.Code = tr.looseID(looseHold), zero, zero, 0, 0
		if t.Amount = zero; t.TransferFlags().PostPendingTransfer {
			t.Amount = most
		}
	case ends:
	case kind == 5:
		t.Amount = tb.ToUint128(tr.random.Uint64N(60))
	case kind == 6:
		t.Code++
	case kind == 7 && t.TransferFlags().Pending:
		t.Timeout++
	case kind == 8 && own && t.CreditAccountID != tr.id(9):
		t.DebitAccountID = tr.id(9)
	case kind == 9 && own && t.DebitAccountID != tr.id(10):
		t.CreditAccountID = tr.id(10)
	}

	return t
}

func (tr *trial) times() (from, to uint64) {
	now := uint64(time.Now().UnixNano())
	return seldom(tr, 0, now), seldom(tr, 0, now, 1)
}

func (tr *trial) accountFilter() tb.AccountFilter {
	f := tb.AccountFilter{AccountID: tr.id(pick[uint64](tr, 3, 3, 4, 8, 9, 12, 13)), Code: pick[uint16](tr, 0, 0, 1),
		Limit: pick[uint32](tr, 0, 1, 5, 1000)}
	sides := 1 + tr.random.IntN(3)
	f.Flags = tb.AccountFilterFlags{Debits: sides&1 > 0, Credits: sides&2 > 0,
		Reversed: tr.random.IntN(2) == 0}.ToUint32()
	f.TimestampMin, f.TimestampMax = tr.times()

	return f
}

// queryFilter always asks for the trial's own ledger number: others use the server, too.
func (tr *trial) queryFilter() tb.QueryFilter {
	f := tb.QueryFilter{
		Ledger: tr.ledger(), UserData128: pick(tr, zero, zero, tr.id(5), tr.id(6)),
		UserData64: pick[uint64](tr, 0, 0, 0, 1), Code: pick[uint16](tr, 0, 0, 1, 99),
		Limit: pick[uint32](tr, 0, 1, 5, 1000),
		Flags: tb.QueryFilterFlags{Reversed: tr.random.IntN(2) == 0}.ToUint32(),
	}
	f.TimestampMin, f.TimestampMax = tr.times()

	return f
}

// settle waits until all short holds have expired, and compares everything.
func (tr *trial) settle() error {
	var ids []tb.Uint128
	for n := uint64(1); n < accountsEnd; n++ {
		ids = append(ids, tr.id(n))
	}

	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		now := uint64(time.Now().UnixNano())
		soon := tr.model.nextExpiry() <= now+uint64(time.Minute)
		tr.model.expireUntil(now)

		found, err := tr.client.LookupAccounts(ids)
		if err != nil {
			return err
		}

		expected := tr.model.lookUpAccounts(ids)
		if !soon && reflect.DeepEqual(found, expected) {
			break
		}

		if time.Now().After(deadline) {
			return fmt.Errorf("balances differ: the server: %+v\nthe model: %+v", found, expected)
		}
	}

	return read(tr, tb.QueryFilter{Ledger: tr.ledger(), Limit: EventsMax}, tr.client.QueryTransfers,
		(*Ledger).queryTransfers)
}
