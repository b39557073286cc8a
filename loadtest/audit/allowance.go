package audit

import (
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

var windowNames = [...]string{"day", "night"}

const (
	// codeCapLeg is of leg 4: it holds a payment's amount from the allowance of the payer's bank.
	codeCapLeg = 4
	// codeAdjustment is of a transfer that brings an allowance closer to its cap.
	codeAdjustment = 51
)

// takeAllowance takes a transfer of the ledger of allowances: a leg 4, or an adjustment.
func (a *Auditor) takeAllowance(t tb.Transfer) {
	debit, credit := fromTigerBeetle(t.DebitAccountID), fromTigerBeetle(t.CreditAccountID)
	allowance := debit
	if debit == allowanceSource {
		allowance = credit
	}
	amount, ok := centavos(t.Amount)
	flags := t.TransferFlags()
	legOrAdjustment := t.Code == codeAdjustment
	if flags.Pending || flags.PostPendingTransfer || flags.VoidPendingTransfer {
		legOrAdjustment = t.Code == codeCapLeg
	}
	if !ok || !legOrAdjustment || debit != allowanceSource && credit != allowanceSource || kindOf(allowance) != kindAllowance {
		a.add(WrongAllowance, transferName(t), "%s with code %d from %s to %s: it must stand between the source and an allowance", decimal(t.Amount), t.Code, nameOf(debit), nameOf(credit))
		return
	}
	switch {
	case flags.PostPendingTransfer:
		a.expect(debit, credit, amount)
		a.add(WrongAllowance, transferName(t), "a leg 4 of %d centavos is posted", amount)
	case !flags.Pending && !flags.VoidPendingTransfer:
		a.expect(debit, credit, amount)
	}
}
