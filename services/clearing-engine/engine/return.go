package engine

import (
	"fmt"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/services/clearing-engine/payment"
)

// returning is what the engine keeps of a return in flight, besides its payment.
type returning struct {
	slot  int
	burnt ledger.BurntSlots
	// payerKnown tells that the ledger holds the original, and so its payer's PSP exists.
	payerKnown bool
	// trace is the first half of a look-up, while the verdicts of the other returns are read.
	trace *ledger.ReturnTrace
}

// performReturn carries out what differs for a return, and tells whether it did.
func (p *partition) performReturn(f *flight, command payment.Command) bool {
	r, order := f.payment.Return, &f.payment.Order
	switch command.Action {
	case payment.Inspect:
		p.ids = ledger.AppendReturnTraceIDs(p.ids[:0], r.ID, r.Original)
		p.engine.transfers.Read(f, p.ids)
	case payment.Reserve:
		original := ledger.Backwards(order.Content, 0) // the amount is the return's
		chain := ledger.AppendReturnReserve(p.chain[:0], r.ID, r.ReturnContent, f.back.slot, original, p.engine.pendingTimeoutSeconds)
		p.write(f, chainReserve, ledger.AppendReturnedMark(chain, r.Original))
		p.engine.crash.PassSent(afterPhase1Sent)
	case payment.Post:
		p.write(f, chainPost, ledger.AppendReturnPost(p.chain[:0], r.ID, r.ReturnContent, f.back.slot, order.SameBank()))
	case payment.Void:
		p.write(f, chainVoid, ledger.AppendReturnVoid(p.chain[:0], r.ID, r.ReturnContent, f.back.slot, order.SameBank(), command.Reason))
	case payment.Refuse:
		p.write(f, chainReceipt, ledger.AppendReturnReceipt(p.chain[:0], r.ID, r.ReturnContent, command.Reason, f.back.payerKnown))
	default:
		return false
	}
	return true
}

// inspectedReturn takes what was found of a return. Where other returns are in the slots,
// their verdicts are read too before anything is decided.
func (p *partition) inspectedReturn(f *flight, found []tb.Transfer, now time.Time) {
	r, back := f.payment.Return, f.back
	var verdicts []tb.Transfer
	trace := back.trace
	if trace == nil {
		read := ledger.ReturnTraceOf(r.ID, r.ReturnContent, found)
		trace = &read
		_, decided := trace.Verdict()
		_, held := trace.Slot()
		if p.ids = trace.AppendOthers(p.ids[:0]); !decided && !held && len(p.ids) > 0 {
			back.trace = trace
			p.engine.transfers.Read(f, p.ids)
			return
		}
	} else {
		back.trace, verdicts = nil, found
	}
	p.perform(f, f.payment.ReturnInspected(back.traceOf(trace, verdicts), now), now)
}

// traceOf says what was found means for the return, and notes where it stands.
func (b *returning) traceOf(trace *ledger.ReturnTrace, verdicts []tb.Transfer) payment.ReturnTrace {
	verdict, decided := trace.Verdict()
	found := payment.ReturnTrace{Trace: payment.Trace{
		Decided: decided, Verdict: payment.Outcome{Settled: verdict.Settled, Reason: verdict.Reason}, SameContent: trace.SameContent(),
	}}
	if slot, held := trace.Slot(); held {
		b.slot, found.Held, found.HeldAt = slot, true, trace.HeldAt(slot)
	} else {
		b.slot, found.SlotFree = trace.FreeSlot(b.burnt)
	}
	b.payerKnown = trace.Original.Held()
	if original, settled := trace.Original.Verdict(); settled && original.Settled {
		if content, ok := trace.Original.Content(); ok {
			found.Settled, found.SettledAt, found.Original = true, original.Time, content
			found.LeftCentavos = trace.Left(verdicts)
		}
	}
	return found
}

// reservationOf says what the ledger's answer to phase 1 means for the return.
func (b *returning) reservationOf(answer ledger.Answer) (payment.Reservation, error) {
	switch {
	case answer.OK():
		return payment.Reservation{Held: true}, nil
	case answer.Exists() && answer.Code == ledger.CodeReturnLeg1:
		return payment.Reservation{Taken: true}, nil
	case answer.Status == tb.TransferIDAlreadyFailed:
		b.burnt = b.burnt.Add(b.slot)
		return payment.Reservation{Taken: true}, nil
	case answer.Status == tb.TransferExceedsCredits && answer.Code == ledger.CodeReturnLeg1:
		return payment.Reservation{Leg: 1, Reason: pix.ReasonPayerShort}, nil
	case answer.Status == tb.TransferExceedsCredits && answer.Code == ledger.CodeReturnLeg2:
		return payment.Reservation{Leg: 2, Reason: pix.ReasonReserveShort}, nil
	}
	return payment.Reservation{}, fmt.Errorf("the ledger answered phase 1 of a return at leg %d with %s, which nothing here explains", answer.Code-ledger.CodeReturnLeg1+1, answer.Status)
}

// returnResolutionOf says what the ledger's answer to phase 2 of a return means. Its verdict
// is the first of the chain, so only an expiry can show behind it.
func returnResolutionOf(answer ledger.Answer) (payment.Resolution, error) {
	switch {
	case answer.OK(), answer.Status == tb.TransferExists && answer.Index == 0:
		return payment.Written, nil
	case answer.Exists() && answer.Index == 0:
		return payment.Taken, nil
	case answer.Status == tb.TransferPendingTransferExpired && answer.Index == 1:
		return payment.Expired, nil
	}
	return 0, fmt.Errorf("the ledger answered phase 2 of a return at transfer %d with %s, which nothing here explains", answer.Index, answer.Status)
}
