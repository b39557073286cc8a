package ledger

import tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

// Answer is what the ledger says to a chain: its one real status. The other transfers of
// a failed chain all say linked_event_failed, wherever they stand, and mean nothing.
type Answer struct {
	Status tb.CreateTransferResult // TransferOK when the whole chain was written
	Code   uint16                  // code of the transfer with that status, 0 on posts and voids
	Index  int                     // place of that transfer in the chain
}

// OK tells whether the chain is in the ledger, written now.
func (a Answer) OK() bool { return a.Status == tb.TransferOK }

// Exists tells whether the id was taken: by the same transfer (an earlier try) or by a
// different one. What the ledger holds under it decides.
func (a Answer) Exists() bool {
	switch a.Status {
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
