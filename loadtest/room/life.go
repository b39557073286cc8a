package room

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// Bounds of the search for one payment's messages.
const (
	lifeTimeout   = 4 * time.Second // the page waits for 5 s
	lifeScanMax   = 400_000         // records of one topic
	lifeEventsMax = 300
	lifeBefore    = time.Minute      // a sender's clock may be ahead of the broker's
	lifeAfter     = 10 * time.Minute // what comes later is not looked for
)

// life reads what topics and ledger know of a payment.
func (r *Room) life(ctx context.Context, id pix.EndToEndID) (Life, error) {
	if !r.living.TryLock() {
		return Life{}, errors.New("the room reads another payment's life: try again")
	}
	defer r.living.Unlock()
	ctx, cancel := context.WithTimeout(ctx, lifeTimeout)
	defer cancel()
	l := Life{EndToEndID: id.String(), Verdict: "unknown", Events: []Event{}}
	if err := r.lifeInLedger(ctx, id, &l); err != nil {
		return l, err
	}
	for _, topic := range []string{stream.Payments, stream.AuthorizationRequests, stream.AuthorizationResponses, stream.Settlements, stream.DeadLetters} {
		if err := r.lifeInTopic(ctx, topic, id, &l); err != nil {
			return l, err
		}
	}
	slices.SortStableFunc(l.Events, func(a, b Event) int { return a.At.Compare(b.At) })
	return l, nil
}

// lifeInLedger adds the legs, the verdict, and the holds of returns.
func (r *Room) lifeInLedger(ctx context.Context, id pix.EndToEndID, l *Life) error {
	type answer struct {
		found []tb.Transfer
		err   error
	}
	answers := make(chan answer, 1)
	go func() { // the client waits for a ledger that is away
		found, err := r.config.Ledger.LookupTransfers(lifeIDs(id))
		answers <- answer{found, err}
	}()
	var said answer
	select {
	case said = <-answers:
	case <-ctx.Done():
		return errors.New("the ledger does not answer")
	}
	if said.err != nil {
		return fmt.Errorf("the ledger: %w", said.err)
	}
	trace := ledger.TraceOf(id, said.found)
	if content, ok := trace.Content(); ok {
		l.Payer, l.Payee, l.Centavos = string(content.Payer.ISPB), string(content.Payee.ISPB), int64(min(content.AmountCentavos, 1<<62)) //nolint:gosec // bounded
	}
	switch verdict, decided := trace.Verdict(); {
	case decided && verdict.Settled:
		l.Verdict = "settled"
	case decided:
		l.Verdict, l.Reason = "rejected", verdict.Reason.String()
	case trace.Held():
		l.Verdict = "under way"
	}
	for i := range said.found {
		t := &said.found[i]
		kind, text := "hold", "holds"
		flags := t.TransferFlags()
		switch {
		case flags.PostPendingTransfer:
			kind, text = "post", "posts"
		case flags.VoidPendingTransfer:
			kind, text = "void", "voids"
		case t.Code == ledger.CodeReceipt:
			kind, text = "receipt", "is refused, nothing is held"
		}
		if kind != "receipt" {
			text += fmt.Sprintf(" leg %d: %s → %s, %s", t.Code%10, ledger.AccountName(t.DebitAccountID), ledger.AccountName(t.CreditAccountID), reais(ledger.Centavos(t.Amount)))
			if t.Timeout > 0 {
				text += fmt.Sprintf(", for at most %d s", t.Timeout)
			}
		}
		l.Events = append(l.Events, Event{At: time.Unix(0, int64(t.Timestamp)).UTC(), Kind: kind, Text: text}) //nolint:gosec // times fit
	}
	return nil
}

// lifeIDs are the transfers of a payment: holds, their ends, and the verdict among these.
func lifeIDs(id pix.EndToEndID) (ids []tb.Uint128) {
	payment := ledger.IDsOf(id)
	for leg := 1; leg <= 4; leg++ {
		ids = append(ids, payment.Pending(leg), payment.Resolution(leg))
	}
	return ids
}

func reais(centavos int64) string {
	return fmt.Sprintf("R$ %s.%02d", thousands(centavos/100), centavos%100)
}

// lifeInTopic adds the messages of a topic that are about the payment or its returns.
func (r *Room) lifeInTopic(ctx context.Context, topic string, id pix.EndToEndID, l *Life) error {
	from := id.Time().Add(-lifeBefore)
	starts, err := r.admin.ListOffsetsAfterMilli(ctx, from.UnixMilli(), topic)
	if err != nil {
		return fmt.Errorf("%s: %w", topic, err)
	}
	ends, err := r.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return fmt.Errorf("%s: %w", topic, err)
	}
	first, err := r.admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return fmt.Errorf("%s: %w", topic, err)
	}
	left, offsets, gone := map[int32]int64{}, map[int32]kgo.Offset{}, false
	ends.Each(func(end kadm.ListedOffset) {
		start, ok := starts.Lookup(topic, end.Partition)
		if !ok || start.Offset < 0 || start.Offset >= end.Offset {
			return
		}
		if begin, ok := first.Lookup(topic, end.Partition); ok && begin.Offset > 0 && start.Offset <= begin.Offset {
			gone = true // there were older ones
		}
		left[end.Partition], offsets[end.Partition] = end.Offset, kgo.NewOffset().At(start.Offset)
	})
	if topic != stream.AuthorizationResponses && len(ends[topic]) > 0 { // these are where the asking engine reads
		of := int32(kgo.StickyKeyPartitioner(nil).ForTopic(topic).Partition(&kgo.Record{Key: []byte(id.String())}, len(ends[topic]))) //nolint:gosec // small
		for partition := range offsets {
			if partition != of {
				delete(left, partition)
				delete(offsets, partition)
			}
		}
	}
	before := len(l.Events)
	if len(left) > 0 {
		if err := r.scan(ctx, topic, id, left, offsets, l); err != nil {
			return err
		}
	}
	if gone && len(l.Events) == before && l.Verdict != "unknown" {
		l.Events = append(l.Events, Event{At: id.Time(), Kind: lifeKinds[topic], Text: "not in " + topic, Topic: topic, Gone: "gone by retention"})
	}
	return nil
}

var lifeKinds = map[string]string{
	stream.Payments: "order", stream.AuthorizationRequests: "question", stream.AuthorizationResponses: "answer",
	stream.Settlements: "report", stream.DeadLetters: "dead letter",
}

// scan reads a topic until the end of each partition, or a bound.
func (r *Room) scan(ctx context.Context, topic string, id pix.EndToEndID, left map[int32]int64, offsets map[int32]kgo.Offset, l *Life) error {
	reader, err := r.config.Stream.Client(kgo.ClientID("room-life"), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets}))
	if err != nil {
		return err
	}
	defer reader.Close()
	for read := 0; len(left) > 0 && read < lifeScanMax; {
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			l.Events = append(l.Events, Event{At: time.Now().UTC(), Kind: lifeKinds[topic], Text: "the room did not read all of " + topic, Topic: topic})
			return nil
		}
		fetches.EachRecord(func(record *kgo.Record) {
			read++
			if end := left[record.Partition]; record.Offset+1 >= end || record.Timestamp.After(id.Time().Add(lifeAfter)) {
				delete(left, record.Partition)
			}
			if e, ok := eventOf(record, id); ok && len(l.Events) < lifeEventsMax {
				e.At, e.Topic, e.Partition, e.Offset = record.Timestamp.UTC(), topic, &record.Partition, &record.Offset
				l.Events = append(l.Events, e)
				if e.Kind == "dead letter" && l.Verdict == "unknown" {
					l.Verdict = "dead letter"
				}
			}
		})
	}
	return nil
}

// eventOf returns what a record says about a payment; false if it is about another one.
func eventOf(record *kgo.Record, id pix.EndToEndID) (e Event, ok bool) {
	text := id.String()
	if record.Topic != stream.DeadLetters && record.Topic != stream.AuthorizationResponses && string(record.Key) != text {
		return e, false // keyed by the EndToEndId, also of returns
	}
	e.Kind = lifeKinds[record.Topic]
	switch record.Topic {
	case stream.Payments:
		var order pixv1.PaymentOrder
		if order.UnmarshalVT(record.Value) != nil {
			return Event{Kind: "order", Text: "cannot be decoded"}, true
		}
		if back := order.ReturnOrder; back != nil {
			return Event{Kind: "return", Text: fmt.Sprintf("%s asks %s back: %s", back.ReturnId, amount(back.AmountCentavos), back.ReasonCode)}, true
		}
		e.Text = fmt.Sprintf("%s pays %s to %s", name(order.Payer), amount(order.AmountCentavos), name(order.Payee))
	case stream.AuthorizationRequests:
		var question pixv1.AuthorizationRequest
		if question.UnmarshalVT(record.Value) != nil {
			return e, false
		}
		e.Text = fmt.Sprintf("bank %s is asked about %s", question.Payee.GetIspb(), question.EndToEndId)
	case stream.AuthorizationResponses:
		var said pixv1.AuthorizationResponse
		if said.UnmarshalVT(record.Value) != nil || said.EndToEndId != text {
			return e, false
		}
		e.Text = fmt.Sprintf("bank %s accepts", said.Ispb)
		if said.Status != pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_ACSP {
			e.Text = fmt.Sprintf("bank %s rejects: %s", said.Ispb, said.ReasonCode)
		}
	case stream.Settlements:
		var report pixv1.SettlementReport
		if report.UnmarshalVT(record.Value) != nil {
			return e, false
		}
		e.Text = fmt.Sprintf("%s settled, %s", report.EndToEndId, amount(report.AmountCentavos))
		if report.Status != pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC {
			e.Text = fmt.Sprintf("%s rejected: %s", report.EndToEndId, report.ReasonCode)
		}
	case stream.DeadLetters:
		var letter pixv1.DeadLetter
		var order pixv1.PaymentOrder
		if letter.UnmarshalVT(record.Value) != nil || order.UnmarshalVT(letter.Payload) != nil ||
			cmp.Or(order.EndToEndId, order.ReturnOrder.GetOriginalEndToEndId()) != text {
			return e, false
		}
		e.Text = fmt.Sprintf("%s, offset %d of partition %d of %s: %s", letter.ReasonCode, letter.Offset, letter.Partition, letter.Topic, letter.Reason)
	}
	return e, true
}

func amount(centavos uint64) string { return reais(int64(min(centavos, 1<<62))) } //nolint:gosec // bounded

func name(a *pixv1.Account) string {
	return fmt.Sprintf("%s/%s/%s", a.GetIspb(), a.GetBranch(), a.GetNumber())
}
