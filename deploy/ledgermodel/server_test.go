package ledgermodel

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/deploy/ledgertest"
	"github.com/liquida/liquida/platform/ledger"
)

var (
	requests = flag.Int("requests", 10_000, "how many random requests to compare with the real server")
	seed     = flag.Uint64("seed", 1, "what the random requests are made from")
)

// TestTheModelAnswersAsTheServer sends random requests to a real server, from one client or from
// several at once, and asks the model for its answers to the same requests. The server's
// timestamps say in which order it took them, so all results, balances and timestamps must be
// equal. What no timestamp shows is when a look-up was made, and when the server returned the
// money of an expired hold: there some moment must explain the answer.
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

	var (
		left   atomic.Int64
		nextNo atomic.Uint32
		mu     sync.Mutex
		seen   = map[string]int{}
		group  sync.WaitGroup
	)
	left.Store(int64(*requests))
	began := time.Now()
	for range 16 {
		group.Go(func() {
			for !t.Failed() && left.Load() > 0 {
				tr := newTrial(*seed, nextNo.Add(1), clients)
				made, err := tr.run()
				if err != nil {
					t.Errorf("trial %d of seed %d: %v", tr.no, *seed, err)
				}
				mu.Lock()
				for result, n := range tr.seen {
					seen[result] += n
				}
				mu.Unlock()
				if rest := left.Add(-int64(made)); rest/50_000 != (rest+int64(made))/50_000 {
					fmt.Fprintf(os.Stderr, "%d requests to go\n", max(0, rest))
				}
			}
		})
	}
	group.Wait()
	for range 2 + *requests/10_000 { // alone: an import comes before all others, and no timestamp shows when
		if t.Failed() {
			break
		}
		tr := newTrial(*seed, nextNo.Add(1), clients[:1])
		tr.imports = true
		if _, err := tr.run(); err != nil {
			t.Errorf("imports: trial %d of seed %d: %v", tr.no, *seed, err)
		}
		for result, n := range tr.seen {
			seen[result] += n
		}
	}
	for _, result := range slices.Sorted(maps.Keys(seen)) {
		t.Logf("%9d %s", seen[result], result)
	}
	t.Logf("%d requests in %d trials, %d kinds of results, %v", int64(*requests)-left.Load(), nextNo.Load(), len(seen), time.Since(began).Round(time.Second))
	for result := tb.TransferOK; result <= tb.TransferIDAlreadyFailed; result++ {
		if name := result.String(); !neverMade[result] && seen[name] == 0 && name[:min(len(name), 21)] != "CreateTransferResult(" {
			t.Errorf("no request was answered with %s: the trial proves nothing about it", name)
		}
	}
}

// neverMade are results that need time that no test has.
var neverMade = map[tb.CreateTransferResult]bool{tb.TransferOverflowsTimeout: true}

// trial is some hundred requests about accounts of its own, on ledger numbers of its own.
type trial struct {
	no      uint32
	random  *rand.Rand // of the trial's own goroutine
	clients []tigerbeetle.Client
	clock   atomic.Uint64 // of the trial: orders beginnings and ends of requests
	probes  atomic.Uint64
	seen    map[string]int
	imports bool   // it has one client, and half of its requests import
	last    uint64 // time of what it imported last

	mu         sync.Mutex
	sent       []tb.Transfer // to be repeated
	held       []tb.Uint128  // to be posted or voided
	orders     uint64        // that were held
	operations []*operation
	balances   map[tb.Uint128]map[uint64]tb.AccountBalance // by account and timestamp
	amounts    map[tb.Uint128]tb.Uint128                   // of the transfers that the server has
}

// operation is a request with the server's answer.
type operation struct {
	began, ended uint64 // by the trial's clock
	endedAt      uint64 // by this machine's clock: no later than the request's timestamp is possible
	probe        tb.Uint128
	timestamp    uint64 // of a write's last event
	accounts     []tb.Account
	transfers    []tb.Transfer
	read         func(*Ledger) any // nil: it is a write
	answer       any
}

func newTrial(seed uint64, no uint32, clients []tigerbeetle.Client) *trial {
	return &trial{no: no, random: rand.New(rand.NewPCG(seed, uint64(no))), clients: clients, seen: map[string]int{}}
}

const (
	accountNumbers = 12
	accountsEnd    = 70  // above the numbers of all accounts but those of probes
	loose          = 100 // number of the first loose transfer
	looseNumbers   = 200
)

// id returns the trial's n-th id.
func (tr *trial) id(n uint64) tb.Uint128 { return number{uint64(tr.no) | 7<<40, n}.uint128() }

func (tr *trial) ledger() uint32 { return tr.no*2 + 1000 }

func (tr *trial) run() (made int, err error) {
	if err := tr.open(); err != nil {
		return 0, err
	}
	model := New()
	for range 2 {
		workers := 1
		if tr.no%2 == 0 {
			workers = len(tr.clients)
		}
		var group sync.WaitGroup
		failures := make(chan error, workers)
		for w := range workers {
			random := rand.New(rand.NewPCG(tr.random.Uint64(), tr.random.Uint64()))
			group.Go(func() {
				for range 150 / workers {
					if err := tr.request(random, tr.clients[w]); err != nil {
						failures <- err
						return
					}
				}
			})
		}
		group.Wait()
		select {
		case err := <-failures:
			return len(tr.operations), err
		default:
		}
		if model, err = tr.replay(model); err != nil {
			return len(tr.operations), err
		}
		made += len(tr.operations)
		tr.operations = nil
		if err := tr.settle(model); err != nil {
			return made, err
		}
	}
	return made, nil
}

// open creates the accounts: 1 and 2 are the probes', 3 to 5 may not be overdrawn, 6 may not be
// overpaid, 7 is on another ledger number, 8 is for amounts of any size, 9 and 10 may be closed. There
// are no 11 and 12. 13 is an allowance and 14 its source, both on the other ledger number.
func (tr *trial) open() error {
	var accounts []tb.Account
	for n := uint64(1); n <= 14; n++ {
		if n == 11 || n == 12 {
			continue
		}
		a := tb.Account{ID: tr.id(n), Ledger: tr.ledger(), Code: uint16(1 + n%2), UserData64: n % 3}
		switch n {
		case 3, 4, 5:
			a.Flags = tb.AccountFlags{DebitsMustNotExceedCredits: true, History: n < 5}.ToUint16()
		case 6:
			a.Flags = tb.AccountFlags{CreditsMustNotExceedDebits: true}.ToUint16()
		case 7, 14:
			a.Ledger++
		case 13:
			a.Ledger++
			a.Flags = tb.AccountFlags{DebitsMustNotExceedCredits: true}.ToUint16()
		}
		accounts = append(accounts, a)
	}
	if err := tr.createAccounts(tr.clients[0], accounts); err != nil {
		return err
	}
	var funding []tb.Transfer
	for n := uint64(3); n <= 5; n++ {
		funding = append(funding, tb.Transfer{ID: tr.id(50 + n), DebitAccountID: tr.id(2), CreditAccountID: tr.id(n), Amount: tb.ToUint128(2000), Ledger: tr.ledger(), Code: 9})
	}
	funding = append(funding, tb.Transfer{ID: tr.id(57), DebitAccountID: tr.id(14), CreditAccountID: tr.id(13), Amount: tb.ToUint128(200), Ledger: tr.ledger() + 1, Code: 51})
	funding = append(funding, tb.Transfer{ID: tr.id(56), DebitAccountID: tr.id(6), CreditAccountID: tr.id(2), Amount: tb.ToUint128(200), Ledger: tr.ledger(), Code: 9})
	if tr.no%8 == 1 { // sums that only pending and posted together make too large
		half := number{1 << 63, 0}.uint128()
		for i, t := range []tb.Transfer{
			{DebitAccountID: tr.id(8), CreditAccountID: tr.id(10), Flags: tb.TransferFlags{Pending: true}.ToUint16()}, {DebitAccountID: tr.id(2), CreditAccountID: tr.id(10)},
			{DebitAccountID: tr.id(10), CreditAccountID: tr.id(2), Flags: tb.TransferFlags{Pending: true}.ToUint16()}, {DebitAccountID: tr.id(10), CreditAccountID: tr.id(8)},
		} {
			t.ID, t.Amount, t.Ledger, t.Code = tr.id(60+uint64(i)), half, tr.ledger(), 1
			funding = append(funding, t)
		}
	}
	return tr.createTransfers(tr.clients[0], funding)
}

func (tr *trial) newProbe() tb.Uint128 { return tr.id(1_000_000 + tr.probes.Add(1)) }

// do sends a request and keeps it with its answer.
func (tr *trial) do(o *operation, send func() (any, error)) error {
	o.began = tr.clock.Add(1)
	answer, err := send()
	if err != nil {
		return err
	}
	o.ended, o.endedAt, o.answer = tr.clock.Add(1), uint64(time.Now().UnixNano()), answer
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.operations = append(tr.operations, o)
	return nil
}

// createAccounts puts an account of its own before the others: its timestamp is the request's.
func (tr *trial) createAccounts(client tigerbeetle.Client, accounts []tb.Account) error {
	o := &operation{probe: tr.newProbe()}
	o.accounts = append([]tb.Account{{ID: o.probe, Ledger: tr.ledger(), Code: 99}}, accounts...)
	if accounts[0].AccountFlags().Imported {
		o.probe, o.accounts = zero, accounts
	}
	return tr.do(o, func() (any, error) { return client.CreateAccounts(o.accounts) })
}

// createTransfers puts a transfer of its own before the others: its timestamp is the request's.
func (tr *trial) createTransfers(client tigerbeetle.Client, transfers []tb.Transfer) error {
	o := &operation{probe: tr.newProbe()}
	o.transfers = append([]tb.Transfer{{ID: o.probe, DebitAccountID: tr.id(1), CreditAccountID: tr.id(2), Ledger: tr.ledger(), Code: 99}}, transfers...)
	if transfers[0].TransferFlags().Imported {
		o.probe, o.transfers = zero, transfers
	}
	return tr.do(o, func() (any, error) { return client.CreateTransfers(o.transfers) })
}

func read[Q, A any](tr *trial, question Q, ask func(Q) (A, error), model func(*Ledger, Q) A) error {
	o := &operation{read: func(l *Ledger) any { return model(l, question) }}
	return tr.do(o, func() (any, error) { return ask(question) })
}

func (tr *trial) request(random *rand.Rand, client tigerbeetle.Client) error {
	if tr.imports && random.IntN(6) == 0 {
		return tr.importTooOld(random, client)
	}
	switch random.IntN(20) {
	case 0:
		accounts := make([]tb.Account, 1+random.IntN(4))
		for i := range accounts {
			accounts[i] = tr.account(random)
		}
		if tr.imports && random.IntN(2) == 0 {
			tr.imported(random, len(accounts), func(i int, at uint64) {
				accounts[i].Flags, accounts[i].Timestamp = accounts[i].Flags|importedAccount, at
			})
		}
		return tr.createAccounts(client, accounts)
	case 1:
		return read(tr, tr.ids(random, 1, accountNumbers), client.LookupAccounts, (*Ledger).lookUpAccounts)
	case 2:
		return read(tr, append(tr.ids(random, loose, looseNumbers), tr.ids(random, 1000, 300)...), client.LookupTransfers, (*Ledger).lookUpTransfers)
	case 3:
		return read(tr, tr.accountFilter(random), client.GetAccountTransfers, (*Ledger).accountTransfers)
	case 4:
		return read(tr, tr.queryFilter(random), client.QueryTransfers, (*Ledger).queryTransfers)
	case 5:
		return read(tr, tr.queryFilter(random), client.QueryAccounts, (*Ledger).queryAccounts)
	case 6:
		return read(tr, tr.accountFilter(random), client.GetAccountBalances, (*Ledger).accountBalances)
	}
	var transfers []tb.Transfer
	for range 1 + random.IntN(4) {
		switch random.IntN(8) {
		case 0:
			transfers = append(transfers, tr.repeated(random))
		case 1, 2, 3:
			transfers = append(transfers, tr.chain(random)...)
		default:
			transfers = append(transfers, tr.loose(random))
		}
	}
	if tr.imports && random.IntN(2) == 0 {
		timeless := random.IntN(10) > 0
		tr.imported(random, len(transfers), func(i int, at uint64) {
			t := &transfers[i]
			if flags := t.TransferFlags(); flags.PostPendingTransfer || flags.VoidPendingTransfer {
				at = tr.last // the server ends if it is not after its hold
			}
			if t.Flags, t.Timestamp = t.Flags|importedTransfer, at; timeless {
				t.Timeout = 0
			}
		})
	}
	tr.mu.Lock()
	tr.sent = append(tr.sent, transfers...)
	for i := range transfers {
		if transfers[i].TransferFlags().Pending {
			tr.held = append(tr.held, transfers[i].ID)
		}
	}
	tr.mu.Unlock()
	return tr.createTransfers(client, transfers)
}

var (
	importedAccount  = tb.AccountFlags{Imported: true}.ToUint16()
	importedTransfer = tb.TransferFlags{Imported: true}.ToUint16()
)

// imported gives each event of a request, but for a few, a time of its own: mostly one that is right.
func (tr *trial) imported(random *rand.Rand, events int, give func(i int, at uint64)) {
	before := tr.last
	tr.last = uint64(time.Now().UnixNano())
	for i := range events {
		tr.last += 1 + random.Uint64N(50)
		if at := seldom(random, tr.last, 0, before, tr.last-1, tr.last+uint64(time.Hour), 1<<63); i == 0 || random.IntN(30) > 0 {
			give(i, at)
		}
	}
}

// importTooOld imports an account, and a transfer that is older or as old.
func (tr *trial) importTooOld(random *rand.Rand, client tigerbeetle.Client) error {
	account := tb.Account{ID: tr.id(30 + random.Uint64N(accountsEnd-30)), Ledger: tr.ledger(), Code: 1, Flags: importedAccount, Timestamp: uint64(time.Now().UnixNano())}
	if err := tr.createAccounts(client, []tb.Account{account}); err != nil {
		return err
	}
	t := tb.Transfer{ID: tr.id(loose + random.Uint64N(looseNumbers)), DebitAccountID: account.ID, CreditAccountID: tr.id(8), Ledger: tr.ledger(), Code: 1, Flags: importedTransfer, Timestamp: account.Timestamp - random.Uint64N(2)}
	if random.IntN(2) == 0 {
		t.DebitAccountID, t.CreditAccountID = t.CreditAccountID, t.DebitAccountID
	}
	return tr.createTransfers(client, []tb.Transfer{t})
}

func pick[T any](random *rand.Rand, of ...T) T { return of[random.IntN(len(of))] }

// seldom returns a value, and once in a while one of the others.
func seldom[T any](random *rand.Rand, value T, others ...T) T {
	if random.IntN(40) == 0 {
		return pick(random, others...)
	}
	return value
}

func (tr *trial) ids(random *rand.Rand, from, n uint64) []tb.Uint128 {
	ids := make([]tb.Uint128, random.IntN(6))
	for i := range ids {
		ids[i] = tr.id(from + random.Uint64N(n))
	}
	return ids
}

var zero, most = tb.Uint128{}, numberMax.uint128()

func (tr *trial) account(random *rand.Rand) tb.Account {
	one := tb.ToUint128(1)
	flags := tb.AccountFlags{
		Linked: random.IntN(3) == 0, DebitsMustNotExceedCredits: random.IntN(3) == 0, CreditsMustNotExceedDebits: random.IntN(3) == 0,
		Closed: random.IntN(8) == 0, History: random.IntN(8) == 0,
	}.ToUint16()
	return tb.Account{
		ID:            seldom(random, tr.id(pick[uint64](random, 3, 9, 20, 21, 22, 23, 24, 25, 26)), zero, most),
		DebitsPending: seldom(random, zero, one), DebitsPosted: seldom(random, zero, one), CreditsPending: seldom(random, zero, one), CreditsPosted: seldom(random, zero, one),
		UserData128: seldom(random, zero, one), UserData64: seldom[uint64](random, 0, 1), UserData32: seldom[uint32](random, 0, 1),
		Reserved: seldom[uint32](random, 0, 1), Timestamp: seldom[uint64](random, 0, 1),
		Ledger: seldom(random, tr.ledger(), 0, tr.ledger()+1), Code: seldom[uint16](random, 1, 0, 2), Flags: flags | seldom[uint16](random, 0, 1<<6, 1<<15),
	}
}

// loose is a transfer of any kind, right or wrong.
func (tr *trial) loose(random *rand.Rand) tb.Transfer {
	accountID := func() tb.Uint128 {
		return seldom(random, tr.id(pick[uint64](random, 2, 3, 3, 4, 4, 5, 6, 6, 8, 9, 10)), zero, most, most, tr.id(7), tr.id(11), tr.id(12))
	}
	looseID := func() tb.Uint128 { return tr.id(loose + random.Uint64N(looseNumbers)) }
	tr.mu.Lock()
	heldID := pick(random, append(tr.held, looseID())...)
	tr.mu.Unlock()
	t := tb.Transfer{
		ID:     seldom(random, looseID(), zero, most),
		Amount: seldom(random, tb.ToUint128(random.Uint64N(60)), most, number{1 << 63, 0}.uint128()), UserData128: pick(random, zero, tr.id(5), tr.id(6)),
		UserData64: seldom[uint64](random, 0, 1), UserData32: seldom[uint32](random, 0, 1), Timestamp: seldom[uint64](random, 0, 0, 0, 1),
	}
	flags := tb.TransferFlags{Linked: random.IntN(5) == 0}
	if random.IntN(3) == 0 {
		flags.PostPendingTransfer = random.IntN(2) == 0
		flags.VoidPendingTransfer = !flags.PostPendingTransfer
		t.Amount = pick(random, zero, most, tb.ToUint128(random.Uint64N(60)))
		t.PendingID = seldom(random, heldID, looseID(), zero, most, t.ID)
		t.Ledger, t.Code, t.Timeout = seldom(random, 0, tr.ledger(), tr.ledger()+1), seldom[uint16](random, 0, 1, 2), seldom[uint32](random, 0, 1)
		t.DebitAccountID, t.CreditAccountID = seldom(random, zero, accountID()), seldom(random, zero, accountID())
		flags.Pending, flags.ClosingDebit, flags.BalancingDebit, flags.BalancingCredit = seldom(random, false, true), seldom(random, false, true), seldom(random, false, true), seldom(random, false, true)
		flags.VoidPendingTransfer = seldom(random, flags.VoidPendingTransfer, true)
	} else {
		t.DebitAccountID, t.CreditAccountID = accountID(), accountID()
		if big := tr.id(8); (t.DebitAccountID == big || t.CreditAccountID == big) && random.IntN(4) == 0 {
			other := tr.id(pick[uint64](random, 2, 2, 10))
			if t.DebitAccountID, t.CreditAccountID = big, other; random.IntN(2) == 0 {
				t.DebitAccountID, t.CreditAccountID = other, big
			}
			t.Amount = pick(random, most, number{1 << 63, 0}.uint128())
		}
		t.PendingID = seldom(random, zero, looseID())
		t.Ledger, t.Code = seldom(random, tr.ledger(), 0, tr.ledger()+1), seldom[uint16](random, 1, 0, 2)
		if flags.Pending = random.IntN(2) == 0; flags.Pending {
			t.Timeout = pick[uint32](random, 0, 1, 1, 2, 3600)
		} else {
			t.Timeout = seldom[uint32](random, 0, 1)
		}
		flags.BalancingDebit, flags.BalancingCredit = random.IntN(6) == 0, random.IntN(6) == 0
		flags.ClosingDebit = random.IntN(5) == 0 && (t.DebitAccountID == tr.id(9) || t.DebitAccountID == tr.id(10))
		flags.ClosingCredit = random.IntN(5) == 0 && (t.CreditAccountID == tr.id(9) || t.CreditAccountID == tr.id(10))
	}
	t.Flags = flags.ToUint16() | seldom[uint16](random, 0, 0, 0, 1<<9, 1<<15)
	return t
}

// adjustment raises or lowers an allowance, as far as it is free.
func (tr *trial) adjustment(random *rand.Rand) []tb.Transfer {
	up := tb.Transfer{
		ID: tr.id(loose + random.Uint64N(looseNumbers)), DebitAccountID: tr.id(14), CreditAccountID: tr.id(13), Amount: tb.ToUint128(1 + random.Uint64N(40)),
		Ledger: tr.ledger() + 1, Code: 51, Flags: tb.TransferFlags{Linked: true}.ToUint16(),
	}
	down := up
	down.ID, down.DebitAccountID, down.CreditAccountID = tr.id(loose+random.Uint64N(looseNumbers)), up.CreditAccountID, up.DebitAccountID
	down.Amount, down.Flags = tb.ToUint128(random.Uint64N(90)), tb.TransferFlags{BalancingDebit: true}.ToUint16()
	return []tb.Transfer{up, down}
}

// chain is one of the chains that a payment has: hold, post, void or receipt.
func (tr *trial) chain(random *rand.Rand) []tb.Transfer {
	if random.IntN(12) == 0 {
		return tr.adjustment(random)
	}
	tr.mu.Lock()
	order, kind := random.Uint64N(tr.orders+1), random.IntN(7)
	if order == tr.orders && kind < 5 {
		kind = 0 // mostly a hold comes first
	}
	if order == tr.orders {
		tr.orders++
	}
	tr.mu.Unlock()
	first := 1000 + 8*order
	legs := [][2]uint64{{3, 8}, {4, 5}, {8, pick[uint64](random, 3, 5)}}
	if random.IntN(10) == 0 {
		legs[random.IntN(3)] = [2]uint64{pick[uint64](random, 3, 4, 8), pick[uint64](random, 9, 11)}
	}
	if order%2 == 0 && (kind < 2 || kind == 5) {
		legs = append(legs, [2]uint64{13, 14})
	}
	var chain []tb.Transfer
	amount, timeout := tb.ToUint128(seldom(random, order%5*20, 500)), 2+uint32(order%3)*3600
	reason := pick[uint32](random, 0, 0, 1, 2)
	for i, leg := range legs[:seldom(random, len(legs), 2)] {
		t := tb.Transfer{Flags: tb.TransferFlags{Linked: true}.ToUint16()}
		switch {
		case kind < 2:
			t.ID, t.DebitAccountID, t.CreditAccountID, t.Amount = tr.id(first+uint64(i)), tr.id(leg[0]), tr.id(leg[1]), amount
			t.UserData128, t.Timeout, t.Ledger, t.Code = tr.id(first), timeout, tr.ledger(), uint16(1+i)
			t.Flags |= tb.TransferFlags{Pending: true}.ToUint16()
			if i == 3 {
				t.Timeout, t.Ledger = timeout+5, tr.ledger()+1
			}
		case kind < 5:
			t.ID, t.PendingID, t.Amount, t.UserData32 = tr.id(first+4+uint64(i)), tr.id(first+uint64(i)), most, reason
			t.Flags |= tb.TransferFlags{PostPendingTransfer: true}.ToUint16()
		case kind < 6:
			t.ID, t.PendingID, t.UserData32 = tr.id(first+4+uint64(i)), tr.id(first+uint64(i)), reason
			t.Flags |= tb.TransferFlags{VoidPendingTransfer: true}.ToUint16()
		default:
			t.ID, t.DebitAccountID, t.CreditAccountID, t.UserData32, t.Ledger, t.Code = tr.id(first+4), tr.id(8), tr.id(4), reason, tr.ledger(), 7
		}
		if chain = append(chain, t); kind == 6 {
			break
		}
	}
	chain[len(chain)-1].Flags &^= tb.TransferFlags{Linked: true}.ToUint16()
	return chain
}

// repeated is a transfer that was sent before, as it was or with another value in one field.
func (tr *trial) repeated(random *rand.Rand) tb.Transfer {
	t := tr.loose(random)
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if len(tr.sent) > 0 {
		t = pick(random, tr.sent...)
	}
	switch random.IntN(24) {
	case 0:
		t.Amount = tb.ToUint128(random.Uint64N(60))
	case 1:
		t.UserData128 = tr.id(random.Uint64N(9))
	case 2:
		t.UserData64++
	case 3:
		t.UserData32++
	case 4:
		t.Timeout++
	case 5:
		t.Ledger++
	case 6:
		t.Code++
	case 7:
		t.DebitAccountID = tr.id(2 + random.Uint64N(8))
	case 8:
		t.CreditAccountID = tr.id(2 + random.Uint64N(8))
	case 9:
		t.PendingID = tr.id(loose + random.Uint64N(looseNumbers))
	case 10:
		t.Flags ^= pick[uint16](random, 1, 2, 4, 8, 16, 32)
	}
	return t
}

func (tr *trial) accountFilter(random *rand.Rand) tb.AccountFilter {
	return tb.AccountFilter{
		AccountID: seldom(random, tr.id(2+random.Uint64N(8)), zero, most), UserData128: pick(random, zero, zero, tr.id(5), tr.id(1000+8*random.Uint64N(8))), UserData64: pick[uint64](random, 0, 0, 0, 1),
		UserData32: pick[uint32](random, 0, 0, 0, 1), Code: pick[uint16](random, 0, 0, 1), TimestampMin: seldom(random, 0, uint64(time.Now().UnixNano())),
		TimestampMax: seldom(random, 0, uint64(time.Now().UnixNano()), 1), Limit: pick[uint32](random, 0, 1, 5, 1000),
		Flags: tb.AccountFilterFlags{Debits: random.IntN(3) > 0, Credits: random.IntN(3) > 0, Reversed: random.IntN(2) == 0}.ToUint32(),
	}
}

// queryFilter always asks for the trial's own ledger number: others use the server, too.
func (tr *trial) queryFilter(random *rand.Rand) tb.QueryFilter {
	return tb.QueryFilter{
		Ledger: tr.ledger(), UserData128: pick(random, zero, zero, tr.id(5), tr.id(1000+8*random.Uint64N(8))), UserData64: pick[uint64](random, 0, 0, 0, 1), UserData32: pick[uint32](random, 0, 0, 0, 1),
		Code: pick[uint16](random, 0, 0, 1, 99), TimestampMin: seldom(random, 0, uint64(time.Now().UnixNano())), TimestampMax: seldom(random, 0, uint64(time.Now().UnixNano()), 1),
		Limit: pick[uint32](random, 0, 1, 5, 1000), Flags: tb.QueryFilterFlags{Reversed: random.IntN(2) == 0}.ToUint32(),
	}
}

// replay asks the model what the server was asked, in the server's order.
func (tr *trial) replay(model *Ledger) (*Ledger, error) {
	var writes, reads []*operation
	for _, o := range tr.operations {
		if o.read != nil {
			reads = append(reads, o)
			continue
		}
		var err error
		if o.timestamp, err = tr.timestampOf(o); err != nil {
			return nil, err
		}
		writes = append(writes, o)
	}
	if err := tr.readStored(); err != nil {
		return nil, err
	}
	slices.SortFunc(writes, func(a, b *operation) int { return int(int64(a.timestamp - b.timestamp)) })
	for i := range writes[1:] {
		if writes[i+1].ended < writes[i].began {
			return nil, fmt.Errorf("the server took a request before one that had ended: %d, %d", writes[i].timestamp, writes[i+1].timestamp)
		}
	}
	explained := make([]bool, len(reads))
	explain := func(done int) {
		for r, o := range reads {
			before := done == 0 || writes[done-1].began < o.ended        // the last write may come before the read
			after := done == len(writes) || writes[done].ended > o.began // the next one may come after it
			if !explained[r] && before && after && tr.answers(model, o) != nil {
				explained[r] = true
			}
		}
	}
	explain(0)
	for done, o := range writes {
		next := tr.answers(model, o)
		if next == nil {
			answer, _ := apply(model.Clone(), o)
			return nil, fmt.Errorf("request at %d\n%s\nthe server: %v\nthe model:  %v", o.timestamp, o, o.answer, answer)
		}
		model = next
		tr.count(o)
		explain(done + 1)
	}
	for r, o := range reads {
		if !explained[r] {
			return nil, fmt.Errorf("no moment explains an answer to a look-up or query: the server: %+v\nthe model at the end: %+v", o.answer, o.read(model))
		}
	}
	return model, nil
}

// readStored asks for the balances after each transfer so far, of the accounts that keep them, and for
// the amounts: a balancing transfer takes what is there. Both show how much money of expired holds the
// server had returned by then.
func (tr *trial) readStored() error {
	var ids []tb.Uint128
	for _, o := range tr.operations {
		for _, t := range o.transfers {
			ids = append(ids, t.ID)
		}
	}
	tr.amounts = map[tb.Uint128]tb.Uint128{}
	for some := range slices.Chunk(ids, EventsMax) {
		found, err := tr.clients[0].LookupTransfers(some)
		if err != nil {
			return err
		}
		for _, t := range found {
			tr.amounts[t.ID] = t.Amount
		}
	}
	tr.balances = map[tb.Uint128]map[uint64]tb.AccountBalance{}
	for n := uint64(1); n < accountsEnd; n++ {
		found, err := tr.clients[0].GetAccountBalances(tb.AccountFilter{AccountID: tr.id(n), Limit: EventsMax, Flags: tb.AccountFilterFlags{Debits: true, Credits: true}.ToUint32()})
		if err != nil {
			return err
		}
		of := map[uint64]tb.AccountBalance{}
		for _, balance := range found {
			of[balance.Timestamp] = balance
		}
		tr.balances[tr.id(n)] = of
	}
	return nil
}

// agrees reports whether amount and balances of each transfer of the model from a place on are the server's.
func (tr *trial) agrees(model *Ledger, from int) bool {
	same := func(account tb.Uint128, after *tb.AccountBalance) bool {
		return after == nil || *after == tr.balances[account][after.Timestamp]
	}
	return !slices.ContainsFunc(model.transfers[from:], func(t transfer) bool {
		return t.Amount != tr.amounts[t.ID] || !same(t.DebitAccountID, t.debitAfter) || !same(t.CreditAccountID, t.creditAfter)
	})
}

// answers returns the model after a request that it answers as the server did, with the money of
// none, some or all holds returned that have expired; nil if it answers otherwise.
func (tr *trial) answers(model *Ledger, o *operation) *Ledger {
	until := o.timestamp
	if o.read != nil {
		until = o.endedAt
	}
	for try := model; ; {
		next := try.Clone()
		if answer, _ := apply(next, o); reflect.DeepEqual(answer, o.answer) && tr.agrees(next, len(try.transfers)) {
			return next
		}
		if len(try.expiries) == 0 || try.expiries[0].at > until {
			return nil
		}
		try = try.Clone()
		try.expireUntil(try.expiries[0].at)
	}
}

func apply(l *Ledger, o *operation) (answer any, write bool) {
	switch {
	case o.read != nil:
		return o.read(l), false
	case o.accounts != nil:
		return orEmpty(l.createAccounts(o.timestamp, o.accounts)), true
	default:
		return orEmpty(l.createTransfers(o.timestamp, o.transfers)), true
	}
}

func orEmpty[T any](results []T) []T { return append([]T{}, results...) }

func (tr *trial) count(o *operation) {
	failed := 0
	switch results := o.answer.(type) {
	case []tb.AccountEventResult:
		for _, r := range results {
			tr.seen[r.Result.String()]++
		}
	case []tb.TransferEventResult:
		for _, r := range results {
			tr.seen[r.Result.String()]++
		}
		failed = len(results)
	}
	tr.seen[tb.TransferOK.String()] += len(o.transfers) - failed
}

func (tr *trial) timestampOf(o *operation) (uint64, error) {
	if o.probe == zero {
		return o.endedAt, nil
	}
	if o.accounts != nil {
		found, err := tr.clients[0].LookupAccounts([]tb.Uint128{o.probe})
		if err != nil || len(found) == 0 {
			return 0, fmt.Errorf("the probe of a request is not there: %w", err)
		}
		return found[0].Timestamp + uint64(len(o.accounts)-1), nil
	}
	found, err := tr.clients[0].LookupTransfers([]tb.Uint128{o.probe})
	if err != nil || len(found) == 0 {
		return 0, fmt.Errorf("the probe of a request is not there: %w", err)
	}
	return found[0].Timestamp + uint64(len(o.transfers)-1), nil
}

// settle waits until all short holds have expired, and compares everything.
func (tr *trial) settle(model *Ledger) error {
	var ids []tb.Uint128
	for n := uint64(1); n < accountsEnd; n++ {
		ids = append(ids, tr.id(n))
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		now := uint64(time.Now().UnixNano())
		soon := len(model.expiries) > 0 && model.expiries[0].at <= now+uint64(time.Minute)
		model.expireUntil(now)
		found, err := tr.clients[0].LookupAccounts(ids)
		if err != nil {
			return err
		}
		expected := model.lookUpAccounts(ids)
		if !soon && reflect.DeepEqual(found, expected) {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("balances differ: the server: %+v\nthe model: %+v", found, expected)
		}
	}
	all := tb.QueryFilter{Ledger: tr.ledger(), Limit: EventsMax}
	found, err := tr.clients[0].QueryTransfers(all)
	if err != nil {
		return err
	}
	if expected := model.queryTransfers(all); !reflect.DeepEqual(found, expected) {
		return fmt.Errorf("transfers differ: the server: %+v\nthe model: %+v", found, expected)
	}
	return nil
}

func (o *operation) String() string {
	text := ""
	for i, t := range o.transfers {
		text += fmt.Sprintf("%3d %+v\n", i, t)
	}
	for i, a := range o.accounts {
		text += fmt.Sprintf("%3d %+v\n", i, a)
	}
	return text
}
