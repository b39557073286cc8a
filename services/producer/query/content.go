package query

import (
	"context"
	"net/http"
	"slices"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/web"
)

// Order is a payment or a return: its id, and the digest of its content.
type Order struct {
	ID      pix.EndToEndID // or RtrId
	Content pix.Digest
}

// Knowledge is what the ledger knows under the id of an order.
type Knowledge int

// What the ledger can know.
const (
	KnowsNothing Knowledge = iota // also if its place belongs to an order with another id
	KnowsSame                     // this order
	KnowsOther                    // an order with this id and other content: this one can never settle
)

// KnowsPayments returns what the ledger knows of payments, in their order. All of them share one look-up
// of two ids each, and what the ledger knows is looked up again as a whole. permits bounds the look-ups.
func (l *Ledger) KnowsPayments(ctx context.Context, permits *web.Pool, orders []Order) ([]Knowledge, *web.Problem) {
	known := make([]Knowledge, len(orders)) // nothing

	ids := make([]tb.Uint128, 0, glimpseIDs*len(orders))
	for _, order := range orders {
		ids = ledger.AppendGlimpseIDs(ids, order.ID)
	}

	glimpsed, problem := l.transfers.findWith(ctx, permits, ids)
	if problem != nil || len(glimpsed) == 0 {
		return known, problem
	}
	is := byID(glimpsed)
	var traced []tb.Uint128

	for i, order := range orders {
		if len(pick(is, ids[glimpseIDs*i:glimpseIDs*(i+1)])) > 0 {
			traced = ledger.AppendTraceIDs(traced, order.ID)
		}
	}

	found, problem := l.transfers.findWith(ctx, permits, traced)
	if problem != nil {
		return nil, problem
	}

	is = byID(found)
	for i, order := range orders {
		known[i] = knowledgeOf(order, ledger.TraceOf(order.ID, pick(is, ledger.AppendTraceIDs(nil, order.ID))))
	}

	return known, nil
}

// glimpseIDs is how many ids AppendGlimpseIDs appends.
var glimpseIDs = len(ledger.AppendGlimpseIDs(nil, pix.EndToEndID{}))

func byID(transfers []tb.Transfer) map[tb.Uint128]tb.Transfer {
	is := make(map[tb.Uint128]tb.Transfer, len(transfers))
	for _, transfer := range transfers {
		is[transfer.ID] = transfer
	}

	return is
}

// pick returns those of the transfers that exist.
func pick(is map[tb.Uint128]tb.Transfer, ids []tb.Uint128) (found []tb.Transfer) {
	for _, id := range ids {
		if transfer, exists := is[id]; exists {
			found = append(found, transfer)
		}
	}

	return found
}

func knowledgeOf(order Order, trace ledger.Trace) Knowledge {
	_, decided := trace.Verdict()
	switch {
	case !decided && !trace.Held() || trace.NamesAnother(order.ID):
		return KnowsNothing
	case trace.Holds(order.ID, order.Content):
		return KnowsSame
	}

	return KnowsOther
}

// KnowsReturn returns what the ledger knows of a return, and the ISPB of the bank that received its
// original, or "". A hold under another original is not met here: only a verdict says which of the two is
// the return.
func (l *Ledger) KnowsReturn(ctx context.Context, id pix.ReturnID,
	content pix.ReturnContent) (known Knowledge, receiver string, problem *web.Problem) {
	ctx = Paying(ctx)
	ids := append(ledger.AppendTraceIDs(nil, content.Original), ledger.ReturnVerdict(id),
		ledger.ReturnedMark(content.Original))

	found, problem := l.transfers.find(ctx, ids)
	if problem == nil && slices.ContainsFunc(found, func(t tb.Transfer) bool { return t.Code == ledger.CodeReturned }) {
		found, problem = l.transfers.find(ctx, ledger.AppendReturnTraceIDs(nil, id, content.Original))
	}

	if problem != nil {
		return KnowsNothing, "", problem
	}
	original := paymentStateOf(content.Original, found, time.Time{})
	trace := ledger.ReturnTraceOf(id, content, found)
	_, decided := trace.Verdict()

	_, held := trace.Slot()
	switch {
	case !decided && !held || trace.NamesAnother():
	case trace.SameContent():
		known = KnowsSame
	default:
		known = KnowsOther
	}

	return known, original.Payee.PSP(), nil
}

// KnownConflict is the response to an order whose id the ledger knows with other content. It tells nothing
// of that order but its id.
func KnownConflict(id string) *web.Problem {
	return conflict("other-content", id,
		"the ledger knows this id with other content, so no money moves for what was sent: read its status, or send this with a new id")
}

// FlightConflict is the response to an order whose id was sent before with other content, while the
// ledger knows neither.
func FlightConflict(id string) *web.Problem {
	return conflict("other-content-sent", id,
		"this id was sent before with other content, and the ledger does not know it yet: nothing was sent now; read its status, or send this with a new id")
}

func conflict(kind, id, detail string) *web.Problem {
	name, rule := "end_to_end_id", "an id names one payment: payer, payee and amount"
	if id[0] == 'D' {
		name, rule = "return_id", "an id names one return: original, amount and reason"
	}

	return &web.Problem{Type: web.Kind(kind), Title: "The id belongs to other content", Status: http.StatusConflict,
		Field: name, Value: id,
		Rule: rule, Code: pix.ReasonConflict.String(), EndToEndID: id, Detail: detail}
}

// Conflict returns a problem if what the ledger knows under the id is a payment with other content.
func (s PaymentState) Conflict(content pix.Digest) *web.Problem {
	if id, err := pix.ParseEndToEndID(s.EndToEndID); err == nil &&
		knowledgeOf(Order{id, content}, s.trace) == KnowsOther {
		return KnownConflict(s.EndToEndID)
	}

	return nil
}

// Conflict returns a problem if the verdict under the id is of a return with other content. A hold
// alone decides nothing: copies with other content may be held under other originals.
func (s ReturnState) Conflict(content pix.Digest) *web.Problem {
	if s.verdict != nil && s.verdict.UserData64 != content.Hash() {
		return KnownConflict(s.ReturnID)
	}

	return nil
}
