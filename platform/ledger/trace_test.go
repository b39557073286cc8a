package ledger

import (
	"slices"
	"testing"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"pgregory.net/rapid"

	"github.com/liquida/liquida/platform/pix"
)

func TestTraceIDsAreAllThatAVerdictNeeds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := endToEndIDs().Draw(t, "id")
		ids := IDsOf(id)

		want := []tb.Uint128{ids.Pending(1), ids.Pending(2), ids.Pending(3), ids.Pending(4), ids.Verdict()}
		if got := AppendTraceIDs([]tb.Uint128{MarkerID}, id)[1:]; !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

// The ledger holds the same payment exactly if payer, payee and amount are equal.
func TestSameContent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id, content := endToEndIDs().Draw(t, "id"), contents().Draw(t, "content")
		found := AppendReserve(nil, id, content, rapid.Uint32().Draw(t, "an older timeout"))
		// The transfers come in any order, and more of them than needed.
		found = append(found, tb.Transfer{ID: MarkerID, Amount: tb.ToUint128(1)})
		found = rapid.Permutation(found).Draw(t, "found")

		trace := TraceOf(id, found)
		if !trace.Held() || trace.AmountCentavos() != int64(content.AmountCentavos) || !trace.SameContent(id, content) {
			t.Fatalf("%v is not what was held for %v", trace, content)
		}

		other, fields := content, contents().Draw(t, "other")
		switch rapid.IntRange(0, 9).Draw(t, "differing") {
		case 0:
			other.Payer.Branch = fields.Payer.Branch
		case 1:
			other.Payer.Number = fields.Payer.Number
		case 2:
			other.Payer.ISPB = fields.Payer.ISPB
		case 3:
			other.Payee.Branch = fields.Payee.Branch
		case 4:
			other.Payee.Number = fields.Payee.Number
		case 5:
			other.Payee.ISPB = fields.Payee.ISPB
		case 6:
			other.Payee.ISPB = content.Payer.ISPB // two legs instead of three
		case 7:
			other.AmountCentavos = fields.AmountCentavos
		case 8:
			other.AmountCentavos = 0
		case 9:
			other.Payer, other.Payee = content.Payee, content.Payer
		}

		if trace.SameContent(id, other) != (other == content) {
			t.Fatalf("held for %v, asked for %v: %v", content, other, trace.SameContent(id, other))
		}
	})
}

func TestMissingAndSurplusLegsAreAnotherPayment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id, content := endToEndIDs().Draw(t, "id"), contents().Draw(t, "content")

		found := AppendReserve(nil, id, content, 60)
		for i := range found {
			if trace := TraceOf(id, slices.Delete(slices.Clone(found), i, i+1)); trace.SameContent(id, content) {
				t.Fatalf("without leg %d it is still the same", found[i].Code)
			}
		}

		for leg := 1; leg < capLeg; leg++ {
			if slices.ContainsFunc(found, func(f tb.Transfer) bool { return f.ID == IDsOf(id).Pending(leg) }) {
				continue
			}
			surplus := found[0]

			surplus.ID = IDsOf(id).Pending(leg)
			if trace := TraceOf(id, append(slices.Clone(found), surplus)); trace.SameContent(id, content) {
				t.Fatalf("with a surplus leg %d it is still the same", leg)
			}
		}
	})
}

func TestSameContentOfAReceipt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id, content, other := endToEndIDs().Draw(t, "id"), contents().Draw(t, "content"), contents().Draw(t, "other")
		reason := pix.MustReason("AM04")
		receipt := AppendReceipt(nil, id, content, reason, rapid.Bool().Draw(t, "payer known"))

		trace := TraceOf(id, receipt)
		if trace.Held() || !trace.SameContent(id, content) || trace.SameContent(id, other) != (content == other) {
			t.Fatalf("receipt for %v", content)
		}

		if verdict, ok := trace.Verdict(); !ok || verdict.Settled || verdict.Reason != reason {
			t.Fatalf("%+v", verdict)
		}
		// Legs beside a receipt may be of a conflicting message that came after it, because
		// phase 1 does not see a receipt. The receipt decides.
		held := TraceOf(id, append(AppendReserve(nil, id, other, 60), receipt...))
		if !held.SameContent(id, content) || held.SameContent(id, other) != (content == other) {
			t.Fatal("the legs outdid the receipt, which has decided the payment")
		}
	})
}

// Ids are hashes: two EndToEndIds may have the same. The user_data names the one that was
// there first.
func TestTransfersThatNameAnotherPayment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id, another, content := endToEndIDs().Draw(t, "id"), endToEndIDs().Draw(t, "another"),
			contents().Draw(t, "content")
		forge := func(transfer *tb.Transfer, receipt bool) {
			transfer.UserData128 = userData128(another)
			if !receipt {
				transfer.UserData64 = userData64(another)
			}
		}

		reserve, receipt := AppendReserve(nil, id, content, 60),
			AppendReceipt(nil, id, content, pix.ReasonPayerShort, true)
		if TraceOf(id, reserve).NamesAnother(id) || TraceOf(id, receipt).NamesAnother(id) ||
			TraceOf(id, nil).NamesAnother(id) {
			t.Fatal("the payment's own transfers do not name it")
		}
		i := rapid.IntRange(0, len(reserve)-1).Draw(t, "leg")
		forge(&reserve[i], false)

		if TraceOf(id, reserve).NamesAnother(id) != (id != another) {
			t.Fatalf("leg %d names %s, asked for %s", i, another, id)
		}

		if TraceOf(id, append(reserve, receipt...)).NamesAnother(id) {
			t.Fatal("the legs outdid the receipt, which has decided the payment")
		}
		forge(&receipt[0], true)

		if TraceOf(id, receipt).NamesAnother(id) != (userData128(id) != userData128(another)) {
			t.Fatalf("a receipt names %s, asked for %s", another, id)
		}

		returned := pix.ReturnContent{Original: id, AmountCentavos: 1, Reason: pix.ReturnReasons[0]}
		if trace := ReturnTraceOf(pix.ReturnID{}, returned, reserve); trace.Original.Held() != (id == another) {
			t.Fatal("a return is judged by the payment of another id")
		}
	})
}

func TestTraceOfNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id, another := endToEndIDs().Draw(t, "id"), endToEndIDs().Draw(t, "another")

		content := contents().Draw(t, "content")
		if id == another {
			t.Skip()
		}

		trace := TraceOf(id, append(AppendReserve(nil, another, content, 60),
			AppendPost(nil, another, content.SameBank())...))
		if _, ok := trace.Verdict(); ok || trace.Held() || trace.SameContent(id, content) {
			t.Fatalf("%s was found in %s", id, another)
		}
	})
}

func TestVerdicts(t *testing.T) {
	id, err := pix.ParseEndToEndID("E12345678202506011200abcDEF01234")
	if err != nil {
		t.Fatal(err)
	}
	content := pix.Content{Payer: pix.Account{ISPB: "12345678", Branch: "0001", Number: "1"},
		Payee: pix.Account{ISPB: "87654321", Branch: "0001", Number: "1"}, AmountCentavos: 5}
	silent := pix.ReasonPayeePSPSilent
	const ledgerTime = 1_748_779_200_123_456_789

	for _, c := range []struct {
		name    string
		verdict []tb.Transfer
		want    Verdict
	}{
		{"posted", AppendPost(nil, id, false), Verdict{Settled: true}},
		{"voided", AppendVoid(nil, id, false, silent), Verdict{Reason: silent}},
		{"receipt", AppendReceipt(nil, id, content, silent, true), Verdict{Reason: silent}},
	} {
		found := AppendReserve(nil, id, content, 60)
		found[0].Timestamp = ledgerTime - 1

		found = append(found, c.verdict...)
		for i := range found[3:] {
			found[3+i].Timestamp = ledgerTime
		}
		trace := TraceOf(id, found)

		c.want.Time = time.Unix(0, ledgerTime).UTC()
		if got, ok := trace.Verdict(); !ok || got != c.want {
			t.Errorf("%s: got %+v, %v, want %+v", c.name, got, ok, c.want)
		}

		if !trace.HeldAt().Equal(time.Unix(0, ledgerTime-1)) || trace.ExpiresAt().Sub(trace.HeldAt()) != time.Minute {
			t.Errorf("%s: held at %v until %v", c.name, trace.HeldAt(), trace.ExpiresAt())
		}
	}
}
