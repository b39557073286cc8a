package room

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	lifeEventsMax = 300
	lifeBefore    = time.Minute // a sender's clock may be ahead of the broker's
)

// life reads what topics and ledger know of a payment and its returns. A return's has the return's verdict, and what
// happened from its time on, to the payment, too.
func (r *Room) life(ctx context.Context, id pix.EndToEndID) (Life, error) {
	if !r.living.TryLock() {
		return Life{}, errors.New("the room reads another payment's life: try again")
	}
	defer r.living.Unlock()
	ctx, cancel := context.WithTimeout(ctx, lifeTimeout)
	defer cancel()

	l, err := r.lifeInLedger(ctx, id)
	if err != nil {
		return l, err
	}

	if err := r.lifeInTopics(ctx, id, &l); err != nil { // what the ledger knows is shown in any case
		l.Events = append(l.Events,
			Event{At: time.Now().UTC(), Kind: "unread", Text: fmt.Sprintf("not all messages: %v", err)})
	}
	slices.SortStableFunc(l.Events, func(a, b Event) int { return a.At.Compare(b.At) })

	return l, nil
}

// unnamed is a return of which the ledger has no verdict that names its payment: it is under way, refused, or unknown.
type unnamed struct{ id pix.EndToEndID }

func (u *unnamed) Error() string {
	return fmt.Sprintf("no verdict of %s names a payment: ask for the one that it gives back", u.id)
}

// lifeInLedger returns the legs and the verdict.
func (r *Room) lifeInLedger(ctx context.Context, id pix.EndToEndID) (Life, error) {
	var payment pix.EndToEndID

	found, err := ledger.Ask(ctx, func() (found []tb.Transfer, err error) {
		payment, found, err = r.transfersOf(id)
		return found, err
	})
	switch {
	case ctx.Err() != nil:
		return Life{}, errors.New("the ledger does not answer")
	case errors.As(err, new(*unnamed)):
		return Life{}, err
	case err != nil:
		return Life{}, fmt.Errorf("the ledger: %w", err)
	}

	l := Life{EndToEndID: payment.String(), Verdict: "unknown", Events: []Event{}}
	trace := ledger.TraceOf(payment, found)

	content, held := trace.Content()
	if held {
		l.Verdict, l.Payer, l.Payee = "under way", string(content.Payer.ISPB), string(content.Payee.ISPB)
		l.Centavos = trace.AmountCentavos()
	}

	verdict, decided := trace.Verdict()
	if id[0] == 'D' { // what is found begins with its verdict; its legs tell the amount
		verdict, decided = ledger.ReturnVerdictOf(found[0]), true
		l.Payer, l.Payee, l.Centavos = "", "", 0
	}

	if decided {
		l.Verdict = "settled"
		if !verdict.Settled {
			l.Verdict, l.Reason = "rejected", verdict.Reason.String()
		}
	}

	for i := range found {
		l.Events = append(l.Events, eventInLedger(&found[i]))
	}

	return l, nil
}

// transfersOf returns a payment's holds, their ends, and the verdict among these. Of a return it returns the payment,
// the return's verdict, and its legs.
func (r *Room) transfersOf(id pix.EndToEndID) (payment pix.EndToEndID, found []tb.Transfer, err error) {
	payment = id
	if id[0] == 'D' {
		back, err := r.config.Ledger.LookupTransfers([]tb.Uint128{ledger.ReturnVerdict(pix.ReturnID(id))})
		if err != nil {
			return payment, nil, err
		}

		var known bool
		if len(back) > 0 {
			payment, known = ledger.OriginalOf(back[0])
		}

		if !known {
			return payment, nil, &unnamed{id}
		}

		legs, err := r.config.Ledger.QueryTransfers(ledger.ReturnLegs(pix.ReturnID(id)))
		if err != nil {
			return payment, nil, err
		}
		found = append(back, legs...)
	}
	var ids []tb.Uint128
	of := ledger.IDsOf(payment)

	for leg := 1; leg <= 4; leg++ {
		ids = append(ids, of.Pending(leg), of.Resolution(leg))
	}

	transfers, err := r.config.Ledger.LookupTransfers(ids)

	return payment, append(found, transfers...), err
}

func eventInLedger(t *tb.Transfer) Event {
	kind, text := "hold", fmt.Sprintf("leg %d: %s → %s, %s", t.Code%10, ledger.AccountName(t.DebitAccountID),
		ledger.AccountName(t.CreditAccountID), reais(ledger.Centavos(t.Amount)))

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

	return Event{At: time.Unix(0, int64(t.Timestamp)).UTC(), Kind: kind, Text: text} //nolint:gosec // times fit
}

func reais(centavos int64) string {
	return strings.Replace(pix.Reais(centavos), "BRL", "R$", 1)
}

var lifeTopics = []string{stream.Payments, stream.AuthorizationRequests, stream.AuthorizationResponses,
	stream.Settlements, stream.DeadLetters}

// place is a partition of a topic.
type place struct {
	topic     string
	partition int32
}

// lifeInTopics adds the messages that are about the payment or its returns, from the time of an id on.
func (r *Room) lifeInTopics(ctx context.Context, id pix.EndToEndID, l *Life) error {
	starts, noStarts := r.admin.ListOffsetsAfterMilli(ctx, id.Time().Add(-lifeBefore).UnixMilli(), lifeTopics...)

	ends, noEnds := r.admin.ListEndOffsets(ctx, lifeTopics...)
	if err := cmp.Or(noStarts, noEnds); err != nil {
		return err
	}
	left, offsets := map[place]int64{}, map[string]map[int32]kgo.Offset{}
	ends.Each(func(end kadm.ListedOffset) {
		start, ok := starts.Lookup(end.Topic, end.Partition)
		if !ok || start.Offset < 0 || start.Offset >= end.Offset {
			return
		}

		if end.Topic != stream.AuthorizationResponses { // these are where the asking engine reads
			keyed := &kgo.Record{Key: []byte(l.EndToEndID)}
			if int(end.Partition) != kgo.StickyKeyPartitioner(nil).ForTopic(end.Topic).Partition(keyed,
				len(ends[end.Topic])) {
				return
			}
		}

		if offsets[end.Topic] == nil {
			offsets[end.Topic] = map[int32]kgo.Offset{}
		}
		left[place{end.Topic, end.Partition}] = end.Offset
		offsets[end.Topic][end.Partition] = kgo.NewOffset().At(start.Offset)
	})

	return r.scan(ctx, id, left, offsets, l)
}

// scan reads each partition to its end, while there is time.
func (r *Room) scan(ctx context.Context, id pix.EndToEndID, left map[place]int64,
	offsets map[string]map[int32]kgo.Offset, l *Life) error {
	reader, err := r.config.Stream.Client(kgo.ClientID("room-life"), kgo.ConsumePartitions(offsets))
	if err != nil {
		return err
	}
	defer reader.Close()

	for len(left) > 0 {
		fetches := reader.PollFetches(ctx)
		fetches.EachRecord(func(record *kgo.Record) {
			in := place{record.Topic, record.Partition}
			if record.Offset+1 >= left[in] {
				delete(left, in)
			}

			if kind, text := eventOf(record, id, l); kind != "" && len(l.Events) < lifeEventsMax {
				l.Events = append(l.Events, Event{At: record.Timestamp.UTC(), Kind: kind, Text: text,
					Topic: record.Topic, Partition: &record.Partition, Offset: &record.Offset})
				if kind == "dead letter" && l.Verdict == "unknown" {
					l.Verdict = kind
				}
			}
		})

		if ctx.Err() != nil {
			return fmt.Errorf("%v were not enough", lifeTimeout)
		}
	}

	return nil
}

// eventOf returns what a record says about a payment or its returns, whose messages have its key; no kind if it is
// about another one. Responses have no key: they name the payment, or the return that was asked for. What cannot be
// decoded has a dead letter.
func eventOf(record *kgo.Record, id pix.EndToEndID, l *Life) (kind, text string) {
	if record.Topic != stream.AuthorizationResponses && string(record.Key) != l.EndToEndID {
		return "", ""
	}

	switch record.Topic {
	case stream.Payments:
		var order pixv1.PaymentOrder
		_ = order.UnmarshalVT(record.Value)

		if back := order.ReturnOrder; back != nil {
			return "return", fmt.Sprintf("%s asks %s back: %s", back.ReturnId, amount(back.AmountCentavos),
				back.ReasonCode)
		}

		return "order", fmt.Sprintf("%s pays %s to %s", name(order.Payer), amount(order.AmountCentavos),
			name(order.Payee))
	case stream.AuthorizationRequests:
		var question pixv1.AuthorizationRequest
		_ = question.UnmarshalVT(record.Value)

		return "question", fmt.Sprintf("bank %s is asked about %s", question.Payee.GetIspb(), question.EndToEndId)
	case stream.AuthorizationResponses:
		var said pixv1.AuthorizationResponse
		_ = said.UnmarshalVT(record.Value)

		switch {
		case said.EndToEndId != l.EndToEndID && said.EndToEndId != id.String():
			return "", ""
		case said.Status == pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_ACSP:
			return "answer", "bank " + said.Ispb + " accepts"
		}

		return "answer", "bank " + said.Ispb + " rejects: " + said.ReasonCode
	case stream.Settlements:
		var report pixv1.SettlementReport
		_ = report.UnmarshalVT(record.Value)

		if report.Status == pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC {
			return "report", report.EndToEndId + " settled, " + amount(report.AmountCentavos)
		}

		return "report", report.EndToEndId + " rejected: " + report.ReasonCode
	}
	var letter pixv1.DeadLetter
	_ = letter.UnmarshalVT(record.Value)

	return "dead letter", fmt.Sprintf("%s, offset %d of partition %d of %s: %s", letter.ReasonCode, letter.Offset,
		letter.Partition, letter.Topic, letter.Reason)
}

func amount(centavos uint64) string { return reais(int64(min(centavos, 1<<62))) } //nolint:gosec // bounded

func name(a *pixv1.Account) string {
	return fmt.Sprintf("%s/%s/%s", a.GetIspb(), a.GetBranch(), a.GetNumber())
}
