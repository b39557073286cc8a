package ledgerfacts

import (
	"fmt"
	"sync"
	"testing"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// openSource creates the account that grants allowances, once.
var openSource = sync.OnceValue(func() error { return createAccounts(ledger.NewAccount(ledger.AllowanceSourceAccount)) })

// cappedPayer creates a customer of a new PSP with a cap on outflow by day.
func cappedPayer(t testing.TB, limit int64) pix.Account {
	t.Helper()
	payer := newCustomer(t, newPSP(t, reserve), deposit)
	kit.Must(t, openSource())
	kit.Must(t, createAccounts(ledger.NewAccount(ledger.AllowanceAccount(payer.ISPB, ledger.Day))))
	adjust(t, payer.ISPB, limit)
	return payer
}

func allowance(t testing.TB, psp pix.ISPB) ledger.Grant {
	t.Helper()
	found, err := client.LookupAccounts([]tb.Uint128{ledger.AllowanceAccount(psp, ledger.Day)})
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	return ledger.GrantOf(found[0])
}

func adjust(t testing.TB, psp pix.ISPB, limit int64) {
	t.Helper()
	if result := shared.write(t, allowance(t, psp).AppendAdjustment(nil, limit)); !result.OK() {
		t.Fatalf("adjustment to %d: %+v", limit, result)
	}
}

func (p *payment) reserveCapped(windowSeconds uint32) []tb.Transfer {
	return ledger.AppendCap(p.reserve(), p.id, p.content, ledger.Day, windowSeconds)
}

func (p *payment) voidCapped() []tb.Transfer {
	return ledger.AppendCapVoid(p.void(pix.ReasonPayeeBlocked), p.id, pix.ReasonPayeeBlocked)
}

func expectResult(t testing.TB, what string, got ledger.Result, status tb.CreateTransferResult, index int, code uint16) {
	t.Helper()
	if got.Status != status || got.Index != index || got.Code != code {
		t.Errorf("%s: %v at transfer %d, code %d; want %v at %d, code %d", what, got.Status, got.Index, got.Code, status, index, code)
	}
}

func expectLeft(t testing.TB, psp pix.ISPB, limit, want int64) {
	t.Helper()
	if left := allowance(t, psp).Left(limit); left != want {
		t.Errorf("%d centavos are left of %d, want %d", left, limit, want)
	}
}

// Leg 4 takes what is left of a cap and no centavo more, and only its own id is burnt by a refusal.
func TestLeg4KeepsTheCap(t *testing.T) {
	const limit = 2*amount + amount/2
	payer, payee := cappedPayer(t, limit), newCustomer(t, newPSP(t, reserve), 0)
	first, second, third := newPaymentBetween(t, payer, payee), newPaymentBetween(t, payer, payee), newPaymentBetween(t, payer, payee)
	for _, p := range []*payment{first, second} {
		expectResult(t, "within the cap", shared.write(t, p.reserveCapped(longTimeout+5)), tb.TransferOK, 0, 0)
	}
	expectResult(t, "above the cap", shared.write(t, third.reserveCapped(longTimeout+5)), tb.TransferExceedsCredits, 3, ledger.CodeLeg4)
	expectResult(t, "above the cap, again", shared.write(t, third.reserveCapped(longTimeout+5)), tb.TransferIDAlreadyFailed, 3, ledger.CodeLeg4)
	expectLeft(t, payer.ISPB, limit, amount/2)
	expectResult(t, "redelivery", shared.write(t, first.reserveCapped(longTimeout+9)), tb.TransferExists, 0, ledger.CodeLeg1)
	expectResult(t, "redelivery once the cap is lifted", shared.write(t, first.reserve()), tb.TransferExists, 0, ledger.CodeLeg1)
	if !shared.trace(t, first.id).Capped() || shared.trace(t, third.id).Capped() {
		t.Error("leg 4 stands where it does not, or does not where it stands")
	}
	expectResult(t, "post", shared.write(t, first.post()), tb.TransferOK, 0, 0)
	expectLeft(t, payer.ISPB, limit, amount/2)
	expectResult(t, "a void that loses against a post", shared.write(t, first.voidCapped()), tb.TransferExistsWithDifferentFlags, 0, 0)
	expectLeft(t, payer.ISPB, limit, amount/2)
	expectResult(t, "void", shared.write(t, second.voidCapped()), tb.TransferOK, 0, 0)
	expectLeft(t, payer.ISPB, limit, limit-amount)
	expectResult(t, "void again", shared.write(t, second.voidCapped()), tb.TransferExists, 0, 0)
	expectResult(t, "above the cap, when there is room", shared.write(t, third.reserveCapped(longTimeout+5)), tb.TransferIDAlreadyFailed, 3, ledger.CodeLeg4)
	expectResult(t, "above the cap, once it is lifted", shared.write(t, third.reserve()), tb.TransferOK, 0, 0)
}

// A leg 4 that cannot be voided stops the whole void, and then the void of the other legs is taken.
func TestAVoidWithoutItsLeg4(t *testing.T) {
	payer, payee := cappedPayer(t, 10*amount), newCustomer(t, newPSP(t, reserve), 0)
	voided, expired := newPaymentBetween(t, payer, payee), newPaymentBetween(t, payer, payee)
	for _, p := range []*payment{voided, expired} { // never so: here leg 4 ends before the hold
		expectResult(t, "hold", shared.write(t, p.reserveCapped(shortTimeout)), tb.TransferOK, 0, 0)
	}
	shared.write(t, ledger.AppendCapRelease(nil, voided.id, pix.ReasonPayeeBlocked))
	expectResult(t, "leg 4 is voided", shared.write(t, voided.voidCapped()), tb.TransferExists, 3, ledger.CodeLeg4)
	awaitFree(t, payer.ISPB, 10*amount)
	expectResult(t, "leg 4 has expired", shared.write(t, expired.voidCapped()), tb.TransferPendingTransferExpired, 3, ledger.CodeLeg4)
	for _, p := range []*payment{voided, expired} {
		if _, decided := shared.trace(t, p.id).Verdict(); decided {
			t.Error("a part of the void is there")
		}
		expectResult(t, "void without leg 4", shared.write(t, p.void(pix.ReasonPayeeBlocked)), tb.TransferOK, 0, 0)
	}
}

func awaitFree(t *testing.T, psp pix.ISPB, limit int64) {
	t.Helper()
	kit.Await(t, "the end of the window", func() (bool, string) {
		left := allowance(t, psp).Left(limit)
		return left == limit, fmt.Sprint(left)
	})
}

// The next window is free by itself, also of what settled. A release behind a receipt does not stop the
// receipt, whatever has become of leg 4.
func TestTheNextWindowIsFree(t *testing.T) {
	payer, payee := cappedPayer(t, amount), newCustomer(t, newPSP(t, reserve), 0)
	settled, next, last := newPaymentBetween(t, payer, payee), newPaymentBetween(t, payer, payee), newPaymentBetween(t, payer, payee)
	expectResult(t, "hold", shared.write(t, settled.reserveCapped(shortTimeout)), tb.TransferOK, 0, 0)
	expectResult(t, "post", shared.write(t, settled.post()), tb.TransferOK, 0, 0)
	awaitFree(t, payer.ISPB, amount)
	next.timeout = shortTimeout
	expectResult(t, "hold in the next window", shared.write(t, next.reserveCapped(longTimeout)), tb.TransferOK, 0, 0)
	kit.Await(t, "the end of the hold", func() (bool, string) {
		held := balancesOf(t, ledger.CustomerAccount(payer))[0].pending
		return held == 0, fmt.Sprint(held)
	})
	expectLeft(t, payer.ISPB, amount, 0)
	for range 2 {
		result := shared.write(t, ledger.AppendCapRelease(next.receipt(pix.ReasonPayeePSPSilent), next.id, pix.ReasonPayeePSPSilent))
		if !result.OK() && result.Status != tb.TransferExists {
			t.Errorf("receipt and release: %+v", result)
		}
		expectLeft(t, payer.ISPB, amount, amount)
	}
	expectResult(t, "hold for a short window", shared.write(t, last.reserveCapped(shortTimeout)), tb.TransferOK, 0, 0)
	awaitFree(t, payer.ISPB, amount)
	expectResult(t, "release once the window has passed", shared.write(t, ledger.AppendCapRelease(nil, last.id, pix.ReasonPayeePSPSilent)), tb.TransferOK, 0, 0)
}

// A lower cap takes what is free and no more; with nothing free it is no error, and the account's
// version still changes.
func TestALowerCapTakesWhatIsFree(t *testing.T) {
	payer, payee := cappedPayer(t, 250), newCustomer(t, newPSP(t, reserve), 0)
	held := newPaymentBetween(t, payer, payee)
	expectResult(t, "hold", shared.write(t, held.reserveCapped(longTimeout+5)), tb.TransferOK, 0, 0)
	for _, limit := range []int64{150, 50, 20} { // 100 are held: nothing is free any more
		before := allowance(t, payer.ISPB)
		adjust(t, payer.ISPB, limit)
		after := allowance(t, payer.ISPB)
		if has := after.Centavos(); has != max(limit, amount) || !after.Fits(limit) || after == before {
			t.Errorf("cap %d: the allowance is %d", limit, has)
		}
		if late := shared.write(t, before.AppendAdjustment(nil, 1000)); !late.Exists() {
			t.Errorf("a second adjustment of one version: %+v", late)
		}
	}
	expectResult(t, "void", shared.write(t, held.voidCapped()), tb.TransferOK, 0, 0)
	adjust(t, payer.ISPB, 20)
	expectLeft(t, payer.ISPB, 20, 20)
}
