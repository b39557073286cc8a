package engine

import (
	"fmt"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/services/clearing-engine/payment"
)

const tickInterval = 100 * time.Millisecond

func (p *partition) run() {
	defer close(p.done)
	ticker, ticks := time.NewTicker(tickInterval), true
	defer ticker.Stop()
	var events []event

	for {
		select {
		case <-p.owned.Done():
			p.forget()
			return
		case <-ticker.C:
			now := p.engine.now()
			p.engine.room.Age(now)
			p.tick(now)
			p.need.Store(int64(p.pace.Need(p.engine.config.Deadline)))
		case <-p.inbox.ready:
			events = p.inbox.take(events)

			now := p.engine.now()
			for i := range events {
				p.handle(&events[i], now)
			}
		}

		select {
		case p.engine.moved <- struct{}{}:
		default:
		}

		rests := p.rests()
		if rests && p.drained != nil {
			close(p.drained)
			p.drained = nil
		}

		if rests != ticks {
			continue
		}

		if ticks = !rests; ticks { // while nothing is in flight, nothing becomes due
			ticker.Reset(tickInterval)
		} else {
			ticker.Stop()
			p.need.Store(int64(p.pace.Need(p.engine.config.Deadline)))
		}
	}
}

func (p *partition) handle(e *event, now time.Time) {
	switch e.kind {
	case arrived:
		if p.named {
			p.arrive(e.record, e.unreadable, now)
			return
		}

		if p.unnamed = append(p.unnamed, *e); len(p.unnamed) == 1 {
			go p.effects.nameFirst(p)
		}
	case begun:
		p.named = true
		for _, held := range p.unnamed {
			p.arrive(held.record, held.unreadable, now)
		}
		p.unnamed = nil
	case examined:
		e.answer <- p.describe(e.offset)
	case fetchedAgain:
		p.takeRoom(e.record)
		p.arriveAgain(e.record, now)
	case written:
		p.written(e.flight, e.result, now)
	case responded:
		p.respond(&e.response, now)
	case inspected:
		p.inspected(e.flight, e.transfers, now)
	case diagnosed:
		order := &e.flight.payment.Order

		accounts := accountsOf(order, e.accounts)
		if accounts.PayerPSP {
			p.engine.room.Meet(order.Payer.ISPB)
		}
		p.perform(e.flight, e.flight.payment.Diagnosed(accounts), now)
	case reported:
		p.end(e.flight, now)
	case deadLettered:
		if p.deadLetters--; p.deadLetters < 0 {
			broken("a dead letter is acknowledged once: partition %d, offset %d", p.number, e.record.Offset)
		}
		e.share.Free()
		p.finish(e.record)
	case drain:
		p.drained = e.drained
	case askAgain:
		for _, f := range p.flights {
			if f.payment.WaitsForBank() {
				p.ask(f)
			}
		}
	}
}

// written takes the ledger's result of the flight's chain.
func (p *partition) written(f *flight, result ledger.Result, now time.Time) {
	purpose := f.writing
	if f.writing = chainNone; purpose == chainNone {
		broken("a chain has one result: order %s", f.payment.Order.ID)
	}

	f.capped = f.capped && (purpose != chainReserve || result.OK())
	if result.Unsent {
		p.reconsider(f, now)
		return
	}
	p.engine.metrics.Chain(chainNames[purpose], result.Status)

	if purpose == chainCapRelease {
		p.released(f, result, now)
		return
	}
	p.took(f)
	var command payment.Command

	if purpose == chainReserve {
		p.engine.crash.Pass(afterPhase1Answered)

		reservation, err := f.kind.reservationOf(result)
		if err != nil {
			p.effects.fail(fmt.Errorf("order %s: %w", f.payment.Order.ID, err))
			return
		}

		if reservation.Taken {
			p.engine.metrics.Redelivered.Inc()
		}
		p.engine.metrics.Hops.Reserve.Observe(now.Sub(f.hopAt))
		p.pace.Hold.Observe(now.Sub(f.hopAt))
		command = f.payment.Reserved(reservation)
	} else {
		p.engine.crash.Pass(afterPhase2Answered)
		// only leg 4 cannot be voided: it must not keep the money
		if purpose == chainVoid && result.Code == ledger.CodeLeg4 {
			f.capped = false
			p.perform(f, payment.Command{Action: payment.Void, Reason: f.payment.Outcome.Reason}, now)
			return
		}

		resolution, err := f.kind.resolutionOf(result)
		if err != nil {
			p.effects.fail(fmt.Errorf("order %s: %w", f.payment.Order.ID, err))
			return
		}
		p.engine.metrics.Hops.Resolve.Observe(now.Sub(f.hopAt))

		if purpose != chainReceipt { // its time began with a look-up
			p.pace.Resolve.Observe(now.Sub(f.hopAt))
		}
		f.decided = resolution == payment.Written
		command = f.payment.Resolved(resolution)
	}
	p.perform(f, command, now)
}

// respond takes a PSP's response. It counts only for a payment that waits for this PSP.
func (p *partition) respond(r *response, now time.Time) {
	p.engine.crash.Pass(afterResponseRead)

	f := p.flights[r.id]
	switch {
	case f == nil:
		p.engine.metrics.Responses.Unknown.Inc()
		return
	case f.payment.Order.Payee.ISPB != r.psp:
		p.engine.metrics.Responses.Invalid.Inc()

		if counts := p.engine.unasked.add(r.psp); counts != nil {
			p.engine.log.Warn("dropped responses of PSPs that were not asked, such as this one",
				zap.Stringer("end_to_end_id", r.id), zap.String("asked", string(f.payment.Order.Payee.ISPB)),
				zap.Any("by_ispb", counts))
		}

		return
	case !f.payment.WaitsForBank():
		p.engine.metrics.Responses.Late.Inc()
		return
	}

	command := f.payment.Responded(r.accepted, r.reason, now)
	if late := command.Reason == pix.ReasonPayeePSPSilent; late {
		p.engine.metrics.Responses.Late.Inc()
	} else {
		p.engine.metrics.Responses.Used.Inc()
		p.engine.metrics.Hops.Authorize.Observe(now.Sub(f.hopAt))
		p.pace.Answer.Observe(now.Sub(f.hopAt))
		p.blamesAnother(r)
	}
	f.question.Free(now, true)
	f.hopAt = now
	p.perform(f, command, now)
}

// blamesAnother counts and logs a rejection with a code that is not a bank's to give.
func (p *partition) blamesAnother(r *response) {
	if r.code == r.reason {
		return
	}
	p.engine.metrics.Recoded.Inc()

	if counts := p.engine.recoded.add(r.psp); counts != nil {
		p.engine.log.Warn("PSPs rejected with reason codes of the ledger or the engine, such as this one: reported as LQ03",
			zap.Stringer("end_to_end_id", r.id), zap.Stringer("reason_code", r.code), zap.Any("by_ispb", counts))
	}
}

// tick lets orders go on that waited for the register, and ends the wait of payments whose deadline
// has passed.
func (p *partition) tick(now time.Time) {
	p.refresh(now)

	if p.nextDue.IsZero() || now.Before(p.nextDue) {
		return
	}

	p.nextDue = time.Time{}
	for _, f := range p.flights {
		if !f.payment.WaitsForBank() {
			continue
		}

		if command := f.payment.Ticked(now); command.Action != payment.Wait {
			f.question.Free(now, false)
			f.hopAt = now
			p.perform(f, command, now)
		} else {
			p.noteDue(f)
		}
	}
}

// inspected takes what a look-up found.
func (p *partition) inspected(f *flight, found []tb.Transfer, now time.Time) {
	p.took(f)

	if f.glimpse && len(found) > 0 {
		f.glimpse = false
		p.ids = f.kind.lookUp(p.ids[:0], &f.payment.Order)
		p.effects.lookUp(p, f, p.ids)

		return
	}

	trace, holds, more := f.kind.read(&f.payment.Order, found, p.ids[:0])
	if p.ids = more; len(more) > 0 {
		p.effects.lookUp(p, f, more)
		return
	}

	if trace.Decided {
		f.verdict, f.decided = trace.Verdict, true
	}
	f.capped = trace.Capped

	command := f.payment.Inspected(trace, now)
	if command.Action == payment.DeadLetter {
		f.judgement = judgement{command.Reason, trace.Decided, holds}
	}

	if trace.StrandsCap && !trace.OtherID { // the order ends once the cap is released
		p.write(f, chainCapRelease, ledger.AppendCapRelease(p.chain[:0], f.payment.Order.ID, trace.Verdict.Reason))
		return
	}
	p.perform(f, command, now)
}

// released takes the ledger's result of the release of a leg 4 that a receipt had left behind.
func (p *partition) released(f *flight, result ledger.Result, now time.Time) {
	switch {
	case !result.OK():
		p.effects.fail(fmt.Errorf("order %s: the release of its cap has the unexpected result %s", f.payment.Order.ID,
			result.Status))
	case f.judgement.reason != pix.ReasonNone:
		p.perform(f, payment.Command{Action: payment.DeadLetter, Reason: f.judgement.reason}, now)
	default:
		p.perform(f, payment.Command{Action: payment.Report, Reason: f.payment.Outcome.Reason}, now)
	}
}

// end takes the acknowledgement of the report or the dead letter. It finishes the record,
// and judges what waited for it.
func (p *partition) end(f *flight, now time.Time) {
	p.engine.crash.Pass(afterReportAcknowledged)

	order, outcome := &f.payment.Order, f.payment.Outcome
	if p.flights[order.ID] != f {
		broken("an order ends once: %s", order.ID)
	}

	if isReport := outcome != (payment.Outcome{}); isReport {
		p.engine.metrics.Ended(f.kind.where(), outcome, order.AmountCentavos)
		p.engine.metrics.Refused(order.ID.Payer(), outcome.Reason)

		if outcome.Settled {
			p.engine.metrics.Settled(f.record.Timestamp, now)
		}
		p.engine.metrics.Hops.Report.Observe(now.Sub(f.hopAt))
		p.pace.Report.Observe(now.Sub(f.hopAt))
		p.engine.metrics.AcceptToReport.Observe(now.Sub(order.AcceptedAt))
	}
	p.finish(f.record)
	p.leave(f)
}
