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

// Operator does to the register what operators of the central bank and of banks do, while payments flow, and undoes it.
// Its methods are for one goroutine.
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

// Intervention is acts, one after the other, of which the last ones undo the first.
type Intervention struct {
	Name string
	acts func(*Operator) []ledger.Act
}

// Interventions are all of them.
var Interventions = []Intervention{
	{"suspension", func(o *Operator) []ledger.Act {
		bank := o.bank()
		return []ledger.Act{{Kind: ledger.Suspended, Bank: bank, ByCentralBank: true},
			{Kind: ledger.Resumed, Bank: bank, ByCentralBank: true}}
	}},
	{"cap on payments", func(o *Operator) []ledger.Act {
		act := ledger.Act{Kind: ledger.PaymentCapped, Bank: o.bank(), Centavos: 1 + o.Random.Int64N(100_000),
			ByCentralBank: true}
		lifted := act
		lifted.Centavos = 0

		return []ledger.Act{act, lifted}
	}},
	{"cap on outflow", func(o *Operator) (acts []ledger.Act) {
		bank, kind, high := o.bank(), ledger.DayCapped+ledger.ActKind(ledger.WindowAt(time.Now())),
			2+o.Random.Int64N(3_000_000)
		// at last it is lifted
		for _, centavos := range []int64{high, 1 + o.Random.Int64N(high), high + o.Random.Int64N(1_000_000), 0} {
			acts = append(acts, ledger.Act{Kind: kind, Bank: bank, Centavos: centavos,
				WindowSeconds: ledger.WindowSecondsMin, ByCentralBank: true})
		}

		return acts
	}},
	{"liquidity", func(o *Operator) []ledger.Act {
		in := ledger.Act{Kind: ledger.LiquidityIn, Bank: o.bank(), Centavos: 1 + o.Random.Int64N(1_000_000),
			ByCentralBank: true}
		return []ledger.Act{in, as(in, ledger.LiquidityOut)}
	}},
	{"deposit", func(o *Operator) []ledger.Act {
		customer := o.Population.Customer(o.Random.IntN(o.Population.Customers))
		in := ledger.Act{Kind: ledger.Deposit, Bank: customer.ISPB, Account: customer,
			Centavos: 1 + o.Random.Int64N(1000)}

		return []ledger.Act{in, as(in, ledger.Withdrawal)}
	}},
	{"blocked account", func(o *Operator) []ledger.Act {
		// Of no load and no client, so nobody depends on it.
		account := o.Population.Special(o.Random.IntN(o.Population.Banks), "9099")
		opened := ledger.Act{Kind: ledger.AccountOpened, Bank: account.ISPB, Account: account}
		return []ledger.Act{opened, as(opened, ledger.AccountBlocked), as(opened, ledger.AccountReopened)}
	}},
	{"bank that joins", func(o *Operator) []ledger.Act {
		joined := ledger.Act{Kind: ledger.Joined, Bank: pix.ISPB(strconv.Itoa(20_000_000 + o.Random.IntN(3))),
			ByCentralBank: true}
		in := as(joined, ledger.LiquidityIn)
		in.Centavos = 1 + o.Random.Int64N(1_000_000)

		return []ledger.Act{joined, in}
	}},
}

// as returns the act with another kind.
func as(act ledger.Act, kind ledger.ActKind) ledger.Act {
	act.Kind = kind
	return act
}

// Play does the acts, and waits after each that changes something. If the time is cut short, it does not wait, but
// undoes all.
func (i Intervention) Play(ctx context.Context, o *Operator) error {
	acts := i.acts(o)
	for n, act := range acts {
		if err := o.Do(act); err != nil {
			return err
		}

		if n < len(acts)-1 && accountsOf(act) == nil {
			host.Sleep(ctx, o.Hold)
		}
	}

	return nil
}

func (o *Operator) bank() pix.ISPB { return o.Population.Bank(o.Random.IntN(o.Population.Banks)) }

// accountsOf returns the accounts that an act needs and that may not exist yet.
func accountsOf(act ledger.Act) []ledger.AccountID {
	switch act.Kind {
	case ledger.Joined:
		return []ledger.AccountID{ledger.ReserveAccount(act.Bank), ledger.TransitAccount(act.Bank),
			ledger.BooksAccount(act.Bank), ledger.AllowanceAccount(act.Bank, ledger.Day),
			ledger.AllowanceAccount(act.Bank, ledger.Night)}
	case ledger.AccountOpened:
		return []ledger.AccountID{ledger.CustomerAccount(act.Account)}
	}

	return nil
}

// open creates accounts. Those that exist stay as they are.
func (o *Operator) open(ids []ledger.AccountID) error {
	if len(ids) == 0 {
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

	if err := o.open(accountsOf(act)); err != nil { // a front door creates them itself
		return err
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
			found, err := o.Client.LookupAccounts(
				[]tb.Uint128{ledger.AllowanceAccount(act.Bank, ledger.Window(act.Kind-ledger.DayCapped))})
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
