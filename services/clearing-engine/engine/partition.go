package engine

import (
	"fmt"
	"sync/atomic"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
	"github.com/liquida/liquida/services/clearing-engine/payment"
)

// partition clears one partition of pix.payments. One goroutine owns all of its state;
// everything reaches it through the inbox, so no payment needs a lock.
type partition struct {
	number  int32
	engine  *Engine
	inbox   *inbox
	offsets *offsets
	flights map[pix.EndToEndID]*flight

	committed bool // the last commit is done; guarded by the engine's commitMu

	// What this partition's records take of the engine's room. The intake adds, the
	// partition's goroutine gives back.
	roomPayments, roomBytes atomic.Int64

	// nextDue is at or before the deadline of every payment that waits for its PSP: until
	// then none of them needs a look. Zero when none waits.
	nextDue time.Time

	deadLetters int           // produced and not acknowledged yet
	drained     chan struct{} // closed when nothing is in flight, once somebody asked
	stop, done  chan struct{}

	message orderMessage  // reused
	chain   []tb.Transfer // reused
	ids     []tb.Uint128  // reused
	page    []byte        // keys and values of records are cut from it
}

// flight is a payment in this engine.
type flight struct {
	payment   payment.Payment
	partition *partition
	record    *kgo.Record
	waiting   []arrival     // messages with the same EndToEndId that came meanwhile
	writing   uint16        // what the chain at the writer is for, one of the chain kinds
	waits     *atomic.Int64 // the count of payments that wait for the same PSP, while this one does
	back      *returning    // of a return; nil for a payment

	hopAt time.Time // when the present hop began
}

// arrival is a valid order and the record that brought it.
type arrival struct {
	order  pix.Order
	back   *pix.Return // of a return; nil for a payment
	record *kgo.Record
	// inTime tells that it met a payment whose report was not sent yet: that report is its
	// answer too. Who sends later gets a report later.
	inTime bool
}

type eventKind uint8

const (
	arrived      eventKind = iota // record
	answered                      // flight, answer: the ledger's answer to a chain
	inspected                     // flight, transfers
	diagnosed                     // flight, accounts
	responded                     // response: a PSP's answer
	reported                      // flight: its report, or its dead letter, is acknowledged
	deadLettered                  // record: its dead letter is acknowledged
	drain                         // drained is to be closed when nothing is in flight
)

type event struct {
	kind      eventKind
	answer    ledger.Answer
	flight    *flight
	record    *kgo.Record
	transfers []tb.Transfer
	accounts  []tb.Account
	response  response
	drained   chan struct{}
}

// response is a PSP's answer, decoded.
type response struct {
	id       pix.EndToEndID
	psp      pix.ISPB
	accepted bool
	reason   pix.Reason
}

const tickInterval = 100 * time.Millisecond

func newPartition(e *Engine, number int32, h hint) *partition {
	return &partition{
		number: number, engine: e, inbox: newInbox(), offsets: newOffsets(h),
		flights: map[pix.EndToEndID]*flight{},
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
			p.release()
			return
		case <-ticker.C:
			p.tick(p.engine.now())
		case <-p.inbox.ready:
			events = p.inbox.take(events)
			now := p.engine.now()
			for i := range events {
				p.handle(&events[i], now)
			}
		}
		if p.drained != nil && len(p.flights) == 0 && p.deadLetters == 0 {
			close(p.drained)
			p.drained = nil
		}
	}
}

// release forgets everything in flight: whoever owns the partition next gets it again.
func (p *partition) release() {
	p.inbox.close()
	for _, f := range p.flights {
		f.stopWaiting()
	}
	p.engine.room.give(int(p.roomPayments.Swap(0)), p.roomBytes.Swap(0))
}

// take lets the records into the engine's room and into the inbox.
func (p *partition) take(records []*kgo.Record) {
	var bytes int64
	for _, record := range records {
		bytes += int64(len(record.Value))
	}
	p.roomPayments.Add(int64(len(records)))
	p.roomBytes.Add(bytes)
	p.engine.room.take(len(records), bytes)
	for _, record := range records {
		p.inbox.put(event{kind: arrived, record: record})
	}
}

// leave gives the room of a record back: nothing remains to be done about it here.
func (p *partition) leave(record *kgo.Record) {
	bytes := int64(len(record.Value))
	p.roomPayments.Add(-1)
	p.roomBytes.Add(-bytes)
	p.engine.room.give(1, bytes)
}

func (p *partition) handle(e *event, now time.Time) {
	switch e.kind {
	case arrived:
		p.arrive(e.record, now)
	case answered:
		p.answer(e.flight, e.answer, now)
	case inspected:
		if e.flight.back != nil {
			p.inspectedReturn(e.flight, e.transfers, now)
			return
		}
		p.perform(e.flight, e.flight.payment.Inspected(traceOf(&e.flight.payment.Order, e.transfers), now), now)
	case diagnosed:
		p.perform(e.flight, e.flight.payment.Diagnosed(accountsOf(&e.flight.payment.Order, e.accounts)), now)
	case responded:
		p.respond(&e.response, now)
	case reported:
		p.end(e.flight, now)
	case deadLettered:
		p.deadLetters--
		p.finish(e.record)
	case drain:
		p.drained = e.drained
	}
}

// arrive takes a record from pix.payments.
func (p *partition) arrive(record *kgo.Record, now time.Time) {
	p.engine.crash.Pass(afterFetch)
	if p.offsets.begin(record.Offset) {
		p.engine.metrics.skipped.Inc()
		p.leave(record)
		return
	}
	if record.Attrs.IsControl() {
		p.finish(record)
		return
	}
	a, err := p.message.decode(record)
	if err != nil {
		p.deadLetters++
		p.deadLetter(record, err, func() { p.inbox.put(event{kind: deadLettered, record: record}) })
		return
	}
	if f := p.flights[a.order.ID]; f != nil {
		p.engine.metrics.joined.Inc()
		a.inTime = !f.payment.Ended()
		f.waiting = append(f.waiting, a)
		return
	}
	p.engine.hops.queue.Observe(now.Sub(record.Timestamp).Seconds())
	p.begin(a, nil, now)
}

func (p *partition) begin(a arrival, waiting []arrival, now time.Time) {
	f := &flight{partition: p, record: a.record, waiting: waiting, hopAt: now}
	p.flights[a.order.ID] = f
	var command payment.Command
	refusal := p.engine.participants.refusal(&a.order)
	if a.back != nil {
		f.back = &returning{}
		f.payment, command = payment.BeginReturn(*a.back, now, p.engine.config.Deadline, refusal)
	} else {
		f.payment, command = payment.Begin(a.order, now, p.engine.config.Deadline, refusal)
	}
	p.perform(f, command, now)
}

// perform carries out what the payment asks for. The answer comes back as an event.
func (p *partition) perform(f *flight, command payment.Command, now time.Time) {
	order := &f.payment.Order
	if f.back != nil && p.performReturn(f, command) {
		return
	}
	switch command.Action {
	case payment.Wait:
	case payment.Inspect:
		p.ids = ledger.AppendTraceIDs(p.ids[:0], order.ID)
		p.engine.transfers.Read(f, p.ids)
	case payment.Diagnose:
		p.ids = appendAccountIDs(p.ids[:0], order)
		p.engine.accounts.Read(f, p.ids)
	case payment.Reserve:
		p.write(f, chainReserve, ledger.AppendReserve(p.chain[:0], order.ID, order.Content, p.engine.pendingTimeoutSeconds))
		p.engine.crash.PassSent(afterPhase1Sent)
	case payment.Post:
		p.write(f, chainPost, ledger.AppendPost(p.chain[:0], order.ID, order.SameBank()))
	case payment.Void:
		p.write(f, chainVoid, ledger.AppendVoid(p.chain[:0], order.ID, order.SameBank(), command.Reason))
	case payment.Refuse:
		payerKnown := command.Reason != pix.ReasonUnknownPayerPSP
		p.write(f, chainReceipt, ledger.AppendReceipt(p.chain[:0], order.ID, order.Content, command.Reason, payerKnown))
	case payment.Authorize:
		f.hopAt = now
		f.waits = p.engine.participants.counter(order.Payee.ISPB)
		f.waits.Add(1)
		p.noteDue(f)
		p.engine.produce(p.authorizationRequest(&f.payment), func() { p.engine.crash.Pass(afterRequestProduced) })
	case payment.Report:
		f.hopAt = now
		p.engine.produce(p.settlementReport(f), func() { p.inbox.put(event{kind: reported, flight: f}) })
		p.engine.crash.Pass(afterReportProduced)
	case payment.DeadLetter:
		p.deadLetter(f.record, &pix.Invalid{Reason: command.Reason, Field: "end_to_end_id",
			Detail: conflictDetail(&f.payment)},
			func() { p.inbox.put(event{kind: reported, flight: f}) })
	case payment.Halt:
		p.engine.fail(fmt.Errorf("partition %d, offset %d: %s", p.number, f.record.Offset, command.Detail))
	}
}

func conflictDetail(of *payment.Payment) string {
	if of.Return != nil {
		return fmt.Sprintf("%s is the id of an earlier return of another payment, amount or reason; that one is untouched", of.Return.ID)
	}
	return fmt.Sprintf("%s is the id of an earlier payment with another payer, payee or amount; that one is untouched", of.Order.ID)
}

func (p *partition) write(f *flight, kind uint16, chain []tb.Transfer) {
	p.chain = chain // keep what append grew
	f.writing = kind
	p.engine.writer.Write(f, chain)
	if kind != chainReserve {
		p.engine.crash.PassSent(afterPhase2Sent)
	}
}

// answer takes the ledger's answer to the flight's chain.
func (p *partition) answer(f *flight, answer ledger.Answer, now time.Time) {
	p.engine.statuses.count(f.writing, answer.Status)
	if f.writing == chainReserve {
		p.engine.crash.Pass(afterPhase1Answered)
		reservation, err := reservationOf(answer)
		if f.back != nil {
			reservation, err = f.back.reservationOf(answer)
		}
		if err != nil {
			p.engine.fail(fmt.Errorf("payment %s: %w", f.payment.Order.ID, err))
			return
		}
		if reservation.Taken {
			p.engine.metrics.redelivered.Inc()
		}
		p.engine.hops.reserve.Observe(now.Sub(f.hopAt).Seconds())
		p.perform(f, f.payment.Reserved(reservation), now)
		return
	}
	p.engine.crash.Pass(afterPhase2Answered)
	resolution, err := resolutionOf(answer)
	if f.back != nil {
		resolution, err = returnResolutionOf(answer)
	}
	if err != nil {
		p.engine.fail(fmt.Errorf("payment %s: %w", f.payment.Order.ID, err))
		return
	}
	p.engine.hops.resolve.Observe(now.Sub(f.hopAt).Seconds())
	p.perform(f, f.payment.Resolved(resolution), now)
}

// respond takes a PSP's answer. It is good only for a payment that waits for this PSP.
func (p *partition) respond(r *response, now time.Time) {
	p.engine.crash.Pass(afterResponseRead)
	f := p.flights[r.id]
	switch {
	case f == nil:
		p.engine.responses.unknown.Inc()
		return
	case f.payment.Order.Payee.ISPB != r.psp:
		p.engine.responses.invalid.Inc()
		p.engine.log.Warn("dropped the answer of a PSP that was not asked",
			zap.Stringer("end_to_end_id", r.id), zap.String("ispb", string(r.psp)), zap.String("asked", string(f.payment.Order.Payee.ISPB)))
		return
	case !f.payment.WaitsForBank():
		p.engine.responses.late.Inc()
		return
	}
	p.engine.responses.used.Inc()
	p.engine.hops.authorize.Observe(now.Sub(f.hopAt).Seconds())
	f.stopWaiting()
	f.hopAt = now
	p.perform(f, f.payment.Answered(r.accepted, r.reason), now)
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
		if command := f.payment.Tick(now); command.Action != payment.Wait {
			f.stopWaiting()
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

func (f *flight) stopWaiting() {
	if f.waits != nil {
		f.waits.Add(-1)
		f.waits = nil
	}
}

// end takes the acknowledgement of the report or the dead letter: the record is
// finished, and so is every equal message that came before the report was sent. Any other
// that waited goes on as a payment of its own, and will find this one in the ledger.
func (p *partition) end(f *flight, now time.Time) {
	p.engine.crash.Pass(afterReportAcknowledged)
	order := &f.payment.Order
	delete(p.flights, order.ID)
	isReport := f.payment.Outcome != payment.Outcome{}
	if isReport {
		if f.back == nil {
			p.engine.outcomes.count(f.payment.Outcome)
		} else {
			p.engine.returnOutcomes.count(f.payment.Outcome)
			if f.payment.Outcome.Settled {
				p.engine.metrics.returned.Add(float64(order.AmountCentavos))
			}
		}
		if f.payment.Outcome.Settled {
			p.engine.metrics.settled(now)
		}
		p.engine.hops.report.Observe(now.Sub(f.hopAt).Seconds())
		p.engine.metrics.acceptToReport.Observe(now.Sub(order.AcceptedAt).Seconds())
	}
	p.finish(f.record)
	var others []arrival
	for _, w := range f.waiting {
		if isReport && w.inTime && w.same(&f.payment) {
			p.finish(w.record)
		} else {
			others = append(others, w)
		}
	}
	if len(others) > 0 {
		next, waiting := others[0], others[1:]
		for i := range waiting {
			waiting[i].inTime = true
		}
		p.begin(next, waiting, now)
	}
}

// same tells whether a message with the id of a payment or return is the same one.
func (a *arrival) same(as *payment.Payment) bool {
	if as.Return != nil {
		return a.back != nil && a.back.ReturnContent == as.Return.ReturnContent
	}
	return a.order.Content == as.Order.Content
}

func (p *partition) finish(record *kgo.Record) {
	p.offsets.finish(record.Offset)
	p.engine.crash.Pass(afterOffsetMarked)
	p.leave(record)
}

// deadLetter keeps a record that cannot become a payment, with the reason.
func (p *partition) deadLetter(record *kgo.Record, invalid *pix.Invalid, acknowledged func()) {
	p.engine.metrics.deadLetters.WithLabelValues(invalid.Reason.String()).Inc()
	p.engine.log.Debug("dead letter", zap.Int32("partition", record.Partition), zap.Int64("offset", record.Offset),
		zap.Stringer("reason_code", invalid.Reason), zap.Error(invalid))
	p.engine.produce(p.deadLetterRecord(record, invalid), acknowledged)
}

func (p *partition) authorizationRequest(of *payment.Payment) *kgo.Record {
	order := &of.Order
	payer, payee := accountMessage(order.Payer), accountMessage(order.Payee)
	message := pixv1.AuthorizationRequest{
		EndToEndId: order.ID.String(), Payer: &payer, Payee: &payee, AmountCentavos: order.AmountCentavos, ReplyPartition: p.number,
	}
	key := &order.ID
	if of.Return != nil {
		key, message.OriginalEndToEndId = &of.Return.Original, of.Return.Original.String()
	}
	keyBytes, value := p.cut(key, message.SizeVT())
	_, err := message.MarshalToSizedBufferVT(value)
	return p.record(stream.AuthorizationRequests, keyBytes, value, err)
}

func (p *partition) settlementReport(f *flight) *kgo.Record {
	order, outcome := &f.payment.Order, f.payment.Outcome
	payer, payee := accountMessage(order.Payer), accountMessage(order.Payee)
	message := pixv1.SettlementReport{
		EndToEndId: order.ID.String(), Status: pixv1.SettlementStatus_SETTLEMENT_STATUS_RJCT, ReasonCode: outcome.Reason.String(),
		Payer: &payer, Payee: &payee, AmountCentavos: order.AmountCentavos,
	}
	if outcome.Settled {
		message.Status = pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC
	}
	key := &order.ID
	if r := f.payment.Return; r != nil {
		key, message.OriginalEndToEndId = &r.Original, r.Original.String()
		if !outcome.Settled {
			// Whether they are known may differ from report to report.
			message.Payer, message.Payee = nil, nil
		}
	}
	keyBytes, value := p.cut(key, message.SizeVT())
	_, err := message.MarshalToSizedBufferVT(value)
	return p.record(stream.Settlements, keyBytes, value, err)
}

func (p *partition) deadLetterRecord(source *kgo.Record, invalid *pix.Invalid) *kgo.Record {
	payload := source.Value[:min(len(source.Value), stream.DeadLetterPayloadBytesMax)]
	value, err := (&pixv1.DeadLetter{
		Topic: source.Topic, Partition: source.Partition, Offset: source.Offset,
		ReasonCode: invalid.Reason.String(), Reason: invalid.Error(),
		PayloadSizeBytes: uint64(len(source.Value)), Payload: payload,
	}).MarshalVT()
	if err != nil {
		panic(fmt.Sprintf("a dead letter cannot be encoded: %v", err))
	}
	return &kgo.Record{Topic: stream.DeadLetters, Partition: p.number, Key: source.Key[:min(len(source.Key), keyBytesMax)], Value: value}
}

// keyBytesMax bounds the key of a dead letter: a source's key may be anything.
const keyBytesMax = 256

// pageBytes holds the records of some hundred payments: one allocation for all of them.
const pageBytes = 64 << 10

// cut returns the key of a payment's record, and room for its value.
func (p *partition) cut(key *pix.EndToEndID, valueBytes int) (_, value []byte) {
	need := len(key) + valueBytes
	if len(p.page) < need {
		p.page = make([]byte, max(pageBytes, need))
	}
	cut := p.page[:need:need]
	p.page = p.page[need:]
	copy(cut, key[:])
	return cut[:len(key):len(key)], cut[len(key):]
}

func (p *partition) record(topic string, key, value []byte, err error) *kgo.Record {
	if err != nil {
		panic(fmt.Sprintf("a message for %s cannot be encoded: %v", topic, err))
	}
	return &kgo.Record{Topic: topic, Partition: p.number, Key: key, Value: value}
}

func accountMessage(account pix.Account) pixv1.Account {
	return pixv1.Account{Ispb: string(account.ISPB), Branch: account.Branch, Number: account.Number}
}
