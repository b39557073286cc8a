// Package rivals sends the same payments to PostgreSQL and to TigerBeetle: three legs, two
// phases, idempotent, limited balances. It proves that both keep the same books, and measures
// them side by side.
package rivals

import (
	"context"
	"encoding/binary"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
)

// Payment is a payment to hold in phase 1.
type Payment struct {
	ID pix.EndToEndID
	pix.Content
}

// Decision is what phase 2 does with a payment.
type Decision struct {
	Payment
	Accept bool
	Reason pix.Reason // of a void
}

// Outcome is the state of a payment in the ledger after a request.
type Outcome string

// The outcomes.
const (
	Held     Outcome = "held"
	Posted   Outcome = "posted"
	Voided   Outcome = "voided"
	Refused  Outcome = "refused"
	Conflict Outcome = "conflict" // another payment has this EndToEndId
	Unknown  Outcome = "unknown"  // phase 2 of a payment without phase 1
)

// PaymentResult is a ledger's result for one payment.
type PaymentResult struct {
	Outcome Outcome
	Reason  pix.Reason // of voided and refused
	Again   bool       // the payment was there already, nothing was written
}

// Ledger keeps payments. Both phases return results in the order of their arguments, as if
// each payment came alone.
type Ledger interface {
	Hold(context.Context, []Payment) ([]PaymentResult, error)
	Resolve(context.Context, []Decision) ([]PaymentResult, error)
	Balances(context.Context) (Books, error)
	Close()
}

// Books are the balances of all accounts.
type Books map[ledger.AccountID]Balance

// Balance is the balance of one account in centavos.
type Balance struct{ DebitsPending, DebitsPosted, CreditsPending, CreditsPosted int64 }

// Move moves an amount from one account to another.
func (b Books) Move(debit, credit ledger.AccountID, centavos uint64) {
	from := b[debit]
	from.DebitsPosted += int64(centavos)
	b[debit] = from
	to := b[credit]
	to.CreditsPosted += int64(centavos)
	b[credit] = to
}

// Settle moves the legs of a posted payment.
func (b Books) Settle(c pix.Content) {
	b.Move(ledger.CustomerAccount(c.Payer), ledger.TransitAccount(c.Payer.ISPB), c.AmountCentavos)
	if !c.SameBank() {
		b.Move(ledger.ReserveAccount(c.Payer.ISPB), ledger.ReserveAccount(c.Payee.ISPB), c.AmountCentavos)
	}
	b.Move(ledger.TransitAccount(c.Payee.ISPB), ledger.CustomerAccount(c.Payee), c.AmountCentavos)
}

// Opening returns the population's books before the first payment, for ordinary customers.
func Opening(p sandbox.Population) Books {
	books := Books{}
	for i := range p.Banks {
		books.Move(ledger.IssuanceAccount, ledger.ReserveAccount(p.Bank(i)), p.ReserveCentavos)
	}
	for i := range p.Customers {
		customer := p.Customer(i)
		books.Move(ledger.TransitAccount(customer.ISPB), ledger.CustomerAccount(customer), p.DepositCentavos)
	}
	return books
}

// limited reports whether an account's debits must not exceed its credits.
func limited(id ledger.AccountID) bool {
	kind, _ := ledger.UnpackAccount(id)
	return kind.Limited()
}

// uuid converts an id of TigerBeetle for PostgreSQL, which compares from the first byte.
func uuid(id tb.Uint128) (u [16]byte) {
	little := id.Bytes()
	binary.BigEndian.PutUint64(u[:8], binary.LittleEndian.Uint64(little[8:]))
	binary.BigEndian.PutUint64(u[8:], binary.LittleEndian.Uint64(little[:8]))
	return u
}

func fromUUID(u [16]byte) tb.Uint128 {
	var little [16]byte
	binary.LittleEndian.PutUint64(little[8:], binary.BigEndian.Uint64(u[:8]))
	binary.LittleEndian.PutUint64(little[:8], binary.BigEndian.Uint64(u[8:]))
	return tb.BytesToUint128(little)
}
