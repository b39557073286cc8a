package rebuild

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// Told is what was reported about an order: a fact, on which banks have acted.
type Told struct {
	At      time.Time // of the report, by the broker's or the engine's clock
	ID      pix.EndToEndID
	Return  bool
	Settled bool
	Reason  pix.Reason // of a rejection
	Content pix.Content
	Returns pix.ReturnContent // of a return; without a reason: its order is not in the log
	Done    bool              // the ledger has its verdict, from an earlier run

	place int // in the order of the reports
}

// verdict is the id that decides the order.
func (t *Told) verdict() tb.Uint128 { return ledger.IDsOf(t.ID).Verdict() }

// toldIn reads a report, and returns false if the record is none.
func toldIn(record *kgo.Record) (t Told, ok bool) {
	var m pixv1.SettlementReport
	if m.UnmarshalVT(record.Value) != nil {
		return t, false
	}
	t = Told{
		At: record.Timestamp, Return: m.OriginalEndToEndId != "",
		Settled: m.Status == pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC,
		Content: pix.Content{Payer: pix.AccountIn(m.Payer), Payee: pix.AccountIn(m.Payee),
			AmountCentavos: m.AmountCentavos},
	}
	var wrong, wrongOriginal, wrongReason error

	t.ID, wrong = pix.ParsePaymentOrReturnID(m.EndToEndId)
	if t.Return {
		t.Returns.AmountCentavos = m.AmountCentavos
		t.Returns.Original, wrongOriginal = pix.ParseEndToEndID(m.OriginalEndToEndId)
	}

	if !t.Settled {
		t.Reason, wrongReason = pix.ParseReason(m.ReasonCode)
	}

	return t, wrong == nil && wrongOriginal == nil && wrongReason == nil
}

// Log is where it was told: the topics, up to where they end now.
type Log struct {
	Stream stream.Config
	Kafka  *kgo.Client
	Dial   host.Dial // to Kafka
	// Since is where the past ends. What is older by more than clocks may differ was told of what is in it.
	Since time.Time
}

// clocksDiffer bounds how far the clocks of ledger, brokers and engines are apart, and how long an engine may take from
// a verdict to its report, or from an order to its verdict.
const clocksDiffer = time.Hour

// Told returns what was reported and is not of the past, each once, in the order of the reports. What is no report is
// counted.
func (l Log) Told(ctx context.Context, client tigerbeetle.Client) (all []Told, unreadable int, err error) {
	const page = 2000
	var some []Told
	known := map[pix.EndToEndID]bool{} // in all, already
	look := func() error {
		var ids []tb.Uint128
		for i := range some {
			ids = append(ids, some[i].verdict())
		}
		found, err := ledger.Ask(ctx, func() ([]tb.Transfer, error) { return client.LookupTransfers(ids) })

		there := map[tb.Uint128]uint64{}
		for _, t := range found {
			there[t.ID] = t.Timestamp
		}

		for i := range some {
			t := &some[i]

			at, done := there[t.verdict()]
			if known[t.ID] || done && at <= uint64(l.Since.UnixNano()) {
				continue
			}
			known[t.ID], t.Done = true, done
			all = append(all, *t)
		}
		some = some[:0]

		return err
	}

	err = l.read(ctx, stream.Settlements, func(record *kgo.Record) error {
		t, ok := toldIn(record)
		if !ok {
			unreadable++
			return nil
		}

		if some = append(some, t); len(some) == page {
			return look()
		}

		return nil
	})
	if err == nil && len(some) > 0 {
		err = look()
	}

	if err != nil {
		return nil, unreadable, err
	}
	slices.SortStableFunc(all, func(a, b Told) int { return a.At.Compare(b.At) })

	return all, unreadable, l.complete(ctx, all)
}

// complete gives what reports do not say from the orders: the reason of a return, the accounts of an order that was
// rejected.
func (l Log) complete(ctx context.Context, all []Told) error {
	wanted := map[string]*Told{}

	for i := range all {
		if t := &all[i]; t.Return && !t.Done {
			wanted[t.ID.String()] = t
		}
	}

	if len(wanted) == 0 {
		return nil
	}

	return l.read(ctx, stream.Payments, func(record *kgo.Record) error {
		var m pixv1.PaymentOrder
		readable := m.UnmarshalVT(record.Value) == nil && m.ReturnOrder != nil

		t := wanted[m.GetReturnOrder().GetReturnId()]
		if !readable || t == nil || t.Returns.Reason != 0 ||
			m.ReturnOrder.OriginalEndToEndId != t.Returns.Original.String() ||
			m.ReturnOrder.AmountCentavos != t.Returns.AmountCentavos {
			return nil
		}

		if reason, err := pix.ParseReason(m.ReturnOrder.ReasonCode); err == nil {
			t.Returns.Reason = reason
		}

		return nil
	})
}

// read calls take with each record of a topic, one partition after the other.
func (l Log) read(ctx context.Context, topic string, take func(*kgo.Record) error) error {
	bounds, err := stream.BoundsOf(ctx, l.Kafka, topic)
	if err != nil {
		return err
	}

	first, err := kadm.NewClient(l.Kafka).ListOffsetsAfterMilli(ctx, l.Since.Add(-clocksDiffer).UnixMilli(), topic)
	if err == nil {
		err = first.Error()
	}

	if err != nil {
		return fmt.Errorf("cannot find out where %s begins at %s: %w", topic, l.Since, err)
	}

	for _, partition := range slices.Sorted(maps.Keys(bounds)) {
		var failed error
		b := bounds[partition]

		from := b.Start
		if offset, known := first.Lookup(topic, partition); known {
			from = max(from, offset.Offset)
		}

		err := stream.ReadRange(ctx, l.Stream, l.Dial, topic, partition, from, b.Stable, func(record *kgo.Record) {
			if failed == nil {
				failed = take(record)
			}
		})
		if err == nil {
			err = failed
		}

		if err != nil {
			return fmt.Errorf("cannot read %s, partition %d: %w", topic, partition, err)
		}
	}

	return nil
}
