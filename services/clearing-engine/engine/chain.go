package engine

import (
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/services/clearing-engine/payment"
)

// chainPurpose is what a chain is written for.
type chainPurpose uint8

const (
	chainNone chainPurpose = iota
	chainReserve
	chainPost
	chainVoid
	chainReceipt
	chainCapRelease // the void of a leg 4 that a receipt has left behind
	chainPurposes
)

var chainNames = [chainPurposes]string{chainReserve: "reserve", chainPost: "post", chainVoid: "void",
	chainReceipt: "receipt", chainCapRelease: "cap release"}

// Flags of transfers.
var (
	linked   = tb.TransferFlags{Linked: true}.ToUint16()
	pending  = tb.TransferFlags{Pending: true}.ToUint16()
	resolves = [chainPurposes]uint16{chainPost: tb.TransferFlags{PostPendingTransfer: true}.ToUint16(),
		chainVoid: tb.TransferFlags{VoidPendingTransfer: true}.ToUint16()}
)

// checkChain checks a chain of an order before it is written. outcome is what the order
// ends with if the chain decides it.
func checkChain(purpose chainPurpose, chain []tb.Transfer, outcome payment.Outcome) {
	legs := chain
	if last := len(legs) - 1; last > 0 && purpose == chainReceipt && ledger.IsCapRelease(chain, last) {
		legs = legs[:last]
	}

	for purpose == chainReserve || purpose == chainReceipt {
		last := len(legs) - 1
		if last < 1 || !ledger.IsMark(&legs[last]) {
			break
		}
		legs = legs[:last] // marks of returns stand behind the chain
	}

	for i := range legs {
		if legs[i].Flags&linked != 0 != (i < len(legs)-1) {
			broken("all transfers of a chain but the last are linked: %s %+v", chainNames[purpose], chain)
		}
	}

	switch purpose {
	case chainReserve:
		checkLegs(purpose, legs, pending)

		for i := range legs {
			if legs[i].Amount != legs[0].Amount || legs[i].Timeout == 0 || legs[i].Code != ledger.CodeLeg4 &&
				legs[i].Timeout != legs[0].Timeout {
				broken("the legs of a hold have one amount and one timeout: %+v", chain)
			}

			if legs[i].Code == ledger.CodeLeg4 && legs[i].Timeout <= legs[0].Timeout {
				broken("leg 4 outlives the hold, so that a void can end both: %+v", chain)
			}
		}

		return
	case chainPost, chainVoid:
		if legs[0].Code == ledger.CodeReturn {
			legs = legs[1:] // the verdict of a return stands before its legs
		}
		checkLegs(purpose, legs, resolves[purpose])

		for i := range legs {
			if legs[i].UserData32 != legs[0].UserData32 {
				broken("the legs of phase 2 have one reason: %+v", chain)
			}
		}
	case chainCapRelease:
		if len(legs) != 1 || !ledger.IsCapRelease(legs, 0) {
			broken("the release of a cap is one void: %+v", chain)
		}

		return
	case chainReceipt:
		if len(legs) != 1 || legs[0].Amount != (tb.Uint128{}) || legs[0].Flags != 0 {
			broken("a receipt is one transfer of zero: %+v", chain)
		}
	}

	if verdict := verdictIn(purpose, chain); verdict != outcome ||
		verdict.Settled == (verdict.Reason != pix.ReasonNone) {
		broken("a verdict is the order's outcome: %s %+v for %+v", chainNames[purpose], chain, outcome)
	}
}

// checkLegs checks the number of legs and their flags, but for linked.
func checkLegs(purpose chainPurpose, legs []tb.Transfer, flags uint16) {
	if len(legs) < 2 || len(legs) > 4 {
		broken("a chain has 2 to 4 legs: %s %+v", chainNames[purpose], legs)
	}

	for i := range legs {
		if legs[i].Flags&^linked != flags {
			broken("the legs of a chain have one purpose: %s %+v", chainNames[purpose], legs)
		}
	}
}

// verdictIn returns the outcome that a chain of phase 2 or a receipt decides.
func verdictIn(purpose chainPurpose, chain []tb.Transfer) payment.Outcome {
	return payment.Outcome{Settled: purpose == chainPost, Reason: pix.Reason(chain[0].UserData32)}
}
