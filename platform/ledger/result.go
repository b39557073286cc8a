package ledger

import tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

// Result is what the ledger says to a chain: its one real status. The other transfers of
// a failed chain all say linked_event_failed, wherever they stand, which means nothing.
type Result struct {
	Status tb.CreateTransferResult // TransferOK when the whole chain was written
	Code   uint16                  // code of the transfer with that status, 0 on posts and voids
	Index  int                     // place of that transfer in the chain
	Unsent bool                    // the writer kept the chain back: the ledger has not seen it
}

// ResultOf returns the one real status of a chain that began at index start of a request. failures
// are those of its transfers.
func ResultOf(chain []tb.Transfer, start int, failures []tb.TransferEventResult) Result {
	var result Result

	for _, failure := range failures {
		index := int(failure.Index) - start
		if status := failure.Result; status != tb.TransferLinkedEventFailed && !harmless(chain, index, status) {
			result = Result{Status: status, Code: chain[index].Code, Index: index}
		}
	}

	return result
}

// harmless reports whether the status is of a transfer outside of the chain, and is one that may be: a
// mark exists already; a leg 4 was voided already, or its window has passed.
func harmless(chain []tb.Transfer, index int, status tb.CreateTransferResult) bool {
	switch {
	case IsMark(&chain[index]):
		return status == tb.TransferExists || status == tb.TransferExistsWithDifferentFlags // imported
	case IsCapRelease(chain, index):
		return Result{Status: status}.Exists() || status == tb.TransferPendingTransferExpired
	default:
		return false
	}
}

// OK reports whether this request wrote the chain.
func (r Result) OK() bool { return r.Status == tb.TransferOK && !r.Unsent }

// Exists reports whether the id was taken: by the same transfer (an earlier try) or by a
// different one. What the ledger holds under it decides.
func (r Result) Exists() bool {
	switch r.Status {
	case tb.TransferExists,
		tb.TransferExistsWithDifferentFlags, tb.TransferExistsWithDifferentPendingID,
		tb.TransferExistsWithDifferentTimeout, tb.TransferExistsWithDifferentDebitAccountID,
		tb.TransferExistsWithDifferentCreditAccountID, tb.TransferExistsWithDifferentAmount,
		tb.TransferExistsWithDifferentUserData128, tb.TransferExistsWithDifferentUserData64,
		tb.TransferExistsWithDifferentUserData32, tb.TransferExistsWithDifferentLedger,
		tb.TransferExistsWithDifferentCode:
		return true
	}

	return false
}
