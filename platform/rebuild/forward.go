package rebuild

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// holdSeconds is the timeout of holds that are settled in the request that holds them.
const holdSeconds = 60

// Loan is money that the central bank lends by an act, because what a bank or a customer spent was brought by an order
// that the log does not have.
type Loan struct {
	Act      ledger.Act
	ID       string // of the act
	Returned int64  // centavos, by an act
}

// Forwarded is what became of what was told.
type Forwarded struct {
	Settled, Rejected int
	Loans             []Loan
	Impossible        []string // what cannot be brought back, and why
	Uncapped          []string // payments that a cap in force should count, and that are more than is left of it
}

// forward writes what was told into the ledger, as transfers of now.
type forward struct {
	*Target
	balances map[ledger.AccountID]*tb.Account // as after everything that is written and in batch; nil: no such account
	caps     map[capped]ledger.Act            // in force
	now      time.Time
	batch    []tb.Transfer
	result   Forwarded
}

type capped struct {
	bank   pix.ISPB
	window ledger.Window
}

// Forward gives each order its reported verdict, without asking a bank again. It goes by the order of the reports; what
// its payer cannot pay yet waits for what comes in. Nothing is tried that the ledger would refuse: a refusal burns ids.
// Run again, it goes on: give it what is missing then. What an interrupted run has lent stays lent.
func (t *Target) Forward(ctx context.Context, missing []Told, now time.Time) (Forwarded, error) {
	f := &forward{Target: t, balances: map[ledger.AccountID]*tb.Account{}, caps: map[capped]ledger.Act{}, now: now}
	if err := f.know(ctx, missing); err != nil {
		return f.result, err
	}
	waiting := missing
	for len(waiting) > 0 {
		var later []Told
		for i := range waiting {
			done, err := f.tell(ctx, &waiting[i])
			if err != nil {
				return f.result, err
			}
			if !done {
				later = append(later, waiting[i])
			}
		}
		if len(later) == len(waiting) { // none works, so the first gets a loan
			first := &later[0]
			if _, lacks := f.short(first.Content); lacks == 0 {
				f.result.Impossible = append(f.result.Impossible, fmt.Sprintf("%s: the ledger does not know %s, which it gives back", first.ID, first.Returns.Original))
				later = later[1:]
			} else if err := f.lend(ctx, first); err != nil {
				return f.result, err
			}
		}
		waiting = later
	}
	if err := f.giveBack(ctx); err != nil {
		return f.result, err
	}
	return f.result, f.flush(ctx)
}

// know reads the accounts that orders touch.
func (f *forward) know(ctx context.Context, missing []Told) error {
	var ids []tb.Uint128
	if err := f.knowCaps(ctx); err != nil {
		return err
	}
	for limit := range f.caps {
		id := ledger.AllowanceAccount(limit.bank, limit.window)
		f.balances[id], ids = nil, append(ids, id)
	}
	for i := range missing {
		for _, id := range accountsOf(missing[i].Content) {
			if _, seen := f.balances[id]; !seen {
				f.balances[id] = nil
				ids = append(ids, id)
			}
		}
	}
	for part := range slices.Chunk(ids, f.EventsMax) {
		found, err := ledger.Ask(ctx, func() ([]tb.Account, error) { return f.Client.LookupAccounts(part) })
		if err != nil {
			return err
		}
		for _, account := range found {
			f.balances[account.ID] = &account
		}
	}
	return nil
}

// knowCaps reads the caps on outflow in force, of all acts the last ones.
func (f *forward) knowCaps(ctx context.Context) error {
	filter := tb.AccountFilter{AccountID: ledger.RegisterAccount, Limit: uint32(f.EventsMax), Flags: tb.AccountFilterFlags{Debits: true, Credits: true}.ToUint32()}
	for page, err := range pages(ctx, 0, func(from uint64) ([]tb.Transfer, error) {
		filter.TimestampMin = from
		return f.Client.GetAccountTransfers(filter)
	}, func(t *tb.Transfer) uint64 { return t.Timestamp }) {
		if err != nil {
			return err
		}
		for _, record := range page {
			act, _, err := ledger.ActOf(record)
			if err != nil || act.Kind != ledger.DayCapped && act.Kind != ledger.NightCapped {
				continue
			}
			limit := capped{act.Bank, ledger.Day}
			if act.Kind == ledger.NightCapped {
				limit.window = ledger.Night
			}
			if f.caps[limit] = act; act.Centavos == 0 {
				delete(f.caps, limit)
			}
		}
	}
	return nil
}

// cap holds a settled payment against a cap whose window has not passed since it was reported.
func (f *forward) cap(ctx context.Context, t *Told) error {
	limit := capped{t.Content.Payer.ISPB, ledger.WindowAt(t.At)}
	act, set := f.caps[limit]
	left := t.At.Add(time.Duration(act.WindowSeconds) * time.Second).Sub(f.now)
	if !set || t.Return || t.Content.SameBank() || left <= 0 {
		return nil
	}
	account := f.balances[ledger.AllowanceAccount(limit.bank, limit.window)]
	amount := tb.ToUint128(t.Content.AmountCentavos)
	if account == nil || free(account) < int64(t.Content.AmountCentavos) {
		f.result.Uncapped = append(f.result.Uncapped, t.ID.String())
		return nil
	}
	account.DebitsPending = ledger.Sum(account.DebitsPending, amount)
	return f.add(ctx, ledger.AppendCap(nil, t.ID, t.Content, limit.window, uint32((left+time.Second-1)/time.Second)))
}

// accountsOf returns the accounts that a content moves money between: pairs of debit and credit, leg by leg.
func accountsOf(content pix.Content) (ids []ledger.AccountID) {
	if content.Payer.Validate() != nil || content.Payee.Validate() != nil { // reports of what was rejected may name none
		return nil
	}
	for _, leg := range ledger.AppendReserve(nil, pix.EndToEndID{}, content, 0) {
		ids = append(ids, leg.DebitAccountID, leg.CreditAccountID)
	}
	return ids
}

// free returns what may be spent from an account.
func free(account *tb.Account) int64 {
	return ledger.Less(account.CreditsPosted, ledger.Sum(account.DebitsPosted, account.DebitsPending))
}

// short returns the first limited account that has not enough for a content, and how much it lacks.
func (f *forward) short(content pix.Content) (account ledger.AccountID, lacks int64) {
	accounts := accountsOf(content)
	for i := 0; i < len(accounts); i += 2 {
		kind, _ := ledger.UnpackAccount(accounts[i])
		if has := free(f.balances[accounts[i]]); kind.Limited() && has < int64(content.AmountCentavos) {
			return accounts[i], int64(content.AmountCentavos) - has
		}
	}
	return ledger.AccountID{}, 0
}

// tell writes the verdict of an order. done says that nothing is left to do about it.
func (f *forward) tell(ctx context.Context, t *Told) (done bool, err error) {
	impossible := func(format string, values ...any) (bool, error) {
		f.result.Impossible = append(f.result.Impossible, t.ID.String()+": "+fmt.Sprintf(format, values...))
		return true, nil
	}
	if t.Return && t.Returns.Reason == 0 {
		return impossible("its return order is not in the log, and the report does not say its reason")
	}
	if !t.Settled {
		return true, f.refuse(ctx, t)
	}
	accounts := accountsOf(t.Content)
	if len(accounts) == 0 {
		return impossible("its report names no accounts")
	}
	for _, id := range accounts {
		if f.balances[id] == nil {
			return impossible("the ledger has no account %s: it was opened after the past ends", ledger.AccountName(id))
		}
	}
	if _, lacks := f.short(t.Content); lacks > 0 {
		return false, nil
	}
	var chain []tb.Transfer
	if t.Return {
		slot, free, err := f.slot(ctx, t)
		if err != nil {
			return false, err
		}
		if slot < 0 {
			return false, nil // its original comes later
		}
		if !free {
			return impossible("all slots of %s are taken", t.Returns.Original)
		}
		id := pix.ReturnID(t.ID)
		chain = ledger.AppendReturnReserve(chain, id, t.Returns, slot, ledgerContent(t), holdSeconds)
		chain = ledger.AppendReturnedMark(chain, t.Returns.Original)
		chain = ledger.AppendReturnPost(chain, id, t.Returns, slot, t.Content.SameBank())
	} else {
		chain = ledger.AppendPost(ledger.AppendReserve(chain, t.ID, t.Content, holdSeconds), t.ID, t.Content.SameBank())
	}
	for i := 0; i < len(accounts); i += 2 {
		f.move(accounts[i], accounts[i+1], int64(t.Content.AmountCentavos))
	}
	f.result.Settled++
	if err := f.add(ctx, chain); err != nil {
		return false, err
	}
	return true, f.cap(ctx, t)
}

// ledgerContent is the content of the payment that a return gives back: that of the return, backwards.
func ledgerContent(t *Told) pix.Content { return ledger.Backwards(t.Content, t.Content.AmountCentavos) }

// move keeps what an account has after a transfer.
func (f *forward) move(debit, credit ledger.AccountID, centavos int64) {
	amount := tb.ToUint128(uint64(centavos))
	if a := f.balances[debit]; a != nil {
		a.DebitsPosted = ledger.Sum(a.DebitsPosted, amount)
	}
	if a := f.balances[credit]; a != nil {
		a.CreditsPosted = ledger.Sum(a.CreditsPosted, amount)
	}
}

// slot returns the slot of a return, or less than 0 if its original is not in the ledger.
func (f *forward) slot(ctx context.Context, t *Told) (slot int, free bool, err error) {
	if err := f.flush(ctx); err != nil { // a return before it may be in the batch, or its original
		return 0, false, err
	}
	ids := ledger.AppendReturnTraceIDs(nil, pix.ReturnID(t.ID), t.Returns.Original)
	found, err := ledger.Ask(ctx, func() ([]tb.Transfer, error) { return f.Client.LookupTransfers(ids) })
	if err != nil {
		return 0, false, err
	}
	trace := ledger.ReturnTraceOf(pix.ReturnID(t.ID), t.Returns, found)
	if !trace.Original.Held() {
		return -1, false, nil
	}
	slot, free = trace.FreeSlot(0)
	return slot, free, nil
}

// refuse writes the verdict of an order that was rejected: a receipt, because nothing is held here.
func (f *forward) refuse(ctx context.Context, t *Told) error {
	f.result.Rejected++
	payer := t.ID.Payer()
	if t.Return {
		payer = t.Returns.Original.Payer()
	}
	known, err := ledger.Ask(ctx, func() ([]tb.Account, error) {
		return f.Client.LookupAccounts([]tb.Uint128{ledger.TransitAccount(payer)})
	})
	if err != nil {
		return err
	}
	if t.Return {
		return f.add(ctx, ledger.AppendReturnReceipt(nil, pix.ReturnID(t.ID), t.Returns, t.Reason, len(known) > 0))
	}
	return f.add(ctx, ledger.AppendReceipt(nil, t.ID, t.Content, t.Reason, len(known) > 0))
}

// lend brings what an order lacks, by an act of the central bank. Its id follows from the order.
func (f *forward) lend(ctx context.Context, t *Told) error {
	account, lacks := f.short(t.Content)
	kind, of := ledger.UnpackAccount(account)
	loan := Loan{Act: ledger.Act{Kind: ledger.LiquidityIn, Bank: of.ISPB, Centavos: lacks, ByCentralBank: true}, ID: "rebuild-" + t.ID.String() + "-reserve"}
	from := ledger.IssuanceAccount
	if kind == ledger.Customer {
		loan.Act.Kind, loan.Act.Account, loan.ID = ledger.Deposit, of, "rebuild-"+t.ID.String()+"-customer"
		from = ledger.TransitAccount(of.ISPB)
	}
	f.result.Loans = append(f.result.Loans, loan)
	f.move(from, account, lacks)
	return f.add(ctx, ledger.AppendAct(nil, keys.CentralBank, loan.ID, loan.Act))
}

// giveBack takes each loan back, as far as the account has it now. The rest stays visible as a debt.
func (f *forward) giveBack(ctx context.Context) error {
	for i := range slices.Backward(f.result.Loans) {
		loan := &f.result.Loans[i]
		back := loan.Act
		account := ledger.ReserveAccount(back.Bank)
		back.Kind = ledger.LiquidityOut
		if loan.Act.Kind == ledger.Deposit {
			account, back.Kind = ledger.CustomerAccount(back.Account), ledger.Withdrawal
		}
		if back.Centavos = min(back.Centavos, free(f.balances[account])); back.Centavos <= 0 {
			continue
		}
		loan.Returned = back.Centavos
		f.move(account, ledger.AccountID{}, back.Centavos)
		if err := f.add(ctx, ledger.AppendAct(nil, keys.CentralBank, loan.ID+"-back", back)); err != nil {
			return err
		}
	}
	return nil
}

// add adds chains to the next request.
func (f *forward) add(ctx context.Context, chains []tb.Transfer) error {
	if len(f.batch)+len(chains) > f.EventsMax {
		if err := f.flush(ctx); err != nil {
			return err
		}
	}
	f.batch = append(f.batch, chains...)
	return nil
}

func (f *forward) flush(ctx context.Context) error {
	if len(f.batch) == 0 {
		return nil
	}
	results, err := ledger.Ask(ctx, func() ([]tb.TransferEventResult, error) { return f.Client.CreateTransfers(f.batch) })
	for _, result := range results {
		event := f.batch[result.Index]
		marked := ledger.IsMark(&event) && ledger.Result{Status: result.Result}.Exists()
		if result.Result != tb.TransferLinkedEventFailed && !marked {
			err = cmp.Or(err, fmt.Errorf("the ledger refuses %v (code %d) of what was reported: %s; nothing after it was written, and nobody may go on before a person has looked", event.ID, event.Code, result.Result))
		}
	}
	f.batch = f.batch[:0]
	return err
}
