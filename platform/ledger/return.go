package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/pix"
)

// ReturnSlots is the number of slots for returns of one payment. A return that was held
// keeps its slot forever, however it ended.
const ReturnSlots = 64

// ReturnIDs returns the transfer ids of a slot, 0 to ReturnSlots-1, of a payment. They stand
// at the payment's place in the ledger's order. Their hash is of "R", the payment's
// EndToEndId and the slot, so all returns of the payment compete for the same slots.
func ReturnIDs(original pix.EndToEndID, slot int) PaymentIDs {
	if slot < 0 || slot >= ReturnSlots {
		panic(fmt.Sprintf("broken law: a slot is 0 to %d: %d", ReturnSlots-1, slot))
	}
	text := make([]byte, 0, 2+len(original))
	text = append(append(append(text, 'R'), original[:]...), byte(slot))

	return idsAt(original, sha256.Sum256(text))
}

// ReturnVerdict returns the one id that decides a return. It is a function of the RtrId
// alone. So a return has one verdict, even if copies of it were held in several slots, and a
// refused return takes no slot.
func ReturnVerdict(id pix.ReturnID) tb.Uint128 { return IDsOf(pix.EndToEndID(id)).Verdict() }

// ReturnIDOf reads the RtrId back from a leg of a return.
func ReturnIDOf(leg tb.Transfer) (pix.ReturnID, error) { return pix.JoinReturnID(partsOf(leg)) }

// Backwards returns the content that a return of an amount of a payment moves.
func Backwards(payment pix.Content, amountCentavos uint64) pix.Content {
	return pix.Content{Payer: payment.Payee, Payee: payment.Payer, AmountCentavos: amountCentavos}
}

// AppendReturnReserve appends phase 1 of a return in a slot: the legs of the payment
// backwards, with the RtrId and the reason of the return.
func AppendReturnReserve(chain []tb.Transfer, id pix.ReturnID, content pix.ReturnContent, slot int, payment pix.Content,
	timeoutSeconds uint32) []tb.Transfer {
	return appendHold(chain, ReturnIDs(content.Original, slot), Backwards(payment, content.AmountCentavos),
		CodeReturnLeg1, tb.Transfer{
			UserData128: userData128(pix.EndToEndID(id)), UserData64: userData64(pix.EndToEndID(id)),
			UserData32: uint32(content.Reason),
			Timeout:    timeoutSeconds,
		})
}

// ReturnedMark returns the id of the mark of a payment for which returns were held. Without
// the mark all slots are free, and need no look-up: that would cost the ledger ten times as
// much.
func ReturnedMark(original pix.EndToEndID) tb.Uint128 { return IDsOf(original).role(roleReturned) }

// AppendReturnedMark appends the mark behind phase 1 of a return, outside of its chain. So
// the mark is there from the instant at which the first return is held, and may exist already.
func AppendReturnedMark(chain []tb.Transfer, original pix.EndToEndID) []tb.Transfer {
	return append(chain, tb.Transfer{
		ID: ReturnedMark(original), DebitAccountID: TransitAccount(original.Payer()),
		CreditAccountID: ReserveAccount(original.Payer()),
		UserData128:     userData128(original), UserData64: userData64(original), Ledger: Ledger, Code: CodeReturned,
	})
}

// AppendBurntMarks appends a mark for each burnt slot, outside of the chain. A failed id answers
// no look-up, so without its mark a burnt slot looks free to every later return.
func AppendBurntMarks(chain []tb.Transfer, original pix.EndToEndID, burnt BurntSlots) []tb.Transfer {
	for slot := range ReturnSlots {
		if burnt.has(slot) {
			mark := AppendReturnedMark(nil, original)[0]
			mark.ID, mark.Code = burntMark(original, slot), CodeBurnt
			chain = append(chain, mark)
		}
	}

	return chain
}

func burntMark(original pix.EndToEndID, slot int) tb.Uint128 {
	return ReturnIDs(original, slot).role(roleBurnt)
}

// IsMark reports whether a transfer is a mark. Marks stand behind a chain, outside of it.
func IsMark(t *tb.Transfer) bool { return t.Code == CodeReturned || t.Code == CodeBurnt }

// AppendReturnPost appends phase 2 of an accepted return: its verdict, then every leg
// posted. The chain is atomic, so nothing is posted if there is another verdict.
func AppendReturnPost(chain []tb.Transfer, id pix.ReturnID, content pix.ReturnContent, slot int,
	sameBank bool) []tb.Transfer {
	chain = appendReturnVerdict(chain, id, content, pix.ReasonNone, true, true)
	return appendResolution(chain, ReturnIDs(content.Original, slot), sameBank,
		tb.TransferFlags{PostPendingTransfer: true}, wholeAmount, pix.ReasonNone)
}

// AppendReturnVoid appends phase 2 of a rejected return: its verdict, then every leg voided.
func AppendReturnVoid(chain []tb.Transfer, id pix.ReturnID, content pix.ReturnContent, slot int, sameBank bool,
	reason pix.Reason) []tb.Transfer {
	chain = appendReturnVerdict(chain, id, content, reason, true, true)
	return appendResolution(chain, ReturnIDs(content.Original, slot), sameBank,
		tb.TransferFlags{VoidPendingTransfer: true}, tb.Uint128{}, reason)
}

// AppendReturnReceipt appends the receipt of a refused return: its verdict alone. With
// payerKnown its accounts are those of the original's payer PSP, which must exist.
func AppendReturnReceipt(chain []tb.Transfer, id pix.ReturnID, content pix.ReturnContent, reason pix.Reason,
	payerKnown bool) []tb.Transfer {
	return appendReturnVerdict(chain, id, content, reason, payerKnown, false)
}

// appendReturnVerdict appends a transfer of zero that names the original: its minute and
// suffix in user_data_128, its PSP in the accounts. A settled return has ReasonNone.
func appendReturnVerdict(chain []tb.Transfer, id pix.ReturnID, content pix.ReturnContent, reason pix.Reason, payerKnown,
	linked bool) []tb.Transfer {
	debit, credit := IssuanceAccount, RefusalsAccount
	if payerKnown {
		debit, credit = TransitAccount(content.Original.Payer()), ReserveAccount(content.Original.Payer())
	}

	return append(chain, tb.Transfer{
		ID: ReturnVerdict(id), DebitAccountID: debit, CreditAccountID: credit,
		UserData128: userData128(content.Original), UserData64: content.Hash(), UserData32: uint32(reason),
		Ledger: Ledger, Code: CodeReturn, Flags: tb.TransferFlags{Linked: linked}.ToUint16(),
	})
}

// ReturnTrace is what the ledger holds about a return: the original, the returns in its
// slots, and the return's own verdict.
type ReturnTrace struct {
	Original Trace
	slots    [ReturnSlots]*tb.Transfer // leg 1 of each return of the original
	burnt    BurntSlots                // those with a mark
	own      *tb.Transfer
	id       pix.ReturnID
	content  pix.ReturnContent
}

// AppendReturnTraceIDs appends the ids whose look-up makes a ReturnTrace.
func AppendReturnTraceIDs(ids []tb.Uint128, id pix.ReturnID, original pix.EndToEndID) []tb.Uint128 {
	ids = AppendSlotIDs(append(AppendTraceIDs(ids, original), ReturnVerdict(id)), original)
	for slot := range ReturnSlots {
		ids = append(ids, burntMark(original, slot))
	}

	return ids
}

// AppendSlotIDs appends the ids under which the returns of a payment are held.
func AppendSlotIDs(ids []tb.Uint128, original pix.EndToEndID) []tb.Uint128 {
	for slot := range ReturnSlots {
		ids = append(ids, ReturnIDs(original, slot).Pending(1))
	}

	return ids
}

// ReturnTraceOf makes the trace from the transfers found under its ids.
func ReturnTraceOf(id pix.ReturnID, content pix.ReturnContent, found []tb.Transfer) ReturnTrace {
	trace := ReturnTrace{Original: TraceOf(content.Original, found), id: id, content: content}
	if trace.Original.NamesAnother(content.Original) {
		trace.Original = Trace{} // it is not the payment that the return names
	}
	byID := transfersByID(found)

	trace.own = byID[ReturnVerdict(id)]
	for slot := range ReturnSlots {
		trace.slots[slot] = byID[ReturnIDs(content.Original, slot).Pending(1)]
		if byID[burntMark(content.Original, slot)] != nil {
			trace.burnt = trace.burnt.Add(slot)
		}
	}

	return trace
}

func transfersByID(found []tb.Transfer) map[tb.Uint128]*tb.Transfer {
	byID := make(map[tb.Uint128]*tb.Transfer, len(found))
	for i := range found {
		byID[found[i].ID] = &found[i]
	}

	return byID
}

// Slot returns the slot that holds this return.
func (t *ReturnTrace) Slot() (slot int, held bool) {
	for slot, leg := range t.slots {
		if leg != nil && t.isOf(leg) {
			return slot, true
		}
	}

	return 0, false
}

// HeldAt returns when the return in a slot was held, by the ledger's clock.
func (t *ReturnTrace) HeldAt(slot int) time.Time { return timeOf(t.slots[slot]) }

func (t *ReturnTrace) isOf(leg *tb.Transfer) bool {
	return leg.UserData128 == userData128(pix.EndToEndID(t.id)) && leg.UserData64 == userData64(pix.EndToEndID(t.id))
}

// SameContent reports whether what the ledger holds under the RtrId is this return. As with
// payments, a verdict counts more than a hold.
func (t *ReturnTrace) SameContent() bool {
	if t.own != nil {
		return t.own.UserData128 == userData128(t.content.Original) && t.own.UserData64 == t.content.Hash()
	}
	slot, held := t.Slot()

	return held && fromTB(t.slots[slot].Amount) == uint128{low: t.content.AmountCentavos} &&
		t.slots[slot].UserData32 == uint32(t.content.Reason)
}

// Holds reports whether the return's verdict is of a content, by its digest.
func (t *ReturnTrace) Holds(digest pix.Digest) bool {
	return t.own != nil && t.own.UserData64 == digest.Hash()
}

// NamesAnother reports whether another return has the place of this one: its RtrId differs, and
// the id of its verdict does not. A bank can search for two such RtrIds, and the verdict names
// none. But holds do, and returns of one payment are held one after the other: the one in the
// lower slot has the verdict. So does a settled verdict with this content without a hold.
//
// Two that were refused without a hold share one receipt, which moves no money.
func (t *ReturnTrace) NamesAnother() bool {
	for _, leg := range t.slots {
		if leg == nil {
			continue
		}

		if t.isOf(leg) {
			return false
		}

		if id, err := ReturnIDOf(*leg); err == nil && verdictOf(id) == verdictOf(t.id) {
			return true
		}
	}

	return t.own != nil && ReturnVerdictOf(*t.own).Settled && t.SameContent()
}

// verdictOf is ReturnVerdict. A test replaces it, because it cannot find two RtrIds that collide.
var verdictOf = ReturnVerdict

// Verdict returns how the return ended, if it has ended.
func (t *ReturnTrace) Verdict() (Verdict, bool) {
	if t.own == nil {
		return Verdict{}, false
	}

	return ReturnVerdictOf(*t.own), true
}

// ReturnVerdictOf reads a verdict.
func ReturnVerdictOf(verdict tb.Transfer) Verdict {
	return Verdict{Settled: verdict.UserData32 == 0, Reason: pix.Reason(verdict.UserData32), Time: timeOf(&verdict)}
}

// OriginalOf reads the EndToEndId of the original from the verdict of a return. It returns
// false if the original's PSP was unknown.
func OriginalOf(verdict tb.Transfer) (pix.EndToEndID, bool) {
	kind, of := UnpackAccount(verdict.DebitAccountID)
	if kind != Transit {
		return pix.EndToEndID{}, false
	}
	verdict.UserData64 = binary.BigEndian.Uint64([]byte(of.ISPB))
	id, err := EndToEndIDOf(verdict)

	return id, err == nil
}

// returnLegsMax bounds the query for the legs of one RtrId: three held and resolved, and as
// many of each message that conflicts with it.
const returnLegsMax = 64

// ReturnLegs returns the query for all legs under an RtrId, of all originals.
func ReturnLegs(id pix.ReturnID) tb.QueryFilter {
	return tb.QueryFilter{UserData128: userData128(pix.EndToEndID(id)), UserData64: userData64(pix.EndToEndID(id)),
		Ledger: Ledger, Limit: returnLegsMax}
}

// HeldReturn is the hold of a return, in force or not.
type HeldReturn struct {
	Content       pix.Content // what it moves
	Reason        pix.Reason  // why it is given back
	At, ExpiresAt time.Time
	Posted        bool
}

// HeldReturnOf finds the hold of a return among the transfers that ReturnLegs found. If
// there is a verdict, the hold must have its content: others are of conflicting messages.
func HeldReturnOf(verdict, legs []tb.Transfer) (held HeldReturn, found bool) {
	for i := range legs {
		first := &legs[i]
		if first.Code != CodeReturnLeg1 || !first.TransferFlags().Pending {
			continue
		}

		if len(verdict) > 0 {
			original, known := OriginalOf(verdict[0])

			content := pix.ReturnContent{Original: original, AmountCentavos: uint64(Centavos(first.Amount)),
				Reason: pix.Reason(first.UserData32)}
			if !known || content.Hash() != verdict[0].UserData64 {
				continue
			}
		}
		third := fromTB(first.ID)

		third.low += 2 // the low bits of leg 1 are 0, of leg 3 they are 2
		for k := range legs {
			if fromTB(legs[k].ID) != third {
				continue
			}
			_, payer := UnpackAccount(first.DebitAccountID)
			_, payee := UnpackAccount(legs[k].CreditAccountID)

			return HeldReturn{
				Posted: slices.ContainsFunc(legs, func(leg tb.Transfer) bool {
					return leg.PendingID == first.ID && leg.TransferFlags().PostPendingTransfer
				}),
				Content: pix.Content{Payer: payer, Payee: payee, AmountCentavos: uint64(Centavos(first.Amount))},
				Reason:  pix.Reason(first.UserData32),
				At:      timeOf(first), ExpiresAt: timeOf(first).Add(time.Duration(first.Timeout) * time.Second),
			}, true
		}
	}

	return HeldReturn{}, false
}

// AppendOthers appends the verdict ids of the other returns in the slots, for Left.
func (t *ReturnTrace) AppendOthers(ids []tb.Uint128) []tb.Uint128 {
	for _, leg := range t.slots {
		if leg != nil && !t.isOf(leg) {
			if id, err := ReturnIDOf(*leg); err == nil {
				ids = append(ids, ReturnVerdict(id))
			}
		}
	}

	return ids
}

// Left returns what is left of the payment, in centavos: its amount less the amount of
// every other return in a slot. A return does not count if its verdict rejects it or is of
// other content, because its hold can never be posted. An expiry counts only once a verdict
// says so: a hold that seems expired by our clock may still be posted by the ledger's. The
// original must be held.
func (t *ReturnTrace) Left(verdicts []tb.Transfer) uint64 {
	byID := transfersByID(verdicts)

	left := uint64(t.Original.AmountCentavos())
	for _, leg := range t.slots {
		if leg == nil || t.isOf(leg) {
			continue
		}

		held := pix.ReturnContent{Original: t.content.Original, AmountCentavos: uint64(Centavos(leg.Amount)),
			Reason: pix.Reason(leg.UserData32)}
		if id, err := ReturnIDOf(*leg); err == nil {
			if verdict := byID[ReturnVerdict(id)]; verdict != nil &&
				(verdict.UserData32 != 0 || verdict.UserData64 != held.Hash()) {
				continue
			}
		}
		left -= min(left, held.AmountCentavos)
	}

	return left
}

// BurntSlots are slots whose ids the ledger never takes again (id_already_failed), because
// phase 1 of a return was refused there.
type BurntSlots uint64

// Add returns b with one more slot.
func (b BurntSlots) Add(slot int) BurntSlots { return b | 1<<slot }

func (b BurntSlots) has(slot int) bool { return b&(1<<slot) != 0 }

// Burnt returns the burnt slots that have a mark.
func (t *ReturnTrace) Burnt() BurntSlots { return t.burnt }

// FreeSlot returns the first slot in which a return could be held. It must be the first: a
// return in slot k was judged by the returns below k, so no return may take a lower slot later.
func (t *ReturnTrace) FreeSlot(burnt BurntSlots) (slot int, free bool) {
	for slot, leg := range t.slots {
		if leg == nil && !burnt.has(slot) && !t.burnt.has(slot) {
			return slot, true
		}
	}

	return 0, false
}

// SlotReturn is a return in a slot of its payment: money is or was held for it.
type SlotReturn struct {
	ID             pix.ReturnID
	AmountCentavos int64
	Reason         pix.Reason // why it is given back
	At, ExpiresAt  time.Time
	Decided        bool
	Verdict        Verdict // if it is decided
}

// ReturnsOf lists the returns in the slots of a payment, in the order of the slots, from
// the transfers found under the slot ids and under the ids of the returns' verdicts. It
// also returns these verdict ids. If one of them is new, look up slots and verdicts again
// in one request, so that both are from one instant.
//
// A hold that conflicts with the verdict of its RtrId can never be posted. It is listed as
// rejected, with the reason of its dead letter.
func ReturnsOf(original pix.EndToEndID, found []tb.Transfer) (returns []SlotReturn, verdicts []tb.Uint128) {
	byID := transfersByID(found)
	for slot := range ReturnSlots {
		leg := byID[ReturnIDs(original, slot).Pending(1)]
		if leg == nil {
			continue
		}

		id, err := ReturnIDOf(*leg)
		if err != nil {
			continue
		}
		taken := slices.Contains(verdicts, ReturnVerdict(id)) // by a lower slot: see NamesAnother
		verdicts = append(verdicts, ReturnVerdict(id))
		r := SlotReturn{ID: id, AmountCentavos: Centavos(leg.Amount), Reason: pix.Reason(leg.UserData32),
			At: timeOf(leg)}

		r.ExpiresAt = r.At.Add(time.Duration(leg.Timeout) * time.Second)
		if verdict := byID[ReturnVerdict(id)]; verdict != nil {
			r.Decided, r.Verdict = true, ReturnVerdictOf(*verdict)

			content := pix.ReturnContent{Original: original, AmountCentavos: uint64(r.AmountCentavos), Reason: r.Reason}
			if verdict.UserData64 != content.Hash() {
				r.Verdict.Settled, r.Verdict.Reason = false, pix.ReasonConflict
			} else if taken {
				r.Verdict.Settled, r.Verdict.Reason = false, pix.ReasonIDTaken
			}
		}
		returns = append(returns, r)
	}

	return returns, verdicts
}
