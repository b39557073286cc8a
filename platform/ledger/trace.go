package ledger

import (
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/pix"
)

// Trace is all that the ledger holds about one payment: its pending legs and its verdict.
// All statements about a payment are computed from it.
type Trace struct {
	legs    [legsMax]*tb.Transfer
	verdict *tb.Transfer
}

// Verdict is how a payment ended.
type Verdict struct {
	Settled bool
	Reason  pix.Reason // ReasonNone when settled
	Time    time.Time  // the ledger's clock
}

// AppendTraceIDs appends the ids whose look-up makes a payment's Trace.
func AppendTraceIDs(ids []tb.Uint128, id pix.EndToEndID) []tb.Uint128 {
	payment := IDsOf(id)
	for leg := 1; leg <= legsMax; leg++ {
		ids = append(ids, payment.Pending(leg))
	}

	return append(ids, payment.Verdict())
}

// AppendGlimpseIDs appends the ids of which none is in the ledger if it knows nothing of a
// payment: half of the trace ids.
func AppendGlimpseIDs(ids []tb.Uint128, id pix.EndToEndID) []tb.Uint128 {
	payment := IDsOf(id)
	return append(ids, payment.Pending(1), payment.Verdict())
}

// TraceOf makes a payment's trace from the transfers found under its trace ids.
func TraceOf(id pix.EndToEndID, found []tb.Transfer) Trace {
	payment := IDsOf(id)
	var trace Trace

	for i := range found {
		transfer := &found[i]
		if transfer.ID == payment.Verdict() {
			trace.verdict = transfer
			continue
		}

		for leg := 1; leg <= legsMax; leg++ {
			if transfer.ID == payment.Pending(leg) {
				trace.legs[leg-1] = transfer
			}
		}
	}

	return trace
}

// Held reports whether phase 1 is in the ledger.
func (t Trace) Held() bool { return t.legs[0] != nil }

// HeldAt returns the time of phase 1, by the ledger's clock. Held must be true.
func (t Trace) HeldAt() time.Time { return timeOf(t.legs[0]) }

// ExpiresAt returns when the ledger ends the hold by its timeout. Held must be true.
func (t Trace) ExpiresAt() time.Time {
	return t.HeldAt().Add(time.Duration(t.legs[0].Timeout) * time.Second)
}

// AmountCentavos returns the amount of the payment. Held must be true.
func (t Trace) AmountCentavos() int64 { return Centavos(t.legs[0].Amount) }

// Content returns what the held legs move. It returns false if nothing is held, or if the
// legs are not between customers.
func (t Trace) Content() (pix.Content, bool) {
	if t.legs[0] == nil || t.legs[2] == nil {
		return pix.Content{}, false
	}
	payerKind, payer := UnpackAccount(t.legs[0].DebitAccountID)
	payeeKind, payee := UnpackAccount(t.legs[2].CreditAccountID)

	return pix.Content{Payer: payer, Payee: payee, AmountCentavos: uint64(t.AmountCentavos())},
		payerKind == Customer && payeeKind == Customer
}

// Capped reports whether leg 4 is in the ledger.
func (t Trace) Capped() bool { return t.legs[capLeg-1] != nil }

// StrandsCap reports whether leg 4 holds a part of the cap for nothing: phase 1 does not see a receipt,
// so an order that comes after one may hold again.
func (t Trace) StrandsCap() bool {
	return t.Capped() && t.verdict != nil && t.verdict.Code == CodeReceipt
}

// Legs returns the held legs in their order. Leg 4 holds no money, so it is not among them.
func (t Trace) Legs() []tb.Transfer {
	var legs []tb.Transfer
	for _, leg := range t.legs[:capLeg-1] {
		if leg != nil {
			legs = append(legs, *leg)
		}
	}

	return legs
}

// NamesAnother reports whether the ledger's transfers under the ids of this payment name
// another EndToEndId. Ids are hashes, and a bank chooses a part of what is hashed: it can
// search for two EndToEndIds with the same ids. As with SameContent, a receipt decides.
func (t Trace) NamesAnother(id pix.EndToEndID) bool {
	if t.verdict != nil && t.verdict.Code == CodeReceipt {
		return t.verdict.UserData128 != userData128(id) // user_data_64 is the hash of the content
	}

	for _, leg := range t.legs {
		if leg != nil && (leg.UserData128 != userData128(id) || leg.UserData64 != userData64(id)) {
			return true
		}
	}

	return false
}

// SameContent reports whether what the ledger holds is the payment with this content. It
// compares every leg, because the ledger itself compares only the first. A different
// timeout or code comes from another version of this program, not from another payment. So does a
// leg 4 that is there or not: caps change between deliveries.
//
// A receipt counts more than a hold: phase 1 does not see a receipt, so the hold may be
// that of a conflicting message that came after it.
func (t Trace) SameContent(id pix.EndToEndID, content pix.Content) bool {
	if t.verdict != nil && t.verdict.Code == CodeReceipt {
		return t.verdict.UserData64 == content.Hash()
	}

	if !t.Held() {
		return false
	}

	wanted := TraceOf(id, AppendReserve(nil, id, content, 0))
	for i, want := range wanted.legs[:capLeg-1] {
		leg := t.legs[i]
		if (leg == nil) != (want == nil) {
			return false
		}

		if leg != nil && (leg.DebitAccountID != want.DebitAccountID || leg.CreditAccountID != want.CreditAccountID ||
			leg.Amount != want.Amount) {
			return false
		}
	}

	return true
}

// Holds reports what SameContent reports, of a content by its digest.
func (t Trace) Holds(id pix.EndToEndID, digest pix.Digest) bool {
	if t.verdict != nil && t.verdict.Code == CodeReceipt {
		return t.verdict.UserData64 == digest.Hash()
	}
	content, ok := t.Content()

	return ok && content.Digest() == digest && t.SameContent(id, content)
}

// Verdict returns how the payment ended, if it has ended.
func (t Trace) Verdict() (Verdict, bool) {
	if t.verdict == nil {
		return Verdict{}, false
	}

	return Verdict{
		Settled: t.verdict.TransferFlags().PostPendingTransfer,
		Reason:  pix.Reason(t.verdict.UserData32),
		Time:    timeOf(t.verdict),
	}, true
}

func timeOf(transfer *tb.Transfer) time.Time {
	return time.Unix(0, int64(transfer.Timestamp)).UTC()
}
