package rivals

import (
	"context"
	"fmt"
	"slices"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
)

// eventsMax is the most that one request to TigerBeetle holds.
const eventsMax = 8189

// TigerBeetle is a Ledger on TigerBeetle. All callers share one client, which merges waiting
// calls into one request.
type TigerBeetle struct {
	client   tigerbeetle.Client
	accounts []ledger.AccountID
}

// CreateTigerBeetle connects to an empty cluster and creates accounts and opening balances.
func CreateTigerBeetle(config ledger.Config, population sandbox.Population) (*TigerBeetle, error) {
	client, err := ledger.Connect(config)
	if err != nil {
		return nil, err
	}
	t := &TigerBeetle{client: client}
	opening := Opening(population)
	var accounts []tb.Account
	var fundings []tb.Transfer
	for id, balance := range opening {
		t.accounts = append(t.accounts, id)
		accounts = append(accounts, ledger.NewAccount(id))
		if kind, account := ledger.UnpackAccount(id); balance.CreditsPosted > 0 {
			from := ledger.IssuanceAccount
			if kind == ledger.Customer {
				from = ledger.TransitAccount(account.ISPB)
			}
			fundings = append(fundings, tb.Transfer{ID: id, DebitAccountID: from, CreditAccountID: id,
				Amount: tb.ToUint128(uint64(balance.CreditsPosted)), Ledger: ledger.Ledger, Code: ledger.CodeFunding})
		}
	}
	for chunk := range slices.Chunk(accounts, eventsMax) {
		if refused, err := client.CreateAccounts(chunk); err != nil || len(refused) > 0 {
			client.Close()
			return nil, fmt.Errorf("cannot create accounts: %d refused, %w", len(refused), err)
		}
	}
	for chunk := range slices.Chunk(fundings, eventsMax) {
		if refused, err := client.CreateTransfers(chunk); err != nil || len(refused) > 0 {
			client.Close()
			return nil, fmt.Errorf("cannot fund accounts: %d refused, %w", len(refused), err)
		}
	}
	return t, nil
}

// Close closes the client.
func (t *TigerBeetle) Close() { t.client.Close() }

// Hold runs phase 1 of a batch: a chain of linked pending transfers for each payment.
func (t *TigerBeetle) Hold(_ context.Context, payments []Payment) ([]PaymentResult, error) {
	transfers, ends := make([]tb.Transfer, 0, 3*len(payments)), make([]int, 0, len(payments))
	for _, payment := range payments {
		transfers = ledger.AppendReserve(transfers, payment.ID, payment.Content, 0)
		ends = append(ends, len(transfers))
	}
	failed, err := t.send(transfers, ends)
	if err != nil {
		return nil, err
	}
	results := make([]PaymentResult, len(payments))
	var receipts []tb.Transfer
	var receiptOf, again []int
	for i := range payments {
		results[i] = PaymentResult{Outcome: Held}
		failure, ok := failed[i]
		if !ok {
			continue
		}
		reason, err := refusal(failure)
		switch {
		case err != nil:
			return nil, err
		case reason == pix.ReasonNone:
			again = append(again, i)
		default:
			results[i] = PaymentResult{Outcome: Refused, Reason: reason}
			receipts = ledger.AppendReceipt(receipts, payments[i].ID, payments[i].Content, reason, true)
			receiptOf = append(receiptOf, i)
		}
	}
	failedReceipts, err := t.send(receipts, upTo(len(receipts)))
	if err != nil {
		return nil, err
	}
	for i := range failedReceipts { // the payment has a verdict already
		again = append(again, receiptOf[i])
	}
	for _, i := range again {
		if results[i], err = t.stored(payments[i]); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// Resolve runs phase 2 of a batch: a chain of posts or voids for each payment.
func (t *TigerBeetle) Resolve(_ context.Context, decisions []Decision) ([]PaymentResult, error) {
	transfers, ends := make([]tb.Transfer, 0, 3*len(decisions)), make([]int, 0, len(decisions))
	for _, d := range decisions {
		if d.Accept {
			transfers = ledger.AppendPost(transfers, d.ID, d.SameBank())
		} else {
			transfers = ledger.AppendVoid(transfers, d.ID, d.SameBank(), d.Reason)
		}
		ends = append(ends, len(transfers))
	}
	failed, err := t.send(transfers, ends)
	if err != nil {
		return nil, err
	}
	results := make([]PaymentResult, len(decisions))
	for i, d := range decisions {
		results[i] = PaymentResult{Outcome: Posted}
		if !d.Accept {
			results[i] = PaymentResult{Outcome: Voided, Reason: d.Reason}
		}
		if failure, ok := failed[i]; ok {
			if !failure.Exists() {
				return nil, fmt.Errorf("phase 2 of %s was refused with %s", d.ID, failure.Status)
			}
			if results[i], err = t.stored(d.Payment); err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}

// send writes chains in as many requests as they need. Chain i ends before ends[i]. It returns
// the failed chains, each with its own status.
func (t *TigerBeetle) send(transfers []tb.Transfer, ends []int) (map[int]ledger.Result, error) {
	failed := map[int]ledger.Result{}
	for first, sent := 0, 0; first < len(ends); {
		last := first
		for last+1 < len(ends) && ends[last+1]-sent <= eventsMax {
			last++
		}
		results, err := t.client.CreateTransfers(transfers[sent:ends[last]])
		if err != nil {
			return nil, err
		}
		for _, result := range results {
			if result.Result != tb.TransferLinkedEventFailed {
				at := sent + int(result.Index)
				chain, _ := slices.BinarySearch(ends, at+1)
				failed[chain] = ledger.Result{Status: result.Result, Code: transfers[at].Code}
			}
		}
		first, sent = last+1, ends[last]
	}
	return failed, nil
}

// refusal returns the reason of a failed phase 1, or none if the payment came before.
func refusal(failure ledger.Result) (pix.Reason, error) {
	leg, status := failure.Code, failure.Status
	switch {
	case failure.Exists(), status == tb.TransferIDAlreadyFailed:
		return pix.ReasonNone, nil
	case leg == ledger.CodeLeg1 && status == tb.TransferDebitAccountNotFound:
		return pix.ReasonPayerMissing, nil
	case leg == ledger.CodeLeg1 && status == tb.TransferExceedsCredits:
		return pix.ReasonPayerShort, nil
	case leg == ledger.CodeLeg2 && status == tb.TransferExceedsCredits:
		return pix.ReasonReserveShort, nil
	case leg == ledger.CodeLeg3 && status == tb.TransferCreditAccountNotFound:
		return pix.ReasonPayeeMissing, nil
	}
	return pix.ReasonNone, fmt.Errorf("leg %d was refused with %s", leg, status)
}

// stored returns the result of a payment that came before.
func (t *TigerBeetle) stored(payment Payment) (PaymentResult, error) {
	found, err := t.client.LookupTransfers(ledger.AppendTraceIDs(nil, payment.ID))
	if err != nil {
		return PaymentResult{}, err
	}
	trace := ledger.TraceOf(payment.ID, found)
	verdict, ended := trace.Verdict()
	result := PaymentResult{Outcome: Held, Reason: verdict.Reason, Again: true}
	switch {
	case !trace.SameContent(payment.ID, payment.Content):
		result = PaymentResult{Outcome: Conflict, Again: true}
	case verdict.Settled:
		result.Outcome = Posted
	case slices.ContainsFunc(found, func(t tb.Transfer) bool { return t.Code == ledger.CodeReceipt }):
		result.Outcome = Refused
	case ended:
		result.Outcome = Voided
	}
	return result, nil
}

// Balances reads all accounts.
func (t *TigerBeetle) Balances(context.Context) (Books, error) {
	books := Books{}
	for chunk := range slices.Chunk(t.accounts, eventsMax) {
		found, err := t.client.LookupAccounts(chunk)
		if err != nil {
			return nil, err
		}
		for _, a := range found {
			books[a.ID] = Balance{ledger.Centavos(a.DebitsPending), ledger.Centavos(a.DebitsPosted), ledger.Centavos(a.CreditsPending), ledger.Centavos(a.CreditsPosted)}
		}
	}
	return books, nil
}

func upTo(n int) []int {
	ends := make([]int, n)
	for i := range ends {
		ends[i] = i + 1
	}
	return ends
}
