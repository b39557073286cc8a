package engine

import (
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/register"
	"github.com/liquida/liquida/services/clearing-engine/payment"
)

// kind is what differs between the kinds of orders, in the order of their life. Each kind has a
// file of its own: payment.go, return.go. decode chooses the kind of a record.
//
// It is an interface and not a struct of functions, because a return keeps state of its
// own in flight. A payment has none, so its kind costs no memory.
type kind interface {
	// begin returns the order's first state and its first command.
	begin(order pix.Order, now time.Time, patience time.Duration, refusal pix.Reason) (payment.Payment, payment.Command)
	// barred returns why the register would refuse a new order, or ReasonNone.
	barred(state *register.State, order *pix.Order) pix.Reason
	// outflow returns the cap that leg 4 of a new order counts against. Without one there is no leg 4.
	outflow(state *register.State, order *pix.Order, window ledger.Window) register.Cap
	// digest is that of the order's content: of two orders with one id, it tells if they are one.
	digest(order *pix.Order) pix.Digest

	// The chains that hold, post, void and refuse are appended to chain.
	hold(chain []tb.Transfer, order *pix.Order, timeoutSeconds uint32) []tb.Transfer
	post(chain []tb.Transfer, order *pix.Order) []tb.Transfer
	void(chain []tb.Transfer, order *pix.Order, reason pix.Reason) []tb.Transfer
	refuse(chain []tb.Transfer, order *pix.Order, reason pix.Reason) []tb.Transfer

	// reservationOf and resolutionOf say what the ledger's result of a chain means.
	reservationOf(result ledger.Result) (payment.Reservation, error)
	resolutionOf(result ledger.Result) (payment.Resolution, error)

	// lookUp appends the ids under which the ledger may hold something about the order.
	// read says what was found there. If it must see more first, it appends more ids:
	// once they are looked up, it is called again. holds reports whether the ledger holds a
	// content under the order's id; it is nil if what was found does not say that.
	lookUp(ids []tb.Uint128, order *pix.Order) []tb.Uint128
	read(order *pix.Order, found []tb.Transfer, ids []tb.Uint128) (trace payment.Trace, holds func(pix.Digest) bool,
		more []tb.Uint128)

	// key is the key of every record about the order. If it is the id of another order, this one
	// takes a share of the room, and counts toward the other one's rate (LQ11).
	key(order *pix.Order) *pix.EndToEndID
	// original is the original_end_to_end_id of its messages.
	original() string
	// reportsAccounts reports whether a report of this outcome names payer and payee.
	reportsAccounts(outcome payment.Outcome) bool
	// conflict is the dead letter's detail if the order conflicts with an earlier one.
	conflict(order *pix.Order) string
	// where is where the reasons of its rejections stand.
	where() pix.Where
}
