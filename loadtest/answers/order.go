package answers

import (
	"cmp"
	"slices"

	"github.com/liquida/liquida/platform/pix"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// order is what a client sends: a payment or a return. With another amount it is another order,
// also under the same id.
type order struct {
	id       pix.EndToEndID // or of a return
	centavos uint64
}

// fate is what became of an order.
type fate struct{ accepted, ended bool }

// sending announces an order, before it is sent.
func (j *Judge) sending(o order) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.orders[o] == nil {
		j.orders[o] = &fate{}
	}
}

// accept takes the acknowledgement of an order.
func (j *Judge) accept(o order) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if f := j.orders[o]; f != nil && !f.accepted {
		f.accepted = true
		j.verdict.Accepted++
	}
}

// ended takes the outcome of an order: a report, or a dead letter.
func (j *Judge) ended(o order) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if f := j.orders[o]; f != nil {
		f.ended = true
	}
}

// deadLetter takes a dead letter.
func (j *Judge) deadLetter(letter *pixv1.DeadLetter) {
	var message pixv1.PaymentOrder
	if message.UnmarshalVT(letter.Payload) != nil {
		return // no client sent it
	}
	o := order{centavos: message.AmountCentavos}
	text := message.EndToEndId
	if back := message.ReturnOrder; back != nil {
		text, o.centavos = back.ReturnId, back.AmountCentavos
	}
	if id, err := pix.ParsePaymentOrReturnID(text); err == nil {
		o.id = id
		j.ended(o)
	}
}

// concludeOrders requires an outcome for each order that was accepted.
func (j *Judge) concludeOrders() {
	var lost []order
	for o, f := range j.orders {
		if f.accepted && !f.ended {
			lost = append(lost, o)
		}
	}
	slices.SortFunc(lost, func(x, y order) int { return cmp.Compare(x.id.String(), y.id.String()) })
	for _, o := range lost {
		j.contradict(o.id.String(), "it was accepted, and has neither a settlement report nor a dead letter", "", "")
	}
}
