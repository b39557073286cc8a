package ledgerfacts

import (
	"testing"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

const ok = tb.TransferOK

var (
	silent = pix.ReasonPayeePSPSilent // AB03
	closed = pix.ReasonPayeeClosed    // AC07
	short  = pix.ReasonReserveShort   // AM04
)

// step sends a chain and says which result the ledger must give: the status, and its place in the
// chain.
type step struct {
	chain  []tb.Transfer
	status tb.CreateTransferResult
	place  int
}

// run sends the steps in order, each after the result of the one before.
func run(t *testing.T, steps ...step) {
	t.Helper()
	for i, s := range steps {
		answer := shared.write(t, s.chain)
		want := ledger.Result{Status: s.status, Index: s.place}
		if s.status != ok {
			want.Code = s.chain[s.place].Code
		}
		if answer != want {
			t.Fatalf("step %d: got %s at %d (code %d), want %s at %d (code %d)", i+1, answer.Status, answer.Index, answer.Code, want.Status, want.Index, want.Code)
		}
	}
}

// changed returns a chain with change applied to each transfer.
func changed(chain []tb.Transfer, change func(*tb.Transfer)) []tb.Transfer {
	for i := range chain {
		change(&chain[i])
	}
	return chain
}

// The results of the chains of one payment. Each case has its own payment and accounts.
func TestAnswers(t *testing.T) {
	for name, steps := range map[string]func(t *testing.T, p *payment){
		"phase 1 and a redelivery": func(t *testing.T, p *payment) {
			run(t, step{p.reserve(), ok, 0}, step{p.reserve(), tb.TransferExists, 0})
			p.checkMoney(t, amount, 0)
		},
		"post, and everything again": func(t *testing.T, p *payment) {
			run(t, step{p.reserve(), ok, 0}, step{p.post(), ok, 0}, step{p.post(), tb.TransferExists, 0}, step{p.reserve(), tb.TransferExists, 0})
			p.checkMoney(t, 0, amount)
		},
		"void, and everything again": func(t *testing.T, p *payment) {
			run(t, step{p.reserve(), ok, 0}, step{p.void(closed), ok, 0}, step{p.void(closed), tb.TransferExists, 0}, step{p.reserve(), tb.TransferExists, 0})
			p.checkMoney(t, 0, 0)
		},
		"phase 1 with another amount": func(t *testing.T, p *payment) {
			run(t, step{p.reserve(), ok, 0})
			p.content.AmountCentavos++
			run(t, step{p.reserve(), tb.TransferExistsWithDifferentAmount, 0})
		},
		"phase 1 with another timeout": func(t *testing.T, p *payment) {
			run(t, step{p.reserve(), ok, 0})
			p.timeout++
			run(t, step{p.reserve(), tb.TransferExistsWithDifferentTimeout, 0})
		},
		"phase 1 with another payer": func(t *testing.T, p *payment) {
			run(t, step{p.reserve(), ok, 0})
			p.content.Payer = newCustomer(t, p.content.Payer.ISPB, deposit)
			run(t, step{p.reserve(), tb.TransferExistsWithDifferentDebitAccountID, 0})
		},
		"phase 1 with another code": func(t *testing.T, p *payment) {
			run(t, step{p.reserve(), ok, 0}, step{changed(p.reserve(), func(l *tb.Transfer) { l.Code += 100 }), tb.TransferExistsWithDifferentCode, 0})
		},
		"phase 1 with other user data": func(t *testing.T, p *payment) {
			run(t, step{p.reserve(), ok, 0},
				step{changed(p.reserve(), func(l *tb.Transfer) { l.UserData128 = tb.ToUint128(1) }), tb.TransferExistsWithDifferentUserData128, 0},
				step{changed(p.reserve(), func(l *tb.Transfer) { l.UserData64++ }), tb.TransferExistsWithDifferentUserData64, 0},
				step{changed(p.reserve(), func(l *tb.Transfer) { l.UserData32++ }), tb.TransferExistsWithDifferentUserData32, 0})
		},
		"phase 1 with another payee: the later legs are not compared": func(t *testing.T, p *payment) {
			run(t, step{p.reserve(), ok, 0})
			first := p.content
			for _, payee := range []pix.Account{
				newCustomer(t, first.Payee.ISPB, 0), newCustomer(t, newPSP(t, reserve), 0), newCustomer(t, first.Payer.ISPB, 0),
			} {
				p.content.Payee = payee
				run(t, step{p.reserve(), tb.TransferExists, 0})
				if trace := shared.trace(t, p.id); trace.SameContent(p.id, p.content) || !trace.SameContent(p.id, first) {
					t.Errorf("payee %v instead of %v is not noticed", payee, first.Payee)
				}
			}
			p.content = first
			p.checkMoney(t, amount, 0)
		},
		"void after post and post after void": func(t *testing.T, p *payment) {
			run(t, step{p.reserve(), ok, 0}, step{p.post(), ok, 0}, step{p.void(silent), tb.TransferExistsWithDifferentFlags, 0})
			p.checkMoney(t, 0, amount)
			q := newPayment(t)
			run(t, step{q.reserve(), ok, 0}, step{q.void(silent), ok, 0}, step{q.post(), tb.TransferExistsWithDifferentFlags, 0})
			q.checkMoney(t, 0, 0)
		},
		"void with another reason": func(t *testing.T, p *payment) {
			run(t, step{p.reserve(), ok, 0}, step{p.void(closed), ok, 0}, step{p.void(silent), tb.TransferExistsWithDifferentUserData32, 0})
			if verdict, _ := shared.trace(t, p.id).Verdict(); verdict.Reason != closed {
				t.Errorf("the reason is %s, want the first, %s", verdict.Reason, closed)
			}
		},
		"resolutions under other ids": func(t *testing.T, p *payment) {
			other := func(chain []tb.Transfer) []tb.Transfer {
				return changed(chain, func(l *tb.Transfer) { l.ID = tb.ID() })
			}
			run(t, step{p.reserve(), ok, 0}, step{p.post(), ok, 0},
				step{other(p.void(silent)), tb.TransferPendingTransferAlreadyPosted, 0}, step{other(p.post()), tb.TransferPendingTransferAlreadyPosted, 0})
			q := newPayment(t)
			run(t, step{q.reserve(), ok, 0}, step{q.void(silent), ok, 0},
				step{other(q.void(silent)), tb.TransferPendingTransferAlreadyVoided, 0}, step{other(q.post()), tb.TransferPendingTransferAlreadyVoided, 0})
		},
		"a post of nothing burns its id": func(t *testing.T, p *payment) {
			run(t, step{p.post(), tb.TransferPendingTransferNotFound, 0}, step{p.reserve(), ok, 0},
				step{p.post(), tb.TransferIDAlreadyFailed, 0}, step{p.void(silent), tb.TransferIDAlreadyFailed, 0}, step{p.receipt(silent), tb.TransferIDAlreadyFailed, 0})
		},
		"a post of amount 0 posts nothing": func(t *testing.T, p *payment) {
			run(t, step{p.reserve(), ok, 0}, step{changed(p.post(), func(l *tb.Transfer) { l.Amount = tb.Uint128{} }), ok, 0})
			p.checkMoney(t, 0, 0)
		},
		"a chain that is left open": func(t *testing.T, p *payment) {
			chain := p.reserve()
			run(t, step{chain[:2], tb.TransferLinkedEventChainOpen, 1})
		},

		"payer short, and again when it is not": func(t *testing.T, p *payment) {
			p.content.AmountCentavos = deposit + 1
			run(t, step{p.reserve(), tb.TransferExceedsCredits, 0})
			p.checkMoney(t, 0, 0)
			kit.Must(t, fund(ledger.TransitAccount(p.content.Payer.ISPB), ledger.CustomerAccount(p.content.Payer), deposit))
			run(t, step{p.reserve(), tb.TransferIDAlreadyFailed, 0}, step{p.receipt(pix.ReasonPayerShort), ok, 0})
		},
		"an amount beyond everything": func(t *testing.T, p *payment) {
			p.content.AmountCentavos = 1<<64 - 1
			run(t, step{p.reserve(), tb.TransferExceedsCredits, 0})
		},
		"all that the payer has, and one more": func(t *testing.T, p *payment) {
			p.content.AmountCentavos = deposit
			run(t, step{p.reserve(), ok, 0})
			q := newPaymentBetween(t, p.content.Payer, p.content.Payee)
			q.content.AmountCentavos = 1
			run(t, step{q.reserve(), tb.TransferExceedsCredits, 0})
		},
		"reserve short, and again when it is not": func(t *testing.T, p *payment) {
			p.content.Payer = newCustomer(t, newPSP(t, amount-1), deposit)
			p.id = newID(t, p.content.Payer.ISPB)
			run(t, step{p.reserve(), tb.TransferExceedsCredits, 1})
			kit.Must(t, fund(ledger.IssuanceAccount, ledger.ReserveAccount(p.content.Payer.ISPB), reserve))
			run(t, step{p.reserve(), tb.TransferIDAlreadyFailed, 1}, step{p.receipt(short), ok, 0})
		},
		"payee missing, and again when it is not; only its leg's id is burnt": func(t *testing.T, p *payment) {
			p.content.Payee = noCustomer(p.content.Payee.ISPB)
			run(t, step{p.reserve(), tb.TransferCreditAccountNotFound, 2})
			openAccount(t, p.content.Payee, deposit)
			run(t, step{p.reserve(), tb.TransferIDAlreadyFailed, 2})
			for _, leg := range p.reserve()[:2] {
				leg.Flags = tb.TransferFlags{Pending: true}.ToUint16()
				run(t, step{[]tb.Transfer{leg}, ok, 0})
			}
		},
		"payee missing inside one bank": func(t *testing.T, p *payment) {
			p.content.Payee = noCustomer(p.content.Payer.ISPB)
			run(t, step{p.reserve(), tb.TransferCreditAccountNotFound, 1}) // leg 3, code 3
		},
		"payer missing": func(t *testing.T, p *payment) {
			p.content.Payer = noCustomer(p.content.Payer.ISPB)
			run(t, step{p.reserve(), tb.TransferDebitAccountNotFound, 0}, step{p.receipt(pix.ReasonPayerMissing), ok, 0})
		},
		"payee's PSP missing": func(t *testing.T, p *payment) {
			p.content.Payee = noCustomer("ZZZZZZZZ")
			run(t, step{p.reserve(), tb.TransferCreditAccountNotFound, 1}, step{p.receipt(pix.ReasonUnknownPayeePSP), ok, 0})
		},
		"payer's PSP missing": func(t *testing.T, p *payment) {
			p.content.Payer = noCustomer("ZZZZZZZZ")
			p.id = newID(t, "ZZZZZZZZ")
			run(t, step{p.reserve(), tb.TransferDebitAccountNotFound, 0},
				step{ledger.AppendReceipt(nil, p.id, p.content, pix.ReasonUnknownPayerPSP, false), ok, 0},
				step{ledger.AppendReceipt(nil, p.id, p.content, pix.ReasonUnknownPayerPSP, false), tb.TransferExists, 0})
		},
		"payee missing, then the payer short: the first reason is lost": func(t *testing.T, p *payment) {
			p.content.Payee = noCustomer(p.content.Payee.ISPB)
			run(t, step{p.reserve(), tb.TransferCreditAccountNotFound, 2})
			q := newPaymentBetween(t, p.content.Payer, newCustomer(t, p.content.Payee.ISPB, 0))
			q.content.AmountCentavos = deposit
			run(t, step{q.reserve(), ok, 0}, step{p.reserve(), tb.TransferExceedsCredits, 0})
		},

		"receipt, and again": func(t *testing.T, p *payment) {
			run(t, step{p.receipt(closed), ok, 0}, step{p.receipt(closed), tb.TransferExists, 0}, step{p.receipt(silent), tb.TransferExistsWithDifferentUserData32, 0})
			if verdict, found := shared.trace(t, p.id).Verdict(); !found || verdict.Settled || verdict.Reason != closed {
				t.Errorf("verdict %+v", verdict)
			}
			first := p.content
			p.content.AmountCentavos++
			run(t, step{p.receipt(closed), tb.TransferExistsWithDifferentUserData64, 0})
			if trace := shared.trace(t, p.id); trace.Held() || trace.SameContent(p.id, p.content) || !trace.SameContent(p.id, first) {
				t.Error("another content under the same EndToEndId is not noticed")
			}
			p.checkMoney(t, 0, 0)
		},
		"receipt first, then the whole payment": func(t *testing.T, p *payment) {
			run(t, step{p.receipt(closed), ok, 0}, step{p.reserve(), ok, 0},
				step{p.post(), tb.TransferExistsWithDifferentFlags, 0}, step{p.void(closed), tb.TransferExistsWithDifferentFlags, 0})
			p.checkMoney(t, amount, 0)
		},
		"receipt after post": func(t *testing.T, p *payment) {
			run(t, step{p.reserve(), ok, 0}, step{p.post(), ok, 0}, step{p.receipt(silent), tb.TransferExistsWithDifferentFlags, 0})
		},
		"receipt after void": func(t *testing.T, p *payment) {
			run(t, step{p.reserve(), ok, 0}, step{p.void(silent), ok, 0}, step{p.receipt(silent), tb.TransferExistsWithDifferentFlags, 0})
		},

		"post after the timeout, then the receipt": func(t *testing.T, p *payment) {
			p.timeout = shortTimeout
			run(t, step{p.reserve(), ok, 0})
			p.waitUntilExpired(t)
			p.checkMoney(t, 0, 0)
			run(t, step{p.post(), tb.TransferPendingTransferExpired, 0}, step{p.post(), tb.TransferPendingTransferExpired, 0},
				step{p.void(closed), tb.TransferPendingTransferExpired, 0}, step{p.reserve(), tb.TransferExists, 0},
				step{p.receipt(silent), ok, 0}, step{p.receipt(silent), tb.TransferExists, 0},
				step{p.post(), tb.TransferExistsWithDifferentFlags, 0}, step{p.void(silent), tb.TransferExistsWithDifferentFlags, 0})
			trace := shared.trace(t, p.id)
			if verdict, _ := trace.Verdict(); verdict.Settled || verdict.Reason != silent || !trace.SameContent(p.id, p.content) {
				t.Errorf("verdict %+v", verdict)
			}
			p.checkMoney(t, 0, 0)
		},
		"a post before the timeout stays after it": func(t *testing.T, p *payment) {
			p.timeout = shortTimeout
			run(t, step{p.reserve(), ok, 0}, step{p.post(), ok, 0})
			q := newPayment(t) // expires later than p would
			q.timeout = shortTimeout
			run(t, step{q.reserve(), ok, 0})
			q.waitUntilExpired(t)
			run(t, step{p.post(), tb.TransferExists, 0}, step{p.void(silent), tb.TransferExistsWithDifferentFlags, 0})
			p.checkMoney(t, 0, amount)
		},
		"legs that meet a foreign receipt are released by their timeout": func(t *testing.T, p *payment) {
			p.timeout = shortTimeout
			run(t, step{p.receipt(silent), ok, 0}, step{p.reserve(), ok, 0}, step{p.void(silent), tb.TransferExistsWithDifferentFlags, 0})
			p.waitUntilExpired(t)
			p.checkMoney(t, 0, 0)
		},
		"payer and payee are one account": func(t *testing.T, p *payment) {
			p.content.Payee = p.content.Payer
			run(t, step{p.reserve(), ok, 0}, step{p.post(), ok, 0})
			if got := balancesOf(t, ledger.CustomerAccount(p.content.Payer))[0]; got != (balance{posted: deposit}) {
				t.Errorf("it holds %+v", got)
			}
		},
		"inside one bank": func(t *testing.T, p *payment) {
			p.content.Payee = newCustomer(t, p.content.Payer.ISPB, 0)
			run(t, step{p.reserve(), ok, 0}, step{p.reserve(), tb.TransferExists, 0}, step{p.post(), ok, 0}, step{p.post(), tb.TransferExists, 0}, step{p.void(silent), tb.TransferExistsWithDifferentFlags, 0})
			psp := p.content.Payer.ISPB
			got := balancesOf(t, ledger.CustomerAccount(p.content.Payer), ledger.CustomerAccount(p.content.Payee), ledger.TransitAccount(psp), ledger.ReserveAccount(psp))
			for i, want := range []balance{{deposit - amount, 0}, {amount, 0}, {-deposit, 0}, {reserve, 0}} {
				if got[i] != want {
					t.Errorf("account %d holds %+v, want %+v", i, got[i], want)
				}
			}
			if !shared.trace(t, p.id).SameContent(p.id, p.content) {
				t.Error("its trace is not its own")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps(t, newPayment(t))
		})
	}
}

// The real status stands at the failing leg, wherever that is. The legs before and after it say
// linked_event_failed.
func TestOneLegFailsAndTheOthersAreLinked(t *testing.T) {
	p := newPayment(t)
	for failing := range 3 {
		chain := (&payment{newID(t, p.content.Payer.ISPB), p.content, longTimeout}).reserve()
		chain[failing].CreditAccountID = tb.ID() // an account that does not exist
		results, err := client.CreateTransfers(chain)
		if err != nil || len(results) != 3 {
			t.Fatalf("%v, %v", results, err)
		}
		for i, result := range results {
			want := tb.TransferLinkedEventFailed
			if i == failing {
				want = tb.TransferCreditAccountNotFound
			}
			if int(result.Index) != i || result.Result != want {
				t.Errorf("leg %d of a chain that fails at %d: %v, want %s", i, failing, result, want)
			}
		}
	}
	p.checkMoney(t, 0, 0)
}

func TestOnlyTheBadChainOfARequestFails(t *testing.T) {
	bad, good := newPayment(t), newPayment(t)
	bad.content.Payee = noCustomer(bad.content.Payee.ISPB)
	request := append(append(append(bad.reserve(), good.reserve()...), good.post()...), good.reserve()...)
	results, err := client.CreateTransfers(request)
	kit.Must(t, err)
	got := map[uint32]tb.CreateTransferResult{}
	for _, result := range results {
		got[result.Index] = result.Result
	}
	want := map[uint32]tb.CreateTransferResult{
		0: tb.TransferLinkedEventFailed, 1: tb.TransferLinkedEventFailed, 2: tb.TransferCreditAccountNotFound,
		9: tb.TransferExists, 10: tb.TransferLinkedEventFailed, 11: tb.TransferLinkedEventFailed, // the duplicate
	}
	if len(got) != len(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for index, status := range want {
		if got[index] != status {
			t.Errorf("event %d: %s, want %s", index, got[index], status)
		}
	}
	good.checkMoney(t, 0, amount)
}

// Posts and voids that leave user_data at 0 inherit it: any transfer names its payment.
func TestResolutionsNameTheirPayment(t *testing.T) {
	posted, voided := newPayment(t), newPayment(t)
	run(t, step{posted.reserve(), ok, 0}, step{posted.post(), ok, 0}, step{voided.reserve(), ok, 0}, step{voided.void(closed), ok, 0})
	for p, chain := range map[*payment][]tb.Transfer{posted: posted.post(), voided: voided.void(closed)} {
		legs := p.reserve()
		for i, resolution := range chain {
			found, err := client.LookupTransfers([]tb.Uint128{resolution.ID})
			if err != nil || len(found) != 1 {
				t.Fatalf("%v, %v", found, err)
			}
			got, leg := found[0], legs[i]
			if id, err := ledger.EndToEndIDOf(got); err != nil || id != p.id {
				t.Errorf("it names %s, want %s (%v)", id, p.id, err)
			}
			if got.Code != leg.Code || got.DebitAccountID != leg.DebitAccountID || got.CreditAccountID != leg.CreditAccountID || got.Amount != leg.Amount || got.PendingID != leg.ID {
				t.Errorf("%+v is not the resolution of %+v", got, leg)
			}
			wantReason, flags := pix.ReasonNone, got.TransferFlags()
			if p == voided {
				wantReason = closed
			}
			if pix.Reason(got.UserData32) != wantReason || flags.PostPendingTransfer != (p == posted) || flags.VoidPendingTransfer != (p == voided) {
				t.Errorf("reason %s, flags %+v", pix.Reason(got.UserData32), flags)
			}
		}
		// So a query by user_data_128 finds all of them.
		found, err := client.QueryTransfers(tb.QueryFilter{UserData128: legs[0].UserData128, Limit: 100})
		if err != nil || len(found) != 6 {
			t.Errorf("a query finds %d transfers of the payment, want 6 (%v)", len(found), err)
		}
	}
}
