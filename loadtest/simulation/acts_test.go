package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/loadtest/audit"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/platform/ledger"
)

// actFaults are acts on the register while all runs.
func actFaults() (faults []fault) {
	for _, kind := range load.Interventions {
		faults = append(faults, fault{kind.Name, func(w *world, _ *service, random *rand.Rand, hold time.Duration) {
			if err := kind.Play(w.ends, w.operator(random, hold)); err != nil {
				w.t.Errorf("%s: %v", kind.Name, err)
			}
		}})
	}

	return faults
}

func (w *world) operator(random *rand.Rand, hold time.Duration) *load.Operator {
	return &load.Operator{Act: w.actAtLedger, Population: population, Random: random, Hold: hold}
}

// actAtLedger does an act as a front door does it, and the same again: that changes nothing.
func (w *world) actAtLedger(holder, id string, act ledger.Act) error {
	var ids []ledger.AccountID

	switch act.Kind {
	case ledger.Joined:
		ids = []ledger.AccountID{ledger.ReserveAccount(act.Bank), ledger.TransitAccount(act.Bank),
			ledger.BooksAccount(act.Bank), ledger.AllowanceAccount(act.Bank, ledger.Day),
			ledger.AllowanceAccount(act.Bank, ledger.Night)}
	case ledger.AccountOpened:
		ids = []ledger.AccountID{ledger.CustomerAccount(act.Account)}
	}

	for _, id := range ids {
		failed, err := w.builtLedger().CreateAccounts([]tb.Account{ledger.NewAccount(id)})
		if err != nil || len(failed) > 0 && failed[0].Result != tb.AccountExists &&
			failed[0].Result != tb.AccountExistsWithDifferentFlags { // imported by a rebuild
			return fmt.Errorf("account %s: %v, %w", ledger.AccountName(id), failed, err)
		}
	}

	first, err := w.writeAct(holder, id, act)
	if err != nil {
		return err
	}

	again, err := w.writeAct(holder, id, act)
	if err != nil {
		return err
	}
	w.note("%s of %s, %d centavos: %v", act.Kind, act.Bank, act.Centavos, first)

	switch {
	case first == tb.TransferOK && again == tb.TransferExists:
		return nil
	case first == tb.TransferExceedsCredits && again == tb.TransferIDAlreadyFailed:
		return nil // what a withdrawal takes may have been paid meanwhile
	}

	return fmt.Errorf("%s of %s: the ledger says %s, and %s to the same again", act.Kind, act.Bank, first, again)
}

// writeAct writes the chain of an act. A cap on outflow is one chain with its adjustment: if a producer
// adjusts the allowance meanwhile, nothing of it is taken, and it is tried again.
func (w *world) writeAct(holder, id string, act ledger.Act) (tb.CreateTransferResult, error) {
	for {
		chain := ledger.AppendAct(nil, holder, id, act)
		if act.WindowSeconds > 0 && act.Centavos > 0 {
			found, err := w.builtLedger().LookupAccounts(
				[]tb.Uint128{ledger.AllowanceAccount(act.Bank, ledger.Window(act.Kind-ledger.DayCapped))})
			if err != nil || len(found) != 1 {
				return 0, fmt.Errorf("%s of %s: %d allowances, %w", act.Kind, act.Bank, len(found), err)
			}
			chain = ledger.GrantOf(found[0]).AppendAdjustment(chain, act.Centavos)
		}

		failed, err := w.builtLedger().CreateTransfers(slices.Clone(chain))
		own := slices.IndexFunc(failed, func(f tb.TransferEventResult) bool {
			return f.Result != tb.TransferLinkedEventFailed
		})

		if err != nil || own < 0 {
			return tb.TransferOK, err
		}

		if at := failed[own].Index; at == 0 || chain[at].Code != ledger.CodeAdjustment {
			return failed[own].Result, nil
		}
	}
}

// act acts as the central bank, and returns when everybody knows.
func (s *scenario) act(act ledger.Act) {
	s.t.Helper()

	act.ByCentralBank = true
	if err := s.operator(s.random, 0).Do(act); err != nil {
		s.t.Error(err)
	}
	s.pass(3*time.Second, 4*time.Second)
}

// play plays an intervention of a kind while all runs, for some time.
func (s *scenario) play(kind string, hold time.Duration) {
	s.t.Helper()

	at := slices.IndexFunc(load.Interventions, func(k load.Intervention) bool { return k.Name == kind })
	if at < 0 {
		s.t.Fatalf("there is no intervention %q", kind)
	}

	if err := load.Interventions[at].Play(context.WithoutCancel(s.ends), s.operator(s.random, hold)); err != nil {
		s.t.Errorf("%s: %v", kind, err)
	}
}

// late notes that from now until its result is called, what engines have sent to the ledger may be late.
func (w *world) late() (over func()) {
	began := time.Now()

	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.lateRequests = append(w.lateRequests, audit.Interval{From: began, To: time.Now()})
	}
}
