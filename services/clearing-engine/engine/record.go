package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/services/clearing-engine/payment"
	"github.com/liquida/liquida/services/clearing-engine/room"
)

// What a partition does with a record, whatever its order is. It takes room when it is fetched and frees it when the
// engine is done with it. If it becomes no payment, a dead letter keeps it; if it waits for an order in flight, it is
// judged when that ends. In the end its offset is finished.

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
	p.room.Take(len(records), bytes)
}

// bytesOf returns the bytes that a record takes of the room.
func bytesOf(record *kgo.Record) int64 {
	bytes := len(record.Key) + len(record.Value)
	for _, header := range record.Headers {
		bytes += len(header.Key) + len(header.Value)
	}

	return int64(bytes)
}

// own copies a record. A fetched one shares its memory with all that were fetched with it: a bank
// that is silent about one payment in a hundred would keep all the others in memory, too.
func own(fetched *kgo.Record) *kgo.Record {
	record := *fetched
	text := make([]byte, 0, bytesOf(fetched))
	cut := func(part []byte) []byte {
		text = append(text, part...)
		return text[len(text)-len(part) : len(text) : len(text)]
	}
	record.Key, record.Value = cut(fetched.Key), cut(fetched.Value)

	record.Headers = slices.Clone(fetched.Headers)
	for i := range record.Headers {
		header := &record.Headers[i]
		header.Key, header.Value = strings.Clone(header.Key), cut(header.Value)
	}

	return &record
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

// free frees the room of a record that this engine is done with.
func (p *partition) free(record *kgo.Record) { p.room.Free(1, bytesOf(record)) }

// took notes that the ledger has answered about a flight's order.
func (p *partition) took(f *flight) {
	if !f.taken {
		f.taken = true
		p.offsets.take(f.record.Offset)
	}
}

// refuseRecord makes a record a dead letter that is no order in flight. It may stand for others, from offset first
// on. share is what it takes until the dead letter is acknowledged, if its bank is known.
func (p *partition) refuseRecord(first int64, record *kgo.Record, share room.Share, invalid *pix.Invalid) {
	p.deadLetters++
	p.keep(first, record, invalid, func() {
		p.inbox.put(event{kind: deadLettered, record: record, share: share})
	})
	p.offsets.take(record.Offset) // the ledger is not asked about it
}

// keep keeps a record that cannot become a payment, with the reason.
func (p *partition) keep(first int64, record *kgo.Record, invalid *pix.Invalid, acknowledged func()) {
	p.engine.metrics.DeadLetters.WithLabelValues(invalid.Reason.String()).Inc()
	p.engine.log.Debug("dead letter", zap.Int32("partition", record.Partition), zap.Int64("offset", record.Offset),
		zap.Stringer("reason_code", invalid.Reason), zap.Error(invalid))
	p.effects.produce(p.encoder.deadLetterRecord(first, record, invalid), acknowledged)
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

func (p *partition) finish(record *kgo.Record) {
	p.finishOffset(record.Offset)
	p.free(record)
}

func (p *partition) finishOffset(offset int64) {
	p.offsets.finish(offset)
	p.engine.crash.Pass(afterOffsetMarked)
}

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
