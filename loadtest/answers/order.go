package answers

import (
	"cmp"
	"maps"
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
type fate struct {
	accepted, ended bool
	denied, settled bool // the ledger knows the id with other content, it was told; it settled
}

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

// deny takes the answer that the ledger knows the id of an order with other content.
func (j *Judge) deny(o order) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if f := j.orders[o]; f != nil {
		f.denied = true
	}
}

// ended takes the outcome of an order: a report, or a dead letter.
func (j *Judge) ended(o order, settled bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if f := j.orders[o]; f != nil {
		f.ended, f.settled = true, f.settled || settled
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
		j.ended(o, false)
	}
}

// concludeOrders requires an outcome for each order that was accepted. One whose id belongs to other content
// must not settle.
func (j *Judge) concludeOrders() {
	wrong := map[order]string{}
	for o, f := range j.orders {
		switch {
		case f.accepted && !f.ended:
			wrong[o] = "it was accepted, and has neither a settlement report nor a dead letter"
		case f.denied && f.settled:
			wrong[o] = "it settled, and was told that its id belongs to other content"
		}
	}
	for _, o := range slices.SortedFunc(maps.Keys(wrong), func(x, y order) int { return cmp.Compare(x.id.String(), y.id.String()) }) {
		j.contradict(o.id.String(), wrong[o], "", "")
	}
}
