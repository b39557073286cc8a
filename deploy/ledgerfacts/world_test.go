// Package ledgerfacts tests on the real TigerBeetle server the results of chains that the engine tells apart.
// deploy/ledgermodel compares requests of all kinds with the server at random. A new version of the server is taken
// only when all of these tests pass.
package ledgerfacts

import (
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/deploy/ledgertest"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// client is the only client of the only server, for all tests.
var client tigerbeetle.Client

// shared is the engine of the tests that need none of their own.
var shared *engine

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "ledgerfacts")
		if err != nil {
			return fail(err)
		}
		defer os.RemoveAll(dir)

		server, err := ledgertest.Start(dir)
		if err != nil {
			return fail(err)
		}
		defer server.Stop()

		if client, err = ledger.Connect(server.Config); err != nil {
			return fail(err)
		}
		defer client.Close()

		if err := createAccounts(
			ledger.NewAccount(ledger.IssuanceAccount), ledger.NewAccount(ledger.RefusalsAccount),
			ledger.NewAccount(ledger.AllowanceSourceAccount), ledger.NewAccount(ledger.RegisterAccount),
		); err != nil {
			return fail(err)
		}
		shared = open(largest)
		defer shared.close()

		return m.Run()
	}())
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "ledgerfacts:", err)
	return 1
}

// largest are the largest requests that the server takes, one at a time.
var largest = ledger.BatchConfig{EventsMax: 8189, InFlightMax: 1}

// engine talks to the ledger as an engine does, but makes one request at a time.
type engine struct {
	writer *ledger.Writer[chan ledger.Result]
	reader *ledger.Reader[chan []tb.Transfer, tb.Transfer]
	failed chan error
}

func open(config ledger.BatchConfig) *engine {
	b := &engine{failed: make(chan error, 10)}
	registry := prometheus.NewRegistry()
	failing := func(err error) { b.failed <- err }
	b.writer = ledger.NewWriter(client, config, registry, nil, func(reply chan ledger.Result, result ledger.Result) {
		reply <- result
	}, failing)
	b.reader = ledger.NewTransferReader(client, config, registry, func(reply chan []tb.Transfer, found []tb.Transfer) {
		reply <- found
	}, failing)

	return b
}

func (b *engine) close() { b.writer.Close(); b.reader.Close() }

// write sends a chain and returns its result.
func (b *engine) write(t testing.TB, chain []tb.Transfer) ledger.Result {
	t.Helper()
	reply := make(chan ledger.Result, 1)
	b.writer.Write(reply, chain)

	return receive(t, b, reply)
}

func (b *engine) lookup(t testing.TB, ids []tb.Uint128) []tb.Transfer {
	t.Helper()
	reply := make(chan []tb.Transfer, 1)
	b.reader.Read(reply, ids)

	return receive(t, b, reply)
}

// trace looks up all that the ledger holds about a payment.
func (b *engine) trace(t testing.TB, id pix.EndToEndID) ledger.Trace {
	t.Helper()
	return ledger.TraceOf(id, b.lookup(t, ledger.AppendTraceIDs(nil, id)))
}

func receive[T any](t testing.TB, b *engine, reply chan T) (answer T) {
	t.Helper()

	select {
	case answer = <-reply:
	case err := <-b.failed:
		t.Fatal(err)
	case <-time.After(30 * time.Second):
		t.Fatal("no answer from the ledger after 30 s")
	}

	return answer
}

func createAccounts(accounts ...tb.Account) error {
	results, err := client.CreateAccounts(accounts)
	if err == nil && len(results) > 0 {
		err = fmt.Errorf("creating accounts: %v", results)
	}

	return err
}

var serial atomic.Int64

// newPSP creates a PSP with a reserve.
func newPSP(t testing.TB, reserve uint64) pix.ISPB {
	t.Helper()
	psp := pix.ISPB(fmt.Sprintf("%08d", serial.Add(1)))
	kit.Must(t, createAccounts(ledger.NewAccount(ledger.ReserveAccount(psp)),
		ledger.NewAccount(ledger.TransitAccount(psp))))
	kit.Must(t, fund(ledger.IssuanceAccount, ledger.ReserveAccount(psp), reserve))

	return psp
}

// newCustomer creates a customer with a deposit; noCustomer only a name for one.
func newCustomer(t testing.TB, psp pix.ISPB, deposit uint64) pix.Account {
	t.Helper()
	account := noCustomer(psp)
	kit.Must(t, createAccounts(ledger.NewAccount(ledger.CustomerAccount(account))))
	kit.Must(t, fund(ledger.TransitAccount(psp), ledger.CustomerAccount(account), deposit))

	return account
}

func noCustomer(psp pix.ISPB) pix.Account {
	return pix.Account{ISPB: psp, Branch: "0001", Number: fmt.Sprint(serial.Add(1))}
}

func fund(debit, credit ledger.AccountID, amount uint64) error {
	results, err := client.CreateTransfers([]tb.Transfer{{
		ID: tb.ID(), DebitAccountID: debit, CreditAccountID: credit, Amount: tb.ToUint128(amount),
		Ledger: ledger.Ledger, Code: ledger.CodeFunding,
	}})
	if err == nil && len(results) > 0 {
		err = fmt.Errorf("funding: %v", results)
	}

	return err
}

// payment is one payment with all that a test needs to know about it.
type payment struct {
	id      pix.EndToEndID
	content pix.Content
	timeout uint32
}

const (
	deposit = 1000
	reserve = 1_000_000
	amount  = 100
	// longTimeout outlives every test; shortTimeout is the shortest possible.
	longTimeout, shortTimeout = 600, 1
)

// newPayment creates accounts and a payment of amount between two new PSPs.
func newPayment(t testing.TB) *payment {
	t.Helper()
	return newPaymentBetween(t, newCustomer(t, newPSP(t, reserve), deposit),
		newCustomer(t, newPSP(t, reserve), deposit))
}

func newPaymentBetween(t testing.TB, payer, payee pix.Account) *payment {
	t.Helper()
	return &payment{newID(t, payer.ISPB), pix.Content{Payer: payer, Payee: payee, AmountCentavos: amount}, longTimeout}
}

func newID(t testing.TB, payer pix.ISPB) pix.EndToEndID {
	t.Helper()
	id, err := pix.ParseEndToEndID(fmt.Sprintf("E%s202506011200%011d", payer, serial.Add(1)))
	kit.Must(t, err)

	return id
}

func (p *payment) reserve() []tb.Transfer {
	return ledger.AppendReserve(nil, p.id, p.content, p.timeout)
}
func (p *payment) post() []tb.Transfer { return ledger.AppendPost(nil, p.id, p.content.SameBank()) }
func (p *payment) void(reason pix.Reason) []tb.Transfer {
	return ledger.AppendVoid(nil, p.id, p.content.SameBank(), reason)
}
func (p *payment) receipt(reason pix.Reason) []tb.Transfer {
	return ledger.AppendReceipt(nil, p.id, p.content, reason, true)
}

// balance is what is posted and pending on an account, credits less debits.
type balance struct{ posted, pending int64 }

func balancesOf(t testing.TB, ids ...ledger.AccountID) []balance {
	t.Helper()

	accounts, err := client.LookupAccounts(ids)
	if err != nil || len(accounts) != len(ids) {
		t.Fatalf("%d of %d accounts, %v", len(accounts), len(ids), err)
	}

	var balances []balance
	for _, a := range accounts {
		balances = append(balances, balance{
			posted:  ledger.Centavos(a.CreditsPosted) - ledger.Centavos(a.DebitsPosted),
			pending: ledger.Centavos(a.CreditsPending) - ledger.Centavos(a.DebitsPending),
		})
	}

	return balances
}

// money returns how much of the payment is held and how much has moved, as every account that it touches says. No
// other payment may touch these accounts. A payee inside the payer's bank owned nothing.
func (p *payment) money(t testing.TB) string {
	t.Helper()
	payer, payee := p.content.Payer, p.content.Payee
	got := balancesOf(t, ledger.CustomerAccount(payer), ledger.CustomerAccount(payee),
		ledger.TransitAccount(payer.ISPB),
		ledger.ReserveAccount(payer.ISPB), ledger.TransitAccount(payee.ISPB), ledger.ReserveAccount(payee.ISPB))
	held, moved := -got[0].pending, deposit-got[0].posted

	want := []balance{
		{deposit - moved, -held}, {deposit + moved, held}, {moved - deposit, held}, {reserve - moved, -held},
		{-deposit - moved, -held}, {reserve + moved, held},
	}
	if p.content.SameBank() {
		bank := []balance{{posted: -deposit}, {posted: reserve}}
		want = append([]balance{want[0], {moved, held}}, append(bank, bank...)...)
	}

	if !slices.Equal(got, want) {
		return fmt.Sprintf("%d,%d of the payer, but of all accounts %+v, want %+v", held, moved, got, want)
	}

	return fmt.Sprintf("%d,%d", held, moved)
}
