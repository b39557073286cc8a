package engine

import (
	"cmp"
	"fmt"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/register"
	"github.com/liquida/liquida/services/clearing-engine/payment"
	"github.com/liquida/liquida/services/clearing-engine/room"
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
		p.offsets.take(record.Offset)
		p.deadLetters++
		p.keep(p.encoder.unreadableRecord(record, why), record, why.invalid, func() {
			p.inbox.put(event{kind: deadLettered, record: record})
		})

		return
	}

	a, invalid := p.message.decode(own(record))
	if invalid != nil {
		p.offsets.take(record.Offset)
		p.refuseRecord(record, room.Share{}, invalid)
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
		p.refuseRecord(record, w.share, invalid)
	case w.reason != pix.ReasonNone:
		p.refuseRecord(record, w.share, conflictOf(a.kind, &a.order, w.reason))
	default:
		w.share.Free()
		p.take(a, true, now)
	}
}

// take begins an order, or makes it wait for one in flight. again: it waited before.
func (p *partition) take(a arrival, again bool, now time.Time) {
	refusal := pix.ReasonNone

	if f, isCopy := p.first(&a, again); f != nil {
		p.offsets.take(a.record.Offset)

		switch {
		case p.wait(f, &a, isCopy):
			return
		case isCopy:
			p.engine.metrics.Refused(a.order.ID.Payer(), pix.ReasonTooManyCopies)
			p.refuseRecord(a.record, p.room.AddToShare(a.order.ID.Payer()), tooManyCopies(a.order.ID))
			return
		}
		refusal = pix.ReasonTooManyReturns
	}
	p.begin(a, refusal, now)
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
