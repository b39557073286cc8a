package bootstrap

import (
	"context"
	"fmt"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
)

// chart is the ledger's chart of accounts, which bootstrap creates and funds, and the Kafka beside it.
type chart struct {
	config *Config
	client tigerbeetle.Client
	kafka  *kgo.Client // nil: not needed
}

// withChart does something with the ledger and the Kafka of the configuration.
func withChart(config *Config, do func(*chart) error) error {
	kafka, err := connectKafka(config)
	if err != nil {
		return err
	}
	defer kafka.Close()

	client, err := ledger.Connect(config.Ledger)
	if err != nil {
		return err
	}
	defer client.Close()

	return do(&chart{config, client, kafka})
}

// request asks the ledger for something with a time limit: the ledger's client has none.
func request[A, T any](ctx context.Context, config *Config, ask func(A) (T, error), what A) (T, error) {
	var none T
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	within, cancel := context.WithTimeout(ctx, config.Timeout)
	defer cancel()

	value, err := ledger.Ask(within, func() (T, error) { return ask(what) })
	switch {
	case err == nil:
		return value, nil
	case ctx.Err() != nil:
		return none, context.Cause(ctx)
	case within.Err() != nil:
		return none, fmt.Errorf(
			"the ledger at TIGERBEETLE_ADDRESSES %v, TIGERBEETLE_CLUSTER_ID %d, has not answered within BOOTSTRAP_TIMEOUT %v: start it, or correct the address or the cluster id",
			config.Ledger.Addresses, config.Ledger.ClusterID, config.Timeout)
	}

	return none, fmt.Errorf(
		"the ledger at TIGERBEETLE_ADDRESSES %v refuses a request (LEDGER_BATCH_EVENTS_MAX is %d and must not exceed the server's limit; client and server must have the same version): %w",
		config.Ledger.Addresses, config.EventsMax, err)
}

// populated reports whether an earlier run has finished. It is an error if that run had another
// population.
func (c *chart) populated(ctx context.Context) (bool, error) {
	found, err := request(ctx, c.config, c.client.LookupTransfers, []tb.Uint128{ledger.MarkerID})
	if err != nil || len(found) == 0 {
		return false, err
	}

	return true, c.config.marker().Check(ledger.MarkerOf(found[0].UserData128, found[0].UserData64))
}

// Populate creates and funds all accounts with a client of an empty ledger, and writes the marker, unless it is there.
// It names the keys and secrets that are there. Run does it on the ledger of its configuration.
func Populate(ctx context.Context, config *Config, client tigerbeetle.Client) error {
	c := &chart{config: config, client: client}

	done, err := c.populated(ctx)
	if err == nil && !done {
		err = c.populate(ctx)
	}

	if err != nil {
		return err
	}

	return c.nameSecrets(ctx)
}

// populate creates and funds all accounts, then writes the marker.
func (c *chart) populate(ctx context.Context) error {
	p := c.config.Population
	// Create issuance first, in a request of its own: it holds the population, so a run with
	// another population stops here.
	err := c.createAccounts(ctx, these(c.config.marker().Issuance()))
	if err == nil {
		err = c.createAccounts(ctx, accounts(p))
	}
	// Fund only when all accounts exist: a transfer whose account is missing burns its id for
	// good, and a funding has one possible id.
	for _, transfers := range []every[tb.Transfer]{fundings(p), these(acts(p)...),
		these(c.config.marker().Transfer())} {
		if err == nil {
			err = c.createTransfers(ctx, transfers)
		}
	}

	return err
}

// acts returns the opening of each bank, and behind them that it joins: so a bank that has joined
// has its books. They are not linked: there may be more than one request holds.
func acts(p sandbox.Population) (all []tb.Transfer) {
	for _, kind := range []ledger.ActKind{ledger.Opening, ledger.Joined} {
		for i := range p.Banks {
			act := ledger.Act{Kind: kind, Bank: p.Bank(i), ByCentralBank: true}
			if kind == ledger.Opening {
				act.Centavos = int64(p.ReserveCentavos) - int64(p.DepositsOf(i))
			}
			all = append(all, ledger.AppendAct(nil, keys.CentralBank, joinID(act.Bank), act)[0])
		}
	}

	return all
}

// joinID is the id of the act with which a bank of the population joins.
func joinID(bank pix.ISPB) string { return "bootstrap-" + string(bank) }

// every makes events, one after the other. There may be millions.
type every[E any] func(add func(E))

// accounts makes every account but the first, issuance.
func accounts(p sandbox.Population) every[tb.Account] {
	return func(add func(tb.Account)) {
		for _, id := range []ledger.AccountID{ledger.RefusalsAccount, ledger.RegisterAccount,
			ledger.AllowanceSourceAccount} {
			add(ledger.NewAccount(id))
		}

		for _, bank := range banks(p) {
			for _, id := range []ledger.AccountID{ledger.ReserveAccount(bank), ledger.TransitAccount(bank),
				ledger.BooksAccount(bank), ledger.AllowanceAccount(bank, ledger.Day),
				ledger.AllowanceAccount(bank, ledger.Night)} {
				add(ledger.NewAccount(id))
			}
		}
		customers(p)(func(of pix.Account) { add(ledger.NewAccount(ledger.CustomerAccount(of))) })
	}
}

// customers makes the customers of the special branches, then the ordinary ones.
func customers(p sandbox.Population) every[pix.Account] {
	return func(add func(pix.Account)) {
		for i := range p.Banks {
			for _, branch := range sandbox.SpecialBranches {
				add(p.Special(i, branch))
			}
		}

		for i := range p.Customers {
			add(p.Customer(i))
		}
	}
}

// fundings makes the initial transfers. The id of each is that of the account it credits, so
// no account is funded twice. Accounts and transfers have separate ids in TigerBeetle.
func fundings(p sandbox.Population) every[tb.Transfer] {
	return func(add func(tb.Transfer)) {
		fund := func(debit, credit ledger.AccountID, centavos uint64) {
			if centavos > 0 {
				add(tb.Transfer{ID: credit, DebitAccountID: debit, CreditAccountID: credit,
					Amount: tb.ToUint128(centavos), Ledger: ledger.Ledger, Code: ledger.CodeFunding})
			}
		}
		for i := range p.Banks {
			fund(ledger.IssuanceAccount, ledger.ReserveAccount(p.Bank(i)), p.ReserveCentavos)
		}
		customers(p)(func(of pix.Account) {
			fund(ledger.TransitAccount(of.ISPB), ledger.CustomerAccount(of), p.DepositOf(of))
		})
	}
}

func (c *chart) createAccounts(ctx context.Context, accounts every[tb.Account]) error {
	return inBatches(accounts, c.config.EventsMax, func(batch []tb.Account) error {
		results, err := request(ctx, c.config, c.client.CreateAccounts, batch)
		if err != nil {
			return err
		}

		for _, result := range results {
			if result.Result == tb.AccountExists {
				continue
			}

			account := batch[result.Index]
			if account.ID == ledger.IssuanceAccount {
				found, err := request(ctx, c.config, c.client.LookupAccounts, []tb.Uint128{account.ID})
				for _, is := range found {
					err = c.config.marker().Check(ledger.MarkerOf(is.UserData128, is.UserData64))
				}

				if err != nil {
					return err
				}
			}

			return fmt.Errorf("the ledger refuses to create %s: %s; it holds something that this version does not create: start with an empty ledger",
				ledger.AccountName(account.ID), result.Result)
		}

		return nil
	})
}

func (c *chart) createTransfers(ctx context.Context, transfers every[tb.Transfer]) error {
	return inBatches(transfers, c.config.EventsMax, func(batch []tb.Transfer) error {
		results, err := request(ctx, c.config, c.client.CreateTransfers, batch)
		if err != nil {
			return err
		}

		for _, result := range results {
			if result.Result == tb.TransferExists {
				continue
			}

			transfer := batch[result.Index]
			if transfer.Ledger == ledger.Books {
				return fmt.Errorf("the ledger refuses the act %q about %s: %s; its content differs from the configuration (SANDBOX_DEPOSIT_CENTAVOS, SANDBOX_RESERVE_CENTAVOS), or somebody has used its id for another act",
					ledger.ActKind(transfer.Code), ledger.AccountName(ledger.BooksOf(transfer)), result.Result)
			}

			return fmt.Errorf("the ledger refuses to fund %s with %s: %s; its content differs from the configuration (SANDBOX_DEPOSIT_CENTAVOS, SANDBOX_RESERVE_CENTAVOS): configure the same as before, or start with an empty ledger",
				ledger.AccountName(transfer.CreditAccountID), pix.Reais(ledger.Centavos(transfer.Amount)),
				result.Result)
		}

		return nil
	})
}

func these[E any](events ...E) every[E] {
	return func(add func(E)) {
		for _, event := range events {
			add(event)
		}
	}
}

// inBatches sends the events in requests of at most eventsMax, one after the other, until one fails.
func inBatches[E any](all every[E], eventsMax int, send func([]E) error) (err error) {
	var batch []E

	flush := func() {
		if err == nil && len(batch) > 0 {
			err = send(batch)
		}
		batch = batch[:0]
	}
	all(func(event E) {
		if batch = append(batch, event); len(batch) == eventsMax {
			flush()
		}
	})
	flush()

	return err
}
