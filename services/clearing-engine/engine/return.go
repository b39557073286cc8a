package engine

import (
	"fmt"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/register"
	"github.com/liquida/liquida/services/clearing-engine/payment"
)

// returnKind is the kind of one return, and what the engine knows of its slots.
type returnKind struct {
	pix.Return
	slot int // where it is held, or is tried next
	// burnt are the slots that were found burnt, or burnt by this return, and have no mark yet.
	burnt ledger.BurntSlots
	// payerKnown: the ledger holds the original, so the accounts of its payer's PSP exist.
	payerKnown bool
	// found is the first look-up, while the verdicts of the other returns are looked up.
	found *ledger.ReturnTrace
}

func (r *returnKind) begin(_ pix.Order, now time.Time, patience time.Duration,
	refusal pix.Reason) (payment.Payment, payment.Command) {
	return payment.BeginReturn(r.Return, now, patience, refusal)
}

// barred refuses returns by a suspended bank. Those to it are taken: stolen money can come back.
func (r *returnKind) barred(state *register.State, _ *pix.Order) pix.Reason {
	if state.Suspended(r.ID.PSP()) {
		return pix.ReasonInactivePSP
	}

	return pix.ReasonNone
}

// A return takes nothing of a cap: a refused one would burn a slot of its payment.
func (r *returnKind) outflow(*register.State, *pix.Order, ledger.Window) register.Cap {
	return register.Cap{}
}

func (r *returnKind) digest(*pix.Order) pix.Digest { return r.Digest() }

func (r *returnKind) hold(chain []tb.Transfer, order *pix.Order, timeoutSeconds uint32) []tb.Transfer {
	original := ledger.Backwards(order.Content, 0) // the amount is the return's
	chain = ledger.AppendReturnReserve(chain, r.ID, r.ReturnContent, r.slot, original, timeoutSeconds)
	return ledger.AppendBurntMarks(ledger.AppendReturnedMark(chain, r.Original), r.Original, r.burnt)
}

func (r *returnKind) post(chain []tb.Transfer, order *pix.Order) []tb.Transfer {
	return ledger.AppendReturnPost(chain, r.ID, r.ReturnContent, r.slot, order.SameBank())
}

func (r *returnKind) void(chain []tb.Transfer, order *pix.Order, reason pix.Reason) []tb.Transfer {
	return ledger.AppendReturnVoid(chain, r.ID, r.ReturnContent, r.slot, order.SameBank(), reason)
}

func (r *returnKind) refuse(chain []tb.Transfer, _ *pix.Order, reason pix.Reason) []tb.Transfer {
	return ledger.AppendBurntMarks(ledger.AppendReturnReceipt(chain, r.ID, r.ReturnContent, reason, r.payerKnown),
		r.Original, r.burnt)
}

func (r *returnKind) reservationOf(result ledger.Result) (payment.Reservation, error) {
	switch {
	case result.OK():
		return payment.Reservation{Held: true}, nil
	case result.Exists() && result.Code == ledger.CodeReturnLeg1:
		return payment.Reservation{Taken: true}, nil
	case result.Status == tb.TransferIDAlreadyFailed:
		r.burnt = r.burnt.Add(r.slot)
		return payment.Reservation{Taken: true}, nil
	case result.Status == tb.TransferExceedsCredits && result.Code == ledger.CodeReturnLeg1:
		r.burnt = r.burnt.Add(r.slot)
		return payment.Reservation{Leg: 1, Reason: pix.ReasonPayerShort}, nil
	case result.Status == tb.TransferExceedsCredits && result.Code == ledger.CodeReturnLeg2:
		r.burnt = r.burnt.Add(r.slot)
		return payment.Reservation{Leg: 2, Reason: pix.ReasonReserveShort}, nil
	}

	return payment.Reservation{},
		fmt.Errorf("phase 1 of a return has the unexpected result %s at leg %d", result.Status,
			result.Code-ledger.CodeReturnLeg1+1)
}

// The verdict is the first transfer of phase 2, so behind it only an expiry can show.
func (r *returnKind) resolutionOf(result ledger.Result) (payment.Resolution, error) {
	switch {
	case result.OK(), result.Status == tb.TransferExists && result.Index == 0:
		return payment.Written, nil
	case result.Exists() && result.Index == 0:
		return payment.Taken, nil
	case result.Status == tb.TransferPendingTransferExpired && result.Index == 1:
		return payment.Expired, nil
	}

	return 0, fmt.Errorf("phase 2 of a return has the unexpected result %s at transfer %d", result.Status, result.Index)
}

func (r *returnKind) lookUp(ids []tb.Uint128, _ *pix.Order) []tb.Uint128 {
	return ledger.AppendReturnTraceIDs(ids, r.ID, r.Original)
}

// read asks for the verdicts of the other returns in the slots, if there are any: they
// decide what is left of the original.
func (r *returnKind) read(order *pix.Order, found []tb.Transfer,
	ids []tb.Uint128) (payment.Trace, func(pix.Digest) bool, []tb.Uint128) {
	var verdicts []tb.Transfer

	trace := r.found
	if trace == nil {
		first := ledger.ReturnTraceOf(r.ID, r.ReturnContent, found)
		trace = &first
		_, decided := trace.Verdict()

		_, held := trace.Slot()
		if more := trace.AppendOthers(ids); !decided && !held && len(more) > 0 {
			r.found = trace
			return payment.Trace{}, nil, more
		}
	} else {
		r.found, verdicts = nil, found
	}

	var holds func(pix.Digest) bool // only the verdict knows: a hold may be in a slot of another payment
	if _, decided := trace.Verdict(); decided {
		holds = trace.Holds
	}

	return payment.JudgeReturn(r.Return, order, r.traceOf(trace, verdicts)), holds, ids
}

// traceOf translates what was found, and notes the return's slot.
func (r *returnKind) traceOf(trace *ledger.ReturnTrace, verdicts []tb.Transfer) payment.ReturnTrace {
	verdict, decided := trace.Verdict()

	found := payment.ReturnTrace{Trace: payment.Trace{
		Decided: decided, Verdict: payment.Outcome{Settled: verdict.Settled, Reason: verdict.Reason},
		SameContent: trace.SameContent(), OtherID: trace.NamesAnother(),
	}}
	if slot, held := trace.Slot(); held {
		r.slot, found.Held, found.HeldAt = slot, true, trace.HeldAt(slot)
	} else {
		r.slot, found.SlotFree = trace.FreeSlot(r.burnt)
		r.burnt &^= trace.Burnt()
	}

	r.payerKnown = trace.Original.Held()
	if original, settled := trace.Original.Verdict(); settled && original.Settled {
		if content, ok := trace.Original.Content(); ok {
			found.Settled, found.SettledAt, found.Original = true, original.Time, content
			found.LeftCentavos = trace.Left(verdicts)
		}
	}

	return found
}

func (r *returnKind) key(*pix.Order) *pix.EndToEndID { return &r.Original }

func (r *returnKind) original() string { return r.Original.String() }

// A redelivery may be rejected before or after its accounts are known. Reports of one order
// must be equal, so a rejection names no accounts.
func (r *returnKind) reportsAccounts(outcome payment.Outcome) bool { return outcome.Settled }

func (r *returnKind) conflict(*pix.Order) string {
	return fmt.Sprintf("%s is the id of an earlier return of another payment, amount or reason; that return is untouched",
		r.ID)
}

func (r *returnKind) where() pix.Where { return pix.OfReturn }
