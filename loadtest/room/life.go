package room

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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
	lifeScanMax   = 1_000_000       // records
	lifeEventsMax = 300
	lifeBefore    = time.Minute      // a sender's clock may be ahead of the broker's
	lifeAfter     = 10 * time.Minute // what comes later is not looked for
	lifeLaterMax  = 1000             // records in a row that say so: senders date single ones as they like
)

// life reads what topics and ledger know of a payment, or of a return.
func (r *Room) life(ctx context.Context, id pix.EndToEndID) (Life, error) {
	if !r.living.TryLock() {
		return Life{}, errors.New("the room reads another payment's life: try again")
	}
	defer r.living.Unlock()
	ctx, cancel := context.WithTimeout(ctx, lifeTimeout)
	defer cancel()

	l := Life{EndToEndID: id.String(), Verdict: "unknown", Events: []Event{}}
	if !isReturn(id) {
		l.Original = l.EndToEndID
	}

	if err := r.lifeInLedger(ctx, id, &l); err != nil {
		return l, err
	}

	if err := r.lifeInTopics(ctx, id, &l); err != nil { // what the ledger knows is shown in any case
		l.Events = append(l.Events,
			Event{At: time.Now().UTC(), Kind: "unread", Text: fmt.Sprintf("not all messages: %v", err)})
	}
	slices.SortStableFunc(l.Events, func(a, b Event) int { return a.At.Compare(b.At) })

	return l, nil
}

func isReturn(id pix.EndToEndID) bool { return id[0] == 'D' }

// lifeInLedger adds the legs and the verdict.
func (r *Room) lifeInLedger(ctx context.Context, id pix.EndToEndID, l *Life) error {
	found, err := ledger.Ask(ctx, func() ([]tb.Transfer, error) {
		found, err := r.config.Ledger.LookupTransfers(lifeIDs(id))
		if err != nil || !isReturn(id) {
			return found, err
		}
		legs, err := r.config.Ledger.QueryTransfers(ledger.ReturnLegs(pix.ReturnID(id)))

		return append(found, legs...), err
	})
	switch {
	case ctx.Err() != nil:
		return errors.New("the ledger does not answer")
	case err != nil:
		return fmt.Errorf("the ledger: %w", err)
	}

	verdict, content, decided, held := outcomeOf(id, found, l)
	if held {
		l.Payer, l.Payee, l.Centavos = string(content.Payer.ISPB), string(content.Payee.ISPB), int64(min(content.AmountCentavos, 1<<62)) //nolint:gosec // bounded
	}

	switch {
	case decided && verdict.Settled:
		l.Verdict = "settled"
	case decided:
		l.Verdict, l.Reason = "rejected", verdict.Reason.String()
	case held:
		l.Verdict = "under way"
	}

	for i := range found {
		t := &found[i]
		kind, text := "hold", ""

		flags := t.TransferFlags()
		switch {
		case flags.PostPendingTransfer:
			kind = "post"
		case flags.VoidPendingTransfer:
			kind = "void"
		case t.Code == ledger.CodeReceipt:
			kind, text = "receipt", "is refused, nothing is held"
		case t.Code == ledger.CodeReturn:
			kind, text = "verdict", cmp.Or(ledger.ReturnVerdictOf(*t).Reason.String(), "settled")
		}

		if text == "" {
			text = fmt.Sprintf("leg %d: %s → %s, %s", t.Code%10, ledger.AccountName(t.DebitAccountID),
				ledger.AccountName(t.CreditAccountID), reais(ledger.Centavos(t.Amount)))
			if t.Timeout > 0 {
				text += fmt.Sprintf(", for at most %d s", t.Timeout)
			}
		}
		l.Events = append(l.Events, Event{At: time.Unix(0, int64(t.Timestamp)).UTC(), Kind: kind, Text: text}) //nolint:gosec // times fit
	}

	return nil
}

// outcomeOf reads what was found. It adds the original of a return to the life, if the verdict names it.
func outcomeOf(id pix.EndToEndID, found []tb.Transfer,
	l *Life) (verdict ledger.Verdict, content pix.Content, decided, held bool) {
	if !isReturn(id) {
		trace := ledger.TraceOf(id, found)
		verdict, decided = trace.Verdict()
		content, held = trace.Content()

		return verdict, content, decided, held
	}

	var verdicts []tb.Transfer
	if decided = len(found) > 0 && found[0].Code == ledger.CodeReturn; decided {
		verdicts, verdict = found[:1], ledger.ReturnVerdictOf(found[0])
		if original, known := ledger.OriginalOf(found[0]); known {
			l.Original = original.String()
		}
	}
	of, held := ledger.HeldReturnOf(verdicts, found)

	return verdict, of.Content, decided, held
}

// lifeIDs are the transfers of a payment: holds, their ends, and the verdict among these. Of a return it is the
// verdict, because its legs have the ids of its original.
func lifeIDs(id pix.EndToEndID) (ids []tb.Uint128) {
	if isReturn(id) {
		return []tb.Uint128{ledger.ReturnVerdict(pix.ReturnID(id))}
	}

	payment := ledger.IDsOf(id)
	for leg := 1; leg <= 4; leg++ {
		ids = append(ids, payment.Pending(leg), payment.Resolution(leg))
	}

	return ids
}

func reais(centavos int64) string {
	return strings.Replace(pix.Reais(centavos), "BRL", "R$", 1)
}

var lifeKinds = map[string]string{
	stream.Payments: "order", stream.AuthorizationRequests: "question", stream.AuthorizationResponses: "answer",
	stream.Settlements: "report", stream.DeadLetters: "dead letter",
}

// lifeInTopics adds the messages that are about the payment or its returns.
func (r *Room) lifeInTopics(ctx context.Context, id pix.EndToEndID, l *Life) error {
	topics := slices.Collect(maps.Keys(lifeKinds))
	starts, noStarts := r.admin.ListOffsetsAfterMilli(ctx, id.Time().Add(-lifeBefore).UnixMilli(), topics...)
	ends, noEnds := r.admin.ListEndOffsets(ctx, topics...)

	first, noFirst := r.admin.ListStartOffsets(ctx, topics...)
	if err := cmp.Or(noStarts, noEnds, noFirst); err != nil {
		return err
	}
	left, offsets, gone := map[place]int64{}, map[string]map[int32]kgo.Offset{}, map[string]bool{}
	ends.Each(func(end kadm.ListedOffset) {
		start, ok := starts.Lookup(end.Topic, end.Partition)
		if !ok || start.Offset < 0 || start.Offset >= end.Offset {
			return
		}

		if begin, ok := first.Lookup(end.Topic, end.Partition); ok && begin.Offset > 0 && start.Offset <= begin.Offset {
			gone[end.Topic] = true // there were older ones
		}

		if end.Topic != stream.AuthorizationResponses && l.Original != "" { // these are where the asking engine reads
			keyed := &kgo.Record{Key: []byte(l.Original)}
			if int(end.Partition) != kgo.StickyKeyPartitioner(nil).ForTopic(end.Topic).Partition(keyed,
				len(ends[end.Topic])) {
				return
			}
		}

		if offsets[end.Topic] == nil {
			offsets[end.Topic] = map[int32]kgo.Offset{}
		}
		left[place{end.Topic, end.Partition}], offsets[end.Topic][end.Partition] = end.Offset,
			kgo.NewOffset().At(start.Offset)
	})

	if err := r.scan(ctx, id, left, offsets, l); err != nil {
		return err
	}

	for topic := range gone {
		if l.Verdict != "unknown" && !slices.ContainsFunc(l.Events, func(e Event) bool { return e.Topic == topic }) {
			l.Events = append(l.Events,
				Event{At: id.Time(), Kind: lifeKinds[topic], Text: "not in " + topic, Topic: topic,
					Gone: "gone by retention"})
		}
	}

	return nil
}

// place is a partition of a topic.
type place struct {
	topic     string
	partition int32
}

// scan reads each partition to its end, or to a bound.
func (r *Room) scan(ctx context.Context, id pix.EndToEndID, left map[place]int64,
	offsets map[string]map[int32]kgo.Offset, l *Life) error {
	reader, err := r.config.Stream.Client(kgo.ClientID("room-life"), kgo.ConsumePartitions(offsets))
	if err != nil {
		return err
	}
	defer reader.Close()
	later := map[place]int{}

	for read := 0; len(left) > 0; {
		if read > lifeScanMax {
			return fmt.Errorf("there are more than %d", lifeScanMax)
		}

		fetches := reader.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			read++

			in := place{record.Topic, record.Partition}
			if later[in]++; !record.Timestamp.After(id.Time().Add(lifeAfter)) {
				later[in] = 0
			}

			if record.Offset+1 >= left[in] || later[in] >= lifeLaterMax {
				delete(left, in)
			}

			if e, ok := eventOf(record, l); ok && len(l.Events) < lifeEventsMax {
				e.At, e.Topic, e.Partition, e.Offset = record.Timestamp.UTC(), record.Topic, &record.Partition,
					&record.Offset

				l.Events = append(l.Events, e)
				if e.Kind == "dead letter" && l.Verdict == "unknown" {
					l.Verdict = "dead letter"
				}
			}
		})
	}

	return nil
}

// eventOf returns what a record says about a payment; false if it is about another one. What is about a return
// is about its original, too: it has the original's key.
func eventOf(record *kgo.Record, l *Life) (e Event, ok bool) {
	payment := l.Original == l.EndToEndID

	text := l.EndToEndID
	if record.Topic != stream.DeadLetters && record.Topic != stream.AuthorizationResponses && payment &&
		string(record.Key) != text {
		return e, false
	}

	e.Kind = lifeKinds[record.Topic]
	switch record.Topic {
	case stream.Payments:
		var order pixv1.PaymentOrder
		if order.UnmarshalVT(record.Value) != nil {
			return Event{Kind: "order", Text: "cannot be decoded"}, payment
		}

		if !payment && order.ReturnOrder.GetReturnId() != text {
			return e, false
		}

		if back := order.ReturnOrder; back != nil {
			return Event{Kind: "return",
				Text: fmt.Sprintf("%s asks %s back: %s", back.ReturnId, amount(back.AmountCentavos),
					back.ReasonCode)}, true
		}
		e.Text = fmt.Sprintf("%s pays %s to %s", name(order.Payer), amount(order.AmountCentavos), name(order.Payee))
	case stream.AuthorizationRequests:
		var question pixv1.AuthorizationRequest
		if question.UnmarshalVT(record.Value) != nil || !payment && question.EndToEndId != text {
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
		if report.UnmarshalVT(record.Value) != nil || !payment && report.EndToEndId != text {
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
			!payment && order.ReturnOrder.GetReturnId() != text || payment &&
			cmp.Or(order.EndToEndId, order.ReturnOrder.GetOriginalEndToEndId()) != text {
			return e, false
		}
		e.Text = fmt.Sprintf("%s, offset %d of partition %d of %s: %s", letter.ReasonCode, letter.Offset,
			letter.Partition, letter.Topic, letter.Reason)
	}

	return e, true
}

func amount(centavos uint64) string { return reais(int64(min(centavos, 1<<62))) } //nolint:gosec // bounded

func name(a *pixv1.Account) string {
	return fmt.Sprintf("%s/%s/%s", a.GetIspb(), a.GetBranch(), a.GetNumber())
}
