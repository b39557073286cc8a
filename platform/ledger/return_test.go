package ledger

import (
	"crypto/sha256"
	"math/big"
	"slices"
	"testing"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"pgregory.net/rapid"

	"github.com/liquida/liquida/platform/pix"
)

func returnIDs() *rapid.Generator[pix.ReturnID] {
	return rapid.Custom(func(t *rapid.T) pix.ReturnID {
		id, err := pix.ParseReturnID("D" + endToEndIDs().Draw(t, "id").String()[1:])
		if err != nil {
			t.Fatal(err)
		}

		return id
	})
}

func returnContents() *rapid.Generator[pix.ReturnContent] {
	return rapid.Custom(func(t *rapid.T) pix.ReturnContent {
		return pix.ReturnContent{
			Original:       endToEndIDs().Draw(t, "original"),
			AmountCentavos: rapid.Uint64Range(1, 1<<63-1).Draw(t, "amount"),
			Reason:         rapid.SampledFrom(pix.ReturnReasons).Draw(t, "reason"),
		}
	})
}

// The ledger holds the layout forever. It is built here a second time: minute and suffix of
// the payment, then a hash of "R", its EndToEndId and the slot.
func TestReturnIDLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		original, slot := endToEndIDs().Draw(t, "original"), rapid.IntRange(0, ReturnSlots-1).Draw(t, "slot")
		want := bigOf(fromTB(IDsOf(original).Pending(1)))
		want.Lsh(want.Rsh(want, 72), 68)
		sum := sha256.Sum256(append([]byte("R"+original.String()), byte(slot)))
		hash := new(big.Int).SetBytes(sum[:])
		want.Or(want, hash.Rsh(hash, 256-68))
		want.Lsh(want, 4)

		if got := bigOf(fromTB(ReturnIDs(original, slot).Pending(1))); got.Cmp(want) != 0 {
			t.Fatalf("slot %d of %s: got %x, want %x", slot, original, got, want)
		}
	})
}

func TestReturnIDsAreNobodyElses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		original, id := endToEndIDs().Draw(t, "original"), returnIDs().Draw(t, "return")
		seen := map[tb.Uint128]bool{ReturnVerdict(id): true}

		seen[ReturnedMark(original)] = true
		for slot := range ReturnSlots {
			mark := burntMark(original, slot)
			if seen[mark] {
				t.Fatalf("%s twice", mark)
			}
			seen[mark] = true
		}

		all := []PaymentIDs{IDsOf(original)}
		for slot := range ReturnSlots {
			all = append(all, ReturnIDs(original, slot))
		}

		for _, ids := range all {
			for leg := 1; leg <= legsMax; leg++ {
				for _, transfer := range []tb.Uint128{ids.Pending(leg), ids.Resolution(leg)} {
					if seen[transfer] {
						t.Fatalf("%s twice", transfer)
					}
					seen[transfer] = true
				}
			}
		}
	})
}

func TestReturnChains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id, content, payment := returnIDs().Draw(t, "return"), returnContents().Draw(t, "content"),
			contents().Draw(t, "payment")
		slot, rejection := rapid.IntRange(0, ReturnSlots-1).Draw(t, "slot"), pix.ReasonPayeeBlocked
		ids := ReturnIDs(content.Original, slot)

		legs := []int{1, 2, 3}
		if payment.SameBank() {
			legs = []int{1, 3}
		}
		reserve := AppendReturnReserve(nil, id, content, slot, payment, 60)
		// The legs of a payment from the payee to the payer.
		forwards := AppendReserve(nil, content.Original,
			pix.Content{Payer: payment.Payee, Payee: payment.Payer, AmountCentavos: content.AmountCentavos}, 60)
		mark := tb.Transfer{DebitAccountID: TransitAccount(content.Original.Payer()),
			CreditAccountID: ReserveAccount(content.Original.Payer()),
			UserData128:     userData128(content.Original), UserData64: userData64(content.Original),
			Ledger: 986, Code: 18}
		id128 := fromTB(IDsOf(content.Original).Pending(1))

		id128.low += 8
		if mark.ID = id128.toTB(); AppendReturnedMark(nil, content.Original)[0] != mark {
			t.Fatalf("mark: got %+v, want %+v", AppendReturnedMark(nil, content.Original), mark)
		}
		// The mark of a burnt slot differs from it in the id, which is the slot's with role 9, and in the code.
		burnt := fromTB(ids.Pending(1))
		burnt.low += 9

		mark.ID, mark.Code = burnt.toTB(), 21
		if got := AppendBurntMarks(nil, content.Original, BurntSlots(0).Add(slot)); len(got) != 1 || got[0] != mark {
			t.Fatalf("mark of a burnt slot: got %+v, want %+v", got, mark)
		}

		post, void := AppendReturnPost(nil, id, content, slot, payment.SameBank()),
			AppendReturnVoid(nil, id, content, slot, payment.SameBank(), rejection)
		if len(reserve) != len(legs) || len(post) != 1+len(legs) || len(void) != 1+len(legs) {
			t.Fatalf("%d legs, %d in the post, %d in the void", len(reserve), len(post), len(void))
		}

		for i, leg := range legs {
			want := forwards[i]
			want.ID, want.Code, want.UserData32 = ids.Pending(leg), uint16(10+leg), uint32(content.Reason)

			want.UserData128, want.UserData64 = userData128(pix.EndToEndID(id)), userData64(pix.EndToEndID(id))
			if reserve[i] != want {
				t.Fatalf("leg %d: got %+v, want %+v", leg, reserve[i], want)
			}

			if back, err := ReturnIDOf(reserve[i]); err != nil || back != id {
				t.Fatalf("leg %d names %s: %v", leg, back, err)
			}

			linked := i < len(legs)-1
			if want := (tb.Transfer{ID: ids.Resolution(leg), PendingID: ids.Pending(leg), Amount: wholeAmount,
				Flags: tb.TransferFlags{PostPendingTransfer: true, Linked: linked}.ToUint16()}); post[1+i] != want {
				t.Fatalf("post %d: got %+v, want %+v", leg, post[1+i], want)
			}

			if want := (tb.Transfer{ID: ids.Resolution(leg), PendingID: ids.Pending(leg), UserData32: uint32(rejection),
				Flags: tb.TransferFlags{VoidPendingTransfer: true, Linked: linked}.ToUint16()}); void[1+i] != want {
				t.Fatalf("void %d: got %+v, want %+v", leg, void[1+i], want)
			}
		}
		psp := content.Original.Payer()

		verdict := tb.Transfer{
			ID: IDsOf(pix.EndToEndID(id)).Verdict(), DebitAccountID: TransitAccount(psp),
			CreditAccountID: ReserveAccount(psp),
			UserData128:     userData128(content.Original), UserData64: content.Hash(), Ledger: 986, Code: 17,
			Flags: tb.TransferFlags{Linked: true}.ToUint16(),
		}
		if post[0] != verdict {
			t.Fatalf("verdict: got %+v, want %+v", post[0], verdict)
		}

		verdict.UserData32 = uint32(rejection)
		if void[0] != verdict {
			t.Fatalf("verdict: got %+v, want %+v", void[0], verdict)
		}

		verdict.Flags = 0
		if receipt := AppendReturnReceipt(nil, id, content, rejection, true); len(receipt) != 1 ||
			receipt[0] != verdict {
			t.Fatalf("receipt: got %+v, want %+v", receipt, verdict)
		}

		verdict.DebitAccountID, verdict.CreditAccountID = IssuanceAccount, RefusalsAccount
		if receipt := AppendReturnReceipt(nil, id, content, rejection, false); len(receipt) != 1 ||
			receipt[0] != verdict {
			t.Fatalf("receipt: got %+v, want %+v", receipt, verdict)
		}
	})
}

// Left is the amount of the payment less the returns in its slots that were posted or can
// still be posted. A model counts them by hand.
func TestLeftAndSlots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		payment := contents().Draw(t, "payment")
		payment.AmountCentavos = rapid.Uint64Range(1, 1000).Draw(t, "amount")
		own, content := returnIDs().Draw(t, "own"), returnContents().Draw(t, "content")
		content.AmountCentavos = 1
		found := AppendReserve(nil, content.Original, payment, 60)
		var verdicts []tb.Transfer
		left, mine, firstFree, burnt, marked := int64(payment.AmountCentavos), -1, -1, BurntSlots(0), BurntSlots(0)
		taken := map[pix.ReturnID]bool{own: true}

		for slot := range rapid.IntRange(0, 8).Draw(t, "slots") {
			other := returnIDs().Draw(t, "other")
			if taken[other] {
				continue
			}
			taken[other] = true
			held := pix.ReturnContent{Original: content.Original,
				AmountCentavos: rapid.Uint64Range(1, 100).Draw(t, "held"), Reason: pix.ReturnReasons[0]}

			state := rapid.SampledFrom(
				[]string{"held", "posted", "voided", "refused", "of another content", "burnt", "marked as burnt",
					"mine", "free"}).Draw(t, "state")
			if state == "mine" && mine >= 0 || state == "free" && firstFree >= 0 {
				state = "burnt"
			}

			switch state {
			case "free":
				firstFree = slot
				continue
			case "burnt":
				burnt = burnt.Add(slot)
				continue
			case "marked as burnt":
				marked = marked.Add(slot)
				found = AppendBurntMarks(found, content.Original, BurntSlots(0).Add(slot))
				continue
			case "mine":
				mine = slot
				found = append(found, AppendReturnReserve(nil, own, content, slot, payment, 60)[0])
				continue
			case "posted":
				verdicts = append(verdicts, AppendReturnPost(nil, other, held, slot, false)[0])
			case "voided":
				verdicts = append(verdicts, AppendReturnVoid(nil, other, held, slot, false, pix.ReasonPayeeClosed)[0])
			case "refused":
				verdicts = append(verdicts, AppendReturnReceipt(nil, other, held, pix.ReasonPayeePSPSilent, true)[0])
			case "of another content":
				another := held
				another.AmountCentavos++
				verdicts = append(verdicts, AppendReturnPost(nil, other, another, slot, false)[0])
			}

			if state == "held" || state == "posted" {
				left -= int64(held.AmountCentavos)
			}
			found = append(found, AppendReturnReserve(nil, other, held, slot, payment, 60)[0])
		}

		trace := ReturnTraceOf(own, content, rapid.Permutation(found).Draw(t, "found"))
		if got := trace.Left(verdicts); got != uint64(max(0, left)) {
			t.Fatalf("left %d, want %d", got, left)
		}

		if slot, held := trace.Slot(); held != (mine >= 0) || held && slot != mine || held != trace.SameContent() {
			t.Fatalf("mine is in %d, %t; want %d", slot, held, mine)
		}
		// ReturnsOf must agree: what its returns give back, or may give back, is not left.
		returns, asked := ReturnsOf(content.Original, append(slices.Clone(found), verdicts...))
		given := int64(0)

		for _, r := range returns {
			if r.ID != own && (!r.Decided || r.Verdict.Settled) {
				given += r.AmountCentavos
			}
		}

		if want := int64(payment.AmountCentavos) - left; given != want {
			t.Fatalf("%d are or may be given back, want %d: %+v", given, want, returns)
		}

		for _, verdict := range trace.AppendOthers(nil) {
			if !slices.Contains(asked, verdict) {
				t.Fatalf("the verdict %s is not asked for", verdict)
			}
		}

		slot, free := trace.FreeSlot(burnt)
		if firstFree >= 0 && slot != firstFree || !free || trace.slots[slot] != nil || (burnt|marked)&(1<<slot) != 0 ||
			trace.Burnt() != marked {
			t.Fatalf("free is %d, %t; want %d", slot, free, firstFree)
		}

		for _, verdict := range verdicts {
			if !slices.Contains(trace.AppendOthers(nil), verdict.ID) {
				t.Fatalf("the verdict %s is not asked for", verdict.ID)
			}
		}
	})
}

func TestNoSlotIsFree(t *testing.T) {
	var trace ReturnTrace

	var burnt BurntSlots
	for range ReturnSlots {
		slot, free := trace.FreeSlot(burnt)
		if !free {
			t.Fatal("too early")
		}
		burnt = burnt.Add(slot)
	}

	if slot, free := trace.FreeSlot(burnt); free {
		t.Fatalf("slot %d is free", slot)
	}
}

func TestSameContentOfAReturn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id, content, payment := returnIDs().Draw(t, "return"), returnContents().Draw(t, "content"),
			contents().Draw(t, "payment")
		other := content

		switch rapid.IntRange(0, 2).Draw(t, "differing") {
		case 0:
			other.AmountCentavos++
		case 1:
			other.Reason = rapid.SampledFrom(pix.ReturnReasons).Draw(t, "other reason")
		}

		held := AppendReturnReserve(nil, id, content, 3, payment, 60)
		if trace := ReturnTraceOf(id, other, held); trace.SameContent() != (other == content) {
			t.Fatalf("held for %v, asked for %v: %t", content, other, trace.SameContent())
		}
		// A verdict decides, also that of a return of another payment with this RtrId.
		decided := AppendReturnPost(nil, id, content, 3, false)[:1]
		if trace := ReturnTraceOf(id, other, append(held, decided...)); trace.SameContent() != (other == content) {
			t.Fatalf("decided for %v, asked for %v: %t", content, other, trace.SameContent())
		}

		if verdict, ok := (&ReturnTrace{own: &decided[0]}).Verdict(); !ok || !verdict.Settled {
			t.Fatalf("%+v", verdict)
		}
	})
}

// Two RtrIds can have one verdict id: the bank that searched for them would see one movement
// of money reported twice.
func TestAReturnWhoseVerdictIsOfAnother(t *testing.T) {
	defer func(before func(pix.ReturnID) tb.Uint128) { verdictOf = before }(verdictOf)
	rapid.Check(t, func(t *rapid.T) {
		verdictOf = ReturnVerdict
		first, second := returnIDs().Draw(t, "first"), returnIDs().Draw(t, "second")

		content, payment := returnContents().Draw(t, "content"), contents().Draw(t, "payment")
		if first == second || payment.Payer.ISPB == payment.Payee.ISPB {
			t.Skip()
		}
		low, high := AppendReturnReserve(nil, first, content, 3, payment, 60),
			AppendReturnReserve(nil, second, content, 4, payment, 60)

		namesAnother := func(id pix.ReturnID, found ...[]tb.Transfer) bool {
			trace := ReturnTraceOf(id, content, slices.Concat(found...))
			return trace.NamesAnother()
		}
		if namesAnother(second, low) || namesAnother(second, low, high) || namesAnother(first) {
			t.Fatal("two returns of one payment are taken for one")
		}

		settled, refused := AppendReturnPost(nil, second, content, 4, false)[:1],
			AppendReturnReceipt(nil, second, content, pix.ReasonReturnExceeds, true)
		if namesAnother(second, low, high, settled) || namesAnother(second, low, refused) {
			t.Fatal("its own verdict is taken for another's")
		}

		if !namesAnother(second, low, settled) {
			t.Fatal("a settled return that was never held")
		}
		other := content

		other.AmountCentavos ^= 1
		if namesAnother(second, low, AppendReturnPost(nil, second, other, 4, false)[:1]) {
			t.Fatal("other content is a conflict, not another id")
		}
		verdictOf = func(pix.ReturnID) tb.Uint128 { return tb.ToUint128(1) } // they collide

		if !namesAnother(second, low) || !namesAnother(second, low, high) || namesAnother(first, low, high) ||
			namesAnother(second, high) {
			t.Fatal("the lower slot has the verdict")
		}
	})
}
