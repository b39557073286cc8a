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
}

// forward writes what was told into the ledger, as transfers of the time at which it was told.
type forward struct {
	*Target
	pastEnds time.Time
	now      time.Time
	at       uint64                           // the time of the last transfer
	balances map[ledger.AccountID]*tb.Account // as after everything that is written and in batch; nil: no such account
	// by the account that has not enough for it, or by the verdict that it gives back
	waiting map[tb.Uint128][]*Told
	batch   []tb.Transfer
	result  Forwarded
}

// Forward gives each order its reported verdict, without asking a bank again. It goes by the order of the reports; what
// its payer cannot pay yet waits for what comes in. Nothing is tried that the ledger would refuse: a refusal burns ids.
// All of it is imported with the times of the reports, behind the past: so lines of statements stand where they stood,
// and what is killed goes on where it ended.
func (t *Target) Forward(ctx context.Context, told []Told, pastEnds, now time.Time) (Forwarded, error) {
	f := &forward{Target: t, pastEnds: pastEnds, now: now, balances: map[ledger.AccountID]*tb.Account{},
		waiting: map[tb.Uint128][]*Told{}}

	ended, err := f.begin(ctx, told)
	if err != nil || ended {
		return f.result, err
	}

	for i := range told {
		if told[i].place = i; told[i].Done {
			continue
		}

		if err := f.take(ctx, &told[i]); err != nil {
			return f.result, err
		}
	}

	for first := f.firstWaiting(); first != nil; first = f.firstWaiting() {
		if _, lacks := f.short(first.Content); lacks == 0 {
			f.result.Impossible = append(f.result.Impossible,
				fmt.Sprintf("%s: the ledger does not know %s, which it gives back", first.ID, first.Returns.Original))
			continue
		}

		if err := f.lend(ctx, first); err != nil {
			return f.result, err
		}

		if err := f.take(ctx, first); err != nil {
			return f.result, err
		}
	}

	if err := f.giveBack(ctx); err != nil {
		return f.result, err
	}

	if err := f.add(ctx, time.Time{}, []tb.Transfer{ledger.ToldEnds(uint64(pastEnds.UnixNano()))}); err != nil {
		return f.result, err
	}

	return f.result, f.flush(ctx)
}

// begin marks where the past ends, or finds out what an earlier run has done.
func (f *forward) begin(ctx context.Context, told []Told) (ended bool, err error) {
	begins, ends := ledger.ToldBegins(uint64(f.pastEnds.UnixNano())), ledger.ToldEnds(uint64(f.pastEnds.UnixNano()))

	found, err := ledger.Ask(ctx, func() ([]tb.Transfer, error) {
		return f.Client.LookupTransfers([]tb.Uint128{begins.ID, ends.ID})
	})
	if err != nil {
		return false, err
	}

	if err := f.know(ctx, told); err != nil {
		return false, err
	}

	switch len(found) {
	case 0:
		return false, f.add(ctx, time.Time{}, []tb.Transfer{begins})
	case 1:
		return false, f.lentBefore(ctx, told)
	}

	for i := range told {
		if !told[i].Done {
			f.result.Impossible = append(f.result.Impossible, told[i].ID.String()+": an earlier run could not")
		}
	}

	return true, f.lentBefore(ctx, told)
}

// take writes the verdict of an order, and of all that waited for what it brings.
func (f *forward) take(ctx context.Context, t *Told) error {
	for next := []*Told{t}; len(next) > 0; next = next[1:] {
		t := next[0]

		waitsFor, err := f.tell(ctx, t)
		if err != nil {
			return err
		}

		if waitsFor != (tb.Uint128{}) {
			f.waiting[waitsFor] = append(f.waiting[waitsFor], t)
			continue
		}

		brings := []tb.Uint128{t.verdict()}
		for i, account := range accountsOf(t.Content) {
			if i%2 == 1 {
				brings = append(brings, account)
			}
		}

		for _, what := range brings {
			next = append(next, f.waiting[what]...)
			delete(f.waiting, what)
		}
	}

	return nil
}

// firstWaiting takes the one that waits and was reported first; nil: none waits.
func (f *forward) firstWaiting() (first *Told) {
	var of tb.Uint128

	for waitsFor, some := range f.waiting {
		for _, t := range some {
			if first == nil || t.place < first.place {
				first, of = t, waitsFor
			}
		}
	}

	if f.waiting[of] = slices.DeleteFunc(f.waiting[of], func(t *Told) bool {
		return t == first
	}); len(f.waiting[of]) == 0 {
		delete(f.waiting, of)
	}

	return first
}

// know reads the accounts that orders touch, and where the ledger ends.
func (f *forward) know(ctx context.Context, told []Told) error {
	transfer, err := newestTransfer(ctx, f.Client)
	if err != nil {
		return err
	}

	account, err := newestAccount(ctx, f.Client)
	if err != nil {
		return err
	}
	f.at = max(uint64(f.pastEnds.UnixNano()), transfer.Timestamp, account.Timestamp)
	var ids []tb.Uint128

	for i := range told {
		for _, id := range accountsOf(told[i].Content) {
			if _, seen := f.balances[id]; !seen {
				f.balances[id] = nil
				ids = append(ids, id)
			}
		}
	}

	return f.look(ctx, ids, f.balances)
}

// look reads accounts.
func (t *Target) look(ctx context.Context, ids []tb.Uint128, into map[ledger.AccountID]*tb.Account) error {
	for part := range slices.Chunk(ids, t.EventsMax) {
		found, err := ledger.Ask(ctx, func() ([]tb.Account, error) { return t.Client.LookupAccounts(part) })
		if err != nil {
			return err
		}

		for _, account := range found {
			into[account.ID] = &account
		}
	}

	return nil
}

// accountsOf returns the accounts that a content moves money between: pairs of debit and credit, leg by leg.
func accountsOf(content pix.Content) (ids []ledger.AccountID) {
	// reports of what was rejected may name none
	if content.Payer.Validate() != nil || content.Payee.Validate() != nil {
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

// tell writes the verdict of an order, unless it says what the order waits for: an account that has not enough, or the
// verdict of its original.
func (f *forward) tell(ctx context.Context, t *Told) (waitsFor tb.Uint128, err error) {
	nothing := tb.Uint128{}

	impossible := func(format string, values ...any) (tb.Uint128, error) {
		f.result.Impossible = append(f.result.Impossible, t.ID.String()+": "+fmt.Sprintf(format, values...))
		return nothing, nil
	}
	if t.Return && t.Returns.Reason == 0 {
		return impossible("its return order is not in the log, and the report does not say its reason")
	}

	if !t.Settled {
		return nothing, f.refuse(ctx, t)
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

	if account, lacks := f.short(t.Content); lacks > 0 {
		return account, nil
	}
	var chain []tb.Transfer

	if t.Return {
		slot, free, err := f.slot(ctx, t)
		if err != nil {
			return nothing, err
		}

		if slot < 0 {
			return ledger.IDsOf(t.Returns.Original).Verdict(), nil
		}

		if !free {
			return impossible("all slots of %s are taken", t.Returns.Original)
		}
		id := pix.ReturnID(t.ID)
		chain = ledger.AppendReturnReserve(chain, id, t.Returns, slot, ledgerContent(t), 0)
		chain = ledger.AppendReturnedMark(chain, t.Returns.Original)
		chain = ledger.AppendReturnPost(chain, id, t.Returns, slot, t.Content.SameBank())
	} else {
		chain = ledger.AppendPost(ledger.AppendReserve(chain, t.ID, t.Content, 0), t.ID, t.Content.SameBank())
	}

	for i := 0; i < len(accounts); i += 2 {
		f.move(accounts[i], accounts[i+1], int64(t.Content.AmountCentavos))
	}
	f.result.Settled++

	return nothing, f.add(ctx, t.At, chain)
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
		return f.add(ctx, t.At, ledger.AppendReturnReceipt(nil, pix.ReturnID(t.ID), t.Returns, t.Reason,
			len(known) > 0))
	}

	return f.add(ctx, t.At, ledger.AppendReceipt(nil, t.ID, t.Content, t.Reason, len(known) > 0))
}

// The acts that lend to a reserve and to a customer, and those that give back. Their ids follow from the order.
func loanIDs(t *Told) [2]string {
	return [2]string{"rebuild-" + t.ID.String() + "-reserve", "rebuild-" + t.ID.String() + "-customer"}
}

const loanBack = "-back"

// lend brings what an order lacks, by an act of the central bank.
func (f *forward) lend(ctx context.Context, t *Told) error {
	account, lacks := f.short(t.Content)
	kind, of := ledger.UnpackAccount(account)
	loan := Loan{Act: ledger.Act{Kind: ledger.LiquidityIn, Bank: of.ISPB, Centavos: lacks, ByCentralBank: true},
		ID: loanIDs(t)[0]}
	from := ledger.IssuanceAccount

	if kind == ledger.Customer {
		loan.Act.Kind, loan.Act.Account, loan.ID = ledger.Deposit, of, loanIDs(t)[1]
		from = ledger.TransitAccount(of.ISPB)
	}
	f.result.Loans = append(f.result.Loans, loan)
	f.move(from, account, lacks)

	return f.add(ctx, t.At, ledger.AppendAct(nil, keys.CentralBank, loan.ID, loan.Act))
}

// lentBefore finds the loans of an earlier run, and what they gave back.
func (f *forward) lentBefore(ctx context.Context, told []Told) error {
	var ids []string

	for i := range told {
		for _, id := range loanIDs(&told[i]) {
			ids = append(ids, id, id+loanBack)
		}
	}
	acts := map[string]ledger.Act{}

	for part := range slices.Chunk(ids, f.EventsMax) {
		names, records := map[tb.Uint128]string{}, []tb.Uint128(nil)

		for _, id := range part {
			record := ledger.ActRecordID(keys.CentralBank, id)
			names[record], records = id, append(records, record)
		}

		found, err := ledger.Ask(ctx, func() ([]tb.Transfer, error) { return f.Client.LookupTransfers(records) })
		if err != nil {
			return err
		}

		for _, record := range found {
			if acts[names[record.ID]], _, err = ledger.ActOf(record); err != nil {
				return err
			}
		}
	}

	for _, id := range ids {
		if act, lent := acts[id]; lent && act.Kind != ledger.LiquidityOut && act.Kind != ledger.Withdrawal {
			f.result.Loans = append(f.result.Loans, Loan{Act: act, ID: id, Returned: acts[id+loanBack].Centavos})
		}
	}

	return nil
}

// giveBack takes each loan back, as far as the account has it now. The rest stays visible as a debt.
func (f *forward) giveBack(ctx context.Context) error {
	for i := range slices.Backward(f.result.Loans) {
		loan := &f.result.Loans[i]
		if loan.Returned > 0 { // by an earlier run
			continue
		}
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

		if err := f.add(ctx, time.Time{}, ledger.AppendAct(nil, keys.CentralBank, loan.ID+loanBack, back)); err != nil {
			return err
		}
	}

	return nil
}

// add adds chains to the next request, as of the time at which it was told. Times rise, and none is of the future.
func (f *forward) add(ctx context.Context, told time.Time, chains []tb.Transfer) error {
	if len(f.batch)+len(chains) > f.EventsMax {
		if err := f.flush(ctx); err != nil {
			return err
		}
	}

	if told.After(f.now) {
		told = f.now
	}

	f.at = max(f.at, uint64(max(told.UnixNano(), 1))-1)
	for i := range chains {
		f.at++
		chains[i].Timestamp = f.at

		flags := chains[i].TransferFlags()
		if flags.Imported = true; flags.Pending {
			chains[i].Timeout = 0
		}
		chains[i].Flags = flags.ToUint16()
	}
	f.batch = append(f.batch, chains...)

	return nil
}

func (f *forward) flush(ctx context.Context) error {
	batch := f.batch

	f.batch = nil
	if len(batch) == 0 {
		return nil
	}

	results, err := ledger.Ask(ctx, func() ([]tb.TransferEventResult, error) { return f.Client.CreateTransfers(batch) })
	for _, result := range results {
		event := batch[result.Index]

		marked := ledger.IsMark(&event) && ledger.Result{Status: result.Result}.Exists()
		if result.Result != tb.TransferLinkedEventFailed && !marked {
			err = cmp.Or(err, fmt.Errorf(
				"the ledger refuses %v (code %d) of what was reported: %s; nothing after it was written, and nobody may go on before a person has looked",
				event.ID, event.Code, result.Result))
		}
	}

	return err
}
