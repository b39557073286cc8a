package engine

import (
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/deploy/ledgermodel"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// worldLedger is the model of the ledger in a world. It can be away or slow, and counts what it is asked.
type worldLedger struct {
	*ledgermodel.Client
	books *ledgermodel.Ledger // behind Client
	t     *testing.T

	mu        sync.Mutex
	lookUps   int
	idsLooked int             // in all look-ups of transfers
	accounts  int             // looked up
	chains    [][]tb.Transfer // all that was asked to be written, but probes and names
	absent    chan struct{}   // nil, or closed when the ledger comes back
	acts      int
	unread    chan struct{} // nil, or closed when the register can be read again
	pace      time.Duration // what a transfer takes
	overflows bool          // payments get a result that only sums above 128 bits cause
}

// What a world's ledger has: banks from 10000001 on, each with the customers 1 and 2 of branch 0001.
const (
	worldBanks       = 7
	customerCentavos = 1 << 30
	reserveCentavos  = 1 << 40
)

func newWorldLedger(t *testing.T) *worldLedger {
	t.Helper()
	books := ledgermodel.New()
	l := &worldLedger{Client: books.Connect(nil), books: books, t: t}
	accounts := []tb.Account{ledger.NewAccount(ledger.IssuanceAccount), ledger.NewAccount(ledger.RefusalsAccount),
		ledger.NewAccount(ledger.RegisterAccount)}
	var funds []tb.Transfer
	fund := func(from, to ledger.AccountID, centavos uint64) {
		funds = append(funds, tb.Transfer{ID: to, DebitAccountID: from, CreditAccountID: to,
			Amount: tb.ToUint128(centavos), Ledger: ledger.Ledger, Code: ledger.CodeFunding})
	}

	for i := range worldBanks {
		bank := pix.ISPB(strconv.Itoa(10_000_001 + i))
		accounts = append(accounts, ledger.NewAccount(ledger.ReserveAccount(bank)),
			ledger.NewAccount(ledger.TransitAccount(bank)), ledger.NewAccount(ledger.BooksAccount(bank)))
		fund(ledger.IssuanceAccount, ledger.ReserveAccount(bank), reserveCentavos)

		for _, number := range []string{"1", "2"} {
			customer := ledger.CustomerAccount(pix.Account{ISPB: bank, Branch: "0001", Number: number})
			accounts = append(accounts, ledger.NewAccount(customer))
			fund(ledger.TransitAccount(bank), customer, customerCentavos)
		}
	}

	if failed, err := l.CreateAccounts(accounts); err != nil || len(failed) > 0 {
		t.Fatal(failed, err)
	}
	l.put(append(funds, ledger.Marker{Banks: worldBanks}.Transfer())...)

	return l
}

// put writes transfers past the engines.
func (l *worldLedger) put(transfers ...tb.Transfer) {
	l.t.Helper()

	if failed, err := l.Client.CreateTransfers(transfers); err != nil || len(failed) > 0 {
		l.t.Fatal(failed, err)
	}
}

// of returns the transfers with a code, oldest first.
func (l *worldLedger) of(code uint16) []tb.Transfer {
	l.t.Helper()

	found, err := l.QueryTransfers(tb.QueryFilter{Code: code, Limit: ledgermodel.EventsMax})
	if err != nil {
		l.t.Fatal(err)
	}

	return found
}

func (l *worldLedger) CreateTransfers(transfers []tb.Transfer) ([]tb.TransferEventResult, error) {
	l.wait()
	l.mu.Lock()
	pace, overflows := l.pace, l.overflows
	l.mu.Unlock()
	time.Sleep(time.Duration(len(transfers)) * pace)
	l.set(func() {
		for start := 0; start < len(transfers); {
			end := start
			for transfers[end].TransferFlags().Linked {
				end++
			}

			end++
			if code := transfers[start].Code; code != ledger.CodeClockProbe && code != ledger.CodeOrigin {
				l.chains = append(l.chains, slices.Clone(transfers[start:end]))
			}
			start = end
		}
	})

	first := slices.IndexFunc(transfers, func(t tb.Transfer) bool { return t.TransferFlags().Linked })
	if overflows && first >= 0 {
		return []tb.TransferEventResult{{Index: uint32(first), Result: tb.TransferOverflowsCredits}}, nil
	}

	return l.Client.CreateTransfers(transfers)
}

func (l *worldLedger) LookupTransfers(ids []tb.Uint128) ([]tb.Transfer, error) {
	l.wait()
	l.set(func() { l.lookUps++; l.idsLooked += len(ids) })
	return l.Client.LookupTransfers(ids)
}

func (l *worldLedger) LookupAccounts(ids []tb.Uint128) ([]tb.Account, error) {
	l.set(func() { l.accounts += len(ids) })
	return l.Client.LookupAccounts(ids)
}

// GetAccountTransfers returns the acts.
func (l *worldLedger) GetAccountTransfers(filter tb.AccountFilter) ([]tb.Transfer, error) {
	l.wait()
	l.mu.Lock()
	unread := l.unread
	l.mu.Unlock()

	if unread != nil {
		<-unread
	}

	return l.Client.GetAccountTransfers(filter)
}

// act adds an act to the register.
func (l *worldLedger) act(kind ledger.ActKind, bank pix.ISPB) {
	l.t.Helper()
	l.record(ledger.Act{Kind: kind, Bank: bank})
}

func (l *worldLedger) record(act ledger.Act) {
	l.t.Helper()
	act.ByCentralBank = true
	l.acts++
	l.put(ledger.AppendAct(nil, "central-bank", strconv.Itoa(l.acts), act)...)
}

// replace puts an older copy back: from the next request on, nothing that came after it is there.
func (l *worldLedger) replace(older *ledgermodel.Ledger) {
	synctest.Wait() // nobody asks now
	l.books, l.Client = older, older.Connect(nil)
}

func (l *worldLedger) wait() {
	l.mu.Lock()
	absent := l.absent
	l.mu.Unlock()

	if absent != nil {
		<-absent
	}
}

func (l *worldLedger) leave() { l.set(func() { l.absent = make(chan struct{}) }) }

func (l *worldLedger) comeBack() { l.set(func() { close(l.absent); l.absent = nil }) }

func (l *worldLedger) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

func (l *worldLedger) written() [][]tb.Transfer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.chains)
}
