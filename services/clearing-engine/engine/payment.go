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

// paymentKind is the kind of payments. Everything about one is a function of its order.
type paymentKind struct{}

func (paymentKind) begin(order pix.Order, now time.Time, patience time.Duration,
	refusal pix.Reason) (payment.Payment, payment.Command) {
	return payment.Begin(order, now, patience, refusal)
}

func (paymentKind) barred(state *register.State, order *pix.Order) pix.Reason {
	if state.Suspended(order.Payer.ISPB) || state.Suspended(order.Payee.ISPB) {
		return pix.ReasonInactivePSP
	}

	if bank := state.Participant(order.Payer.ISPB); bank != nil && bank.PaymentCapCentavos > 0 &&
		order.AmountCentavos > uint64(bank.PaymentCapCentavos) {
		return pix.ReasonAboveCap
	}

	return pix.ReasonNone
}

func (paymentKind) outflow(state *register.State, order *pix.Order, window ledger.Window) register.Cap {
	if bank := state.Participant(order.Payer.ISPB); bank != nil && !order.SameBank() {
		return bank.Outflow[window]
	}

	return register.Cap{}
}

func (paymentKind) digest(order *pix.Order) pix.Digest { return order.Digest() }

func (paymentKind) hold(chain []tb.Transfer, order *pix.Order, timeoutSeconds uint32) []tb.Transfer {
	return ledger.AppendReserve(chain, order.ID, order.Content, timeoutSeconds)
}

func (paymentKind) post(chain []tb.Transfer, order *pix.Order) []tb.Transfer {
	return ledger.AppendPost(chain, order.ID, order.SameBank())
}

func (paymentKind) void(chain []tb.Transfer, order *pix.Order, reason pix.Reason) []tb.Transfer {
	return ledger.AppendVoid(chain, order.ID, order.SameBank(), reason)
}

func (paymentKind) refuse(chain []tb.Transfer, order *pix.Order, reason pix.Reason) []tb.Transfer {
	return ledger.AppendReceipt(chain, order.ID, order.Content, reason, reason != pix.ReasonUnknownPayerPSP)
}

func (paymentKind) reservationOf(result ledger.Result) (payment.Reservation, error) {
	switch {
	case result.OK():
		return payment.Reservation{Held: true}, nil
	case result.Exists() && result.Code == ledger.CodeLeg1:
		return payment.Reservation{Taken: true}, nil
	}

	switch result.Status {
	case tb.TransferExceedsCredits, tb.TransferDebitAccountNotFound, tb.TransferCreditAccountNotFound,
		tb.TransferIDAlreadyFailed:
		return payment.Reservation{Leg: int(result.Code),
			Reason: whyRefused[refusedLeg{result.Status, result.Code}]}, nil
	}

	return payment.Reservation{},
		fmt.Errorf("phase 1 has the unexpected result %s at leg %d", result.Status, result.Code)
}

// refusedLeg is the ledger's result of a phase 1 that it refused.
type refusedLeg struct {
	status tb.CreateTransferResult
	leg    uint16
}

// whyRefused has the reasons that the result itself tells. Otherwise only the accounts can tell why.
// TransferIDAlreadyFailed: phase 1 was refused before, and an engine died before the receipt. At leg 4
// only a cap refuses.
var whyRefused = map[refusedLeg]pix.Reason{
	{tb.TransferExceedsCredits, ledger.CodeLeg1}:        pix.ReasonPayerShort,
	{tb.TransferExceedsCredits, ledger.CodeLeg2}:        pix.ReasonReserveShort,
	{tb.TransferExceedsCredits, ledger.CodeLeg4}:        pix.ReasonOutflowCapped,
	{tb.TransferIDAlreadyFailed, ledger.CodeLeg4}:       pix.ReasonOutflowCapped,
	{tb.TransferCreditAccountNotFound, ledger.CodeLeg2}: pix.ReasonUnknownPayeePSP,
	{tb.TransferCreditAccountNotFound, ledger.CodeLeg3}: pix.ReasonPayeeMissing,
}

func (paymentKind) resolutionOf(result ledger.Result) (payment.Resolution, error) {
	switch {
	case result.OK(), result.Status == tb.TransferExists && result.Index == 0:
		return payment.Written, nil
	case result.Index != 0:
		// The legs are written as one chain: if leg 1 went through, so did the others.
	case result.Exists(), result.Status == tb.TransferPendingTransferAlreadyPosted,
		result.Status == tb.TransferPendingTransferAlreadyVoided:
		return payment.Taken, nil
	case result.Status == tb.TransferPendingTransferExpired:
		return payment.Expired, nil
	}

	return 0, fmt.Errorf("phase 2 has the unexpected result %s at transfer %d", result.Status, result.Index)
}

func (paymentKind) lookUp(ids []tb.Uint128, order *pix.Order) []tb.Uint128 {
	return ledger.AppendTraceIDs(ids, order.ID)
}

func (paymentKind) read(order *pix.Order, found []tb.Transfer, ids []tb.Uint128) (payment.Trace, func(pix.Digest) bool,
	[]tb.Uint128) {
	held := ledger.TraceOf(order.ID, found)
	verdict, decided := held.Verdict()

	trace := payment.Trace{
		Held: held.Held(), Decided: decided,
		Verdict:     payment.Outcome{Settled: verdict.Settled, Reason: verdict.Reason},
		SameContent: held.SameContent(order.ID, order.Content),
		OtherID:     held.NamesAnother(order.ID),
		Capped:      held.Capped(), StrandsCap: held.StrandsCap(),
	}
	if trace.Held {
		trace.HeldAt = held.HeldAt()
	}

	return trace, func(d pix.Digest) bool { return held.Holds(order.ID, d) }, ids
}

func (paymentKind) key(order *pix.Order) *pix.EndToEndID { return &order.ID }

func (paymentKind) original() string { return "" }

func (paymentKind) reportsAccounts(payment.Outcome) bool { return true }

func (paymentKind) conflict(order *pix.Order) string {
	return fmt.Sprintf("%s is the id of an earlier payment with another payer, payee or amount; that payment is untouched",
		order.ID)
}

func (paymentKind) where() pix.Where { return pix.OfPayment }
