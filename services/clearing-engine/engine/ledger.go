package engine

import (
	"fmt"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/services/clearing-engine/payment"
)

// What a chain is for.
const (
	chainReserve uint16 = iota
	chainPost
	chainVoid
	chainReceipt
	chainKinds
)

var chainNames = [chainKinds]string{"reserve", "post", "void", "receipt"}

// reservationOf says what the ledger's answer to phase 1 means for the payment.
func reservationOf(answer ledger.Answer) (payment.Reservation, error) {
	if answer.OK() {
		return payment.Reservation{Held: true}, nil
	}
	if answer.Exists() && answer.Code == ledger.CodeLeg1 {
		return payment.Reservation{Taken: true}, nil
	}
	refused := payment.Reservation{Leg: int(answer.Code)}
	switch answer.Status {
	case tb.TransferExceedsCredits:
		switch answer.Code {
		case ledger.CodeLeg1:
			refused.Reason = pix.ReasonPayerShort
		case ledger.CodeLeg2:
			refused.Reason = pix.ReasonReserveShort
		}
	case tb.TransferDebitAccountNotFound, tb.TransferCreditAccountNotFound:
		switch {
		case answer.Code == ledger.CodeLeg2 && answer.Status == tb.TransferCreditAccountNotFound:
			refused.Reason = pix.ReasonUnknownPayeePSP
		case answer.Code == ledger.CodeLeg3 && answer.Status == tb.TransferCreditAccountNotFound:
			refused.Reason = pix.ReasonPayeeMissing
		}
	case tb.TransferIDAlreadyFailed:
		// Refused before, and we died before the receipt: only the accounts can tell why.
	default:
		return payment.Reservation{}, fmt.Errorf("the ledger answered phase 1 at leg %d with %s, which nothing here explains", answer.Code, answer.Status)
	}
	return refused, nil
}

// resolutionOf says what the ledger's answer to phase 2 or to a receipt means.
func resolutionOf(answer ledger.Answer) (payment.Resolution, error) {
	switch {
	case answer.OK(), answer.Status == tb.TransferExists && answer.Index == 0:
		return payment.Written, nil
	case answer.Index != 0:
		// Leg 1 went through, another did not: the legs are written as one, so this is never.
	case answer.Exists(), answer.Status == tb.TransferPendingTransferAlreadyPosted, answer.Status == tb.TransferPendingTransferAlreadyVoided:
		return payment.Taken, nil
	case answer.Status == tb.TransferPendingTransferExpired:
		return payment.Expired, nil
	}
	return 0, fmt.Errorf("the ledger answered phase 2 at transfer %d with %s, which nothing here explains", answer.Index, answer.Status)
}

// traceOf says what the transfers found mean for the payment.
func traceOf(order *pix.Order, found []tb.Transfer) payment.Trace {
	trace := ledger.TraceOf(order.ID, found)
	verdict, decided := trace.Verdict()
	t := payment.Trace{
		Held: trace.Held(), Decided: decided,
		Verdict:     payment.Outcome{Settled: verdict.Settled, Reason: verdict.Reason},
		SameContent: trace.SameContent(order.ID, order.Content),
	}
	if t.Held {
		t.HeldAt = trace.HeldAt()
	}
	return t
}

// appendAccountIDs appends the accounts that tell why a payment was refused.
func appendAccountIDs(ids []tb.Uint128, order *pix.Order) []tb.Uint128 {
	return append(ids,
		ledger.TransitAccount(order.Payer.ISPB), ledger.TransitAccount(order.Payee.ISPB),
		ledger.CustomerAccount(order.Payer), ledger.CustomerAccount(order.Payee))
}

func accountsOf(order *pix.Order, found []tb.Account) payment.Accounts {
	exists := map[tb.Uint128]bool{}
	for i := range found {
		exists[found[i].ID] = true
	}
	return payment.Accounts{
		PayerPSP: exists[ledger.TransitAccount(order.Payer.ISPB)],
		PayeePSP: exists[ledger.TransitAccount(order.Payee.ISPB)],
		Payer:    exists[ledger.CustomerAccount(order.Payer)],
		Payee:    exists[ledger.CustomerAccount(order.Payee)],
	}
}
