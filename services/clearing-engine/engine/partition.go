package engine

import (
	"cmp"
	"fmt"
	"sync/atomic"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/services/clearing-engine/payment"
)

// partition clears one partition of pix.payments. One goroutine owns all of its state;
// everything reaches it through the inbox, so no payment needs a lock.
type partition struct {
	number  int32
	engine  *common
	effects effects
	inbox   *inbox
	offsets *offsets
	flights map[pix.EndToEndID]*flight

	orders, responses *position
	// unnamed holds the first records until the ledger names the log.
	unnamed []event
	named   bool

	committedLast bool // the last commit is done; guarded by the engine's committing

	// What this partition's records take of the engine's room. The intake adds, the
	// partition's goroutine subtracts.
	roomPayments, roomBytes atomic.Int64

	// nextDue is a lower bound of the deadlines of all payments that wait for their PSP:
	// before it, tick has nothing to do. Zero: no payment waits.
	nextDue time.Time

	// again are the waiters whose records are being fetched again, by offset. shares is what
	// this partition has of the banks' shares.
	again  map[int64]returning
	shares map[holder]int

	returns returnRate

	pace pace

	deadLetters int           // produced and not acknowledged yet
	drained     chan struct{} // to be closed when nothing is in flight; nil unless somebody waits
	stop, done  chan struct{}

	message orderMessage  // reused
	chain   []tb.Transfer // reused
	ids     []tb.Uint128  // reused
	page    []byte        // keys and values of records are cut from it
}

// effects are what a partition does outside of its own state. Each result comes back through the
// inbox. The engine has them, except in a test that tries every order of the results.
type effects interface {
	write(p *partition, f *flight, chain []tb.Transfer)
	lookUp(p *partition, f *flight, ids []tb.Uint128)
	lookUpAccounts(p *partition, f *flight, ids []tb.Uint128)
	produce(record *kgo.Record, acknowledged func())
	fetchAgain(p *partition, offset int64)
	nameFirst(p *partition)
	fail(err error)
}

const tickInterval = 100 * time.Millisecond

// newPartition returns a partition. named: the ledger names its log already.
func newPartition(c *common, effects effects, number int32, h stream.Hint, named bool) *partition {
	return &partition{
		number: number, engine: c, effects: effects, inbox: newInbox(), offsets: newOffsets(h), named: named,
		flights: map[pix.EndToEndID]*flight{}, again: map[int64]returning{}, shares: map[holder]int{},
		returns: newReturnRate(c.config.ReturnsPerSecond),
		stop:    make(chan struct{}), done: make(chan struct{}),
	}
}

func (p *partition) run() {
	defer close(p.done)
	ticker := time.NewTicker(tickInterval)
	defer ticker.Stop()
	var events []event
	for {
		select {
		case <-p.stop:
			p.forget()
			return
		case <-ticker.C:
			now := p.engine.now()
			p.engine.participants.age(p.engine.second(now))
			p.tick(now)
		case <-p.inbox.ready:
			events = p.inbox.take(events)
			now := p.engine.now()
			for i := range events {
				p.handle(&events[i], now)
			}
		}
		if p.rests() && p.drained != nil {
			close(p.drained)
			p.drained = nil
		}
	}
}

// rests reports whether nothing is in flight.
func (p *partition) rests() bool {
	if len(p.flights)+len(p.again)+p.deadLetters > 0 {
		return false
	}
	if len(p.shares) > 0 {
		broken("what has ended holds no share: partition %d, %+v", p.number, p.shares)
	}
	return true
}

// stopped reports whether the partition is released.
func (p *partition) stopped() bool {
	select {
	case <-p.stop:
		return true
	default:
		return false
	}
}

// forget drops everything in flight: the next owner of the partition gets it again.
func (p *partition) forget() {
	p.inbox.close()
	for _, f := range p.flights {
		p.stopWaiting(f, p.engine.now(), false)
	}
	for h, n := range p.shares {
		p.engine.shares.add(h, -n)
	}
	p.engine.room.free(int(p.roomPayments.Swap(0)), p.roomBytes.Swap(0))
}

// admit takes room for fetched records and puts them into the inbox.
func (p *partition) admit(records []*kgo.Record) {
	p.takeRoom(records...)
	for _, record := range records {
		p.inbox.put(event{kind: arrived, record: record})
	}
}

// admitUnreadable admits a record that stands for others, which no client can read.
func (p *partition) admitUnreadable(record *kgo.Record, why *unreadable) {
	p.takeRoom(record)
	p.inbox.put(event{kind: arrived, record: record, unreadable: why})
}

func (p *partition) takeRoom(records ...*kgo.Record) {
	var bytes int64
	for _, record := range records {
		bytes += bytesOf(record)
	}
	p.roomPayments.Add(int64(len(records)))
	p.roomBytes.Add(bytes)
	p.engine.room.take(len(records), bytes)
}

// free frees the room of a record that this engine is done with.
func (p *partition) free(record *kgo.Record) {
	bytes := bytesOf(record)
	p.roomPayments.Add(-1)
	p.roomBytes.Add(-bytes)
	p.engine.room.free(1, bytes)
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
			p.engine.participants.of(order.Payer.ISPB)
		}
		p.perform(e.flight, e.flight.payment.Diagnosed(accounts), now)
	case reported:
		p.end(e.flight, now)
	case deadLettered:
		if p.deadLetters--; p.deadLetters < 0 {
			broken("a dead letter is acknowledged once: partition %d, offset %d", p.number, e.record.Offset)
		}
		if e.bank != "" {
			p.freeShare(holder{bank: e.bank})
		}
		p.finish(e.record)
	case drain:
		p.drained = e.drained
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
		p.engine.metrics.skipped.Inc()
		p.free(record)
		return
	}
	if record.Attrs.IsControl() {
		p.finish(record)
		return
	}
	if why != nil {
		p.offsets.take(record.Offset)
		p.deadLetters++
		p.keep(p.unreadableRecord(record, why), record, why.invalid, func() { p.inbox.put(event{kind: deadLettered, record: record}) })
		return
	}
	a, invalid := p.message.decode(own(record))
	if invalid != nil {
		p.offsets.take(record.Offset)
		p.refuseRecord(record, "", invalid)
		return
	}
	p.engine.metrics.hops.queue.Observe(now.Sub(record.Timestamp).Seconds())
	p.take(a, false, now)
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
			p.engine.refused(a.order.ID.Payer(), pix.ReasonTooManyCopies)
			p.refuseRecord(a.record, a.order.ID.Payer(), tooManyCopies(a.order.ID))
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
	refusal = cmp.Or(refusal, p.refusal(&a), p.pace.refusal(&a.order, p.engine.config.Deadline, now))
	if original := a.kind.key(&a.order); *original != a.order.ID {
		if f.shares = p.takeShare(holder{bank: a.order.ID.Payer()}); !f.shares || !p.returns.allow(*original, now) {
			refusal = cmp.Or(refusal, pix.ReasonTooManyReturns)
		}
	}
	var command payment.Command
	f.payment, command = a.kind.begin(a.order, now, p.engine.config.Deadline, refusal)
	p.perform(f, command, now)
}

// refusal returns why this engine would refuse a new order, or ReasonNone.
func (p *partition) refusal(a *arrival) pix.Reason {
	reason, silent := p.engine.participants.refusal(&a.order)
	if reason == pix.ReasonNone && silent && p.engine.shares.usedUp(questionsOf(&a.order)) {
		reason = pix.ReasonPayeePSPBusy
	}
	return reason
}

// perform carries out a command. Its result comes back as an event.
func (p *partition) perform(f *flight, command payment.Command, now time.Time) {
	order := &f.payment.Order
	switch command.Action {
	case payment.Wait:
	case payment.Reserve:
		p.write(f, chainReserve, f.kind.hold(p.chain[:0], order, p.engine.pendingTimeoutSeconds))
	case payment.Authorize:
		f.hopAt = now
		var silent bool
		p.engine.participants.of(order.Payer.ISPB)
		f.waits = p.engine.participants.of(order.Payee.ISPB)
		f.asked, silent = f.waits.ask(p.engine.second(now))
		if silent {
			p.addToShare(questionsOf(order))
			f.charged = true
		}
		p.engine.room.awaitBank(1)
		p.slim(f)
		p.noteDue(f)
		p.effects.produce(p.authorizationRequest(f), func() { p.engine.crash.Pass(afterRequestProduced) })
	case payment.Post:
		p.write(f, chainPost, f.kind.post(p.chain[:0], order))
	case payment.Void:
		p.write(f, chainVoid, f.kind.void(p.chain[:0], order, command.Reason))
	case payment.Refuse:
		p.write(f, chainReceipt, f.kind.refuse(p.chain[:0], order, command.Reason))
	case payment.Inspect:
		if f.glimpse = f.payment.Refuses(); f.glimpse { // under overload these are most look-ups
			p.ids = ledger.AppendGlimpseIDs(p.ids[:0], order.ID)
		} else {
			p.ids = f.kind.lookUp(p.ids[:0], order)
		}
		p.effects.lookUp(p, f, p.ids)
	case payment.Diagnose:
		if f.payment.Refuses() && p.engine.participants.know(order.Payer.ISPB) {
			p.perform(f, f.payment.Diagnosed(payment.Accounts{PayerPSP: true}), now)
			return
		}
		p.ids = appendAccountIDs(p.ids[:0], order)
		p.effects.lookUpAccounts(p, f, p.ids)
	case payment.Report:
		if !f.decided || f.verdict != f.payment.Outcome {
			broken("a report is the verdict in the ledger: order %s, report %+v, verdict %+v (%t)", order.ID, f.payment.Outcome, f.verdict, f.decided)
		}
		f.hopAt = now
		p.effects.produce(p.settlementReport(f), func() { p.inbox.put(event{kind: reported, flight: f}) })
		p.engine.crash.Pass(afterReportProduced)
	case payment.DeadLetter:
		p.addToShare(holder{bank: order.ID.Payer()})
		if f.slim {
			p.free(f.record)
			p.fetchAgain(f.record.Offset, returning{order.ID.Payer(), command.Reason})
			p.leave(f)
			return
		}
		p.deadLetter(f.record, conflictOf(f.kind, order, command.Reason), func() { p.inbox.put(event{kind: reported, flight: f}) })
	case payment.Halt:
		p.effects.fail(fmt.Errorf("partition %d, offset %d: %s", p.number, f.record.Offset, command.Detail))
	}
}

func (p *partition) write(f *flight, purpose chainPurpose, chain []tb.Transfer) {
	p.chain = chain // keep what append grew
	if f.writing != chainNone {
		broken("an order has one chain under way, so no verdict precedes the result of phase 1: order %s, %s during %s", f.payment.Order.ID, chainNames[purpose], chainNames[f.writing])
	}
	checkChain(purpose, chain, f.payment.Outcome)
	f.writing = purpose
	if purpose != chainReserve {
		f.verdict, f.decided = verdictIn(purpose, chain), false
	}
	p.effects.write(p, f, chain)
	if purpose == chainReserve {
		p.engine.crash.PassSent(afterPhase1Sent)
	} else {
		p.engine.crash.PassSent(afterPhase2Sent)
	}
}

// written takes the ledger's result of the flight's chain.
func (p *partition) written(f *flight, result ledger.Result, now time.Time) {
	purpose := f.writing
	if f.writing = chainNone; purpose == chainNone {
		broken("a chain has one result: order %s", f.payment.Order.ID)
	}
	p.engine.metrics.chains.count(purpose, result.Status)
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
			p.engine.metrics.redelivered.Inc()
		}
		p.engine.metrics.hops.reserve.Observe(now.Sub(f.hopAt).Seconds())
		p.pace.hold.observe(now.Sub(f.hopAt))
		command = f.payment.Reserved(reservation)
	} else {
		p.engine.crash.Pass(afterPhase2Answered)
		resolution, err := f.kind.resolutionOf(result)
		if err != nil {
			p.effects.fail(fmt.Errorf("order %s: %w", f.payment.Order.ID, err))
			return
		}
		p.engine.metrics.hops.resolve.Observe(now.Sub(f.hopAt).Seconds())
		if purpose != chainReceipt { // its time began with a look-up
			p.pace.resolve.observe(now.Sub(f.hopAt))
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
		p.engine.metrics.responses.unknown.Inc()
		return
	case f.payment.Order.Payee.ISPB != r.psp:
		p.engine.metrics.responses.invalid.Inc()
		if counts := p.engine.unasked.add(r.psp); counts != nil {
			p.engine.log.Warn("dropped responses of PSPs that were not asked, such as this one",
				zap.Stringer("end_to_end_id", r.id), zap.String("asked", string(f.payment.Order.Payee.ISPB)), zap.Any("by_ispb", counts))
		}
		return
	case !f.payment.WaitsForBank():
		p.engine.metrics.responses.late.Inc()
		return
	}
	command := f.payment.Responded(r.accepted, r.reason, now)
	if late := command.Reason == pix.ReasonPayeePSPSilent; late {
		p.engine.metrics.responses.late.Inc()
	} else {
		p.engine.metrics.responses.used.Inc()
		p.engine.metrics.hops.authorize.Observe(now.Sub(f.hopAt).Seconds())
		p.pace.answer.observe(now.Sub(f.hopAt))
		p.blamesAnother(r)
	}
	p.stopWaiting(f, now, true)
	f.hopAt = now
	p.perform(f, command, now)
}

// blamesAnother counts and logs a rejection with a code that is not a bank's to give.
func (p *partition) blamesAnother(r *response) {
	if r.code == r.reason {
		return
	}
	p.engine.metrics.recoded.Inc()
	if counts := p.engine.recoded.add(r.psp); counts != nil {
		p.engine.log.Warn("PSPs rejected with reason codes of the ledger or the engine, such as this one: reported as LQ03",
			zap.Stringer("end_to_end_id", r.id), zap.Stringer("reason_code", r.code), zap.Any("by_ispb", counts))
	}
}

// tick ends the wait of payments whose deadline has passed.
func (p *partition) tick(now time.Time) {
	if p.nextDue.IsZero() || now.Before(p.nextDue) {
		return
	}
	p.nextDue = time.Time{}
	for _, f := range p.flights {
		if !f.payment.WaitsForBank() {
			continue
		}
		if command := f.payment.Ticked(now); command.Action != payment.Wait {
			p.stopWaiting(f, now, false)
			f.hopAt = now
			p.perform(f, command, now)
		} else {
			p.noteDue(f)
		}
	}
}

func (p *partition) noteDue(f *flight) {
	if due := f.payment.DueAt(); p.nextDue.IsZero() || due.Before(p.nextDue) {
		p.nextDue = due
	}
}

// stopWaiting ends the question to the PSP, if there is one.
func (p *partition) stopWaiting(f *flight, now time.Time, answered bool) {
	if f.waits == nil {
		return
	}
	f.waits.end(f.asked, p.engine.second(now), answered)
	f.waits = nil
	if f.charged {
		p.freeShare(questionsOf(&f.payment.Order))
		f.charged = false
	}
	p.engine.room.awaitBank(-1)
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
	command := f.payment.Inspected(trace, now)
	if command.Action == payment.DeadLetter {
		f.judgement = judgement{command.Reason, trace.Decided, holds}
	}
	p.perform(f, command, now)
}

// end takes the acknowledgement of the report or the dead letter. It finishes the record,
// and judges what waited for it.
func (p *partition) end(f *flight, now time.Time) {
	p.engine.crash.Pass(afterReportAcknowledged)
	order, outcome := &f.payment.Order, f.payment.Outcome
	if p.flights[order.ID] != f {
		broken("an order ends once: %s", order.ID)
	}
	isReport := outcome != payment.Outcome{}
	if isReport {
		f.kind.count(p.engine.metrics, order, outcome)
		p.engine.refused(order.ID.Payer(), outcome.Reason)
		if outcome.Settled {
			p.engine.metrics.settled(now)
		}
		p.engine.metrics.hops.report.Observe(now.Sub(f.hopAt).Seconds())
		p.pace.report.observe(now.Sub(f.hopAt))
		p.engine.metrics.acceptToReport.Observe(now.Sub(order.AcceptedAt).Seconds())
	}
	if !isReport {
		p.freeShare(holder{bank: order.ID.Payer()})
	}
	p.finish(f.record)
	p.leave(f)
}

// leave ends an order's flight, and judges what waited for it.
func (p *partition) leave(f *flight) {
	delete(p.flights, f.payment.Order.ID)
	if f.shares {
		p.freeShare(holder{bank: f.payment.Order.ID.Payer()})
	}
	p.endWaiters(f)
}

func (p *partition) finish(record *kgo.Record) {
	p.finishOffset(record.Offset)
	p.free(record)
}

func (p *partition) finishOffset(offset int64) {
	p.offsets.finish(offset)
	p.engine.crash.Pass(afterOffsetMarked)
}

// refuseRecord makes a record a dead letter that is no order in flight. bank is who pays with
// its share until the dead letter is acknowledged, if that is known.
func (p *partition) refuseRecord(record *kgo.Record, bank pix.ISPB, invalid *pix.Invalid) {
	p.deadLetters++
	if bank != "" {
		p.addToShare(holder{bank: bank})
	}
	p.deadLetter(record, invalid, func() { p.inbox.put(event{kind: deadLettered, record: record, bank: bank}) })
}

// deadLetter keeps a record that cannot become a payment, with the reason.
func (p *partition) deadLetter(record *kgo.Record, invalid *pix.Invalid, acknowledged func()) {
	p.keep(p.deadLetterRecord(record, invalid), record, invalid, acknowledged)
}

func (p *partition) keep(letter, record *kgo.Record, invalid *pix.Invalid, acknowledged func()) {
	p.engine.metrics.deadLetters.WithLabelValues(invalid.Reason.String()).Inc()
	p.engine.log.Debug("dead letter", zap.Int32("partition", record.Partition), zap.Int64("offset", record.Offset),
		zap.Stringer("reason_code", invalid.Reason), zap.Error(invalid))
	p.effects.produce(letter, acknowledged)
}

// appendAccountIDs appends the accounts whose absence explains a refusal.
func appendAccountIDs(ids []tb.Uint128, order *pix.Order) []tb.Uint128 {
	return append(ids,
		ledger.TransitAccount(order.Payer.ISPB), ledger.TransitAccount(order.Payee.ISPB),
		ledger.CustomerAccount(order.Payer), ledger.CustomerAccount(order.Payee))
}

func accountsOf(order *pix.Order, found []tb.Account) payment.Accounts {
	exists := map[tb.Uint128]bool{}
	for i := range found {
		exists[found[i].ID] = true
	}
	return payment.Accounts{
		PayerPSP: exists[ledger.TransitAccount(order.Payer.ISPB)],
		PayeePSP: exists[ledger.TransitAccount(order.Payee.ISPB)],
		Payer:    exists[ledger.CustomerAccount(order.Payer)],
		Payee:    exists[ledger.CustomerAccount(order.Payee)],
	}
}
