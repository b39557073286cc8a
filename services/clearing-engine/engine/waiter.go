package engine

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/services/clearing-engine/payment"
)

// first returns the order in flight for which an order must wait, or nil. A return waits
// for its payment only once: a stream of copies of the payment must not stop its returns.
func (p *partition) first(a *arrival, again bool) (f *flight, isCopy bool) {
	if f := p.flights[a.order.ID]; f != nil {
		return f, true
	}

	if key := a.kind.key(&a.order); !again && *key != a.order.ID {
		return p.flights[*key], false
	}

	return nil, false
}

// wait makes an order wait for one in flight. It returns false if too many wait already.
func (p *partition) wait(f *flight, a *arrival, isCopy bool) bool {
	if len(f.waiting) >= p.engine.config.CopiesMax {
		return false
	}

	share, taken := p.room.TakeShare(a.order.ID.Payer())
	if !taken {
		return false
	}
	f.waiting = append(f.waiting, waiter{
		offset: a.record.Offset, digest: a.kind.digest(&a.order), share: share, late: f.payment.Ended(), isCopy: isCopy,
	})
	p.free(a.record)

	return true
}

// endWaiters judges what waited for an order that has ended.
func (p *partition) endWaiters(f *flight) {
	if len(f.waiting) == 0 {
		return
	}

	own, reported := f.kind.digest(&f.payment.Order), f.payment.Outcome != payment.Outcome{}
	for _, w := range f.waiting {
		reason := pix.ReasonNone // it arrives again
		switch {
		case !w.isCopy:
		case reported && w.digest != own: // the verdict is of the order's content
			reason = pix.ReasonConflict
		case reported && !w.late:
			p.engine.metrics.Joined.Inc() // here, as any other end of a waiter is counted by itself
			w.share.Free()
			p.finishOffset(w.offset)

			continue
		case reported: // a report follows every copy
		case w.late && !f.judgement.decided:
		case w.digest == own, f.judgement.reason == pix.ReasonIDTaken,
			f.judgement.holds != nil && !f.judgement.holds(w.digest):
			reason = f.judgement.reason
		}
		p.fetchAgain(w.offset, returning{w.share, reason})
	}
}

func (p *partition) fetchAgain(offset int64, r returning) {
	p.again[offset] = r
	p.effects.fetchAgain(p, offset)
}

// slimFrom is the size from which a record is let go of while its order waits for its bank. An
// order needs 200 bytes, but nothing stops a sender from adding a megabyte of unknown fields.
const slimFrom = 512

// slim drops a large record, so that its bytes are free for others. If the order still becomes a
// dead letter, the record is fetched again.
func (p *partition) slim(f *flight) {
	bytes := bytesOf(f.record)
	if bytes <= slimFrom {
		return
	}

	order := &f.payment.Order
	for _, a := range []*pix.Account{&order.Payer, &order.Payee} { // their texts lie in the record
		a.ISPB, a.Branch, a.Number = pix.ISPB(strings.Clone(string(a.ISPB))), strings.Clone(a.Branch),
			strings.Clone(a.Number)
	}
	f.record, f.slim = &kgo.Record{Topic: f.record.Topic, Partition: f.record.Partition, Offset: f.record.Offset,
		Timestamp: f.record.Timestamp}, true
	p.room.Free(0, bytes)
}

// conflictOf is why an order conflicts with what the ledger holds.
func conflictOf(k kind, order *pix.Order, reason pix.Reason) *pix.Invalid {
	detail := k.conflict(order)
	if reason == pix.ReasonIDTaken {
		detail = fmt.Sprintf("the transfer ids of %s are in the ledger for another EndToEndId; that payment is untouched: pay with a new id",
			order.ID)
	}

	return &pix.Invalid{Reason: reason, Field: "end_to_end_id", Detail: detail}
}

func tooManyCopies(id pix.EndToEndID) *pix.Invalid {
	return &pix.Invalid{Reason: pix.ReasonTooManyCopies, Field: "end_to_end_id",
		Detail: fmt.Sprintf("too many messages with the id %s, or of its bank, wait already; the first one is untouched",
			id)}
}
