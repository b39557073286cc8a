package engine

import (
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/services/clearing-engine/payment"
)

// leave ends an order's flight, and judges what waited for it.
func (p *partition) leave(f *flight) {
	delete(p.flights, f.payment.Order.ID)
	f.share.Free()
	p.endWaiters(f)
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
