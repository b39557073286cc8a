package engine

import (
	"cmp"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/register"
	"github.com/liquida/liquida/services/clearing-engine/payment"
	"github.com/liquida/liquida/services/clearing-engine/room"
)

// An order arrives: its record is decoded, and it begins, waits for one in flight, or is refused at once.

// arrive takes a record of pix.payments.
func (p *partition) arrive(record *kgo.Record, why *unreadable, now time.Time) {
	p.engine.crash.Pass(afterFetch)

	first := record.Offset
	if why != nil {
		first = why.first
	}

	if p.offsets.track(first, record.Offset) {
		p.engine.metrics.Skipped.Inc()
		p.free(record)
		return
	}

	if record.Attrs.IsControl() || why != nil && why.invalid == nil {
		p.finish(record)
		return
	}

	if why != nil {
		p.refuseRecord(first, record, room.Share{}, why.invalid)
		return
	}

	a, invalid := p.message.decode(own(record))
	if invalid != nil {
		p.refuseRecord(first, record, room.Share{}, invalid)
		return
	}
	p.engine.metrics.Hops.Queue.Observe(now.Sub(record.Timestamp))
	p.take(a, false, now)
}

// arriveAgain takes the record of a waiter.
func (p *partition) arriveAgain(record *kgo.Record, now time.Time) {
	w, waited := p.again[record.Offset]
	if !waited {
		broken("a record is fetched again once: partition %d, offset %d", p.number, record.Offset)
	}
	delete(p.again, record.Offset)

	a, invalid := p.message.decode(own(record))
	switch {
	case invalid != nil:
		p.refuseRecord(record.Offset, record, w.share, invalid)
	case w.reason != pix.ReasonNone:
		p.refuseRecord(record.Offset, record, w.share, conflictOf(a.kind, &a.order, w.reason))
	default:
		w.share.Free()
		p.take(a, true, now)
	}
}

// take begins an order, or makes it wait for one in flight. again: it waited before.
func (p *partition) take(a arrival, again bool, now time.Time) {
	refusal := pix.ReasonNone

	if f, isCopy := p.first(&a, again); f != nil {
		switch {
		case p.wait(f, &a, isCopy):
			return
		case isCopy:
			p.engine.metrics.Refused(a.order.ID.Payer(), pix.ReasonTooManyCopies)
			p.refuseRecord(a.record.Offset, a.record, p.room.AddToShare(a.order.ID.Payer()), tooManyCopies(a.order.ID))
			return
		}
		refusal = pix.ReasonTooManyReturns
	}
	p.begin(a, refusal, now)
}

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
	p.offsets.take(a.record.Offset)
	p.free(a.record)

	return true
}

func tooManyCopies(id pix.EndToEndID) *pix.Invalid {
	return &pix.Invalid{Reason: pix.ReasonTooManyCopies, Field: "end_to_end_id",
		Detail: fmt.Sprintf("too many messages with the id %s, or of its bank, wait already; the first one is untouched",
			id)}
}

// begin begins an order. refusal is why it cannot be held now, if that is known.
func (p *partition) begin(a arrival, refusal pix.Reason, now time.Time) {
	if p.flights[a.order.ID] != nil {
		broken("an id is in flight once: %s", a.order.ID)
	}
	f := &flight{kind: a.kind, record: a.record, hopAt: now}
	p.flights[a.order.ID] = f
	state, fresh := p.engine.register.Current()
	f.rules = state.Rules

	refusal = cmp.Or(refusal, p.refusal(f, &a.order, state, now))
	if original := a.kind.key(&a.order); *original != a.order.ID {
		var taken bool
		if f.share, taken = p.room.TakeShare(a.order.ID.Payer()); !taken || !p.returns.Allow(*original, now) {
			refusal = cmp.Or(refusal, pix.ReasonTooManyReturns)
		}
	}
	var command payment.Command

	f.payment, command = a.kind.begin(a.order, now, p.engine.config.Deadline, refusal)
	if !fresh {
		p.stale = append(p.stale, f)
		return
	}
	p.perform(f, command, now)
}

// refusal returns why this engine would refuse a new order, or ReasonNone.
func (p *partition) refusal(f *flight, order *pix.Order, state *register.State, now time.Time) pix.Reason {
	if barred := f.kind.barred(state, order); barred != pix.ReasonNone {
		return barred
	}

	deadline := p.engine.config.Deadline
	switch {
	case p.engine.room.Busy(order, payeeOf(order)):
		return pix.ReasonPayeePSPBusy
	case !p.pace.TooLate(order, deadline, now):
		return pix.ReasonNone
	case now.Sub(order.AcceptedAt) < deadline:
		return pix.ReasonTooLate
	case p.offsets.overtaken(f.record.Offset) && !cameLate(f.record, order, deadline):
		return pix.ReasonTooLate
	}

	return pix.ReasonNone // its deadline says why
}

// cameLate reports whether an order's deadline had passed when its record was written. Then no
// overload made it late. The timestamp is the sender's: it decides the code of the refusal only.
func cameLate(record *kgo.Record, order *pix.Order, deadline time.Duration) bool {
	return record.Timestamp.Sub(order.AcceptedAt) >= deadline
}

// reconsider decides again about an order of which nothing was written, by what the register says now.
func (p *partition) reconsider(f *flight, now time.Time) {
	state, fresh := p.engine.register.Current()
	if !fresh {
		p.stale = append(p.stale, f)
		return
	}
	order := &f.payment.Order
	f.rules, f.verdict, f.decided = state.Rules, payment.Outcome{}, false
	p.perform(f, f.payment.Reconsider(now, p.refusal(f, order, state, now)), now)
}

// refresh lets the orders go on that wait for a fresh register.
func (p *partition) refresh(now time.Time) {
	if len(p.stale) == 0 {
		return
	}

	if _, fresh := p.engine.register.Current(); !fresh {
		return
	}
	stale := p.stale

	p.stale = nil
	for _, f := range stale {
		p.reconsider(f, now)
	}
}
