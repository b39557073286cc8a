package ledger

import (
	"crypto/sha256"
	"math/big"
	"testing"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"pgregory.net/rapid"

	"github.com/liquida/liquida/platform/pix"
)

func TestDayAndNight(t *testing.T) {
	for text, want := range map[string]Window{
		"2026-11-23T05:59:59.999-03:00": Night, "2026-11-23T06:00:00-03:00": Day, "2026-11-23T19:59:59.999-03:00": Day,
		"2026-11-23T20:00:00-03:00": Night, "2026-11-23T09:00:00Z": Day, "2026-11-23T23:00:00Z": Night,
		"2026-01-15T22:59:59Z": Day,
	} {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}

		if got := WindowAt(at); got != want {
			t.Errorf("at %s it is %s, want %s", text, got, want)
		}
	}
}

// The layout of leg 4, built a second time.
func TestLegFour(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id, content := endToEndIDs().Draw(t, "id"), contents().Draw(t, "content")
		window := rapid.SampledFrom([]Window{Day, Night}).Draw(t, "window")
		reason := pix.MustReason("AC07")
		chain := AppendCap(AppendReserve(nil, id, content, 60), id, content, window, 120)

		leg := chain[len(chain)-1]
		if want := (tb.Transfer{
			ID: IDsOf(id).Pending(4), DebitAccountID: AllowanceAccount(content.Payer.ISPB, window),
			CreditAccountID: AllowanceSourceAccount,
			Amount:          tb.ToUint128(content.AmountCentavos), UserData128: chain[0].UserData128,
			UserData64: chain[0].UserData64,
			Timeout:    120, Ledger: 2, Code: 4, Flags: 2,
		}); leg != want {
			t.Fatalf("leg 4 is %+v, want %+v", leg, want)
		}

		void := AppendCapVoid(AppendVoid(nil, id, content.SameBank(), reason), id, reason)
		if want := (tb.Transfer{ID: IDsOf(id).Resolution(4), PendingID: leg.ID, UserData32: uint32(reason), Code: 4,
			Flags: 8}); void[len(void)-1] != want {
			t.Fatalf("its void is %+v, want %+v", void[len(void)-1], want)
		}

		for name, linked := range map[string][]tb.Transfer{"hold": chain, "void": void} {
			for i := range linked {
				if linked[i].TransferFlags().Linked != (i < len(linked)-1) || IsCapRelease(linked, i) {
					t.Fatalf("%s: transfer %d is linked: %t", name, i, linked[i].TransferFlags().Linked)
				}
			}
		}

		// With leg 4 or without it, it is the same payment.
		trace := TraceOf(id, chain)
		if !trace.Capped() || !trace.SameContent(id, content) || trace.NamesAnother(id) ||
			len(trace.Legs()) != len(chain)-1 {
			t.Fatalf("a payment with leg 4: capped %t, same content %t, %d legs of money", trace.Capped(),
				trace.SameContent(id, content), len(trace.Legs()))
		}

		receipt := AppendReceipt(nil, id, content, reason, true)
		if trace.StrandsCap() || !TraceOf(id, append(chain, receipt...)).StrandsCap() {
			t.Fatal("only a receipt leaves a part of the cap behind")
		}

		stored := tb.Transfer{ID: IDsOf(id).Verdict(), Flags: void[0].Flags}
		if TraceOf(id, append(chain, stored)).StrandsCap() {
			t.Fatal("a void leaves nothing behind: it voided leg 4, too")
		}
	})
}

func TestAReleaseDoesNotCountForTheReceiptBeforeIt(t *testing.T) {
	id := pix.EndToEndID([]byte("E1234567820260101000000000000001"))
	behind := AppendCapRelease(
		AppendReceipt(nil, id, pix.Content{Payer: pix.Account{ISPB: "12345678"}}, pix.ReasonPayeePSPSilent, true), id,
		pix.ReasonPayeePSPSilent)

	alone := AppendCapRelease(nil, id, pix.ReasonPayeePSPSilent)
	for status, harmless := range map[tb.CreateTransferResult]bool{
		tb.TransferExists: true, tb.TransferExistsWithDifferentUserData32: true,
		tb.TransferPendingTransferExpired:  true,
		tb.TransferPendingTransferNotFound: false, tb.TransferPendingTransferAlreadyPosted: false,
	} {
		for _, chain := range [][]tb.Transfer{behind, alone} {
			failed := []tb.TransferEventResult{{Index: uint32(7 + len(chain) - 1), Result: status}}
			if got := ResultOf(chain, 7, failed); got.OK() != harmless {
				t.Errorf("%s of %d transfers: %+v", status, len(chain), got)
			}
		}

		linked := AppendCapVoid(AppendVoid(nil, id, false, pix.ReasonPayeePSPSilent), id, pix.ReasonPayeePSPSilent)
		if got := ResultOf(linked, 0, []tb.TransferEventResult{{Index: 3, Result: status}}); got.Status != status {
			t.Errorf("in a chain, %s became %+v", status, got)
		}
	}
}

func grant(granted, debited, held uint64) Grant {
	return GrantOf(tb.Account{
		ID: AllowanceAccount("12345678", Night), CreditsPosted: tb.ToUint128(granted),
		DebitsPosted: tb.ToUint128(debited), DebitsPending: tb.ToUint128(held),
	})
}

func TestWhatIsLeftOfACap(t *testing.T) {
	for _, c := range []struct {
		granted, debited, held uint64
		cap, left              int64
		fits                   bool
	}{
		{100, 0, 0, 100, 100, true},
		{100, 0, 30, 100, 70, true},
		{130, 30, 100, 100, 0, true},
		{100, 0, 30, 50, 20, false}, // lowered, and 50 are free: they are taken
		{100, 0, 80, 50, 0, false},  // 20 are free
		{100, 20, 80, 50, 0, true},  // nothing is free
		{100, 0, 30, 150, 70, false},
		{0, 0, 0, 100, 0, false},
	} {
		g := grant(c.granted, c.debited, c.held)
		if g.Left(c.cap) != c.left || g.Fits(c.cap) != c.fits {
			t.Errorf("%+v: left %d, fits %t", c, g.Left(c.cap), g.Fits(c.cap))
		}
	}
}

// The adjustments, built a second time: the ledger holds their ids forever.
func TestAdjustments(t *testing.T) {
	base := func(credits, debits uint64) *big.Int {
		text := []byte("liquida allowance\x00")
		for _, part := range []*big.Int{bigOf(fromTB(AllowanceAccount("12345678", Night))),
			new(big.Int).SetUint64(credits), new(big.Int).SetUint64(debits)} {
			text = append(text, part.FillBytes(make([]byte, 16))...)
		}
		sum := sha256.Sum256(text)
		id := new(big.Int).SetBytes(sum[:16])

		return id.Lsh(id.Rsh(id, 4), 4)
	}
	account, source := AllowanceAccount("12345678", Night), AllowanceSourceAccount

	act := tb.Transfer{ID: tb.ToUint128(1)}
	for _, c := range []struct {
		granted, debited uint64
		cap              int64
		raise, lower     uint64
	}{
		{0, 0, 100, 100, 0}, {100, 0, 250, 150, 0}, {130, 30, 100, 1, 1}, {130, 30, 40, 1, 61},
		{1 << 62, 1<<62 - 5, 0, 1, 6},
	} {
		chain := grant(c.granted, c.debited, 0).AppendAdjustment([]tb.Transfer{act}, c.cap)
		id := func(role int64) string { return new(big.Int).Or(base(c.granted, c.debited), big.NewInt(role)).String() }
		want := []tb.Transfer{{Flags: 1}, {
			DebitAccountID: source, CreditAccountID: account, Amount: tb.ToUint128(c.raise), UserData64: uint64(c.cap),
			Ledger: 2, Code: 51,
		}}
		ids := []string{"1", id(10)}

		if c.lower > 0 {
			want[1].Flags = 1
			want = append(want, tb.Transfer{
				DebitAccountID: account, CreditAccountID: source, Amount: tb.ToUint128(c.lower),
				UserData64: uint64(c.cap), Ledger: 2, Code: 51, Flags: 16,
			})
			ids = append(ids, id(11))
		}

		for i := range chain {
			if got := bigOf(fromTB(chain[i].ID)).String(); i >= len(want) || got != ids[i] {
				t.Fatalf("%+v: transfer %d has the id %s, want %v", c, i, got, ids)
			}

			if chain[i].ID = (tb.Uint128{}); chain[i] != want[i] {
				t.Errorf("%+v: transfer %d is %+v, want %+v", c, i, chain[i], want[i])
			}
		}

		if len(chain) != len(want) {
			t.Errorf("%+v: %d transfers", c, len(chain))
		}
	}
}
