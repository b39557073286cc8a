package ledger

import tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

// Result is what the ledger says to a chain: its one real status. The other transfers of
// a failed chain all say linked_event_failed, wherever they stand, which means nothing.
type Result struct {
	Status tb.CreateTransferResult // TransferOK when the whole chain was written
	Code   uint16                  // code of the transfer with that status, 0 on posts and voids
	Index  int                     // place of that transfer in the chain
}

// OK reports whether this request wrote the chain.
func (r Result) OK() bool { return r.Status == tb.TransferOK }

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
