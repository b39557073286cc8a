package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
)

// ActReasons are those with which acts may make a good payment end.
var ActReasons = []pix.Reason{pix.ReasonInactivePSP, pix.MustReason("AM13"), pix.MustReason("LQ12")}

// Operator does to the register what operators of the central bank and of banks do, while payments flow, and undoes it. Its methods are for one goroutine.
type Operator struct {
	// Door returns a client of a front door, as who acts. If it is nil, Client is the ledger's, and acts are
	// written to it.
	Door       func(holder string) (*client.Client, error)
	Client     tigerbeetle.Client
	Population sandbox.Population
	Random     *rand.Rand
	// Hold is how long what an act changes stays.
	Hold time.Duration
	// Did is called with what was done.
	Did func(format string, arguments ...any)
}

// Intervention is one act or some, and what undoes them.
type Intervention struct {
	Name string
	Play func(ctx context.Context, o *Operator) error
}

// Interventions are all of them.
var Interventions = []Intervention{
	{"suspension", func(ctx context.Context, o *Operator) error {
		bank := o.bank()
		return o.during(ctx, ledger.Act{Kind: ledger.Suspended, Bank: bank, ByCentralBank: true}, ledger.Act{Kind: ledger.Resumed, Bank: bank, ByCentralBank: true})
	}},
	{"cap on payments", func(ctx context.Context, o *Operator) error {
		act := ledger.Act{Kind: ledger.PaymentCapped, Bank: o.bank(), Centavos: 1 + o.Random.Int64N(100_000), ByCentralBank: true}
		lifted := act
		lifted.Centavos = 0
		return o.during(ctx, act, lifted)
	}},
	{"cap on outflow", func(ctx context.Context, o *Operator) error {
		bank, kind := o.bank(), ledger.DayCapped+ledger.ActKind(ledger.WindowAt(time.Now()))
		capped := func(centavos int64) ledger.Act {
			return ledger.Act{Kind: kind, Bank: bank, Centavos: centavos, WindowSeconds: ledger.WindowSecondsMin, ByCentralBank: true}
		}
		high := 2 + o.Random.Int64N(3_000_000)
		for _, centavos := range []int64{high, 1 + o.Random.Int64N(high), high + o.Random.Int64N(1_000_000)} {
			if err := o.Do(capped(centavos)); err != nil {
				return err
			}
			host.Sleep(ctx, o.Hold)
		}
		return o.Do(capped(0)) // lifted
	}},
	{"liquidity", func(ctx context.Context, o *Operator) error {
		in := ledger.Act{Kind: ledger.LiquidityIn, Bank: o.bank(), Centavos: 1 + o.Random.Int64N(1_000_000), ByCentralBank: true}
		out := in
		out.Kind = ledger.LiquidityOut
		return o.during(ctx, in, out)
	}},
	{"deposit", func(ctx context.Context, o *Operator) error {
		customer := o.customer()
		in := ledger.Act{Kind: ledger.Deposit, Bank: customer.ISPB, Account: customer, Centavos: 1 + o.Random.Int64N(1000)}
		out := in
		out.Kind = ledger.Withdrawal
		return o.during(ctx, in, out)
	}},
	{"blocked account", func(ctx context.Context, o *Operator) error {
		// Of no load and no client, so nobody depends on it.
		account := o.Population.Special(o.Random.IntN(o.Population.Banks), "9099")
		opened := ledger.Act{Kind: ledger.AccountOpened, Bank: account.ISPB, Account: account}
		blocked, reopened := opened, opened
		blocked.Kind, reopened.Kind = ledger.AccountBlocked, ledger.AccountReopened
		if err := o.open(ledger.CustomerAccount(account)); err != nil {
			return err
		}
		if err := o.Do(opened); err != nil {
			return err
		}
		return o.during(ctx, blocked, reopened)
	}},
	{"bank that joins", func(_ context.Context, o *Operator) error {
		bank := pix.ISPB(strconv.Itoa(20_000_000 + o.Random.IntN(3)))
		if err := o.open(accountsOfBank(bank)...); err != nil {
			return err
		}
		if err := o.Do(ledger.Act{Kind: ledger.Joined, Bank: bank, ByCentralBank: true}); err != nil {
			return err
		}
		return o.Do(ledger.Act{Kind: ledger.LiquidityIn, Bank: bank, Centavos: 1 + o.Random.Int64N(1_000_000), ByCentralBank: true})
	}},
}

func (o *Operator) bank() pix.ISPB { return o.Population.Bank(o.Random.IntN(o.Population.Banks)) }

func (o *Operator) customer() pix.Account {
	return o.Population.Customer(o.Random.IntN(o.Population.Customers))
}

// during acts, waits, and undoes it, also when the time is cut short.
func (o *Operator) during(ctx context.Context, act, undo ledger.Act) error {
	if err := o.Do(act); err != nil {
		return err
	}
	host.Sleep(ctx, o.Hold)
	return o.Do(undo)
}

// open creates accounts. Those that exist stay as they are. A front door creates them itself.
func (o *Operator) open(ids ...ledger.AccountID) error {
	if o.Door != nil {
		return nil
	}
	var accounts []tb.Account
	for _, id := range ids {
		accounts = append(accounts, ledger.NewAccount(id))
	}
	failed, err := o.Client.CreateAccounts(accounts)
	if err != nil {
		return err
	}
	for _, f := range failed {
		if f.Result != tb.AccountExists && f.Result != tb.AccountExistsWithDifferentFlags { // imported by a rebuild
			return fmt.Errorf("account %s: %s", ledger.AccountName(ids[f.Index]), f.Result)
		}
	}
	return nil
}

// Do acts, and does the same again: that changes nothing.
func (o *Operator) Do(act ledger.Act) error {
	if err := act.Validate(); err != nil {
		return err
	}
	holder, id := keys.CentralBank, strconv.FormatUint(o.Random.Uint64(), 36)
	if !act.ByCentralBank {
		holder = string(act.Bank)
	}
	if o.Door != nil {
		return o.ask(holder, id, act)
	}
	first, err := o.try(holder, id, act)
	if err != nil {
		return err
	}
	again, err := o.try(holder, id, act)
	if err != nil {
		return err
	}
	o.Did("%s of %s, %d centavos: %v", act.Kind, act.Bank, act.Centavos, first)
	switch {
	case first == tb.TransferOK && again == tb.TransferExists:
		return nil
	case first == tb.TransferExceedsCredits && again == tb.TransferIDAlreadyFailed:
		return nil // what a withdrawal takes may have been paid meanwhile
	}
	return fmt.Errorf("%s of %s: the ledger says %s, and %s to the same again", act.Kind, act.Bank, first, again)
}

// try writes the chain of an act. A cap on outflow is one chain with its adjustment: if a producer
// adjusts the allowance meanwhile, nothing of it is taken, and it is tried again.
func (o *Operator) try(holder, id string, act ledger.Act) (tb.CreateTransferResult, error) {
	for {
		chain := ledger.AppendAct(nil, holder, id, act)
		if act.WindowSeconds > 0 && act.Centavos > 0 {
			found, err := o.Client.LookupAccounts([]tb.Uint128{ledger.AllowanceAccount(act.Bank, ledger.Window(act.Kind-ledger.DayCapped))})
			if err != nil || len(found) != 1 {
				return 0, fmt.Errorf("%s of %s: %d allowances, %w", act.Kind, act.Bank, len(found), err)
			}
			chain = ledger.GrantOf(found[0]).AppendAdjustment(chain, act.Centavos)
		}
		status, of, err := o.write(chain)
		if err != nil || of == 0 || chain[of].Code != ledger.CodeAdjustment {
			return status, err
		}
	}
}

// write writes a chain, and returns its status and which transfer has it.
func (o *Operator) write(chain []tb.Transfer) (status tb.CreateTransferResult, of int, err error) {
	failed, err := o.Client.CreateTransfers(slices.Clone(chain))
	if err != nil {
		return 0, 0, err
	}
	for _, f := range failed {
		if f.Result != tb.TransferLinkedEventFailed {
			return f.Result, int(f.Index), nil
		}
	}
	return tb.TransferOK, 0, nil
}
