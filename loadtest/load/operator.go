package load

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

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
	// Act does an act under an id, and the same again: that changes nothing.
	Act        func(holder, id string, act ledger.Act) error
	Population sandbox.Population
	Random     *rand.Rand
	// Hold is how long what an act changes stays.
	Hold time.Duration
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

		if n < len(acts)-1 && act.Kind != ledger.Joined && act.Kind != ledger.AccountOpened {
			host.Sleep(ctx, o.Hold)
		}
	}

	return nil
}

func (o *Operator) bank() pix.ISPB { return o.Population.Bank(o.Random.IntN(o.Population.Banks)) }

// Do acts as the central bank, or as the act's bank.
func (o *Operator) Do(act ledger.Act) error {
	if err := act.Validate(); err != nil {
		return err
	}

	holder, id := keys.CentralBank, strconv.FormatUint(o.Random.Uint64(), 36)
	if !act.ByCentralBank {
		holder = string(act.Bank)
	}

	return o.Act(holder, id, act)
}
