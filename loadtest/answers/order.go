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

// fate is what became of an order of a client.
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

// learn adds to what is known of an order, if it is a client's.
func (j *Judge) learn(o order, news fate) {
	j.mu.Lock()
	defer j.mu.Unlock()

	f := j.orders[o]
	if f == nil {
		return
	}

	if news.accepted && !f.accepted {
		j.verdict.Told[toldAccepted]++
	}
	*f = fate{f.accepted || news.accepted, f.ended || news.ended, f.denied || news.denied, f.settled || news.settled}
}

// deadLetter takes a dead letter.
func (j *Judge) deadLetter(letter *pixv1.DeadLetter) {
	var message pixv1.PaymentOrder
	if message.UnmarshalVT(letter.Payload) != nil {
		return // no client sent it
	}

	text, centavos := message.EndToEndId, message.AmountCentavos
	if back := message.ReturnOrder; back != nil {
		text, centavos = back.ReturnId, back.AmountCentavos
	}

	if id, err := pix.ParsePaymentOrReturnID(text); err == nil {
		j.learn(order{id, centavos}, fate{ended: true})
	}
}

// concludeOrders requires an outcome for each order that was accepted. One whose id belongs to other content
// must not settle.
func (j *Judge) concludeOrders() {
	for _, o := range slices.SortedFunc(maps.Keys(j.orders), func(x, y order) int {
		return cmp.Compare(x.id.String(), y.id.String())
	}) {
		switch f := j.orders[o]; {
		case f.accepted && !f.ended:
			j.contradict(o.id.String(),
				"it was accepted, and has neither a settlement report nor a dead letter", "", "")
		case f.denied && f.settled:
			j.contradict(o.id.String(), "it settled, and was told that its id belongs to other content", "", "")
		}
	}
}
